"""What readers get: how far they may see, whose epoch counts, when they wait, and what a timestamp finds."""

import pytest
from replica_rig import TP

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.core.chunks import materialize
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import ZERO_UUID, TopicPartition
from barnabas.core.pending import Pending
from barnabas.core.slices import in_one_piece
from barnabas.log.leader_epochs import EpochEnd
from barnabas.log.producers import AppendOrigin
from barnabas.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from barnabas.records.batch import batch_headers, build_batch, parse_header, stamp
from barnabas.records.control import ControlType, EndTransactionMarker, build_marker
from barnabas.records.record import Record
from barnabas.replica.cached_partition import CachedPartition
from barnabas.replica.fetch import Fetches
from barnabas.replica.fetch_reader import FetchParams, FetchReader
from barnabas.replica.hosted import HostedPartitions
from barnabas.replica.offsets import (
    EARLIEST,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    NOT_FOUND,
    TimestampAndOffset,
    offset_for,
)
from barnabas.replica.partition import Isolation
from barnabas.replica.produce import Wake
from barnabas.replica.purgatory import Purgatory
from metadata_updates import apply

WAIT_MS = 500


def code(call, *args, **kwargs):
    with pytest.raises(KafkaError) as raised:
        call(*args, **kwargs)
    return raised.value.code


def request(offset=0, *, partition=0, max_bytes=1 << 20, current=-1, last=-1, topic_id=ZERO_UUID):
    return CachedPartition(
        "orders",
        topic_id,
        partition,
        fetch_offset=offset,
        max_bytes=max_bytes,
        current_leader_epoch=current,
        last_fetched_epoch=last,
    )


def read(rig, wanted, isolation=Isolation.LOG_END, *, max_bytes=1 << 20, whole=True, leader_only=True):
    return rig.partition.read(
        wanted, isolation, max_bytes=max_bytes, min_one_message=whole, leader_only=leader_only
    )


def offsets(found):
    """The base offsets of what was read."""
    data = found.records if isinstance(found.records, bytes) else materialize([found.records])
    return [header.base_offset for header in batch_headers(data)] if data else []


