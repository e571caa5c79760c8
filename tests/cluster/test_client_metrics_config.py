"""Subscriptions of client metrics in the store; the refusals are those of a genuine Kafka 4.4.0."""

import pytest

from barnabas.cluster.metadata.config_admin import ConfigOp, OpType
from barnabas.core.errors import ErrorCode, KafkaError

ILLEGAL = "Illegal client matching pattern: "


@pytest.fixture
def cluster(make_cluster):
    return make_cluster(0, 1)


def alter(cluster, name, change, *, validate_only=False):
    admin = cluster.brokers[1].config_admin
    cluster.wait(admin.alter_client_metrics(name, change, validate_only=validate_only))
    cluster.settle()


def set_to(key, value):
    return [ConfigOp(key, OpType.SET, value)]


def known(cluster):
    """The subscriptions that each broker knows; all know the same."""
    first, second = (broker.configs.client_metrics for broker in cluster.brokers.values())
    assert first == second
    return first


def test_a_subscription_is_known_to_every_broker_and_goes_with_its_last_setting(cluster):
    alter(cluster, "a/b c", set_to("interval.ms", "1000"))
    alter(cluster, "a/b c", set_to("metrics", "x.,y."))
    assert known(cluster) == {"a/b c": {"interval.ms": "1000", "metrics": "x.,y."}}
    versions = [broker.configs.client_metrics_version for broker in cluster.brokers.values()]

    alter(cluster, "a/b c", [ConfigOp(key, OpType.DELETE, "") for key in ("interval.ms", "metrics", "match")])

    assert known(cluster) == {}
    assert cluster.wait(cluster.brokers[0].store.children("/config/client-metrics")) == []
    for broker, before in zip(cluster.brokers.values(), versions, strict=True):
        assert broker.configs.client_metrics_version > before


def test_all_settings_are_replaced_at_once(cluster):
    alter(cluster, "s", set_to("interval.ms", "1000"))
    alter(cluster, "s", {"metrics": "x"})

    assert known(cluster) == {"s": {"metrics": "x"}}


def test_validation_only_changes_nothing(cluster):
    alter(cluster, "s", set_to("interval.ms", "1000"), validate_only=True)

    assert known(cluster) == {}


@pytest.mark.parametrize(
    ("name", "change", "code", "message"),
    [
        ("", set_to("interval.ms", "1000"), ErrorCode.INVALID_REQUEST, "Subscription name can't be empty"),
        ("s", set_to("foo", "1"), ErrorCode.INVALID_REQUEST, "Unknown client metrics configuration: foo"),
        (
            "s",
            set_to("interval.ms", "99"),
            ErrorCode.INVALID_REQUEST,
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            "s",
            set_to("interval.ms", "3600001"),
            ErrorCode.INVALID_REQUEST,
            "Invalid value 3600001 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            "s",
            set_to("interval.ms", "x"),
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration interval.ms: Not a number of type INT",
        ),
        (
            "s",
            set_to("metrics", "a,,b"),
            ErrorCode.INVALID_CONFIG,
            "Configuration 'metrics' values must not be empty.",
        ),
        ("s", set_to("match", "foo=1"), ErrorCode.INVALID_CONFIG, f"{ILLEGAL}foo=1"),
        ("s", set_to("match", "client_id"), ErrorCode.INVALID_CONFIG, f"{ILLEGAL}client_id"),
        ("s", set_to("match", "client_id="), ErrorCode.INVALID_CONFIG, f"{ILLEGAL}client_id="),
        ("s", set_to("match", "client_id=("), ErrorCode.INVALID_CONFIG, f"{ILLEGAL}client_id=("),
        ("s", set_to("match", "client_id=a=b"), ErrorCode.INVALID_CONFIG, f"{ILLEGAL}client_id=a=b"),
        ("s", set_to("match", "client_id=(?=a)"), ErrorCode.INVALID_CONFIG, f"{ILLEGAL}client_id=(?=a)"),
        (
            "s",
            [ConfigOp("metrics", OpType.APPEND, "a")],
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key metrics because its type is not LIST.",
        ),
    ],
)
def test_refusals(cluster, name, change, code, message):
    with pytest.raises(KafkaError) as refused:
        alter(cluster, name, change)

    assert (refused.value.code, str(refused.value)) == (code, message)
    assert known(cluster) == {}
