"""acks=all: when it is answered, with what, and that it is answered once."""

import pytest
from replica_rig import TP

from barnabas.cluster.leadership import LeaderAndIsr
from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from barnabas.replica.hosted import HostedPartitions
from barnabas.replica.produce import ACKS_ALL, Appender, Wake
from barnabas.replica.purgatory import DelayedOperation, Purgatory

TIMEOUT_MS = 5_000
OTHER = TopicPartition("orders", 1)


class Producing:
    """Partition 0 behind an `Appender`."""

    def __init__(self, rig):
        self.rig = rig
        self.hosted = HostedPartitions(MetadataCache(1))
        self.hosted.online[TP] = rig.partition
        self.produces = Purgatory("Produce", rig.clock)
        self.fetches = Purgatory("Fetch", rig.clock)
        self.wake = Wake(self.produces, self.fetches, Purgatory("DeleteRecords", rig.clock))
        self.appender = Appender(self.hosted, self.produces, self.wake)
        rig.on_progress = self.wake.progressed

    def append(self, count=3, tp=TP, acks=ACKS_ALL):
        records = [Record(place, self.rig.clock.now_ms, b"k", b"v") for place in range(count)]
        return self.appender.append(tp, bytearray(build_batch(records)), acks)

    def produce(self, count=3, acks=ACKS_ALL, tps=(TP,)):
        """The results, or the Pending of them."""
        results = [self.append(count, tp, acks) for tp in tps]
        return self.appender.acknowledge(results, acks, TIMEOUT_MS)


@pytest.fixture
def producing(rig):
    return Producing(rig)


def codes(answer):
    results = answer.result() if isinstance(answer, Pending) else answer
    return [result.error for result in results]


class Fetching(DelayedOperation):
    """A fetch that notes how often it is asked."""

    def __init__(self):
        super().__init__()
        self.asked = 0

    def try_complete(self, key=None):
        self.asked += 1
        return False

    def on_complete(self):
        pass


def test_it_is_answered_when_the_whole_isr_has_the_last_record_and_not_before(rig, producing):
    rig.lead(isr=(1, 2, 3))
    answer = producing.produce(3)
    rig.fetch_as(3, 3)
    assert not answer.done, "2 has nothing"
    rig.fetch_as(2, 2)
    assert (answer.done, rig.high_watermark) == (False, 2), "the last record is at 2, and 2 does not have it"
    rig.fetch_as(2, 3)

    assert codes(answer) == [ErrorCode.NONE]
    assert [(each.info.first_offset, each.info.last_offset) for each in answer.result()] == [(0, 2)]
    assert (producing.produces.size, rig.clock.waiting) == (0, 0)


def test_what_lies_behind_it_is_not_waited_for(rig, producing):
    rig.lead(isr=(1, 2), replicas=(1, 2))
    first, second = producing.produce(3), producing.produce(3)
    rig.fetch_as(2, 3)
    assert (codes(first), second.done) == ([ErrorCode.NONE], False)
    rig.fetch_as(2, 6)
    assert codes(second) == [ErrorCode.NONE]


@pytest.mark.parametrize("acks", [0, 1])
def test_other_acks_do_not_wait(rig, producing, acks):
    rig.lead(isr=(1, 2), replicas=(1, 2))

    assert codes(producing.produce(acks=acks)) == [ErrorCode.NONE]
    assert producing.produces.size == 0


def test_the_only_replica_answers_at_once(rig, producing):
    rig.lead(isr=(1,), replicas=(1,))

    answer = producing.produce()
    assert not isinstance(answer, Pending)
    assert codes(answer) == [ErrorCode.NONE]


def test_its_time_is_over(rig, producing):
    rig.lead(isr=(1, 2), replicas=(1, 2))
    answer = producing.produce()
    rig.clock.advance(TIMEOUT_MS - 1)
    assert not answer.done
    rig.clock.advance(1)

    assert codes(answer) == [ErrorCode.REQUEST_TIMED_OUT]
    rig.fetch_as(2, 3)
    assert codes(answer) == [ErrorCode.REQUEST_TIMED_OUT], "answered is answered"


def test_the_high_watermark_waits_for_the_disk_where_the_topic_asks_for_it(make_rig):
    """`flush.messages`: consumers may not see what a power cut can take back, nor is it acknowledged."""
    rig = make_rig(flush_messages=1)
    producing = Producing(rig)
    rig.lead(isr=(1,), replicas=(1,))
    answer = producing.produce(3, acks=1)
    assert (answer.done, rig.high_watermark) == (False, 0)
    rig.clock.advance()

    assert codes(answer) == [ErrorCode.NONE]
    assert (rig.high_watermark, rig.partition.log.recovery_point) == (3, 3)