def transactional():
    return build_batch(
        [Record(0, 1, b"k", b"v")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
    )


def commit_marker():
    marker = EndTransactionMarker(ControlType.COMMIT, coordinator_epoch=0)
    return build_marker(marker, timestamp=1, producer_id=7, producer_epoch=0)


# --- one partition


def test_a_consumer_sees_to_the_high_watermark_a_follower_to_the_end(rig):
    rig.lead(isr=(1, 2), replicas=(1, 2))
    for _ in range(3):
        rig.append(1)
    rig.fetch_as(2, 2)

    assert offsets(read(rig, request(), Isolation.HIGH_WATERMARK)) == [0, 1]
    assert offsets(read(rig, request(), Isolation.TXN_COMMITTED)) == [0, 1]
    assert offsets(read(rig, request(), Isolation.LOG_END)) == [0, 1, 2]
    found = read(rig, request(2), Isolation.HIGH_WATERMARK)
    assert (offsets(found), found.high_watermark, found.log_end_offset) == ([], 2, 3)
    assert code(read, rig, request(4)) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_open_transaction_is_hidden_from_who_reads_committed(rig):
    rig.lead(isr=(1,), replicas=(1,))
    rig.append(1)
    rig.partition.append(bytearray(transactional()), 1)
    rig.append(1)

    assert offsets(read(rig, request(), Isolation.TXN_COMMITTED)) == [0]
    assert offsets(read(rig, request(), Isolation.HIGH_WATERMARK)) == [0, 1, 2]
    assert read(rig, request(), Isolation.TXN_COMMITTED).aborted == []
    assert read(rig, request(), Isolation.HIGH_WATERMARK).aborted is None


def test_part_of_a_batch_is_not_handed_out(rig):
    rig.lead(isr=(1,), replicas=(1,))
    rig.append(50)

    assert len(read(rig, request(), max_bytes=70, whole=False).records) == 0
    assert offsets(read(rig, request(), max_bytes=70)) == [0], "the first in line gets it whole"


@pytest.mark.parametrize(
    ("current", "refusal"),
    [(-1, None), (5, None), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_reader_of_another_epoch_is_refused(rig, current, refusal):
    rig.lead(isr=(1,), replicas=(1,), epoch=5)
    if refusal is None:
        assert offsets(read(rig, request(current=current))) == []
    else:
        assert code(read, rig, request(current=current)) is refusal


def test_a_follower_serves_only_who_may_read_from_it(rig):
    rig.lead(isr=(1,), replicas=(1, 2))
    rig.append(1)
    rig.follow(epoch=1, replicas=(1, 2), partition_epoch=1)

    assert code(read, rig, request()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert offsets(read(rig, request(), leader_only=False)) == [0]


def test_a_reader_whose_records_were_cut_is_told_where(rig):
    """KIP-595: epochs 2 and 5 are known here; epoch 5 begins at 4, and ends at 6."""
    rig.lead(isr=(1,), replicas=(1,), epoch=2)
    rig.append(4)
    rig.lead(isr=(1,), replicas=(1,), epoch=5, partition_epoch=1)
    rig.append(2)

    def diverging(offset, last):
        return read(rig, request(offset, last=last)).diverging

    assert diverging(4, 2) is None
    assert diverging(6, 5) is None
    assert diverging(5, 2) == EpochEnd(2, 4), "it has a record of epoch 2 that is not here"
    assert diverging(3, 3) == EpochEnd(2, 4), "nobody here knows of epoch 3"
    assert offsets(read(rig, request(5, last=2))) == []
    assert code(diverging, 6, 9) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_stranger_is_no_follower(rig):
    rig.lead(isr=(1, 2), replicas=(1, 2))

    assert code(rig.partition.follower, 3, -1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code(rig.partition.follower, 3, 0) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert code(rig.partition.follower, 1, -1) is ErrorCode.NOT_LEADER_OR_FOLLOWER, "itself"
    assert [each.broker_id for each in rig.partition.replicas] == [2]


# --- a fetch of several partitions, and waiting for more


class Fetching:
    """Partitions 0 and 1 of a topic behind a `Fetches`."""

    def __init__(self, rig, other):
        self.rig, self.other = rig, other
        self.hosted = HostedPartitions(MetadataCache(1))
        self.purgatory = Purgatory("Fetch", rig.clock)
        idle = Purgatory("DeleteRecords", rig.clock)
        self.wake = Wake(Purgatory("Produce", rig.clock), self.purgatory, idle)
        self.fetches = Fetches(FetchReader(self.hosted), self.purgatory, rig.clock)
        for place, each in enumerate((rig, other)):
            self.hosted.online[TopicPartition("orders", place)] = each.partition
            each.on_progress = self.wake.progressed

    def fetch(self, *wanted, max_wait_ms=WAIT_MS, min_bytes=1, isolation=Isolation.HIGH_WATERMARK, **fields):
        params = FetchParams(
            max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=1 << 20, isolation=isolation, **fields
        )
        return self.fetches.fetch(params, wanted)

    def append(self, count=1):
        info = self.rig.append(count)
        self.wake.appended(TP, advanced=info[1])


@pytest.fixture
def fetching(rig, make_rig):
    return Fetching(rig, make_rig())


def sizes(answer):
    assert not isinstance(answer, Pending) or answer.done, "it waits"
    reads = answer.result() if isinstance(answer, Pending) else answer
    return [(each.error, bool(each.size)) for each in reads]


def test_what_is_there_is_answered_at_once(rig, fetching):
    rig.lead(isr=(1,), replicas=(1,))
    fetching.append()

    assert sizes(fetching.fetch(request())) == [(ErrorCode.NONE, True)]
    assert fetching.purgatory.size == 0


def test_a_long_poll_ends_with_news_or_its_time(rig, fetching):
    rig.lead(isr=(1,), replicas=(1,))
    first = fetching.fetch(request())
    assert not first.done
    fetching.append()
    assert sizes(first) == [(ErrorCode.NONE, True)]

    second = fetching.fetch(request(1))
    rig.clock.advance(WAIT_MS - 1)
    assert not second.done
    rig.clock.advance(1)
    assert sizes(second) == [(ErrorCode.NONE, False)]
    assert sizes(fetching.fetch(request(1), max_wait_ms=0)) == [(ErrorCode.NONE, False)]


def test_a_consumer_waits_for_the_high_watermark_a_follower_for_the_end(rig, fetching):
    rig.lead(isr=(1, 2), replicas=(1, 2))
    consumer = fetching.fetch(request())
    follower = fetching.fetch(request(), isolation=Isolation.LOG_END, replica_id=2)
    fetching.append()
    assert (consumer.done, sizes(follower)) == (False, [(ErrorCode.NONE, True)])

    fetching.fetch(request(1), isolation=Isolation.LOG_END, replica_id=2)
    assert sizes(consumer) == [(ErrorCode.NONE, True)]


def test_a_reader_of_committed_records_waits_for_the_end_of_the_transaction(rig, fetching):
    rig.lead(isr=(1, 2), replicas=(1, 2))
    rig.partition.append(bytearray(transactional()), 1)
    rig.append()
    fetching.fetch(request(2), isolation=Isolation.LOG_END, replica_id=2)
    committed = fetching.fetch(request(), isolation=Isolation.TXN_COMMITTED)
    assert (committed.done, rig.high_watermark) == (False, 2)

    info = rig.partition.append(bytearray(commit_marker()), 1, AppendOrigin.COORDINATOR)
    fetching.wake.appended(TP, advanced=info[1])
    assert not committed.done, "the marker may still be lost with this leader"
    fetching.fetch(request(3), isolation=Isolation.LOG_END, replica_id=2)

    assert sizes(committed) == [(ErrorCode.NONE, True)]


def test_so_does_one_of_a_follower(rig, fetching):
    rig.follow(isr=(1, 2), replicas=(1, 2))
    options = {"isolation": Isolation.TXN_COMMITTED, "leader_only": False}
    for offset, records in enumerate((transactional(), commit_marker())):
        copied = bytearray(records)
        stamp(copied, parse_header(copied), offset, 0)
        rig.partition.append_as_follower(copied)
        rig.partition.follow_offsets(offset, 0)
        if not offset:
            committed = fetching.fetch(request(), **options)
    assert (committed.done, rig.high_watermark) == (False, 1)

    rig.partition.follow_offsets(2, 0)

    assert sizes(committed) == [(ErrorCode.NONE, True)]


def test_a_fetch_that_waited_counts_once_for_the_follower(rig, fetching):
    """What it asked for at first is how far it has got; that it waited says nothing more."""
    rig.lead(isr=(1, 2), replicas=(1, 2))
    rig.clock.advance(10)
    follower = fetching.fetch(request(), isolation=Isolation.LOG_END, replica_id=2)
    (replica,) = rig.partition.replicas
    before = replica.last_fetch_time_ms
    rig.clock.advance(100)
    fetching.append()

    assert sizes(follower) == [(ErrorCode.NONE, True)]
    assert (replica.last_fetch_time_ms, replica.log_end_offset) == (before, 0)


def test_as_many_bytes_as_asked_for_are_enough(rig, fetching):
    rig.lead(isr=(1,), replicas=(1,))
    fetching.append()
    size = len(build_batch([Record(0, rig.clock.now_ms, b"k", b"v")]))

    at_once = fetching.fetch(request(), min_bytes=size)
    assert not isinstance(at_once, Pending), "nothing is made that could wait"
    assert sizes(at_once) == [(ErrorCode.NONE, True)]
    assert not fetching.fetch(request(), min_bytes=size + 1).done


def test_bytes_of_a_partition_that_moves_twice_count_once(rig, fetching):
    for each in (rig, fetching.other):
        each.lead(isr=(1,), replicas=(1,))
    size = len(build_batch([Record(0, rig.clock.now_ms, b"k", b"v")]))
    answer = fetching.fetch(request(), request(partition=1), min_bytes=3 * size)
    fetching.append()
    fetching.append()
    assert not answer.done
    fetching.append()

    assert sizes(answer) == [(ErrorCode.NONE, True), (ErrorCode.NONE, False)]


def test_a_waiting_fetch_remembers_what_the_other_partitions_have(rig, fetching):
    for each in (rig, fetching.other):
        each.lead(isr=(1,), replicas=(1,))
    size = len(build_batch([Record(0, rig.clock.now_ms, b"k", b"v")]))
    answer = fetching.fetch(request(), request(partition=1), min_bytes=3 * size)
    fetching.append()
    fetching.other.append()
    fetching.wake.appended(TopicPartition("orders", 1), advanced=True)
    assert not answer.done
    fetching.append()

    assert sizes(answer) == [(ErrorCode.NONE, True)] * 2


def test_only_the_partition_that_has_moved_is_looked_at(rig, fetching):
    for each in (rig, fetching.other):
        each.lead(isr=(1,), replicas=(1,))
    answer = fetching.fetch(request(), request(partition=1), min_bytes=1000)
    fetching.other.partition.leader_log = None
    fetching.append()
    assert not answer.done

    fetching.wake.progressed(TopicPartition("orders", 1))
    assert answer.result()[1].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_min_bytes_count_over_all_partitions(rig, fetching):
    for each in (rig, fetching.other):
        each.lead(isr=(1,), replicas=(1,))
    size = len(build_batch([Record(0, rig.clock.now_ms, b"k", b"v")]))
    answer = fetching.fetch(request(), request(partition=1), min_bytes=2 * size)
    fetching.append()
    assert not answer.done
    fetching.other.append()
    fetching.wake.appended(TopicPartition("orders", 1), advanced=True)

    assert sizes(answer) == [(ErrorCode.NONE, True)] * 2


def test_an_error_ends_the_wait_at_once(rig, fetching):
    rig.lead(isr=(1,), replicas=(1,))
    assert sizes(fetching.fetch(request(), request(partition=7))) == [
        (ErrorCode.NONE, False),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
    ]
    waiting = fetching.fetch(request())
    rig.follow(epoch=1, partition_epoch=1)
    fetching.wake.progressed(TP)
    assert sizes(waiting) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, False)]


def test_a_reader_that_diverged_does_not_wait(rig, fetching):
    rig.lead(isr=(1,), replicas=(1,), epoch=2)
    rig.append(4)
    rig.lead(isr=(1,), replicas=(1,), epoch=5, partition_epoch=1)

    (found,) = fetching.fetch(request(4, last=3))
    assert found.found.diverging == EpochEnd(2, 4)


def test_a_fetch_of_a_topic_of_another_id_is_refused(make_rig):
    rig = make_rig()
    rig.partition.make_leader(rig.state(isr=(1,), replicas=(1,)), b"\1" * 16)
    fetches = Fetching(rig, make_rig()).fetches
    params = FetchParams(max_wait_ms=0, min_bytes=1, max_bytes=100, isolation=Isolation.HIGH_WATERMARK)

    codes = [
        fetches.fetch(params, [request(topic_id=topic_id)])[0].error
        for topic_id in (b"\1" * 16, b"\2" * 16, ZERO_UUID)
    ]
    assert codes == [ErrorCode.NONE, ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.NONE]


def test_a_partition_that_is_elsewhere_is_not_unknown():
    cache = MetadataCache(1)
    state = UpdateMetadataPartitionState(partition_index=0, leader=2, replicas=[2], isr=[2])
    topic = UpdateMetadataTopicState(topic_name="orders", partition_states=[state])
    apply(cache, UpdateMetadataRequest(controller_id=1, topic_states=[topic]))
    hosted = HostedPartitions(cache)

    assert code(hosted.serve, TP) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code(hosted.serve, TopicPartition("orders", 1)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    hosted.take_offline(TP)
    assert code(hosted.serve, TP) is ErrorCode.KAFKA_STORAGE_ERROR


# --- what a timestamp finds


def place(rig, timestamp, isolation=Isolation.HIGH_WATERMARK, epoch=-1):
    return in_one_piece(offset_for(rig.partition, timestamp, isolation, epoch, leader_only=True))


@pytest.fixture
def timed(rig):
    """Records of the times 100, 200, 300 at the offsets 0, 1, 2; the last is not committed."""
    rig.lead(isr=(1, 2), replicas=(1, 2), epoch=3)
    for time in (100, 200, 300):
        rig.partition.append(bytearray(build_batch([Record(0, time, b"k", b"v")])), 1)
    rig.fetch_as(2, 2)
    return rig


def test_the_special_times(timed):
    assert place(timed, LATEST) == TimestampAndOffset(-1, 2, 3)
    assert place(timed, LATEST, Isolation.LOG_END) == TimestampAndOffset(-1, 3, 3)
    assert place(timed, EARLIEST) == TimestampAndOffset(-1, 0, 3)
    assert place(timed, LATEST_TIERED) == NOT_FOUND


def test_the_earliest_offset_is_the_log_start(timed):
    timed.partition.log.maybe_increment_log_start_offset(2)

    assert place(timed, EARLIEST) == TimestampAndOffset(-1, 2, 3)


@pytest.mark.parametrize(("time", "offset"), [(0, 0), (100, 0), (101, 1), (200, 1), (201, -1), (301, -1)])
def test_the_first_record_that_is_not_older(timed, time, offset):
    assert place(timed, time).offset == offset


def test_what_is_not_committed_is_not_found(timed):
    assert place(timed, 300) == NOT_FOUND
    assert place(timed, MAX_TIMESTAMP) == NOT_FOUND
    timed.fetch_as(2, 3)
    assert place(timed, 300) == TimestampAndOffset(300, 2, 3)
    assert place(timed, MAX_TIMESTAMP) == TimestampAndOffset(300, 2, 3)


def test_a_new_leader_that_has_not_committed_its_epoch_says_so(timed):
    """KIP-207: offsets that a consumer was told must not go backwards."""
    timed.lead(isr=(1, 2), replicas=(1, 2), epoch=4, partition_epoch=1)
    assert code(place, timed, LATEST) is ErrorCode.OFFSET_NOT_AVAILABLE
    assert code(place, timed, 300) is ErrorCode.OFFSET_NOT_AVAILABLE
    assert place(timed, 100).offset == 0
    assert place(timed, LATEST, Isolation.LOG_END).offset == 3
    timed.fetch_as(2, 3)
    assert place(timed, LATEST).offset == 3


def test_another_epoch_than_the_leaders_is_refused(timed):
    assert code(place, timed, LATEST, epoch=2) is ErrorCode.FENCED_LEADER_EPOCH
    assert code(place, timed, EARLIEST, epoch=4) is ErrorCode.UNKNOWN_LEADER_EPOCH
