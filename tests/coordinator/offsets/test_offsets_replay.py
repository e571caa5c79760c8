"""Offsets that are read back from the journal."""

import pytest

from barnabas.coordinator.offsets.replay import place_groups, replay_commit, replay_commits
from barnabas.protocol.coordinator.offset_commit import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)

ORDERS = ("orders", 0)


def load(rig, offset, *, partition=0, at=0, producer_id=-1, group="g"):
    """Replays a commit; `offset` None is a tombstone."""
    value = None if offset is None else OffsetCommitValue(offset=offset, commit_timestamp=1)
    key = OffsetCommitKey(group=group, topic="orders", partition=partition)
    replay_commit(rig.shard, key, value, producer_id=producer_id, journal_offset=at)


def finish(rig):
    done = place_groups(rig.shard, rig.clock, rig.classic.create_simple)
    while not done.done:
        rig.clock.advance()
    done.result()


def end(rig, *, committed, producer_id=9):
    rig.end_transaction(producer_id, committed=committed)


@pytest.mark.parametrize("version", range(5))
def test_values_of_every_version(rig, version):
    value = OffsetCommitValue(
        offset=5, leader_epoch=3, metadata="m", commit_timestamp=123, expire_timestamp=456
    )
    read = OffsetCommitValue.from_bytes(value.to_bytes(version))
    key = OffsetCommitKey(group="g", topic="orders", partition=0)

    replay_commit(rig.shard, key, read, producer_id=-1, journal_offset=0)
    finish(rig)

    assert rig.fetch() == {ORDERS: (5, 3 if version >= 3 else -1, "m", 0)}
    commit = rig.shard.offsets["g"].committed["orders", 0]
    assert commit.commit_timestamp == 123
    assert commit.expire_timestamp == (456 if version == 1 else -1)


def test_keys_of_the_first_version(rig):
    key = LegacyOffsetCommitKey(group="g", topic="orders", partition=0)
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=123)

    replay_commit(rig.shard, key, value, producer_id=-1, journal_offset=0)
    finish(rig)

    assert rig.fetch() == {ORDERS: (5, -1, "m", 0)}


def test_what_a_load_took_apart_is_the_same_as_its_records(rig):
    load(rig, 5, at=3)
    load(rig, 6, at=4, partition=1, producer_id=9)
    by_record = repr(rig.shard.offsets["g"].committed), repr(rig.shard.offsets["g"].transactional)
    rig.shard.offsets.clear()
    rig.shard.open_transactions.clear()

    plain = "g", "orders", [0, 0, 0], [(4, -1, "", 1, -1, 2), None, (5, -1, "", 1, -1, 3)]
    transactional = "g", "orders", [1], [(6, -1, "", 1, -1, 4)]
    assert replay_commits(rig.shard, plain, producer_id=-1, memo={}) == 3
    assert replay_commits(rig.shard, transactional, producer_id=9, memo={}) == 1

    offsets = rig.shard.offsets["g"]
    assert (repr(offsets.committed), repr(offsets.transactional)) == by_record
    assert rig.shard.open_transactions == {9: {"g"}}


def test_the_last_record_of_a_key_counts(rig):
    load(rig, 5, at=0)
    load(rig, 7, at=1)
    load(rig, 1, partition=1, at=2)
    load(rig, None, partition=1, at=3)
    finish(rig)

    assert rig.committed() == {ORDERS: 7}


def test_groups_that_only_keep_offsets_get_their_place(rig):
    managed = rig.group("managed")
    load(rig, 5, group="managed")
    load(rig, 5, group="simple")
    load(rig, 5, group="waiting", producer_id=9)
    load(rig, 5, group="gone")
    load(rig, None, group="gone")
    finish(rig)

    assert set(rig.shard.groups) == {"managed", "simple", "waiting"}
    assert rig.shard.groups["managed"] is managed
    assert "gone" not in rig.shard.offsets


def test_transactions_are_committed_aborted_or_still_open(rig):
    load(rig, 5, at=0, producer_id=9)
    load(rig, 6, at=1, producer_id=10, partition=1)
    load(rig, 7, at=2, producer_id=11, partition=2)
    end(rig, committed=True)
    end(rig, committed=False, producer_id=10)
    finish(rig)

    assert rig.committed() == {ORDERS: 5}
    assert rig.shard.open_transactions == {11: {"g"}}
    end(rig, committed=True, producer_id=11)
    assert rig.committed() == {ORDERS: 5, ("orders", 2): 7}


def test_a_plain_commit_after_that_of_a_transaction_stays(rig):
    load(rig, 5, at=0, producer_id=9)
    load(rig, 8, at=1)
    end(rig, committed=True)
    finish(rig)

    assert rig.committed() == {ORDERS: 8}


def test_a_tombstone_inside_a_transaction(rig):
    load(rig, 5, at=0, producer_id=9)
    load(rig, None, at=1, producer_id=9)
    end(rig, committed=True)
    finish(rig)

    assert rig.committed() == {}
    assert rig.shard.offsets == {}


def test_what_was_written_is_what_is_read_back(rig):
    rig.commit({ORDERS: (5, 2, "m"), ("orders", 1): 6})
    rig.commit({ORDERS: (8, 2, "n")}, retention_ms=5000, version=4)
    rig.delete([("orders", 1)])
    kept = dict(rig.shard.offsets["g"].committed)
    written = rig.journal.records
    rig.shard.offsets.clear()

    for at, (key, value) in enumerate(written):
        replay_commit(rig.shard, key, value, producer_id=-1, journal_offset=at)

    read = rig.shard.offsets["g"].committed
    assert {tp: commit[:2] + commit[2:5] for tp, commit in read.items()} == {
        tp: (commit.offset, -1, commit.metadata, commit.commit_timestamp, commit.expire_timestamp)
        for tp, commit in kept.items()
    }


def test_repr_tells_the_state(rig):
    load(rig, 5)
    load(rig, 5, producer_id=9)

    assert repr(rig.shard.offsets["g"]) == "<GroupOffsets committed=1 pending=0 transactions=1>"
