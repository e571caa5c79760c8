"""The settings of groups in the store; the refusals are those of a genuine Kafka 4.4.0."""

import pytest

from barnabas.cluster.metadata.config_admin import ConfigOp, OpType
from barnabas.core import group_config
from barnabas.core.broker_config import broker_config
from barnabas.core.errors import ErrorCode, KafkaError

HEARTBEAT = "consumer.heartbeat.interval.ms"
SESSION = "consumer.session.timeout.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


@pytest.fixture
def cluster(make_cluster):
    return make_cluster(0, 1)


def alter(cluster, name, change, *, validate_only=False):
    admin = cluster.brokers[1].config_admin
    cluster.wait(admin.alter_group(name, change, validate_only=validate_only))
    cluster.settle()


def set_to(key, value):
    return [ConfigOp(key, OpType.SET, value)]


def known(cluster):
    """The settings that each broker knows; all know the same."""
    first, second = (broker.configs.groups for broker in cluster.brokers.values())
    assert first == second
    return first


def test_settings_are_known_to_every_broker_and_go_with_the_last_one(cluster):
    alter(cluster, "ä /:%", set_to(HEARTBEAT, " 7000 "))
    alter(cluster, "ä /:%", set_to(SESSION, "50000"))
    assert known(cluster) == {"ä /:%": {HEARTBEAT: " 7000 ", SESSION: "50000"}}

    alter(cluster, "ä /:%", [ConfigOp(key, OpType.DELETE, "") for key in (HEARTBEAT, SESSION, "unset")])

    assert known(cluster) == {}
    assert cluster.wait(cluster.brokers[0].store.children("/config/groups")) == []


def test_all_settings_are_replaced_at_once(cluster):
    alter(cluster, "g", set_to(HEARTBEAT, "7000"))
    alter(cluster, "g", {ASSIGNMENT: "0"})

    assert known(cluster) == {"g": {ASSIGNMENT: "0"}}


def test_validation_only_changes_nothing(cluster):
    alter(cluster, "g", set_to(HEARTBEAT, "7000"), validate_only=True)

    assert known(cluster) == {}


def test_what_somebody_else_wrote_wrongly_counts_for_nothing(cluster):
    configs = cluster.brokers[0].configs
    cluster.wait(configs.write("groups", "g", {HEARTBEAT: "often"}))
    cluster.wait(configs.write("groups", "h", {"no.such.key": "1"}))
    cluster.settle()

    assert known(cluster) == {}


NO_NUMBER = f"Invalid value x for configuration {HEARTBEAT}: Not a number of type INT"
HEARTBEAT_RANGE = f"{HEARTBEAT} must be in the range 5000 to 15000 inclusive."
INVALID_CONFIG = ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("name", "change", "code", "message"),
    [
        ("", set_to("k", "1"), ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."),
        ("g", set_to("nothing", "1"), INVALID_CONFIG, "Unknown group config name: nothing"),
        ("g", set_to(HEARTBEAT, "4999"), INVALID_CONFIG, HEARTBEAT_RANGE),
        ("g", set_to(HEARTBEAT, "15001"), INVALID_CONFIG, HEARTBEAT_RANGE),
        ("g", set_to(HEARTBEAT, "x"), INVALID_CONFIG, NO_NUMBER),
        (
            "g",
            set_to(HEARTBEAT, "0"),
            INVALID_CONFIG,
            f"Invalid value 0 for configuration {HEARTBEAT}: Value must be at least 1",
        ),
        (
            "g",
            set_to(ASSIGNMENT, "-1"),
            INVALID_CONFIG,
            f"Invalid value -1 for configuration {ASSIGNMENT}: Value must be at least 0",
        ),
        (
            "g",
            set_to(ASSIGNMENT, "15001"),
            INVALID_CONFIG,
            f"{ASSIGNMENT} must be in the range 0 to 15000 inclusive.",
        ),
        (
            "g",
            set_to(SESSION, "60001"),
            INVALID_CONFIG,
            f"{SESSION} must be in the range 45000 to 60000 inclusive.",
        ),
        (
            "g",
            [ConfigOp(HEARTBEAT, OpType.SUBTRACT, "1")],
            INVALID_CONFIG,
            f"Can't SUBTRACT to key {HEARTBEAT} because its type is not LIST.",
        ),
        ("g", [ConfigOp(HEARTBEAT, 9, "1")], ErrorCode.UNKNOWN_SERVER_ERROR, None),
    ],
)
def test_refusals(cluster, name, change, code, message):
    with pytest.raises(KafkaError) as refused:
        alter(cluster, name, change)

    assert (refused.value.code, refused.value.own_message) == (code, message)
    assert known(cluster) == {}


def test_a_session_is_longer_than_the_interval_of_heartbeats():
    broker = broker_config({"group.consumer.min.session.timeout.ms": "1000"})

    with pytest.raises(KafkaError, match=f"{SESSION} must be greater than {HEARTBEAT}"):
        group_config.validate("g", {SESSION: "5000"}, broker)
    group_config.validate("g", {SESSION: "5001"}, broker)
