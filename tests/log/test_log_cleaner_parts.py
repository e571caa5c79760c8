"""The parts of the cleaner by themselves: the offset map, the frames of records, the groups of segments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.errors import KafkaError
from barnabas.log.cleaner.frames import frames_of, later_base
from barnabas.log.cleaner.grouping import group_segments
from barnabas.log.cleaner.offset_map import SLOT_BYTES, OffsetMap, fingerprint
from barnabas.records.batch import HEADER_SIZE, build_batch
from barnabas.records.record import Record, decode_records, make_record

KEYS = st.binary(max_size=40)
NUMBERS = st.integers(0, 2**40)


@given(st.lists(st.tuples(KEYS, NUMBERS), max_size=60), st.lists(KEYS, max_size=20))
def test_the_map_says_what_a_dictionary_says(pairs, others):
    offsets = OffsetMap(64 * SLOT_BYTES, 1.0)  # nearly full, so that keys step over each other
    for key, offset in pairs:
        offsets.put(key, offset)
    known = dict(pairs)

    assert offsets.size == len(known)
    for key in [*known, *others]:
        assert offsets.get(key) == known.get(key, -1)


def test_a_map_is_full_before_its_last_slot_is_taken():
    offsets = OffsetMap(10 * SLOT_BYTES, 1.0)
    count = 0
    while not offsets.is_full:
        offsets.put(b"%d" % count, count)
        count += 1

    assert count == 9
    assert offsets.get(b"not there") == -1


@given(st.lists(KEYS, unique=True, max_size=30))
def test_keys_have_fingerprints_of_their_own(keys):
    prints = {fingerprint(key) for key in keys}

    assert len(prints) == len(keys)
    assert {len(each) for each in prints} <= {16}


RECORDS = st.lists(
    st.builds(
        Record,
        st.integers(0, 2**31 - 1),
        st.integers(-1, 2**42),
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=300),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2),
    ),
    min_size=1,
    max_size=20,
)


@given(RECORDS, st.integers(-(2**40), 2**41))
def test_frames_say_where_records_are_and_what_they_hold(records, shift_ms):
    first = min(records, key=lambda record: record.offset)
    records = [first, *(record for record in records if record is not first)]
    section = build_batch(records)[HEADER_SIZE:]

    frames = frames_of(section, len(records))

    found = [(f.offset_delta + first.offset, f.timestamp_delta + first.timestamp, f.key) for f in frames]
    assert found == [(record.offset, record.timestamp, record.key) for record in records]
    assert [f.has_value for f in frames] == [record.value is not None for record in records]
    moved = b"".join(later_base(section, frame, shift_ms) for frame in frames)
    shifted = decode_records(make_record, moved, len(records), first.offset, first.timestamp + shift_ms)
    assert [(*record[:4], list(record.headers)) for record in shifted] == [
        (*record[:4], list(record.headers)) for record in records
    ]


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_section_that_is_cut_is_refused(cut):
    section = build_batch([Record(0, 0, b"key", b"value" * 5)])[HEADER_SIZE:]

    with pytest.raises(KafkaError, match="invalid record structure"):
        frames_of(section[:-cut], 1)
    with pytest.raises(KafkaError, match="after the last"):
        frames_of(section * 2, 1)


class Segment:
    def __init__(self, base_offset, size, entries=1):
        self.base_offset = base_offset
        self.size = size
        self.index = self.time_index = self
        self.entries = entries

    ENTRY = type("Entry", (), {"size": 10})


def groups(segments, *, size_max=100, index_bytes_max=1000, end_offset=10**10):
    found = group_segments(
        segments, size_max=size_max, index_bytes_max=index_bytes_max, end_offset=end_offset
    )
    return [[segment.base_offset for segment in group] for group in found]


def test_groups_end_where_bytes_indexes_or_offsets_would_not_fit_into_one_segment():
    assert groups([Segment(0, 60), Segment(1, 40), Segment(2, 1)], end_offset=3) == [[0, 1], [2]]
    assert groups([Segment(0, 1, 50), Segment(1, 1, 50), Segment(2, 1, 1)], end_offset=3) == [[0, 1], [2]]
    assert groups([Segment(0, 1), Segment(5, 1)], end_offset=2**31) == [[0, 5]]
    assert groups([Segment(0, 1), Segment(5, 1)], end_offset=2**31 + 1) == [[0], [5]]
    # An empty segment has no offsets of its own.
    assert groups([Segment(0, 1), Segment(5, 0)], end_offset=2**40) == [[0, 5]]
    assert groups([]) == []
