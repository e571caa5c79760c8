"""Quotas in the metadata store: where they lie, which a filter finds, what a change refuses, who hears."""

import logging
import math

import pytest

from barnabas.cluster.metadata.client_quota_admin import (
    DEFAULT,
    EXACT,
    SPECIFIED,
    ClientQuotaAdmin,
    QuotaAlteration,
    QuotaComponent,
)
from barnabas.cluster.metadata.configs import ConfigStore
from barnabas.cluster.metadata.registration import ensure_persistent_paths
from barnabas.cluster.store.memory import MemoryEnsemble, MemoryStore
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.security.quota_managers import QuotaManagers
from standing_clock import Clock

ALICE = {"user": "alice"}
RATE = "producer_byte_rate"
SHA_256 = "SCRAM-SHA-256"
BOTH = (
    "Invalid entity filter component combination, IP filter component should not be used with user or "
    "clientId filter component."
)


class Brokers:
    """One broker that changes quotas, and another that is held to them."""

    def __init__(self, loop):
        self.loop = loop
        self._ensemble = MemoryEnsemble(lambda: 0)
        self.store = self._session()
        loop.wait(ensure_persistent_paths(self.store))
        self.configs = ConfigStore(self.store, Clock())
        self.admin = ClientQuotaAdmin(self.configs)
        self.other = ConfigStore(self._session(), Clock())
        self.quotas = QuotaManagers(Clock().monotonic_ms)
        loop.wait(self.other.start(self.quotas.config_changed))

    def _session(self):
        store = MemoryStore(self._ensemble, self.loop.call_soon)
        self.loop.wait(store.start())
        return store

    def start_again(self):
        """What a broker holds that starts now."""
        quotas = QuotaManagers(Clock().monotonic_ms)
        self.loop.wait(quotas.start(self.configs))
        return quotas

    def alter(self, entity, *, validate_only=False, **values):
        alteration = QuotaAlteration(entity, list(values.items()))
        error = self.loop.wait(self.admin.alter(alteration, validate_only=validate_only))
        self.loop.run()
        return error and (error.code, error.own_message)

    def describe(self, *components, strict=False):
        wanted = [QuotaComponent(*component) for component in components]
        found = self.loop.wait(self.admin.find(wanted, strict=strict))
        quotas = {tuple(entity.items()): self.loop.wait(self.admin.quotas(place)) for place, entity in found}
        return {entity: values for entity, values in quotas.items() if values}

    def refusal(self, *components):
        with pytest.raises(KafkaError) as refused:
            self.describe(*components)
        return refused.value.code, refused.value.own_message

    def put(self, path, data):
        self.loop.wait(self.store.create(path, data))

    def data(self, path):
        return self.loop.wait(self.store.get(path))[0]

    def is_there(self, path):
        return self.loop.wait(self.store.exists(path)) is not None


@pytest.fixture
def brokers(loop):
    return Brokers(loop)


def bound(quotas, user, client_id):
    return quotas.produce.bucket(f"User:{user}", client_id).bound


PLACES = [
    ({"user": "CN=a, O=b"}, "/config/users/CN%3Da%2C%20O%3Db"),
    ({"user": None}, "/config/users/<default>"),
    ({"client-id": "my app"}, "/config/clients/my%20app"),
    ({"client-id": None}, "/config/clients/<default>"),
    ({"user": "alice", "client-id": "app"}, "/config/users/alice/clients/app"),
    ({"client-id": None, "user": None}, "/config/users/<default>/clients/<default>"),
]


@pytest.mark.parametrize(("entity", "path"), PLACES, ids=[path for _, path in PLACES])
def test_a_quota_lies_where_kafka_has_it_and_goes_with_its_last_value(brokers, entity, path):
    assert brokers.alter(entity, producer_byte_rate=1024.0, request_percentage=12.5) is None
    assert brokers.data(path) == (
        b'{"version":1,"config":{"producer_byte_rate":"1024","request_percentage":"12.5"}}'
    )
    assert brokers.alter(entity, request_percentage=None) is None
    assert brokers.data(path) == b'{"version":1,"config":{"producer_byte_rate":"1024"}}'
    assert brokers.alter(entity, producer_byte_rate=None) is None
    assert not brokers.is_there(path)
    assert brokers.alter(entity, producer_byte_rate=None) is None


def test_what_is_above_a_quota_stays_while_it_is_needed(brokers):
    brokers.alter(ALICE, producer_byte_rate=1.0)
    for client in ("one", "two"):
        brokers.alter(ALICE | {"client-id": client}, producer_byte_rate=2.0)
    brokers.alter(ALICE, producer_byte_rate=None)
    assert brokers.data("/config/users/alice") == b'{"version":1,"config":{}}'
    brokers.alter(ALICE | {"client-id": "one"}, producer_byte_rate=None)
    assert brokers.is_there("/config/users/alice/clients/two")
    brokers.alter(ALICE | {"client-id": "two"}, producer_byte_rate=None)
    assert not brokers.is_there("/config/users/alice")

    brokers.put("/config/users/bob", b'{"version":1,"config":{"SCRAM-SHA-256":"x"}}')
    brokers.alter({"user": "bob", "client-id": "one"}, producer_byte_rate=2.0)
    brokers.alter({"user": "bob", "client-id": "one"}, producer_byte_rate=None)
    assert brokers.is_there("/config/users/bob")
    assert not brokers.is_there("/config/users/bob/clients")


