"""Batches that take long to look into:
validated in another process, appended in the order of the connection.
"""

import dataclasses
import gzip

import pytest

from barnabas.core.errors import ErrorCode
from barnabas.log.validator import PLAIN_BYTES_AT_ONCE, RECORD_ERRORS_MAX, RECORDS_AT_ONCE
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.records.batch import build_batch, decode_batch, parse_header, wrap_section
from barnabas.records.compression import Codec
from barnabas.records.record import Record

NOW_MS = 1_700_000_000_000


def batch(count=1, *, key=b"k", value=b"v", **options):
    return bytes(build_batch([Record(n, NOW_MS, key, value) for n in range(count)], **options))


MANY = batch(RECORDS_AT_ONCE + 1)
LONG = batch(3, value=bytes(PLAIN_BYTES_AT_ONCE // 2), codec=Codec.GZIP)


def bomb(plain_bytes):
    """A batch of one record whose gzip holds this many bytes."""
    section = gzip.compress(bytes(plain_bytes), 1)
    return wrap_section(
        section,
        base_offset=0,
        leader_epoch=-1,
        attributes=Codec.GZIP,
        last_offset_delta=0,
        base_timestamp=NOW_MS,
        max_timestamp=NOW_MS,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=1,
    )


@pytest.fixture
def compacted(world):
    """A broker with one compacted partition, and another process that waits."""
    world.log_config = dataclasses.replace(world.log_config, cleanup_policy="compact")
    world.create()
    world.elsewhere.waits = True
    return world


def start(world, records, acks=1):
    data = [PartitionProduceData(index=0, records=records)]
    topics = [TopicProduceData(name="orders", partition_data=data)]
    return world.start(ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics), 9)


def the_only(answer):
    return answer().responses[0].partition_responses[0]


@pytest.mark.parametrize("records", [MANY, LONG], ids=["many records", "many bytes"])
def test_a_heavy_batch_is_validated_elsewhere_while_its_connection_is_held(compacted, records):
    answer = start(compacted, records)

    assert answer() is None
    assert compacted.control.holds == 1
    assert compacted.partition().log.log_end_offset == 0
    compacted.elsewhere.finish()
    assert compacted.control.holds == 0
    assert the_only(answer).error_code == ErrorCode.NONE
    assert compacted.partition().log.log_end_offset == parse_header(records).count


def test_a_light_batch_is_validated_at_once(compacted):
    answer = start(compacted, batch(RECORDS_AT_ONCE, codec=Codec.GZIP))

    assert the_only(answer).error_code == ErrorCode.NONE
    assert compacted.control.holds == 0


def test_a_topic_that_takes_batches_as_they_are_looks_into_none(world):
    world.create()
    world.elsewhere.waits = True

    assert the_only(start(world, MANY)).error_code == ErrorCode.NONE


def test_what_other_connections_append_meanwhile_keeps_its_place(compacted):
    heavy = start(compacted, MANY)
    light = start(compacted, batch(2))
    compacted.elsewhere.finish()

    assert the_only(light).base_offset == 0
    assert the_only(heavy).base_offset == 2


def test_a_heavy_batch_that_is_wrong_gets_kafkas_code_and_nothing_is_appended(compacted):
    answer = start(compacted, batch(RECORDS_AT_ONCE + 1, key=None))
    compacted.elsewhere.finish()

    refused = the_only(answer)
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert refused.error_message.startswith(
        f"One or more records have been rejected due to {RECORDS_AT_ONCE + 1} record errors in total"
    )
    assert [each.batch_index for each in refused.record_errors] == list(range(RECORD_ERRORS_MAX))
    assert refused.base_offset == -1
    assert compacted.partition().log.log_end_offset == 0


def test_a_batch_that_decompresses_beyond_all_measure_is_too_large(compacted):
    answer = start(compacted, bomb(64 * 1048588 + 1))
    assert answer() is None
    compacted.elsewhere.finish()

    assert the_only(answer).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_partition_that_is_lost_meanwhile_takes_nothing(compacted):
    answer = start(compacted, MANY)
    compacted.create(leader=2, isr=(1, 2), epoch=1)
    compacted.elsewhere.finish()

    assert the_only(answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert compacted.partition().log.log_end_offset == 0


def test_a_process_that_dies_fails_the_batch_and_lets_the_connection_go_on(compacted):
    answer = start(compacted, MANY)
    [(outcome, *_)] = compacted.elsewhere.work
    outcome.fail(RuntimeError("the process is gone"))

    assert the_only(answer).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert compacted.control.holds == 0


def test_a_heavy_batch_is_recompressed_elsewhere_and_stored_as_the_topic_asks(world):
    world.log_config = dataclasses.replace(
        world.log_config, compression_type="zstd", message_timestamp_type="LogAppendTime"
    )
    world.create()
    world.elsewhere.waits = True
    answer = start(world, MANY)
    world.elsewhere.finish()

    stored_at = the_only(answer).log_append_time_ms
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            FetchTopic(topic="orders", partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])
        ],
    )
    fetched = world.send(request, 11).responses[0].partitions[0].records
    header = parse_header(fetched)
    assert header.codec is Codec.ZSTD
    assert header.max_timestamp == stored_at == NOW_MS
    assert len(decode_batch(fetched)) == RECORDS_AT_ONCE + 1


def test_acks_0_closes_the_connection_on_a_heavy_batch_that_is_wrong(compacted):
    answer = start(compacted, batch(RECORDS_AT_ONCE + 1, key=None), acks=0)
    compacted.elsewhere.finish()

    with pytest.raises(Exception, match="ack=0: orders-0 -> INVALID_RECORD"):
        answer()
