"""What a leader accepts, changes and refuses (LogValidator's answers)."""

import struct

import pytest
from log_world import NOW_MS, TP, batch, fill, values_of

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import in_one_piece
from barnabas.log.producers import AppendOrigin
from barnabas.log.results import UnexpectedAppendOffsetError
from barnabas.log.validator import RECORDS_AT_ONCE, HeavyBatchError
from barnabas.records.batch import (
    HEADER_SIZE,
    TimestampType,
    batch_headers,
    build_batch,
    compute_crc,
    decode_batch,
    has_valid_crc,
    parse_header,
)
from barnabas.records.compression import Codec
from barnabas.records.record import Record


def refused(log, records, **options):
    """The code that the append is answered with; nothing may have changed."""
    before = (log.log_end_offset, log.size, len(log.producers))
    with pytest.raises(KafkaError) as caught:
        log.append(records, 0, NOW_MS, **options)
    assert (log.log_end_offset, log.size, len(log.producers)) == before
    return caught.value.code


def with_field(records, layout, position, value):
    """The batch with one header field overwritten and a checksum that fits."""
    struct.pack_into(layout, records, position, value)
    struct.pack_into(">I", records, 17, compute_crc(records, parse_header(records)))
    return records


def test_offsets_and_epochs_are_stamped(world):
    log = world.log()
    first = log.append(batch(3), 5, NOW_MS)
    second = log.append(batch(2), 6, NOW_MS)

    assert (first.first_offset, first.last_offset, first.duplicate) == (0, 2, False)
    assert (second.first_offset, second.last_offset) == (3, 4)
    assert first.max_timestamp == NOW_MS + 2
    assert first.log_append_time == -1
    assert log.log_end_offset == 5
    data = log.read(0, 1 << 20).records.read()
    headers = list(batch_headers(data))
    assert [(header.base_offset, header.leader_epoch) for header in headers] == [(0, 5), (3, 6)]
    assert all(has_valid_crc(data, header) for header in headers)
    assert log.leader_epochs.entries == ((5, 0), (6, 3))


def test_the_buffer_may_be_a_view_into_a_frame(world):
    log = world.log()
    frame = bytearray(b"header") + batch(2)
    log.append(memoryview(frame)[6:], 0, NOW_MS)

    assert [offset for offset, _ in values_of(log)] == [0, 1]


@pytest.mark.parametrize("damage", [17, 25, 61, 70])
def test_a_bad_checksum_is_corrupt(world, damage):
    records = batch()
    records[damage] ^= 0x40

    assert refused(world.log(), records) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1, 3, -1])
def test_another_magic_is_corrupt(world, magic):
    records = batch()
    struct.pack_into(">b", records, 16, magic)

    assert refused(world.log(), records) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [0, 48, -1, 1000])
def test_a_length_that_lies_is_corrupt(world, length):
    records = batch()
    struct.pack_into(">i", records, 8, length)

    assert refused(world.log(), records) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("size", [0, 5, 60])
def test_less_than_a_header_is_corrupt(world, size):
    assert refused(world.log(), batch()[:size]) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("layout", "position", "value"),
    [
        (">i", 57, 2),
        (">i", 57, 0),
        (">i", 57, -1),
        (">i", 23, 4),
        (">i", 23, -1),
        (">q", 43, 12),
        (">q", 0, 1),
    ],
    ids=["count+", "count0", "count-", "delta+", "delta-", "producer without sequence", "base offset"],
)
def test_headers_that_lie_are_invalid_records(world, layout, position, value):
    records = with_field(batch(3), layout, position, value)

    assert refused(world.log(), records) is ErrorCode.INVALID_RECORD


def test_clients_may_not_write_control_records(world):
    log = world.log()
    control = bytearray(build_batch([Record(0, 1, b"\0\0\0\1", b"\0" * 6)], control=True))

    assert refused(log, control) is ErrorCode.INVALID_RECORD
    assert log.append(control, 0, NOW_MS, origin=AppendOrigin.COORDINATOR).last_offset == 0


def test_two_batches_in_one_append_are_invalid(world):
    assert refused(world.log(), batch() + batch()) is ErrorCode.INVALID_RECORD


def test_max_message_bytes(world):
    records = batch(size=1000)
    log = world.log(max_message_bytes=len(records) - 1)
    assert refused(log, records) is ErrorCode.MESSAGE_TOO_LARGE
    world.log(max_message_bytes=len(records)).append(records, 0, NOW_MS)


def test_a_batch_as_large_as_a_segment_is_taken_and_one_byte_more_is_not(world):
    size = len(batch(size=200))
    assert refused(world.log(segment_bytes=size - 1), batch(size=200)) is ErrorCode.RECORD_LIST_TOO_LARGE
    log = fill(world.log(TP._replace(partition=1), segment_bytes=size), 2, size=200)

    assert [segment.size for segment in log.segments] == [size, size]


