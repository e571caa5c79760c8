import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.types import ConsumerRecord
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.records.batch import (
    HEADER_SIZE,
    SEQUENCE_MAX,
    TimestampType,
    batch_headers,
    build_batch,
    decode_batch,
    has_valid_crc,
    parse_header,
    stamp,
    stamp_timestamps,
)
from barnabas.records.compression import Codec
from barnabas.records.record import (
    Record,
    decode_keys_and_values,
    decode_records,
    decode_varint,
    encode_record,
    encode_varint,
    make_record,
    offsets_are_consecutive,
    placed_maker,
)

few = settings(max_examples=40)
int64 = st.integers(-(2**63), 2**63 - 1)
timestamps = st.integers(-1, 2**53)
payload = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=20), payload), max_size=4)
contents = st.lists(st.tuples(timestamps, payload, payload, headers), min_size=1, max_size=20)


def records_of(content, base=0):
    return [Record(base + place, *fields) for place, fields in enumerate(content)]


def plain(records):
    return [record._replace(headers=list(record.headers)) for record in records]


@few
@given(value=int64)
def test_varints_round_trip(value):
    data = encode_varint(value)

    assert len(data) <= 10
    assert decode_varint(data, 0) == (value, len(data))


def test_varint_without_end():
    with pytest.raises(ValueError, match="64 bits"):
        decode_varint(b"\xff" * 20, 0)
    with pytest.raises(IndexError):
        decode_varint(b"\xff", 0)


@few
@given(content=contents, codec=st.sampled_from(list(Codec)), base=st.integers(0, 2**40))
def test_batches_round_trip(content, codec, base):
    records = records_of(content, base)
    batch = build_batch(records, codec=codec)

    assert plain(decode_batch(batch)) == plain(records)
    assert has_valid_crc(batch, parse_header(batch))


def test_kafka_python_reads_ours_and_we_read_theirs():
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

    ours = build_batch(
        [Record(place, 1000 + place, b"k", b"v%d" % place, [("h", b"1"), ("n", None)]) for place in range(5)],
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
        transactional=True,
    )
    theirs = DefaultRecordBatch(ours)
    assert theirs.validate_crc()
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (7, 3, 11)
    assert theirs.is_transactional
    assert [(record.offset, record.timestamp, record.value) for record in theirs] == [
        (place, 1000 + place, b"v%d" % place) for place in range(5)
    ]

    builder = DefaultRecordBatchBuilder(2, 0, False, 7, 3, 11, 1 << 20)
    for place in range(5):
        headers = [("h", b"1"), ("n", None)]
        builder.append(place, timestamp=1000 + place, key=b"k", value=b"v%d" % place, headers=headers)
    assert plain(decode_batch(bytes(builder.build()))) == plain(decode_batch(ours))


def test_header_fields():
    batch = build_batch(
        [Record(100, 5, b"a", b"b"), Record(103, 3, None, None)],
        codec=Codec.GZIP,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        producer_id=9,
        producer_epoch=2,
        base_sequence=SEQUENCE_MAX,
        transactional=True,
        control=True,
        leader_epoch=6,
    )
    header = parse_header(b"xyz" + batch, 3)

    assert (header.base_offset, header.last_offset, header.next_offset) == (100, 103, 104)
    assert (header.size, header.position, header.end) == (len(batch), 3, 3 + len(batch))
    assert (header.base_timestamp, header.max_timestamp, header.count) == (5, 5, 2)
    assert header.codec is Codec.GZIP
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.is_control
    assert header.is_transactional
    assert header.delete_horizon_ms is None
    assert (header.leader_epoch, header.magic) == (6, 2)
    assert header.last_sequence == 2, "sequences wrap from 2^31-1 to 0"


def test_stamp_leaves_the_checksum_alone():
    batch = bytearray(b"......" + build_batch([Record(0, 1, b"k", b"v")]))
    before = parse_header(batch, 6)
    stamp(batch, parse_header(batch, 6), 2**40, 17)
    after = parse_header(batch, 6)

    assert (after.base_offset, after.leader_epoch) == (2**40, 17)
    assert after.crc == before.crc
    assert has_valid_crc(batch, after)
    assert decode_batch(batch, 6)[0].offset == 2**40


def test_append_time_replaces_every_timestamp():
    batch = bytearray(build_batch([Record(0, 1, b"k", b"v"), Record(1, 2, b"k", b"v")]))
    stamp_timestamps(batch, parse_header(batch), TimestampType.LOG_APPEND_TIME, 99)

    assert has_valid_crc(batch, parse_header(batch))
    assert [record.timestamp for record in decode_batch(batch)] == [99, 99]


def test_headers_of_several_batches_leave_out_a_cut_one():
    one = build_batch([Record(0, 1, None, b"v")])
    data = one * 3 + one[:-1]

    assert [header.position for header in batch_headers(data)] == [0, len(one), 2 * len(one)]
    assert list(batch_headers(one[:HEADER_SIZE])) == []


def test_a_batch_that_compaction_has_emptied_is_a_header_and_nothing_else():
    one = build_batch([Record(0, 1, None, b"v")])
    emptied = bytearray(one[:HEADER_SIZE])
    struct.pack_into(">i", emptied, 8, HEADER_SIZE - 12)
    struct.pack_into(">i", emptied, 57, 0)

    assert [header.count for header in batch_headers(one + emptied)] == [1, 0]
    assert [header.size for header in batch_headers(emptied)] == [parse_header(emptied).size]