def test_a_user_whose_settings_are_unreadable_stays(brokers):
    brokers.put("/config/users/bob", b'{"version":1,"config":')
    brokers.alter({"user": "bob", "client-id": "one"}, producer_byte_rate=2.0)
    brokers.alter({"user": "bob", "client-id": "one"}, producer_byte_rate=None)
    assert brokers.data("/config/users/bob") == b'{"version":1,"config":'


def test_other_brokers_hold_clients_to_it_at_once_and_after_a_start(brokers):
    brokers.alter({"client-id": None}, producer_byte_rate=8.0)
    brokers.alter({"client-id": "app"}, producer_byte_rate=7.0)
    brokers.alter({"user": None}, producer_byte_rate=6.0)
    brokers.alter(ALICE, producer_byte_rate=3.0)
    brokers.alter(ALICE | {"client-id": "app"}, producer_byte_rate=1.0)
    brokers.alter({"ip": "10.0.0.1"}, connection_creation_rate=5.0)
    brokers.alter({"ip": None}, connection_creation_rate=50.0)

    for quotas in (brokers.quotas, brokers.start_again()):
        assert quotas.enabled
        assert [bound(quotas, "alice", "app"), bound(quotas, "alice", "b")] == [1, 3]
        assert bound(quotas, "bob", "app") == 6
        assert not quotas.fetch.enabled
        assert (quotas.addresses.throttle_ms("10.0.0.1"), quotas.addresses.default) == (0, 50)

    brokers.alter({"user": None}, producer_byte_rate=None)
    assert [bound(brokers.quotas, "bob", "app"), bound(brokers.quotas, "bob", "b")] == [7, 8]
    for entity in (ALICE | {"client-id": "app"}, ALICE, {"client-id": "app"}, {"client-id": None}):
        brokers.alter(entity, producer_byte_rate=None)
    assert not brokers.quotas.enabled


def test_what_is_only_validated_is_not_written(brokers):
    assert brokers.alter(ALICE, producer_byte_rate=1.0, validate_only=True) is None
    assert not brokers.is_there("/config/users/alice")
    assert brokers.alter(ALICE, nonsense=1.0, validate_only=True)[0] is ErrorCode.INVALID_REQUEST


