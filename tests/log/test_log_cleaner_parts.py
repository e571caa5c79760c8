"""The parts of the cleaner by themselves: the offset map, the frames of records, the groups of segments."""

import struct
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barnabas.core.errors import KafkaError
from barnabas.log.cleaner.filtering import BatchFilter
from barnabas.log.cleaner.frames import frames_of, later_base, timestamp_delta
from barnabas.log.cleaner.grouping import group_segments
from barnabas.log.cleaner.offset_map import KEYLESS, SLOT_BYTES, OffsetMap, fingerprints
from barnabas.log.cleaner.transactions import CleanedTransactions
from barnabas.log.txn_index import AbortedTxn
from barnabas.records.batch import HEADER_SIZE, build_batch, parse_header
from barnabas.records.control import ControlType, EndTransactionMarker, build_marker
from barnabas.records.record import Record, decode_records, make_record

KEYS = st.binary(max_size=40)


@given(st.lists(st.lists(st.none() | KEYS, max_size=9), max_size=8), st.lists(KEYS, max_size=20))
def test_the_map_says_what_a_dictionary_says(batches, others):
    offsets = OffsetMap(80 * SLOT_BYTES, 1.0)  # nearly full, so that keys step over each other
    known = {}
    for base_offset, keys in enumerate(batches):
        base_offset <<= 33
        offsets.put(keys, range(len(keys)), base_offset)
        known |= {key: base_offset + delta for delta, key in enumerate(keys) if key is not None}

    assert offsets.size == len(known)
    keys = [*known, *others]
    assert offsets.last_offsets(keys) == [known.get(key, -1) for key in keys]
    assert offsets.last_offsets([None]) == [KEYLESS]


def test_a_map_is_full_before_its_last_slot_is_taken():
    offsets = OffsetMap(10 * SLOT_BYTES, 1.0)
    keys = [b"%d" % number for number in range(9)]
    assert offsets.fits(keys)
    assert not offsets.fits([*keys, b"one more"])
    assert offsets.fits([*keys, *keys, None]), "a key that comes twice takes one slot"
    offsets.put(keys, range(9), 0)

    assert offsets.fits(keys)
    assert not offsets.fits([b"one more"])
    assert offsets.last_offsets([b"not there", b"8"]) == [-1, 8]


def test_what_lies_behind_the_end_of_the_map_is_not_judged():
    batch = build_batch([Record(7, 0, None, b"without a key", [])])
    offsets = OffsetMap(10 * SLOT_BYTES, 1.0)
    judge = BatchFilter(offsets, CleanedTransactions([]), {}, now_ms=0, delete_retention_ms=0)

    offsets.latest_offset = 6
    assert judge.filter(batch, parse_header(batch)) == batch
    offsets.latest_offset = 7
    assert judge.filter(batch, parse_header(batch)) is None


@given(st.lists(KEYS, unique=True, max_size=30))
def test_keys_have_fingerprints_of_their_own(keys):
    prints = set(fingerprints(keys))

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

    starts = frames.starts
    times = [timestamp_delta(section, start) + first.timestamp for start in starts[:-1]]
    found = zip([delta + first.offset for delta in frames.offset_deltas], times, frames.keys, strict=True)
    assert list(found) == [(record.offset, record.timestamp, record.key) for record in records]
    assert frames.tombstones == [number for number, record in enumerate(records) if record.value is None]
    alone = [section[start:end] for start, end in pairwise(starts)]
    moved = b"".join(later_base(record, shift_ms) for record in alone)
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


class Index:
    ENTRY = struct.Struct(">QH")

    def __init__(self, entries):
        self.entries = entries


class Segment:
    def __init__(self, base_offset, size, entries=1, time_entries=1):
        self.base_offset = base_offset
        self.size = size
        self.index = Index(entries)
        self.time_index = Index(time_entries)


def groups(segments, *, size_max=100, index_bytes_max=1000, end_offset=10**10):
    found = group_segments(
        segments, size_max=size_max, index_bytes_max=index_bytes_max, end_offset=end_offset
    )
    return [[segment.base_offset for segment in group] for group in found]


def test_groups_end_where_bytes_indexes_or_offsets_would_not_fit_into_one_segment():
    assert groups([Segment(0, 60), Segment(1, 40), Segment(2, 1)], end_offset=3) == [[0, 1], [2]]
    assert groups([Segment(0, 1, 50), Segment(1, 1, 50), Segment(2, 1, 1)], end_offset=3) == [[0, 1], [2]]
    assert groups([Segment(0, 1, 1, 50), Segment(1, 1, 1, 50), Segment(2, 1, 1, 1)], end_offset=3) == [
        [0, 1],
        [2],
    ]
    assert groups([Segment(0, 1), Segment(5, 1)], end_offset=2**31) == [[0, 5]]
    assert groups([Segment(0, 1), Segment(5, 1)], end_offset=2**31 + 1) == [[0], [5]]
    # An empty segment has no offsets of its own.
    assert groups([Segment(0, 1), Segment(5, 0)], end_offset=2**40) == [[0, 5]]
    assert groups([]) == []


class Transaction:
    """One of a log, as an outsider sees it:
    which batches of it there were and which an earlier cleaning has left.
    """

    def __init__(self, producer_id, first_offset):
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.is_aborted = False
        self.records_left = False


@given(
    st.lists(
        st.tuples(st.integers(1, 2), st.sampled_from(["data", "data that is gone", "commit", "abort"])),
        max_size=20,
    )
)
@example([(1, "data"), (1, "abort"), (1, "data that is gone"), (1, "abort")])
@example([(1, "data"), (1, "commit"), (1, "data that is gone"), (1, "commit")])
def test_a_marker_goes_with_the_last_records_of_its_own_transaction(steps):
    batches, aborted, running = [], [], {}
    for offset, (producer_id, kind) in enumerate(steps):
        if kind in {"commit", "abort"}:
            transaction = running.pop(producer_id, None)
            if transaction is not None and kind == "abort":
                transaction.is_aborted = True
                aborted.append(AbortedTxn(producer_id, transaction.first_offset, offset, offset + 1))
        else:
            transaction = running.setdefault(producer_id, Transaction(producer_id, offset))
            transaction.records_left = transaction.records_left or kind == "data"
        batches.append((kind, transaction))

    cleaned, kept = CleanedTransactions(aborted), []
    for offset, (producer_id, _) in enumerate(steps):
        kind, transaction = batches[offset]
        if kind == "data":
            batch = build_batch(
                [Record(offset, 0, b"k", b"v", [])], producer_id=producer_id, transactional=True
            )
            assert cleaned.on_batch(parse_header(batch)) == transaction.is_aborted
        elif kind in {"commit", "abort"}:
            marker = EndTransactionMarker(ControlType[kind.upper()], 0)
            batch = build_marker(marker, timestamp=0, producer_id=producer_id, producer_epoch=0)
            header = parse_header(batch)
            header.base_offset = offset
            may_go = transaction is None or not transaction.records_left
            assert cleaned.on_control_batch(batch, header) == may_go, (offset, steps)
            if kind == "abort" and not may_go:
                kept.append((producer_id, transaction.first_offset))
    assert [(txn.producer_id, txn.first_offset) for txn in cleaned.retained] == kept
