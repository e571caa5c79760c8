"""The checks: each says what is wrong with the number, and never that something is right that nobody read."""

from dataclasses import replace

import pytest

from barnabas.admin import ClusterDescription, LogDirDescription, PartitionReassignment, TopicDescription
from barnabas.client.metadata import Broker, PartitionMetadata
from barnabas.client.types import OffsetAndTimestamp
from barnabas.console.collector import Pace
from barnabas.console.disk_room import bytes_per_s, rooms_of
from barnabas.console.health.checks import CHECKS
from barnabas.console.health.outcome import Level
from barnabas.console.health.verdict import verdict
from barnabas.console.held_offsets import HeldOffset, held_of
from barnabas.console.reading import Freshness, Observation, read
from barnabas.console.snapshot import ClusterSnapshot
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import ZERO_UUID, TopicPartition
from barnabas.operations import partition_states

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
        held_offsets=read({}, NOW),
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
        (
            "disk-full",
            {
                "rooms": {
                    (1, "/d"): [(NOW - 600_000 + each * 60_000, 66_000 - 6_000 * each) for each in range(11)]
                }
            },
            "critical",
            "/d of broker 1 in 1 min 0 s (5.9 KiB left, 100 B a second go, of the last 10 min 0 s)",
        ),
        (
            "certificates",
            {"certificates": {1: read(NOW + 3 * 86_400_000, NOW), 2: read(NOW - 86_400_000, NOW)}},
            "warning",
            "that of broker 2 ended 1.0 days ago, that of broker 1 ends in 3.0 days",
        ),
        (
            "hanging-transactions",
            {"held_offsets": read({TopicPartition("t", 1): HeldOffset(7, NOW - 21 * 60_000)}, NOW)},
            "warning",
            "t-1 at offset 7 for 21 min",
        ),
        ("produce-latency", {"scrapes": {1: read({"produce_ms": 1500.0}, NOW)}}, "warning", "broker 1 1500"),
        (
            "fetch-latency",
            {"scrapes": {1: read({"fetch_consumer_ms": 3e3}, NOW)}},
            "warning",
            "broker 1 3000",
        ),
        ("loop-idle", {"scrapes": {1: read({"loop_idle": 0.05}, NOW)}}, "warning", "broker 1 0.05"),
        ("old-clients", {"scrapes": {1: read({"old_requests_per_s": 0.5}, NOW)}}, "warning", "broker 1 0.5"),
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


def test_without_the_list_of_brokers_not_all_of_them_are_missing():
    snapshot = replace(healthy(), cluster=Observation().failed("no answer"))
    for key in ("missing-brokers", "no-leader", "leaders-uneven"):
        one = found(key, snapshot)
        assert (one.level, "no answer" in one.why) == (Level.UNKNOWN, True), one
    leaderless = found("no-leader", replace(snapshot, topics=topic((-1, (1, 2)), (2, (1, 2)))))
    assert (leaderless.level, leaderless.subjects) == (Level.CRITICAL, ["t-0"])


def test_a_replica_that_is_just_copied_is_not_missed():
    """As kafka-topics.sh counts (TopicCommand.getReplicationFactor)."""
    one = PartitionMetadata(0, 1, 0, [1, 2, 3], [1, 2], [])
    tp = TopicPartition("t", 0)
    assert ClusterSnapshot().is_under_replicated("t", one)
    for moving, factor, is_under in (
        (PartitionReassignment([1, 2, 3], [3], [1]), 2, False),
        (PartitionReassignment([1, 2, 3], [2, 3], []), 1, False),
        (PartitionReassignment([1, 2, 3], [], [3]), 3, True),
    ):
        snapshot = ClusterSnapshot(reassignments=read({tp: moving}, NOW))
        assert (snapshot.replication_factor("t", one), snapshot.is_under_replicated("t", one)) == (
            factor,
            is_under,
        )
        assert partition_states.replication_factor(one, moving) == factor
        assert partition_states.is_under_replicated(one, moving) is is_under


def test_an_old_list_of_brokers_is_not_good():
    brokers = read(ClusterDescription("c", BROKERS[0], BROKERS), NOW - 61_000)
    for key in ("controller", "missing-brokers", "no-leader", "leaders-uneven"):
        assert found(key, replace(healthy(), cluster=brokers)).level is Level.UNKNOWN


def test_old_topics_are_not_good():
    old = replace(healthy().topics, at_ms=NOW - 61_000)
    for key in ("missing-brokers", "no-leader", "under-replicated", "under-min-isr", "leaders-uneven"):
        assert found(key, replace(healthy(), topics=old)).level is Level.UNKNOWN, key


@pytest.mark.parametrize("piece", ["log_dirs", "broker_configs", "group_listings"])
def test_what_was_never_read_is_not_good(piece):
    keys = {
        "log_dirs": ["offline-log-dirs", "disk-used", "disk-full"],
        "broker_configs": ["config-differences"],
        "group_listings": ["rebalancing", "lag-seconds", "data-loss"],
    }
    for nothing in ({}, {1: Observation().failed("no answer")}):
        for key in keys[piece]:
            assert found(key, replace(healthy(), **{piece: nothing})).level is Level.UNKNOWN, key


