import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.ids import TopicPartition
from barnabas.log.checkpoint import CheckpointError, OffsetCheckpoint
from barnabas.log.leader_epochs import LeaderEpochCache
from barnabas.testing.disk import SimulatedFilesystem


@pytest.fixture
def disk():
    filesystem = SimulatedFilesystem()
    filesystem.mkdir("/d")
    return filesystem


def cache_of(disk, *entries):
    cache = LeaderEpochCache(disk, "/d")
    for epoch, start in entries:
        cache.assign(epoch, start)
    return cache


def test_the_file_is_kafkas(disk):
    cache_of(disk, (0, 0), (3, 17))

    assert disk.read("/d/leader-epoch-checkpoint") == b"0\n2\n0 0\n3 17\n"
    assert LeaderEpochCache(disk, "/d").entries == ((0, 0), (3, 17))


def test_end_offsets(disk):
    cache = cache_of(disk, (2, 6), (4, 11), (7, 20))

    assert cache.end_offset_for(7, 25) == (7, 25)
    assert cache.end_offset_for(4, 25) == (4, 20)
    assert cache.end_offset_for(5, 25) == (4, 20)
    assert cache.end_offset_for(2, 25) == (2, 11)
    assert cache.end_offset_for(1, 25) == (1, 6), "older than anything known"
    assert cache.end_offset_for(8, 25) == (-1, -1)
    assert cache.end_offset_for(-1, 25) == (-1, -1)


def test_the_latest_epoch_and_the_earliest(disk):
    cache = cache_of(disk, (2, 6), (4, 11))

    assert (cache.latest_epoch, cache.earliest) == (4, (2, 6))


def test_an_empty_cache(disk):
    cache = cache_of(disk)

    assert (cache.latest_epoch, cache.earliest) == (None, None)
    assert cache.end_offset_for(0, 5) == (-1, -1)


def test_contradictions_go(disk):
    cache = cache_of(disk, (1, 0), (3, 10), (5, 20))
    cache.assign(5, 25)
    assert cache.entries[-1] == (5, 20), "an epoch begins once"
    cache.assign(6, 10)
    assert cache.entries == ((1, 0), (6, 10))
    cache.assign(2, 15)
    assert cache.entries == ((1, 0), (2, 15))


def test_truncation(disk):
    cache = cache_of(disk, (1, 0), (3, 10), (5, 20))
    cache.truncate_from_start(12)
    assert cache.entries == ((3, 12), (5, 20))
    cache.truncate_from_end(20)
    assert cache.entries == ((3, 12),)
    assert LeaderEpochCache(disk, "/d").entries == cache.entries
    cache.clear()
    assert LeaderEpochCache(disk, "/d").entries == ()


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), max_size=20))
def test_both_columns_always_rise(assignments):
    filesystem = SimulatedFilesystem()
    filesystem.mkdir("/d")
    entries = cache_of(filesystem, *assignments).entries

    for before, after in itertools.pairwise(entries):
        assert before.epoch < after.epoch
        assert before.start_offset < after.start_offset


@pytest.mark.parametrize(
    "data", [b"1\n0\n", b"0\n2\n0 0\n", b"0\nx\n", b"0\n1\na b\n", b"0\n1\n1\n", b"\xff\xfe"]
)
def test_damaged_files(disk, data):
    disk.write_atomic("/d/leader-epoch-checkpoint", data)

    with pytest.raises(CheckpointError, match="leader-epoch-checkpoint"):
        LeaderEpochCache(disk, "/d")


def test_offset_checkpoints_round_trip(disk):
    checkpoint = OffsetCheckpoint(disk, "/d/points")
    offsets = {TopicPartition("a.b_c-d", 3): 2**40, TopicPartition("x", 0): 0}
    assert checkpoint.read() == {}
    checkpoint.write(offsets)

    assert checkpoint.read() == offsets
    assert disk.read("/d/points") == b"0\n2\na.b_c-d 3 1099511627776\nx 0 0\n"
    disk.write_atomic("/d/points", b"0\n1\nx 0\n")
    with pytest.raises(CheckpointError, match="line 3"):
        checkpoint.read()


@pytest.mark.parametrize("seed", range(8))
def test_an_epoch_behind_another_outlives_a_loss_of_power(seed):
    disk = SimulatedFilesystem(seed=seed)
    disk.mkdir("/d")
    epochs = LeaderEpochCache(disk, "/d")
    epochs.assign(0, 0)
    epochs.assign(1, 5)
    disk.crash()

    assert [tuple(entry) for entry in LeaderEpochCache(disk, "/d").entries] == [(0, 0), (1, 5)]


def test_an_empty_log_is_loaded_without_a_write(disk):
    cache_of(disk, (3, 0))
    before = disk.read("/d/leader-epoch-checkpoint")

    cache = LeaderEpochCache(disk, "/d")
    cache.fit(0, 0)

    assert cache.entries == ()
    assert disk.read("/d/leader-epoch-checkpoint") == before


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda cache: cache.assign(4, 0), ((4, 0),)),
        (lambda cache: cache.assign(4, 7), ((4, 7),)),
        (lambda cache: cache.clear(), ()),
        (lambda cache: cache.truncate_from_end(0), ()),
        (lambda cache: cache.truncate_from_start(9), ()),
        (lambda cache: cache.fit(0, 0) or cache.clear(), ()),
    ],
)
def test_what_comes_after_it_replaces_what_the_file_said(disk, change, expected):
    cache_of(disk, (3, 0))
    cache = LeaderEpochCache(disk, "/d")
    cache.fit(0, 0)

    change(cache)

    assert cache.entries == expected
    assert LeaderEpochCache(disk, "/d").entries == expected
