"""The Arrow decoder gives what the plain decoder gives, and never reads where it must not."""

import random
import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.records import columnar
from barnabas.records.batch import TimestampType, batch_headers, build_batch, decode_batch
from barnabas.records.columnar import ColumnarError, decode, decode_to_arrow
from barnabas.records.compression import Codec
from barnabas.records.control import ControlType, EndTransactionMarker, build_marker
from barnabas.records.record import Record

pytestmark = pytest.mark.timeout(120)  # the first run on a machine compiles

PLACE = {"topic": "orders", "partition": 3}

values = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=5), values), max_size=3)
bodies = st.tuples(st.integers(-5_000, 5_000), values, values, headers)
codecs = st.sampled_from(list(Codec))


def batch_at(base_offset, contents, **options):
    records = [
        Record(base_offset + index, 1_700_000_000_000 + delta, key, value, items)
        for index, (delta, key, value, items) in enumerate(contents)
    ]
    return build_batch(records, **options)


def simple(base_offset, count=3, **options):
    return batch_at(base_offset, [(0, b"k", b"v%d" % index, []) for index in range(count)], **options)


def rebased(batch, base_offset):
    return struct.pack(">q", base_offset) + batch[8:]


def marker(base_offset, kind, producer_id):
    batch = build_marker(
        EndTransactionMarker(kind, 0), timestamp=0, producer_id=producer_id, producer_epoch=0
    )
    return rebased(batch, base_offset)


def offsets(batch):
    return batch.column("offset").to_pylist()


def expected_rows(data):
    rows = []
    for header in batch_headers(data):
        for record in decode_batch(data, header.position):
            listed = [{"key": key, "value": value} for key, value in record.headers]
            rows.append((record.key, record.value, record.offset, record.timestamp, listed or None))
    return rows


def actual_rows(batch):
    stamps = batch.column("timestamp").cast(pa.int64()).to_pylist()
    columns = [batch.column(name).to_pylist() for name in ("key", "value", "offset")]
    return list(
        zip(*columns, (stamp // 1000 for stamp in stamps), batch.column("headers").to_pylist(), strict=True)
    )


@settings(max_examples=150)
@given(st.lists(st.tuples(st.lists(bodies, min_size=1, max_size=6), codecs), max_size=4))
def test_equals_the_plain_decoder(batches):
    data, offset = b"", 7
    for contents, codec in batches:
        data += batch_at(offset, contents, codec=codec)
        offset += len(contents) + 2

    decoded = decode(data, **PLACE, start_offset=7, include_headers=True, check_crc=True)

    decoded.batch.validate(full=True)
    assert decoded.batch.schema == columnar.SCHEMA_WITH_HEADERS
    assert actual_rows(decoded.batch) == expected_rows(data)
    assert decoded.next_offset == (offset - 2 if batches else 7)


def test_the_columns_are_those_of_sparks_kafka_source():
    batch = decode_to_arrow(simple(5, 2), **PLACE)

    assert batch.schema.names == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    ]
    assert batch.to_pylist()[1] == {
        "key": b"k", "value": b"v1", "topic": "orders", "partition": 3, "offset": 6, "timestampType": 0,
        "timestamp": batch.column("timestamp")[1].as_py(),
    }  # fmt: skip
    assert batch.column("timestamp")[0].value == 1_700_000_000_000_000


def test_log_append_time_is_the_batchs_largest_time():
    data = batch_at(
        0, [(0, None, b"a", []), (9, None, b"b", [])], timestamp_type=TimestampType.LOG_APPEND_TIME
    )
    batch = decode_to_arrow(data, **PLACE)

    assert {value.value for value in batch.column("timestamp")} == {1_700_000_000_009_000}
    assert batch.column("timestampType").to_pylist() == [1, 1]


@pytest.mark.parametrize(
    ("start", "end", "left"), [(0, 99, range(10)), (4, 99, range(4, 10)), (2, 5, range(2, 5)), (5, 5, [])]
)
def test_offsets_outside_the_range_are_cut(start, end, left):
    data = simple(0, 6) + simple(6, 4)

    assert offsets(decode_to_arrow(data, **PLACE, start_offset=start, end_offset=end)) == list(left)


def test_a_cut_off_last_batch_is_left_for_the_next_fetch():
    whole, partial = simple(0), simple(3)
    for size in (0, 10, 60, len(partial) - 1):
        decoded = decode(whole + partial[:size], **PLACE)
        assert (offsets(decoded.batch), decoded.next_offset) == ([0, 1, 2], 3)


def test_control_batches_are_dropped_but_passed():
    data = simple(0, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    data += marker(3, ControlType.COMMIT, 5)

    decoded = decode(data, **PLACE)

    assert (offsets(decoded.batch), decoded.next_offset) == ([0, 1, 2], 4)


def test_aborted_transactions_are_dropped_up_to_their_marker():
    def part(base, producer):
        return simple(base, 2, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)

    data = (
        part(0, 5)
        + part(2, 6)
        + marker(4, ControlType.ABORT, 5)
        + part(5, 5)
        + marker(7, ControlType.COMMIT, 6)
    )
    data += part(8, 6) + simple(10, 2, producer_id=6, producer_epoch=0, base_sequence=0)

    assert offsets(decode_to_arrow(data, **PLACE, aborted=[(6, 8), (5, 0)])) == [2, 3, 5, 6, 10, 11]
    assert offsets(decode_to_arrow(data, **PLACE)) == [0, 1, 2, 3, 5, 6, 8, 9, 10, 11]


def test_an_aborted_transaction_of_one_record_is_dropped():
    alone = simple(3, 1, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    data = simple(0) + alone + marker(4, ControlType.ABORT, 5) + simple(5)

    assert offsets(decode_to_arrow(data, **PLACE, aborted=[(5, 3)])) == [0, 1, 2, 5, 6, 7]


def test_a_wrong_checksum_is_found_when_asked_for():
    data = bytearray(simple(0))
    data[-2] ^= 1

    assert decode_to_arrow(data, **PLACE).num_rows == 3
    with pytest.raises(ColumnarError, match=r"byte 0 is corrupt \(stored crc"):
        decode_to_arrow(data, **PLACE, check_crc=True)


def test_old_message_formats_are_refused():
    data = bytearray(simple(0))
    data[16] = 1

    with pytest.raises(ColumnarError, match="format 0 or 1"):
        decode_to_arrow(data, **PLACE)


@pytest.mark.parametrize(
    ("position", "size", "value", "words"),
    [
        (8, 4, 20, "shorter than its own header"),
        (57, 4, -1, "count of records is negative"),
        (57, 4, 2, "bytes remain"),
        (57, 4, 4, "cannot lie in|fewer records"),
        (57, 4, 2**31 - 1, "cannot lie in"),
        (61, 1, 126, "beyond its batch"),
        (61, 1, 0, "beyond its batch"),
        (65, 1, 126, "beyond its record"),
    ],
)
def test_a_lying_length_is_an_error(position, size, value, words):
    data = bytearray(simple(0))
    data[position : position + size] = value.to_bytes(size, "big", signed=value < 0)

    with pytest.raises(ColumnarError, match=words):
        decode_to_arrow(data, **PLACE)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_damaged_compression_is_an_error(codec):
    data = bytearray(simple(0, 50, codec=codec))
    data[61:75] = b"\xff" * 14

    with pytest.raises(ColumnarError):
        decode_to_arrow(data, **PLACE)


def test_a_decompression_bomb_is_an_error(monkeypatch):
    monkeypatch.setattr(columnar, "DECODED_BYTES_MAX", 1 << 20)
    data = batch_at(0, [(0, None, bytes(1 << 21), [])], codec=Codec.GZIP)

    with pytest.raises(ColumnarError, match="more than 1048576 bytes"):
        decode_to_arrow(data, **PLACE)


def test_damage_anywhere_raises_or_decodes_but_never_crashes():
    """Ten thousand broken buffers: the compiled code has no bounds checks but its own."""
    rng = random.Random(7)
    contents = [(index, b"key", bytes(index), [("h", b"x" * index)]) for index in range(12)]
    whole = batch_at(0, contents) + batch_at(12, contents)
    for _ in range(10_000):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)))
        try:
            batch = decode_to_arrow(data, **PLACE, include_headers=rng.random() < 0.5)
        except ColumnarError:
            continue
        batch.validate(full=True)


