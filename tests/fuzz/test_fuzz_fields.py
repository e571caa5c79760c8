"""Every API with absurd fields:
an answer in Kafka's words or a close, and nothing unforeseen (`field_attack`).
"""

import random

from field_attack import (
    APIS,
    FROM_CONTROLLERS,
    SETTINGS,  # noqa: F401 - the fixture `victim` reads it
    Attacker,
    apis_of_clients,
    errors_in,
    is_well,
)

CLIENT_ROUNDS = 6
CONTROLLER_ROUNDS = 30


def attack(victim, apis, rounds):
    # pytest-randomly seeds this and prints the seed: `-p randomly -p "randomly_seed=..."` replays a failure.
    attacker = Attacker(victim.port, random.Random(random.getrandbits(64)))
    for _ in range(rounds):
        attacker.round(apis)
    is_well(victim.port)
    assert victim.alive()
    assert not errors_in(victim.server.log)
    return {api for api, outcome in attacker.outcomes if outcome in {"answered", "refused"}}


def test_every_api_of_clients_answers_or_closes(victim):
    answered = attack(victim, apis_of_clients(), CLIENT_ROUNDS)

    # An envelope is for brokers of KRaft: Kafka closes the connection. So it does where a rule, or a filter
    # of rules, has a number that means nothing, as nearly each one here.
    closed = {api.name for api in apis_of_clients()} - {api.name for api in answered}
    assert {"ENVELOPE"} <= closed <= {"ENVELOPE", "CREATE_ACLS", "DELETE_ACLS", "DESCRIBE_ACLS"}


def test_every_api_of_controllers_answers_or_closes(untouched):
    assert attack(untouched, sorted(FROM_CONTROLLERS), CONTROLLER_ROUNDS) == FROM_CONTROLLERS


def test_every_api_takes_part():
    assert {*apis_of_clients(), *FROM_CONTROLLERS} == {api.key for api in APIS.values()}
