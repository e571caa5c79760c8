"""A coordinator's life: whose groups it serves, since when, until when, and what of them survives."""

import itertools
import tracemalloc

import pytest
from life_rig import Life, code, commit_bytes, group_bytes

from barnabas.coordinator.offsets import removal
from barnabas.coordinator.runtime.keys import partition_of
from barnabas.core import fault_log
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.list_groups import ListedGroup
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from handled import handled

HOUR_MS = 3_600_000


# --- whose group


def test_the_partition_of_a_group():
    assert partition_of("consume_group", 50) == 34
    # The one hash whose absolute value Java cannot tell: Integer.MIN_VALUE.
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("", 50) == 0
    assert 0 <= partition_of("\N{GRINNING FACE}", 50) < 50


def test_very_long_names_are_not_remembered():
    """A client may ask for as many as it likes, each as long as a string can be."""
    tracemalloc.start()
    try:
        for each in range(40):
            partition_of(f"{each}" + "g" * 2_000, 50)
        assert tracemalloc.get_traced_memory()[0] < 40_000
    finally:
        tracemalloc.stop()


def calls(life):
    """Every call that names one group, by name."""
    coordinator = life.coordinator
    return {
        "join": life.join,
        "sync": lambda group: handled(coordinator, SyncGroupRequest(group_id=group), 3),
        "heartbeat": lambda group: handled(coordinator, HeartbeatRequest(group_id=group)),
        "leave": lambda group: coordinator.leave_group(group, []),
        "commit": life.commit,
        "fetch": life.fetched,
        "delete offsets": lambda group: coordinator.delete_offsets(group, []),
        "commit in a transaction": lambda group: life.commit(group, producer=(77, 0)),
    }


NAMES = list(calls(Life()))
STORE_ONLY = ("commit", "fetch")
"""What the group without a name may do: clients of old stored offsets under it."""


@pytest.mark.parametrize("name", NAMES)
def test_refused_by_one_that_leads_nothing(life, name):
    assert code(calls(life)[name], "g") is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("name", NAMES)
def test_refused_after_the_shutdown(elected, name):
    elected.coordinator.shutdown()

    assert code(calls(elected)[name], "g") is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("name", [name for name in NAMES if name not in STORE_ONLY])
def test_a_group_must_have_a_name(elected, name):
    assert code(calls(elected)[name], "") is ErrorCode.INVALID_GROUP_ID


def test_the_group_without_a_name_stores_offsets(elected):
    elected.commit("", 5)

    assert elected.fetched("") == {("orders", 0): 5}
    assert elected.described("")[0].group_state == "Empty"
    assert elected.delete("")[0].error_code == ErrorCode.NONE


# --- elected and resigned


def test_what_was_written_is_known_after_a_restart(elected):
    member = elected.form("g")
    elected.commit("h", 7, metadata="note")
    elected.coordinator.partition_for("g")

    elected.restart()
    elected.elect(1)

    assert elected.states() == {"g": "Stable", "h": "Empty"}
    described = elected.described("g")[0]
    assert [each.member_id for each in described.members] == [member]
    assert described.members[0].member_assignment == b"all"
    assert elected.fetched("h") == {("orders", 0): 7}
    beat = HeartbeatRequest(group_id="g", member_id=member, generation_id=1)
    assert handled(elected.coordinator, beat).error_code == ErrorCode.NONE


def test_resigning_forgets_the_partition_and_no_other(elected):
    mine, other = "g", next(n for n in "abcdefgh" if differs(elected, n, "g"))
    elected.commit(mine)
    elected.commit(other)

    elected.coordinator.resigned(elected.coordinator.partition_for(mine), 1)

    assert code(elected.fetched, mine) is ErrorCode.NOT_COORDINATOR
    assert elected.fetched(other) == {("orders", 0): 1}


def differs(life, one, other):
    return life.coordinator.partition_for(one) != life.coordinator.partition_for(other)


def test_resigning_answers_all_who_wait(elected):
    elected.form("g")
    joining = elected.join("g")
    assert isinstance(joining, Pending)
    assert not joining.done

    elected.coordinator.resigned(elected.coordinator.partition_for("g"), 1)

    assert joining.result().error_code == ErrorCode.NOT_COORDINATOR


def test_the_shutdown_answers_all_who_wait(elected):
    joining = elected.join("g")

    elected.coordinator.shutdown()

    assert joining.result().error_code == ErrorCode.NOT_COORDINATOR