def test_a_broker_that_does_not_say_how_large_its_disks_are_is_not_one_with_room():
    silent = read({"/d": LogDirDescription(None, {}, -1, -1)}, NOW)
    for key in ("disk-used", "disk-full"):
        one = found(key, replace(healthy(), log_dirs={1: silent, 2: silent}))
        assert (one.level, "KIP-827" in one.why) == (Level.NO_SOURCE, True), one
    some = found("disk-used", replace(healthy(), log_dirs={**healthy().log_dirs, 2: silent}))
    assert (some.level, "broker 2" in some.why) == (Level.UNKNOWN, True)
    failed = read({"/d": LogDirDescription(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), {}, -1, -1)}, NOW)
    offline = found("disk-used", replace(healthy(), log_dirs={**healthy().log_dirs, 2: failed}))
    assert offline.level is Level.GOOD  # the check of offline directories says it


@pytest.mark.parametrize(
    ("pace", "every", "took_ms", "fresh_ms"),
    [
        (Pace(), 1, 0, 60_000),
        (Pace(), 6, 0, 180_000),
        (Pace(), 1, 40_000, 120_000),  # the rounds take longer than they should
        (Pace(round_s=120), 1, 0, 360_000),
        (Pace(round_s=120), 6, 0, 2_160_000),
    ],
)
def test_a_value_is_fresh_until_looks_have_not_come(pace, every, took_ms, fresh_ms):
    assert pace.fresh_ms(every, took_ms) == fresh_ms
    value = read(1, NOW, pace.fresh_ms(every, took_ms))
    assert value.state(NOW + fresh_ms) is Freshness.OK
    assert value.failed("no answer").state(NOW) is Freshness.STALE
    assert value.state(NOW + fresh_ms + 1) is Freshness.STALE


@pytest.mark.parametrize(
    "points",
    [
        [],
        [(0, 100), (540_000, 50), (550_000, 1)],  # too short a time
        [(0, 100), (600_000, 100), (1_200_000, 100)],
        [(0, 100), (600_000, 500), (1_200_000, 900)],  # it grows
    ],
)
def test_a_disk_that_does_not_fill_has_no_time(points):
    one = found("disk-full", replace(healthy(), rooms={(1, "/d"): points}))
    assert (one.level, one.number) == (Level.GOOD, None)


def test_the_room_of_a_disk_is_kept_for_an_hour():
    def at(minute, left):
        directory = LogDirDescription(None, {}, 100, left)
        return {1: read({"/d": directory}, minute * 60_000), 2: Observation().failed("no answer")}

    rooms = {}
    for minute in range(100):
        rooms = rooms_of(rooms, at(minute, 1000 - minute))
        rooms = rooms_of(rooms, at(minute, 1000 - minute))  # nothing new was read
    assert list(rooms) == [(1, "/d")]
    assert rooms[1, "/d"] == [(minute * 60_000, 1000 - minute) for minute in range(40, 100)]
    assert bytes_per_s(rooms[1, "/d"]) == pytest.approx(1 / 60)


def test_an_open_transaction_is_one_whose_offset_stands_still():
    tp, other, gone = (TopicPartition("t", number) for number in range(3))
    ends = {tp: read(10, NOW), other: read(10, NOW), gone: read(10, NOW)}

    def stable(*offsets):
        return dict(zip(ends, [OffsetAndTimestamp(one, -1, -1) for one in offsets], strict=True))

    first = held_of({}, ends, stable(5, 10, 10), 1)
    assert first == {tp: HeldOffset(5, 1)}
    silent = held_of(first, ends, dict.fromkeys(ends, BarnabasError("no answer")), 2)
    assert silent == first
    assert held_of(silent, ends, stable(5, 3, 10), 3) == {tp: HeldOffset(5, 1), other: HeldOffset(3, 3)}
    assert held_of(first, ends, stable(6, 10, 10), 4) == {tp: HeldOffset(6, 4)}, "the next transaction"


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


@pytest.mark.parametrize(
    ("key", "limits", "title"),
    [
        ("lag-seconds", {"lag-seconds": 60}, "no group is more than 60 s behind"),
        ("disk-used", None, "at most 0.85 of each disk is used"),
        ("zk-data-size", None, "data: at most 419,430,400 bytes"),
    ],
)
def test_a_limit_has_its_unit(key, limits, title):
    assert found(key, healthy(), limits).title == title


def test_a_cluster_that_cannot_be_reached_is_critical_and_says_why():
    whole = verdict(ClusterSnapshot(), NOW, problem="nothing listens at 127.0.0.1:1")
    assert (whole.level, whole.reasons[0]) == (Level.CRITICAL, "nothing listens at 127.0.0.1:1")


def test_keys_of_checks_are_told_apart():
    assert len({one.key for one in CHECKS}) == len(CHECKS)