def test_a_refusal_that_says_something_of_the_log_names_its_start(rig, producing):
    rig.lead(isr=(1,), replicas=(1,))
    batch = build_batch([Record(0, 1, b"k", b"v")], producer_id=7, producer_epoch=0, base_sequence=5)
    gap = producing.appender.append(TP, bytearray(batch), 1)
    assert (gap.error, gap.info.log_start_offset, gap.message) == (ErrorCode.NONE, 0, None)
    gap = producing.appender.append(TP, bytearray(batch[:-1]), 1)
    assert (gap.error, gap.info.log_start_offset) == (ErrorCode.CORRUPT_MESSAGE, -1)
    later = build_batch([Record(0, 1, b"k", b"v")], producer_id=7, producer_epoch=0, base_sequence=9)
    gap = producing.appender.append(TP, bytearray(later), 1)
    assert (gap.error, gap.info.log_start_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)
    assert (gap.info.first_offset, gap.message) == (-1, None), "only rejected records carry a text"


def test_an_isr_that_falls_below_the_minimum_after_the_append(make_rig):
    rig = make_rig(min_insync_replicas=2)
    producing = Producing(rig)
    rig.lead(isr=(1, 2))
    answer = producing.produce(3)
    rig.clock.advance(1)
    rig.partition.log.high_watermark = 3
    rig.lead(isr=(1,), partition_epoch=1)
    producing.wake.progressed(TP)

    assert codes(answer) == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


def test_a_leader_that_steps_down_says_so_at_once(rig, producing):
    rig.lead(isr=(1, 2), replicas=(1, 2))
    answer = producing.produce()
    rig.follow(epoch=1, partition_epoch=1)
    producing.wake.progressed(TP)

    assert codes(answer) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_deleted_partition_and_a_failed_disk_say_so_at_once(rig, producing):
    rig.lead(isr=(1, 2), replicas=(1, 2))
    deleted = producing.produce()
    del producing.hosted.online[TP]
    producing.wake.progressed(TP)
    assert codes(deleted) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    producing.hosted.online[TP] = rig.partition
    failed = producing.produce()
    producing.hosted.take_offline(TP)
    producing.wake.progressed(TP)
    assert codes(failed) == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_an_isr_that_shrinks_to_who_has_it_answers(rig, producing):
    rig.lead(isr=(1, 2), replicas=(1, 2))
    rig.clock.advance(30_001)
    answer = producing.produce()
    rig.partition.maybe_shrink_isr()
    assert not answer.done, "the controller has not agreed"
    rig.isr.proposals[-1][1].complete(LeaderAndIsr(1, (1,), 0, partition_epoch=1))
    assert codes(answer) == [ErrorCode.NONE]


def test_each_partition_of_a_request_has_its_own_fate(rig, producing, make_rig):
    other = make_rig()
    rig.lead(isr=(1, 2), replicas=(1, 2))
    other.lead(isr=(1, 2), replicas=(1, 2))
    producing.hosted.online[OTHER] = other.partition
    gone = TopicPartition("gone", 0)

    answer = producing.produce(2, tps=(TP, gone, OTHER))
    rig.fetch_as(2, 2)
    assert not answer.done, "the other partition waits"
    producing.rig.clock.advance(TIMEOUT_MS)

    assert codes(answer) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
    ]


def test_a_partition_that_moves_is_looked_at_alone(rig, producing):
    """Each of ten thousand partitions of one request looked at all the others when it moved."""
    rig.lead(isr=(1, 2), replicas=(1, 2))
    tps = [TopicPartition("orders", index) for index in range(40)]
    producing.hosted.online |= dict.fromkeys(tps, rig.partition)
    answer = producing.produce(1, tps=tps)
    producing.wake.progressed(tps[7])
    producing.hosted.online.clear()  # from here on, one look at a partition ends the wait for it
    for tp in tps:
        assert not answer.done, "one that had not moved was looked at"
        producing.wake.progressed(tp)

    assert codes(answer) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * len(tps)


def test_a_partition_that_is_named_twice_waits_for_both(rig, producing):
    rig.lead(isr=(1, 2), replicas=(1, 2))
    answer = producing.produce(2, tps=(TP, TP))
    rig.fetch_as(2, 2)
    assert not answer.done
    rig.fetch_as(2, 4)

    assert codes(answer) == [ErrorCode.NONE] * 2
    assert (producing.produces.size, rig.clock.waiting) == (0, 0)


def test_who_asks_is_woken_by_what_concerns_it(rig, producing):
    rig.lead(isr=(1, 2), replicas=(1, 2))
    fetch = Fetching()
    producing.fetches.watch(fetch, [TP], 60_000)
    waiting = producing.produce(1)
    assert fetch.asked == 1, "followers read to the log's end, so an append that commits nothing is news"
    rig.fetch_as(2, 1)
    assert (fetch.asked, waiting.done) == (2, True)


def test_an_append_that_commits_answers_those_before_it(rig, producing):
    """A follower outside the ISR that was about to join it falls behind:
    nothing happens until the next append.
    """
    rig.lead(isr=(1,), replicas=(1, 2))
    rig.fetch_as(2, 0)
    rig.isr.proposals.pop()[1].fail(KafkaError(ErrorCode.INELIGIBLE_REPLICA))
    waiting = producing.produce(1)
    rig.clock.now_ms += 30_000
    producing.append(1, acks=1)
    assert not waiting.done, "2 had everything replica.lag.time.max.ms ago, and no longer"
    rig.clock.now_ms += 1
    producing.append(1, acks=1)

    assert codes(waiting) == [ErrorCode.NONE]