def test_the_shutdown_says_how_many_lines_about_all_classic_groups_were_left_out(monkeypatch, caplog):
    monkeypatch.setattr(fault_log, "LINES_MAX", 0)
    life = Life(group_coordinator_rebalance_protocols="classic,consumer").elect()
    for epoch in (0, -1):  # one of the groups had the other protocol before
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id="converted",
            member_id="m",
            member_epoch=epoch,
            rebalance_timeout_ms=5000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        handled(life.coordinator, heartbeat)
    for group in ("converted", "classic"):
        joining = life.join(group)
        life.clock.advance(life.config["group.initial.rebalance.delay.ms"])
        member = joining.result().member_id
        handled(life.coordinator, SyncGroupRequest(group_id=group, generation_id=1, member_id=member), 3)
    assert "members_without_assignment" not in caplog.text
    life.coordinator.shutdown()
    assert caplog.text.count("classic.lines_left_out") == 1


def test_no_timer_outlives_the_shutdown(elected):
    elected.form("g")

    elected.coordinator.shutdown()
    elected.replicas.shutdown()

    assert elected.clock.waiting == 0


def test_late_news_change_nothing(life):
    life.write(commit_bytes(3))
    partition = life.coordinator.partition_for("g")
    life.elect_for("g", 5)

    life.coordinator.resigned(partition, 4)
    assert life.fetched() == {("orders", 0): 3}

    life.coordinator.resigned(partition, 6)
    life.elect_for("g", 5)
    assert code(life.fetched) is ErrorCode.NOT_COORDINATOR

    life.elect_for("g", 7)
    assert life.fetched() == {("orders", 0): 3}


def test_a_deleted_partition_is_given_up_whatever_the_epoch(elected):
    elected.commit()

    elected.coordinator.resigned(elected.coordinator.partition_for("g"), None)

    assert code(elected.fetched) is ErrorCode.NOT_COORDINATOR


def test_a_topic_that_is_made_anew_begins_with_its_first_epoch(elected):
    partition = elected.coordinator.partition_for("g")
    elected.coordinator.resigned(partition, 5)
    elected.coordinator.resigned(partition, None)

    elected.coordinator.elected(partition, 0)

    assert elected.fetched() == {}


def test_elected_anew_without_resigning_keeps_what_it_knows(elected):
    joining = elected.join("g")

    elected.elect(3)

    assert not joining.done
    assert elected.states() == {"g": "PreparingRebalance"}


# --- listing, describing, deleting


def test_lists_by_state_and_type(elected):
    elected.form("stable")
    elected.commit("simple")
    lists = elected.listed

    def names(states, types):
        return sorted(each.group_id for each in lists(states, types).groups)

    assert names([], []) == ["simple", "stable"]
    assert names(["sTaBlE"], []) == ["stable"]
    assert names(["Empty", "Stable"], ["CLASSIC"]) == ["simple", "stable"]
    assert names([], ["consumer"]) == []
    assert names(["Dead"], []) == []
    assert lists(["Stable"], []).groups == [
        ListedGroup(group_id="stable", protocol_type="consumer", group_state="Stable", group_type="classic")
    ]


def test_lists_nothing_before_its_start(elected):
    elected.coordinator.shutdown()

    assert elected.listed().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_group_that_is_not_known_is_dead(elected):
    described = elected.described("nobody")[0]

    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND, "since version 6"
    assert (described.group_state, described.error_message) == ("Dead", "Group nobody not found.")


def test_a_group_of_another_coordinator_has_no_state(life):
    described = life.described("g")[0]

    assert (described.error_code, described.group_state) == (ErrorCode.NOT_COORDINATOR, "")