def test_an_unknown_codec_is_corrupt(world):
    assert refused(world.log(), with_field(batch(), ">h", 21, 5)) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", list(Codec))
def test_compacted_topics_need_keys(world, codec):
    log = world.log(cleanup_policy=("compact",))
    fill(log, 1, 2, codec=codec)

    assert refused(log, batch(2, key=None, codec=codec)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("validate", [True, False])
def test_records_are_walked_only_when_asked(world, validate):
    log = world.log(validate_records=validate)
    records = with_field(batch(2), ">i", 57, 3)
    with_field(records, ">i", 23, 2)
    if validate:
        assert refused(log, records) is ErrorCode.INVALID_RECORD
    else:
        assert log.append(records, 0, NOW_MS).last_offset == 2


def test_a_producer_may_not_set_append_time(world):
    records = batch(timestamp_type=TimestampType.LOG_APPEND_TIME)

    assert refused(world.log(), records) is ErrorCode.INVALID_TIMESTAMP


def test_a_topic_with_append_time_takes_a_batch_that_says_so_itself(world):
    log = world.log(message_timestamp_type="LogAppendTime")
    log.append(batch(timestamp=5, timestamp_type=TimestampType.LOG_APPEND_TIME), 0, NOW_MS)

    assert parse_header(log.read(0, 1000).records.read()).max_timestamp == NOW_MS


def test_a_heavy_batch_of_a_coordinator_is_appended_at_once(world):
    """Only what a client sent is looked at elsewhere first."""
    log = world.log(message_timestamp_before_max_ms=1000)
    heavy = batch(RECORDS_AT_ONCE + 1, size=1, codec=Codec.ZSTD)
    with pytest.raises(HeavyBatchError):
        log.append(bytearray(heavy), 0, NOW_MS)

    assert log.append(heavy, 0, NOW_MS, origin=AppendOrigin.COORDINATOR).last_offset == RECORDS_AT_ONCE


def test_log_append_time(world):
    log = world.log(message_timestamp_type="LogAppendTime")
    info = log.append(batch(2, timestamp=5), 0, NOW_MS)
    data = log.read(0, 1000).records.read()

    assert info.log_append_time == info.max_timestamp == NOW_MS
    assert [record.timestamp for record in decode_batch(data)] == [NOW_MS, NOW_MS]
    assert has_valid_crc(data, parse_header(data))


@pytest.mark.parametrize("codec", list(Codec))
def test_timestamp_limits(world, codec):
    log = world.log(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)
    log.append(batch(timestamp=NOW_MS - 1000, codec=codec), 0, NOW_MS)
    log.append(batch(timestamp=NOW_MS + 500, codec=codec), 0, NOW_MS)

    assert refused(log, batch(timestamp=NOW_MS - 1001, codec=codec)) is ErrorCode.INVALID_TIMESTAMP
    assert refused(log, batch(timestamp=NOW_MS + 501, codec=codec)) is ErrorCode.INVALID_TIMESTAMP
    assert refused(log, batch(2, timestamp=NOW_MS + 500, codec=codec)) is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_compresses_its_own_way(world, source, target):
    log = world.log(compression_type=target)
    sent = batch(20, size=100, codec=source, producer_id=4, producer_epoch=1, base_sequence=0)
    wanted = decode_batch(sent)
    log.append(sent, 3, NOW_MS)
    data = log.read(0, 1 << 20).records.read()
    header = parse_header(data)

    assert header.codec is (Codec.NONE if target == "uncompressed" else Codec.named(target))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 1, 0)
    assert header.leader_epoch == 3
    assert decode_batch(data) == wanted
    assert has_valid_crc(data, header)


def test_a_batch_that_is_compressed_as_its_topic_wants_keeps_its_bytes(world):
    log = world.log(compression_type="gzip")
    sent = batch(200, size=100, codec=Codec.GZIP, level=1)
    section = bytes(sent[HEADER_SIZE:])
    assert section != bytes(batch(200, size=100, codec=Codec.GZIP)[HEADER_SIZE:])
    log.append(sent, 0, NOW_MS)

    assert log.read(0, 1 << 20).records.read()[HEADER_SIZE:] == section


def test_recompression_keeps_the_size_limit_and_refuses_damage(world):
    log = world.log(compression_type="uncompressed", max_message_bytes=5000)
    assert refused(log, batch(100, size=100, codec=Codec.ZSTD)) is ErrorCode.MESSAGE_TOO_LARGE
    broken = batch(100, size=100, codec=Codec.ZSTD)
    broken[70:80] = b"\xff" * 10
    assert refused(log, with_field(broken, ">h", 21, Codec.ZSTD)) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(("excess", "code"), [(0, None), (1, ErrorCode.MESSAGE_TOO_LARGE)])