def test_a_length_that_no_batch_can_have():
    data = bytearray(build_batch([Record(0, 1, None, b"v")]))
    for length in (10, HEADER_SIZE - 12 - 1):
        struct.pack_into(">i", data, 8, length)
        with pytest.raises(KafkaError) as caught:
            list(batch_headers(data))
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_any_flipped_bit_behind_the_crc_is_found():
    batch = build_batch([Record(0, 1, b"key", b"value")])
    for place in range(21, len(batch)):
        damaged = bytearray(batch)
        damaged[place] ^= 1
        assert not has_valid_crc(damaged, parse_header(damaged))


@pytest.mark.parametrize("count", [0, 1, 3, 2**31 - 1, -1])
def test_a_count_that_lies(count):
    batch = bytearray(build_batch([Record(0, 1, b"k", b"v"), Record(1, 1, b"k", b"v")]))
    struct.pack_into(">i", batch, 57, count)

    with pytest.raises(KafkaError) as caught:
        decode_batch(batch)
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("kind", [TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME])
def test_a_placed_record_has_the_type_of_its_time(kind):
    """In the compiled form it was a plain number, and `print.timestamp` asked it for its label."""
    make = placed_maker(ConsumerRecord, "t", 3, kind, 5)
    [found] = decode_records(make, encode_record(0, 0, b"k", b"v"), 1, 7, 1_000)
    assert found == ConsumerRecord("t", 3, 7, 1_000, kind, b"k", b"v", (), 5)
    assert found.timestamp_type is kind


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8191, 8192, 20_000])
def test_lengths_and_deltas_of_one_two_and_three_bytes(size):
    records = [
        Record(7, 1_000, bytes(size), None),
        Record(7 + size, 1_000 + size, None, bytes(size), [("k", bytes(size))]),
    ]

    assert plain(decode_batch(build_batch(records))) == plain(records)


@few
@given(content=contents)
def test_a_load_reads_the_same_keys_and_values(content):
    batch = build_batch(records_of(content))

    pairs = decode_keys_and_values(batch[HEADER_SIZE:], len(content))

    assert pairs == [(record.key, record.value) for record in decode_batch(batch)]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_load_finds_a_count_that_lies(count):
    batch = build_batch([Record(0, 1, b"k", b"v"), Record(1, 1, b"k", b"v")])

    with pytest.raises(KafkaError) as caught:
        decode_keys_and_values(batch[HEADER_SIZE:], count)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_negative_deltas_are_subtracted():
    sent = [Record(-3, -2, None, b"v"), Record(-70, -9000, None, b"w")]
    section = b"".join(encode_record(*one) for one in sent)

    assert plain(decode_records(make_record, section, 2, 0, 0)) == plain(sent)


@pytest.mark.parametrize("length", [b"\x03", b"\xff\x7f", b"\xff\xff\x7f"])
def test_a_record_of_a_negative_length_is_refused(length):
    record = encode_record(0, 0, None, b"v")

    with pytest.raises(KafkaError) as caught:
        decode_records(make_record, length + record[1:] + bytes(9000), 1, 0, 0)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_minus_one_is_the_only_length_of_nothing():
    record = bytearray(encode_record(0, 0, None, b"v"))
    assert record[4] == 1, "the length of the key, -1"
    assert decode_records(make_record, bytes(record), 1, 0, 0)[0].key is None
    record[4] = 3

    with pytest.raises(KafkaError) as caught:
        decode_records(make_record, bytes(record), 1, 0, 0)
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("wrong_by", [-1, 1])
def test_a_records_length_is_that_of_its_content(wrong_by):
    """Also where another record follows, so that there are bytes enough."""
    records = bytearray(encode_record(0, 0, None, b"v") + encode_record(0, 1, None, b"v"))
    assert len(decode_records(make_record, bytes(records), 2, 0, 0)) == 2
    records[0] += 2 * wrong_by  # zigzag

    with pytest.raises(KafkaError) as caught:
        decode_records(make_record, bytes(records), 2, 0, 0)
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("offsets", "consecutive"), [((7, 8), True), ((7, 9), False), ((8, 9), False)])
def test_a_gap_between_offsets_is_found(offsets, consecutive):
    records = [Record(offset, 1, None, b"v") for offset in offsets]

    assert offsets_are_consecutive(records, 7) is consecutive


@few
@given(data=st.binary(max_size=60), count=st.integers(0, 10))
def test_garbage_never_does_more_than_raise(data, count):
    with contextlib.suppress(KafkaError):
        assert len(decode_records(make_record, data, count, 0, 0)) == count


@few
@given(place=st.integers(0, 40), byte=st.integers(0, 255))
def test_a_damaged_record_never_does_more_than_raise(place, byte):
    record = bytearray(encode_record(0, 0, b"key", b"value", [("name", b"content"), ("null", None)]))
    record[place % len(record)] = byte
    with contextlib.suppress(KafkaError):
        assert len(decode_records(make_record, bytes(record), 1, 0, 0)) == 1


def test_a_batch_longer_than_its_bytes():
    batch = build_batch([Record(0, 1, b"k", b"v")])

    with pytest.raises(KafkaError) as caught:
        decode_batch(batch[:-1])
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(KafkaError) as caught:
        parse_header(batch[:60])
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_bomb_inside_a_batch_is_bounded():
    batch = build_batch([Record(0, 1, b"k", bytes(1_000_000))], codec=Codec.ZSTD)

    with pytest.raises(KafkaError) as caught:
        decode_batch(batch, limit=10_000)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_nothing_makes_no_batch():
    with pytest.raises(ValueError, match="at least one"):
        build_batch([])