def test_deletes_groups_without_members(elected):
    elected.form("full")
    elected.commit("g")

    results = elected.delete("g", "full", "nobody", "g")

    assert [(each.group_id, each.error_code) for each in results] == [
        ("g", ErrorCode.NONE),
        ("full", ErrorCode.NON_EMPTY_GROUP),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert elected.states() == {"full": "Stable"}
    elected.restart()
    assert "g" not in elected.elect(1).states()


def test_the_tombstones_of_a_deleted_group(life):
    life.write(group_bytes(generation=2), commit_bytes(1), commit_bytes(2, partition=1))
    life.elect()

    life.delete("g")

    tombstones = [key for key, value in life.written() if value is None]
    assert len(tombstones) == 3
    assert sum(isinstance(key, GroupMetadataKey) for key in tombstones) == 1


@pytest.mark.parametrize("how", ["deleted", "expired"])
def test_a_group_with_very_many_offsets_goes_for_good(how):
    """All its tombstones at once are more than the topic takes."""
    life = Life(offsets_retention_minutes=1)
    count = 20_000
    for start in range(0, count, 1000):
        life.write(*[commit_bytes(1, topic="t" * 100, partition=start + each) for each in range(1000)])
    if how == "deleted":
        life.elect()
        assert life.delete("g")[0].error_code == ErrorCode.NONE
    else:
        life.elect()
        life.clock.advance(HOUR_MS)
    assert life.states() == {}

    life.restart()
    life.elect()

    assert life.states() == {}


def test_a_group_that_only_stored_offsets_leaves_no_tombstone_of_its_own(elected):
    elected.commit("g")

    elected.delete("g")

    tombstones = [key for key, value in elected.written() if value is None]
    assert [type(key).__name__ for key in tombstones] == ["OffsetCommitKey"]


def test_a_deletion_that_cannot_be_written_is_one_all_the_same(elected, caplog):
    """As in Kafka: the next leader finds the group again, and it expires."""
    elected.commit("g")
    elected.disk.fail("/data", "write")

    assert elected.delete("g")[0].error_code == ErrorCode.NONE
    assert elected.states() == {}
    assert "tombstones.not_written" in caplog.text


# --- time


def test_offsets_expire_at_each_check():
    life = Life(offsets_retention_minutes=60, offsets_retention_check_interval_ms=HOUR_MS // 2).elect()
    life.commit("g")

    life.clock.advance(HOUR_MS - 1)
    assert life.states() == {"g": "Empty"}
    life.clock.advance(HOUR_MS // 2)

    assert life.states() == {}


def test_the_first_check_comes_at_once(life):
    """What an earlier leader wrote long ago is found at the start, not ten minutes later."""
    life.write(commit_bytes(1))
    life.restart()
    life.elect(1)

    # commit_bytes are of 1970; the check of the start came before the election
    life.clock.advance(600_000)

    assert life.states() == {}


def test_one_shard_that_fails_does_not_keep_others_from_expiring(elected, monkeypatch, caplog):
    seen = []

    def expire(shard, *_):
        seen.append(shard.partition)
        raise RuntimeError("a bug")

    monkeypatch.setattr(removal, "expire_offsets", expire)

    elected.clock.advance(600_000)

    assert sorted(seen) == [0, 1]
    assert "expiry.failed" in caplog.text


def test_the_offsets_of_a_deleted_topic_go(elected):
    elected.commit("g", 1, topic="orders")
    elected.commit("g", 2, topic="other")

    elected.coordinator.partitions_deleted([TopicPartition("orders", 0)])

    assert elected.fetched() == {("other", 0): 2}


# --- protocols


def test_the_consumer_protocol_is_off_unless_asked_for(elected):
    heartbeat = ConsumerGroupHeartbeatRequest(group_id="g", member_epoch=0)

    assert code(handled, elected.coordinator, heartbeat, 0) is (ErrorCode.UNSUPPORTED_VERSION)
    assert code(elected.coordinator.consumer_group_describe, "g") is ErrorCode.UNSUPPORTED_VERSION


def test_both_protocols_side_by_side():
    life = Life(group_coordinator_rebalance_protocols="classic,consumer").elect()
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="new",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=5000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    joined = handled(life.coordinator, heartbeat)
    joined = joined.result() if isinstance(joined, Pending) else joined
    life.form("old")

    assert joined.error_code == ErrorCode.NONE
    listed = {each.group_id: each.group_type for each in life.listed().groups}
    assert listed == {"new": "consumer", "old": "classic"}
    described = life.consumer_described("new", "old", "nobody")
    assert [each.error_code for each in described] == [
        ErrorCode.NONE,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert [each.group_state for each in life.described("new", "old")] == [
        "Dead",
        "Stable",
    ]
    life.restart()
    life.elect(1)
    assert life.states() == {"new": "Stable", "old": "Stable"}


def test_many_elections_in_a_row(life):
    life.write(commit_bytes(1))
    partition = life.coordinator.partition_for("g")

    for epoch in itertools.islice(itertools.count(1, 2), 50):
        life.elect_for("g", epoch)
        assert life.fetched() == {("orders", 0): 1}
        life.coordinator.resigned(partition, epoch + 1)
        assert code(life.fetched) is ErrorCode.NOT_COORDINATOR