def test_a_batch_may_decompress_to_64_times_max_message_bytes(world, excess, code):
    log = world.log(cleanup_policy=("compact",), max_message_bytes=1000)
    beside = len(build_batch([Record(0, NOW_MS, b"k", bytes(60_000))])) - HEADER_SIZE - 60_000
    record = Record(0, NOW_MS, b"k", bytes(64_000 - beside + excess))
    records = build_batch([record], codec=Codec.ZSTD)
    assert len(records) < 1000

    error = log.validate_heavy(records, NOW_MS).error
    assert (None if error is None else error.code) is code


def test_recompression_sets_append_time(world):
    log = world.log(compression_type="zstd", message_timestamp_type="LogAppendTime")
    log.append(batch(2, timestamp=5), 0, NOW_MS)
    header = parse_header(log.read(0, 1000).records.read())

    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW_MS)


class TestFollower:
    """Appends that replicate a leader."""

    def test_batches_keep_what_the_leader_gave_them(self, world):
        leader = fill(world.log(), 3, 2, epoch=4)
        fill(leader, 2, 1, epoch=7)
        data = leader.read(0, 1 << 20).records.read()
        follower = world.log(TP._replace(partition=1))
        info = follower.append_as_follower(data + data[:80])

        assert (info.first_offset, info.last_offset, info.size) == (0, 7, len(data))
        assert follower.read(0, 1 << 20).records.read() == data
        assert follower.leader_epochs.entries == leader.leader_epochs.entries

    @pytest.mark.parametrize("epochs", [[0, 0, 1], [0, 3, 3], [7, 5], [4, 4, 2, 6]])
    def test_a_record_has_the_epoch_that_its_leader_wrote(self, world, epochs):
        """Also the one of a leader that a newer epoch, without a record so far, has come before."""
        follower = world.log()
        for offset, epoch in enumerate(epochs):
            follower.append_as_follower(build_batch([Record(offset, 1, b"k", b"v")], leader_epoch=epoch))
            latest = follower.leader_epochs.entries[-1]
            assert (latest.epoch, latest.start_offset <= offset) == (epoch, True)

    def test_gaps_are_kept(self, world):
        follower = world.log()
        records = build_batch(
            [Record(50, NOW_MS, b"k", b"v"), Record(52, NOW_MS, b"k", b"v")], leader_epoch=1
        )
        follower.append_as_follower(records)

        assert follower.log_end_offset == 53
        assert [offset for offset, _ in values_of(follower)] == [50, 52]

    def test_the_greatest_timestamp_of_all_batches_is_kept(self, world):
        follower = world.log(index_interval_bytes=0)
        times = [100, 300, 200]
        data = b"".join(build_batch([Record(offset, time, b"k", b"v")]) for offset, time in enumerate(times))
        info = follower.append_as_follower(data)

        assert info.max_timestamp == follower.active.max_timestamp == 300
        assert in_one_piece(follower.max_timestamp_offset())[:2] == (300, 1)
        assert in_one_piece(follower.offset_for_timestamp(250))[:2] == (300, 1)
        assert in_one_piece(follower.offset_for_timestamp(301)) is None
        follower.close()
        assert in_one_piece(world.reload().max_timestamp_offset())[:2] == (300, 1)

    def test_a_batch_may_begin_at_the_logs_end_and_not_one_before(self, world):
        follower = fill(world.log(), 3)
        with pytest.raises(UnexpectedAppendOffsetError):
            follower.append_as_follower(build_batch([Record(2, 1, b"k", b"v")]))
        follower.append_as_follower(build_batch([Record(3, 1, b"k", b"v")]))

        with pytest.raises(UnexpectedAppendOffsetError) as caught:
            follower.append_as_follower(
                build_batch([Record(4, 1, b"k", b"v")]) + build_batch([Record(4, 1, b"k", b"v")])
            )
        assert follower.log_end_offset == 4
        assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR

    def test_what_is_there_already_is_refused(self, world):
        follower = fill(world.log(), 3)
        with pytest.raises(UnexpectedAppendOffsetError, match="First offset 1") as caught:
            follower.append_as_follower(build_batch([Record(1, 1, b"k", b"v")]))
        assert (caught.value.first_offset, caught.value.last_offset) == (1, 1)

    def test_damage_is_refused(self, world):
        follower = world.log()
        records = bytearray(build_batch([Record(0, 1, b"k", b"v")]))
        records[-1] ^= 1
        with pytest.raises(KafkaError) as caught:
            follower.append_as_follower(records)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        assert follower.append_as_follower(b"") is None


def test_topic_ids_do_not_change(world):
    log = world.log()
    log.assign_topic_id(b"1" * 16)
    log.assign_topic_id(b"1" * 16)
    with pytest.raises(KafkaError) as caught:
        log.assign_topic_id(b"2" * 16)

    assert caught.value.code is ErrorCode.INCONSISTENT_TOPIC_ID
    assert (
        world.disk.read("/data/orders-0/partition.metadata")
        == b"version: 0\ntopic_id: MTExMTExMTExMTExMTExMQ"
    )
    log.close()
    assert world.reload().topic_id == b"1" * 16