REFUSED = [
    ({}, {}, ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity"),
    ({"group": "a"}, {}, ErrorCode.INVALID_REQUEST, "Unhandled client quota entity type: group"),
    ({"user": ""}, {}, ErrorCode.INVALID_REQUEST, "Empty user not supported"),
    (
        {"user": "a", "ip": "10.0.0.1"},
        {},
        ErrorCode.INVALID_REQUEST,
        "Invalid quota entity combination, IP entity should not be used with user/client ID entity.",
    ),
    ({"user": ".."}, {RATE: 1.0}, ErrorCode.UNKNOWN_SERVER_ERROR, None),
    ({"user": "a", "client-id": "."}, {RATE: 1.0}, ErrorCode.UNKNOWN_SERVER_ERROR, None),
    ({"ip": "nowhere"}, {}, ErrorCode.INVALID_REQUEST, "nowhere is not a valid IP or resolvable host."),
    ({"ip": "::1"}, {}, ErrorCode.INVALID_REQUEST, "%3A%3A1 is not a valid IP or resolvable host."),
    (ALICE, {"rate": 1.0}, ErrorCode.INVALID_REQUEST, "Invalid configuration key rate"),
    ({"ip": "10.0.0.1"}, {RATE: 1.0}, ErrorCode.INVALID_REQUEST, f"Invalid configuration key {RATE}"),
    (ALICE, {RATE: 1.5}, ErrorCode.INVALID_REQUEST, f"Configuration {RATE} must be a LONG value"),
    (ALICE, {RATE: math.inf}, ErrorCode.INVALID_REQUEST, f"Configuration {RATE} must be a LONG value"),
    (
        {"ip": None},
        {"connection_creation_rate": 2.0**31},
        ErrorCode.INVALID_REQUEST,
        "Configuration connection_creation_rate must be a INT value",
    ),
    (ALICE, {RATE: -1.0}, ErrorCode.INVALID_REQUEST, f"Configuration {RATE} must be a LONG value"),
    (ALICE, {SHA_256: 1.0}, ErrorCode.UNKNOWN_SERVER_ERROR, None),
    (
        {"client-id": "a"},
        {SHA_256: 1.0},
        ErrorCode.INVALID_REQUEST,
        f"Invalid configuration key {SHA_256}",
    ),
]


@pytest.mark.parametrize(("entity", "values", "code", "message"), REFUSED)
def test_what_is_refused(brokers, entity, values, code, message):
    assert brokers.alter(entity, **values) == (code, message)


def test_a_quota_leaves_the_credentials_of_its_user(brokers):
    brokers.put("/config/users/alice", b'{"version":1,"config":{"SCRAM-SHA-256":"x"}}')
    assert brokers.alter(ALICE, producer_byte_rate=1.0) is None
    assert b'"SCRAM-SHA-256":"x"' in brokers.data("/config/users/alice")
    assert brokers.describe() == {(("user", "alice"),): {RATE: 1.0}}


def test_what_is_there_and_is_no_quota_is_one_line_and_harms_nobody(brokers, caplog):
    caplog.set_level(logging.ERROR)
    for path, data in {
        "/config/users/a": b"{",
        "/config/users/b": b'{"version":1,"config":{"producer_byte_rate":"many"}}',
        "/config/users/c": b'{"version":1,"config":{"request_percentage":"NaN"}}',
        "/config/users/d": b'{"version":1,"config":{"producer_byte_rate":"9223372036854775808"}}',
        "/config/users/e": b'{"version":1,"config":[]}',
        "/config/ips/localhost": b'{"version":1,"config":{"connection_creation_rate":"1"}}',
        "/config/ips/10.0.0.1": b'{"version":1,"config":{"connection_creation_rate":"-1"}}',
        "/config/clients/good": b'{"version":1,"config":{"producer_byte_rate":"5"}}',
    }.items():
        brokers.put(path, data)
    quotas = brokers.start_again()

    assert len(caplog.records) == 7
    assert bound(quotas, "a", "good") == 5
    for user in "abcde":
        assert bound(quotas, user, "x") is None
    assert quotas.addresses.throttle_ms("127.0.0.1") == quotas.addresses.throttle_ms("10.0.0.1") == 0
    assert brokers.describe(("client-id", SPECIFIED, None)) == {(("client-id", "good"),): {RATE: 5.0}}
    assert list(brokers.describe(("ip", SPECIFIED, None))) == [(("ip", "localhost"),)]


# --- filters


@pytest.fixture
def furnished(brokers):
    number = 0.0
    for user in ("a", "b", None):
        for client in ("x", None, "none"):
            number += 1
            entity = {"user": user} if client == "none" else {"user": user, "client-id": client}
            brokers.alter(entity, producer_byte_rate=number)
    for client in ("x", "y", None):
        number += 1
        brokers.alter({"client-id": client}, producer_byte_rate=number)
    for address in ("10.0.0.1", None):
        brokers.alter({"ip": address}, connection_creation_rate=3.0)
    return brokers


FILTERS = [
    ([], False, 14),
    ([], True, 0),
    ([("user", EXACT, "a")], True, 1),
    ([("user", EXACT, "a")], False, 3),
    ([("user", DEFAULT, None)], True, 1),
    ([("user", SPECIFIED, None)], True, 3),
    ([("user", SPECIFIED, None)], False, 9),
    ([("client-id", EXACT, "x")], True, 1),
    ([("client-id", EXACT, "x")], False, 4),
    ([("client-id", DEFAULT, None)], False, 4),
    ([("client-id", SPECIFIED, None)], True, 3),
    ([("user", EXACT, "a"), ("client-id", EXACT, "x")], True, 1),
    ([("user", EXACT, "a"), ("client-id", SPECIFIED, None)], True, 2),
    ([("user", SPECIFIED, None), ("client-id", DEFAULT, None)], True, 3),
    ([("user", EXACT, "a"), ("client-id", EXACT, "y")], False, 0),
    ([("user", EXACT, "")], True, 0),
    ([("ip", EXACT, "10.0.0.1")], True, 1),
    ([("ip", DEFAULT, None)], False, 1),
    ([("ip", SPECIFIED, None)], False, 2),
]


@pytest.mark.parametrize(("components", "strict", "count"), FILTERS)
def test_what_a_filter_finds(furnished, components, strict, count):
    found = furnished.describe(*components, strict=strict)
    assert len(found) == count
    for entity in map(dict, found):
        if strict:
            assert entity.keys() == {kind for kind, _, _ in components}
        for kind, match, name in components:
            assert kind in entity
            assert match == SPECIFIED or entity[kind] == name


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        ([("user", 3, None)], ErrorCode.UNKNOWN_SERVER_ERROR, None),
        ([("user", EXACT, None)], ErrorCode.UNKNOWN_SERVER_ERROR, None),
        ([("", SPECIFIED, None)], ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type"),
        (
            [("group", SPECIFIED, None)],
            ErrorCode.UNSUPPORTED_VERSION,
            "Custom entity type 'group' not supported",
        ),
        (
            [("client-id", SPECIFIED, None)] * 2,
            ErrorCode.INVALID_REQUEST,
            "Duplicate client filter component entity type",
        ),
        (
            [("ip", SPECIFIED, None), ("user", SPECIFIED, None)],
            ErrorCode.INVALID_REQUEST,
            BOTH,
        ),
    ],
)
def test_filters_that_cannot_be(brokers, components, code, message):
    assert brokers.refusal(*components) == (code, message)