def test_header_keys_that_are_not_utf8_become_replacement_characters():
    data = bytearray(batch_at(0, [(0, None, b"v", [("key", b"x")])]))
    at = bytes(data).index(b"key")
    data[at] = 0xFF

    batch = decode_to_arrow(data, **PLACE, include_headers=True)

    assert batch.column("headers").to_pylist() == [[{"key": "�ey", "value": b"x"}]]


def test_reads_memoryviews_and_empty_buffers():
    data = b"xx" + simple(0)

    assert decode_to_arrow(memoryview(data)[2:], **PLACE).num_rows == 3
    assert decode_to_arrow(memoryview(b""), **PLACE).num_rows == 0


def large(base_offset, number):
    """More than a block's smallest size, each with bytes of its own."""
    return batch_at(base_offset, [(0, b"k%d" % number, b"%03d" % (number + n) * 1000, []) for n in range(50)])


def test_batches_that_are_kept_stay_as_they_are():
    pieces = [large(100 * n, n) for n in range(30)]
    kept = [
        decode_to_arrow(piece, topic="t", partition=n, include_headers=True) for n, piece in enumerate(pieces)
    ]

    for n, (piece, batch) in enumerate(zip(pieces, kept, strict=True)):
        assert actual_rows(batch) == expected_rows(piece)
        assert batch.column("partition").unique().to_pylist() == [n]
        batch.validate(full=True)


def test_memory_of_a_batch_that_is_gone_is_used_again():
    def address():
        return decode_to_arrow(large(0, 0), topic="t", partition=0).column("offset").buffers()[1].address

    assert len({address() for _ in range(10)}) == 1


@pytest.mark.parametrize("count", [1, 2, 3, 64, columnar.KEPT_ROWS_MAX, columnar.KEPT_ROWS_MAX + 1])
def test_every_row_names_its_topic_and_partition_whatever_their_number(count):
    for topic, partition in (("orders", 3), ("bills", 4), ("orders", 3)):
        batch = decode_to_arrow(simple(0, count), topic=topic, partition=partition)
        assert batch.num_rows == count
        assert batch.column("topic").unique().to_pylist() == [topic]
        assert batch.column("partition").unique().to_pylist() == [partition]
