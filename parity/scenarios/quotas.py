"""Quotas of clients: which are kept, which a filter finds, what is refused and why."""

from collections.abc import Mapping, Sequence

from barnabas.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from barnabas.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from parity.world import World

NAME, DEFAULT, ANY = range(3)
RATE = "producer_byte_rate"
Entity = Mapping[str, str | None]


def _entry(entity: Entity, values: Mapping[str, float | None]) -> AlterClientQuotasRequestEntryData:
    return AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[
            OpData(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in values.items()
        ],
    )


def client_quotas(world: World) -> None:
    """What is kept, what is found by filters, what is refused and why."""

    def alter(
        what: str, entity: Entity, values: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        entries = [_entry(entity, values)]
        world.ask(what, AlterClientQuotasRequest(entries=entries, validate_only=validate_only))

    def describe(what: str, *components: tuple[str, int, str | None], strict: bool = False) -> None:
        wanted = [
            ComponentData(entity_type=kind, match_type=match, match=name) for kind, match, name in components
        ]
        world.ask(what, DescribeClientQuotasRequest(components=wanted, strict=strict))

    describe("nothing")
    places: Sequence[Entity] = (
        {"user": "q alice"},
        {"user": "CN=q,O=b"},
        {"user": None},
        {"client-id": "q app*~"},
        {"client-id": None},
        {"user": "q alice", "client-id": "app"},
        {"user": "q alice", "client-id": None},
        {"user": None, "client-id": "app"},
        {"client-id": None, "user": None},
    )
    # Far above what these requests take: who waits for how long is not the question here.
    for number, place in enumerate(places):
        alter(f"set {number}", place, {RATE: 1000.0 + number, "request_percentage": 12345 + 0.5 * number})
    alter(
        "all kinds",
        {"user": "q bob"},
        {
            RATE: 1,
            "consumer_byte_rate": 2,
            "request_percentage": 3.5e-9,
            "controller_mutation_rate": 12345678.9,
        },
    )
    alter("an address", {"ip": "10.1.2.3"}, {"connection_creation_rate": 0})
    # So many that the scenarios after this one are let in, whenever the broker hears of it.
    alter("the default address", {"ip": None}, {"connection_creation_rate": 1000})
    describe("all")
    describe("all, strictly", strict=True)
    for strict in (False, True):
        for what, components in {
            "a user": [("user", NAME, "q alice")],
            "a user in no place": [("user", NAME, "nobody")],
            "the default user": [("user", DEFAULT, None)],
            "users": [("user", ANY, None)],
            "a client": [("client-id", NAME, "app")],
            "a client with odd letters": [("client-id", NAME, "q app*~")],
            "the default client": [("client-id", DEFAULT, None)],
            "clients": [("client-id", ANY, None)],
            "a pair": [("user", NAME, "q alice"), ("client-id", NAME, "app")],
            "a user's clients": [("client-id", ANY, None), ("user", NAME, "q alice")],
            "users of a client": [("user", ANY, None), ("client-id", NAME, "app")],
            "the default pair": [("user", DEFAULT, None), ("client-id", DEFAULT, None)],
            "an address": [("ip", NAME, "10.1.2.3")],
            "the default address": [("ip", DEFAULT, None)],
            "addresses": [("ip", ANY, None)],
        }.items():
            describe(f"{what} {strict}", *components, strict=strict)
    for what, components in {
        "two users": [("user", ANY, None), ("user", NAME, "q alice")],
        "two clients": [("client-id", ANY, None)] * 2,
        "two addresses": [("ip", ANY, None)] * 2,
        "address and user": [("ip", ANY, None), ("user", ANY, None)],
        "no type": [("", ANY, None)],
        "another type": [("group", ANY, None)],
        "another type behind two of one": [("user", ANY, None), ("user", ANY, None), ("group", ANY, None)],
        "another match": [("user", 3, None)],
        "a name that is none": [("user", NAME, None)],
        "a default with a name": [("user", DEFAULT, "q alice")],
        "any with a name": [("user", ANY, "q alice")],
        "an empty name": [("user", NAME, "")],
    }.items():
        describe(f"filter of {what}", *components)
    bob = {"user": "q bob"}
    for what, entity, values in (
        ("nobody", {}, {RATE: 1.0}),
        ("another type", {"group": "g"}, {RATE: 1.0}),
        ("an empty user", {"user": ""}, {RATE: 1.0}),
        ("an empty address", {"ip": ""}, {RATE: 1.0}),
        ("address and user", {"ip": "10.0.0.1", "user": "a"}, {RATE: 1.0}),
        ("address and another type", {"ip": "10.0.0.1", "group": "a"}, {RATE: 1.0}),
        ("no address", {"ip": "10.0.0.256"}, {"connection_creation_rate": 1.0}),
        ("an address of IPv6", {"ip": "::1"}, {"connection_creation_rate": 1.0}),
        ("another key", bob, {"rate": 1.0}),
        ("a key of addresses", bob, {"connection_creation_rate": 1.0}),
        ("a key of users for an address", {"ip": "10.0.0.1"}, {RATE: 1.0}),
        ("a half", bob, {RATE: 1.5}),
        ("nearly whole", bob, {RATE: 2.0000001}),
        ("nearly whole, below", bob, {RATE: 2.9999999}),
        ("below zero", bob, {RATE: -1.0}),
        ("a per cent below zero", bob, {"request_percentage": -1.0}),
        ("zero", bob, {RATE: 0.0, "consumer_byte_rate": -0.0}),
        ("more than a long", bob, {RATE: 1e19}),
        ("the largest long", bob, {RATE: 9.223372036854775e18}),
        ("endless", bob, {RATE: float("inf")}),
        ("an endless per cent", bob, {"request_percentage": float("inf")}),
        ("an address's half", {"ip": "10.0.0.1"}, {"connection_creation_rate": 0.5}),
        ("an address's below zero", {"ip": "10.0.0.1"}, {"connection_creation_rate": -1.0}),
        ("an address's too many", {"ip": "10.0.0.1"}, {"connection_creation_rate": 2.0**31}),
        ("a credential", bob, {"SCRAM-SHA-256": 1.0}),
        ("a credential of a client", {"client-id": "c"}, {"SCRAM-SHA-256": 1.0}),
        ("a credential of a pair", {"user": "a", "client-id": "c"}, {"SCRAM-SHA-256": 1.0}),
        ("a credential of all", {"user": None}, {"SCRAM-SHA-512": 1.0}),
        ("one good and one not", bob, {RATE: 77.0, "rate": 1.0}),
        ("nothing", bob, {}),
        ("gone that was not there", bob, {"rate": None}),
    ):
        alter(f"refused: {what}", entity, values)
    describe("after refusals", ("user", NAME, "q bob"), strict=True)
    alter("only validated", {"user": "q carol"}, {RATE: 5.0}, validate_only=True)
    alter("only validated, wrong", {"user": "q carol"}, {RATE: 5.5}, validate_only=True)
    describe("of validation", ("user", NAME, "q carol"), strict=True)
    twice = [
        _entry(bob, {RATE: 5.0}),
        _entry(bob, {"consumer_byte_rate": 6.0}),
        _entry({"user": "q dora"}, {"x": 1}),
    ]
    world.ask("twice", AlterClientQuotasRequest(entries=twice))
    describe("after twice", ("user", NAME, "q bob"), strict=True)
    for number, place in enumerate(places):
        alter(f"gone {number}", place, {RATE: None, "request_percentage": None})
    keys = (RATE, "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    alter("all gone", bob, dict.fromkeys(keys))
    for address in ("10.1.2.3", None):
        alter(f"gone {address}", {"ip": address}, {"connection_creation_rate": None})
    describe("in the end")
