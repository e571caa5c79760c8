"""Look-ups by time in batches that would hold the event loop: another process looks into them."""

import pytest

from barnabas.core.errors import ErrorCode
from barnabas.log.validator import PLAIN_BYTES_AT_ONCE, RECORDS_AT_ONCE
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.records.batch import build_batch
from barnabas.records.compression import Codec
from barnabas.records.record import Record

NOW_MS = 1_700_000_000_000
GREATEST_TIMESTAMP = -3


def batch(count, *, value=b"v", **options):
    return bytes(build_batch([Record(n, NOW_MS + n, b"k", value) for n in range(count)], **options))


MANY = batch(RECORDS_AT_ONCE + 1)
LONG = batch(3, value=bytes(PLAIN_BYTES_AT_ONCE // 2), codec=Codec.GZIP)


@pytest.fixture
def stored(world):
    """A broker with one partition, and another process that waits."""
    world.create(epoch=3)
    world.elsewhere.waits = True
    return world


def start(world, timestamp):
    entry = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topics = [ListOffsetsTopic(name="orders", partitions=[entry])]
    return world.start(ListOffsetsRequest(replica_id=-1, topics=topics), 9)


def the_only(answer):
    found = answer().topics[0].partitions[0]
    return ErrorCode.of(found.error_code).name, found.timestamp, found.offset, found.leader_epoch


@pytest.mark.parametrize("records", [MANY, LONG], ids=["many records", "many bytes"])
@pytest.mark.parametrize("timestamp", [NOW_MS + 1, GREATEST_TIMESTAMP])
def test_a_heavy_batch_is_searched_elsewhere(stored, records, timestamp):
    stored.produce(records=records)
    last = stored.partition().log.log_end_offset - 1
    offset = last if timestamp == GREATEST_TIMESTAMP else 1

    answer = start(stored, timestamp)

    assert answer() is None
    stored.elsewhere.finish()
    assert the_only(answer) == ("NONE", NOW_MS + offset, offset, 3)


def test_a_light_batch_is_searched_at_once(stored):
    stored.produce(records=batch(RECORDS_AT_ONCE, codec=Codec.GZIP))

    assert the_only(start(stored, NOW_MS + 7)) == ("NONE", NOW_MS + 7, 7, 3)


def test_a_plain_batch_of_many_bytes_is_searched_at_once(stored):
    stored.produce(records=batch(2, value=bytes(400_000)))

    assert the_only(start(stored, NOW_MS + 1)) == ("NONE", NOW_MS + 1, 1, 3)


def test_a_partition_that_moved_during_the_search_is_not_answered_for(stored):
    stored.produce(records=MANY)
    answer = start(stored, NOW_MS + 1)
    stored.create(leader=2, isr=(2, 1), epoch=4)
    stored.elsewhere.finish()

    assert the_only(answer)[0] == "NOT_LEADER_OR_FOLLOWER"


def test_a_damaged_heavy_batch_is_named_once_in_the_log(stored, caplog):
    stored.produce(records=MANY)
    log = stored.partition().log
    end = stored.disk.size(log.active.path)
    stored.disk.open(log.active.path).pwrite(b"\xff" * 8, end - 20)

    for _ in range(2):
        answer = start(stored, GREATEST_TIMESTAMP)
        stored.elsewhere.finish()
        assert the_only(answer)[0] == "INVALID_RECORD"
    assert caplog.text.count("segment.corrupt") == 1
