"""The checks: each says what is wrong with the number, and never that something is right that nobody read."""

from dataclasses import replace

import pytest

from barnabas.admin import ClusterDescription, LogDirDescription, TopicDescription
from barnabas.client.metadata import Broker, PartitionMetadata
from barnabas.console.health.checks import CHECKS
from barnabas.console.health.outcome import Level
from barnabas.console.health.verdict import verdict
from barnabas.console.reading import Observation, read
from barnabas.console.snapshot import ClusterSnapshot
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import ZERO_UUID, TopicPartition

NOW = 1_000_000_000
BROKERS = [Broker(1, "a", 1), Broker(2, "b", 1)]


def topic(*partitions):
    described = [
        PartitionMetadata(number, leader, 0, [1, 2], isr, [])
        for number, (leader, isr) in enumerate(partitions)
    ]
    return read({"t": TopicDescription("t", ZERO_UUID, False, described)}, NOW)


def healthy():
    directory = LogDirDescription(None, {}, 100, 50)
    return ClusterSnapshot(
        cluster=read(ClusterDescription("c", BROKERS[0], BROKERS), NOW),
        topics=topic((1, (1, 2)), (2, (1, 2))),
        log_dirs={1: read({"/d": directory}, NOW), 2: read({"/d": directory}, NOW)},
        broker_configs={1: read({}, NOW), 2: read({}, NOW)},
        topic_configs={"t": read({"min.insync.replicas": _Entry("2")}, NOW)},
        group_listings={1: read([], NOW), 2: read([], NOW)},
    )


class _Entry:
    """As much of a `ConfigEntry` as checks look at."""

    is_default, is_sensitive = False, False

    def __init__(self, value):
        self.value = value


def found(key, snapshot, limits=None):
    return next(one for one in verdict(snapshot, NOW, limits).checks if one.key == key)


def test_a_cluster_that_is_well_is_good():
    whole = verdict(healthy(), NOW)
    assert whole.level is Level.GOOD, whole.reasons
    assert not whole.is_bad


def test_nothing_read_is_never_good():
    whole = verdict(ClusterSnapshot(), NOW)
    assert whole.level is Level.UNKNOWN
    levels = {one.key: one.level for one in whole.checks}
    for key in ("controller", "no-leader", "under-min-isr", "under-replicated", "offline-log-dirs"):
        assert levels[key] is Level.UNKNOWN


def test_what_is_stale_is_not_good():
    snapshot = replace(healthy(), topics=healthy().topics.failed("no answer"))
    assert found("no-leader", snapshot).level is Level.UNKNOWN


@pytest.mark.parametrize(
    ("key", "changed", "level", "said"),
    [
        (
            "controller",
            {"cluster": read(ClusterDescription("c", None, BROKERS), NOW)},
            "critical",
            "no controller",
        ),
        ("no-leader", {"topics": topic((-1, ()), (2, (2,)))}, "critical", "t-0"),
        ("no-leader", {"topics": topic((3, (3,)))}, "critical", "t-0"),
        ("under-min-isr", {"topics": topic((1, (1,)))}, "critical", "t-0 has 1 of 2"),
        (
            "under-replicated",
            {"under_replicated_since_ms": {TopicPartition("t", 0): NOW - 9 * 60_000}},
            "warning",
            "t-0 for 9 min",
        ),
        (
            "missing-brokers",
            {"cluster": read(ClusterDescription("c", BROKERS[0], BROKERS[:1]), NOW)},
            "warning",
            "broker 2 with 2 replicas",
        ),
        (
            "offline-log-dirs",
            {
                "log_dirs": {
                    1: read(
                        {"/d": LogDirDescription(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), {}, -1, -1)}, NOW
                    )
                }
            },
            "critical",
            "/d of broker 1",
        ),
        (
            "disk-used",
            {"log_dirs": {1: read({"/d": LogDirDescription(None, {}, 100, 5)}, NOW)}},
            "warning",
            "95%",
        ),
        ("leaders-uneven", {"topics": topic(*[(1, (1, 2))] * 9, (2, (1, 2)))}, "warning", "broker 1 leads 9"),
        (
            "config-differences",
            {"broker_configs": {1: read({"k": _Entry("a")}, NOW), 2: read({"k": _Entry("b")}, NOW)}},
            "warning",
            "k: a on 1; b on 2",
        ),
        ("rebalancing", {"rebalancing_since_ms": {"g": NOW - 10 * 60_000}}, "warning", "g for 10.0 min"),
        ("network-idle", {"scrapes": {1: read({"network_idle": 0.1}, NOW)}}, "warning", "broker 1 0.1"),
        (
            "request-queue",
            {"scrapes": {1: read({"request_queue_size": 11.0}, NOW)}},
            "warning",
            "broker 1 11",
        ),
        (
            "zk-brain-split",
            {"zookeeper": {"a": read({"is_leader": 1.0}, NOW), "b": read({"is_leader": 1.0}, NOW)}},
            "critical",
            "2 leaders: a, b",
        ),
        (
            "zk-brain-split",
            {"zookeeper": {"a": read({"is_leader": 0.0}, NOW)}},
            "critical",
            "no server leads",
        ),
        ("zk-sent-rate", {"zookeeper": {"a": read({"sent_rate": 500_000.0}, NOW)}}, "warning", "a 500000"),
    ],
)
def test_what_is_wrong_is_said_with_its_number(key, changed, level, said):
    one = found(key, replace(healthy(), **changed))
    assert (one.level, said in one.why) == (level, True), one


def test_an_idle_thread_is_measured_as_a_share():
    """KnowStreaming's limit of 0.8 stood beside a manual that meant per cent."""
    busy = replace(healthy(), scrapes={1: read({"network_idle": 0.29, "handler_idle": 0.31}, NOW)})
    assert found("network-idle", busy).level is Level.WARNING
    assert found("handler-idle", busy).level is Level.GOOD


def test_a_source_that_was_not_given_is_said_and_does_not_spoil_the_verdict():
    one = found("request-queue", healthy())
    assert (one.level, "--metrics" in one.why) == (Level.NO_SOURCE, True)


def test_a_source_that_does_not_answer_is_unknown():
    snapshot = replace(healthy(), scrapes={1: Observation().failed("refused")})
    assert found("request-queue", snapshot).level is Level.UNKNOWN
    assert verdict(snapshot, NOW).level is Level.UNKNOWN


def test_a_limit_can_be_another_one():
    snapshot = replace(healthy(), scrapes={1: read({"request_queue_size": 11.0}, NOW)})
    assert found("request-queue", snapshot, {"request-queue": 20}).level is Level.GOOD


def test_a_cluster_that_cannot_be_reached_is_critical_and_says_why():
    whole = verdict(ClusterSnapshot(), NOW, problem="nothing listens at 127.0.0.1:1")
    assert (whole.level, whole.reasons[0]) == (Level.CRITICAL, "nothing listens at 127.0.0.1:1")


def test_keys_of_checks_are_told_apart():
    assert len({one.key for one in CHECKS}) == len(CHECKS)
