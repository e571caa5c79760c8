import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.log.descriptors import DescriptorCache
from barnabas.log.index import IndexCorruptError, OffsetIndex, TimeIndex
from barnabas.testing.disk import SimulatedFilesystem


def make(kind, bytes_max=1 << 20, base=1000):
    disk = SimulatedFilesystem()
    disk.mkdir("/d")
    index = kind(DescriptorCache(disk, limit=1), "/d/index", base, 0, bytes_max)
    index.preallocate()
    return disk, index


@settings(max_examples=25)
@given(
    steps=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=40),
    repeat=st.sampled_from([1, 100]),
    targets=st.lists(st.integers(900, 60_000), min_size=1, max_size=20),
)
def test_offset_look_up_is_the_greatest_entry_at_or_below(steps, repeat, targets):
    _, index = make(OffsetIndex)
    entries = []
    offset, position = 1000, 0
    for step, size in steps * repeat:
        offset += step
        position += size
        index.append(offset, position)
        entries.append((offset, position))

    for target in targets:
        below = [entry for entry in entries if entry[0] <= target]
        assert index.lookup(target) == (below[-1] if below else (1000, 0))


def test_look_ups_in_an_index_larger_than_one_read():
    _, index = make(OffsetIndex)
    for number in range(20_000):
        index.append(1001 + 2 * number, number * 10)

    for number in (0, 1, 7, 4095, 10_000, 18_975, 18_976, 19_999):
        assert index.lookup(1001 + 2 * number) == (1001 + 2 * number, number * 10)
        assert index.lookup(1002 + 2 * number) == (1001 + 2 * number, number * 10)
    assert index.lookup(1000) == (1000, 0)


def test_bytes_are_kafkas():
    disk, index = make(OffsetIndex, bytes_max=100)
    index.append(1009, 4200)

    assert len(disk.read("/d/index")) == 96, "preallocated, rounded down to whole entries"
    index.trim()
    assert disk.read("/d/index") == struct.pack(">ii", 9, 4200)

    disk, times = make(TimeIndex, bytes_max=100)
    times.maybe_append(5_000_000_000, 1009)
    times.maybe_append(5_000_000_000, 1010)
    times.trim()
    assert disk.read("/d/index") == struct.pack(">qi", 5_000_000_000, 9)


def test_time_look_up():
    _, index = make(TimeIndex)
    for number in range(2000):
        index.maybe_append(10 * number, 1001 + number)

    assert index.lookup(55) == (50, 1006)
    assert index.lookup(50) == (50, 1006)
    assert index.lookup(1 << 40) == (19_990, 3000)
    assert index.lookup(-1) == (-1, 1000)
    assert index.last() == (19_990, 3000)


def test_truncation_forgets_from_the_offset_on():
    _, index = make(OffsetIndex)
    _, times = make(TimeIndex)
    for number in range(10):
        index.append(1010 + 10 * number, 100 * number)
        times.maybe_append(number, 1010 + 10 * number)

    index.truncate_to(1050)
    times.truncate_to(1051)
    assert (index.entries, index.lookup(5000)) == (4, (1040, 300))
    assert (times.entries, times.last()) == (5, (4, 1050))
    index.truncate_to(1000)
    times.truncate_to(1000)
    assert (index.entries, times.entries, times.last()) == (0, 0, (-1, 1000))


def test_fullness():
    _, index = make(OffsetIndex, bytes_max=16)
    _, times = make(TimeIndex, bytes_max=24)
    index.append(1001, 1)
    assert not index.is_full
    assert not times.is_full
    index.append(1002, 2)
    times.maybe_append(1, 1001)
    assert index.is_full
    assert times.is_full, "one place stays free for the entry that closing adds"
    times.maybe_append(2, 1002)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (OffsetIndex, b"\0" * 9),
        (OffsetIndex, struct.pack(">ii", -1, 5)),
        (TimeIndex, b"\0" * 13),
        (TimeIndex, struct.pack(">qiqi", 9, 1, 8, 2)),
        (TimeIndex, struct.pack(">qi", 9, -1)),
    ],
)
def test_files_that_cannot_be_an_index(kind, data):
    disk = SimulatedFilesystem()
    disk.mkdir("/d")
    disk.write_atomic("/d/index", data)
    index = kind(DescriptorCache(disk), "/d/index", 0, len(data) // kind.ENTRY.size, 1 << 20)

    with pytest.raises(IndexCorruptError):
        index.sanity_check(len(data))


def test_the_descriptor_cache_is_bounded_and_keeps_the_recent():
    disk = SimulatedFilesystem()
    disk.mkdir("/d")
    cache = DescriptorCache(disk, limit=2)
    first = cache.open("/d/a", create=True)
    cache.open("/d/b", create=True)
    assert cache.open("/d/a") is first
    cache.open("/d/c", create=True)

    assert len(cache) == 2
    assert cache.open("/d/a") is first
    cache.forget("/d/a")
    assert cache.open("/d/a") is not first
    cache.clear()
    assert len(cache) == 0


def test_more_entries_than_there_is_room_for_are_kept_and_closed():
    """Recovery places entries again and may come to more than appending did; found by simulation seed 12."""
    for kind, entry in ((OffsetIndex, ">ii"), (TimeIndex, ">qi")):
        disk = SimulatedFilesystem()
        disk.mkdir("/d")
        recovered = b"".join(struct.pack(entry, number, number) for number in range(1, 14))
        disk.open("/d/index", create=True).pwrite(recovered, 0)
        index = kind(DescriptorCache(disk, limit=1), "/d/index", 0, 13, 5 * struct.calcsize(entry))
        index.preallocate()
        assert index.is_full
        assert index.lookup(13) == (13, 13)
    index.maybe_append(14, 14)
    assert index.last() == (14, 14)
