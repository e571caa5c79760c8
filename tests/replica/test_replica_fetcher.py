"""A follower's fetcher against a leader that is the test: what it asks, and what it does with each answer."""

import errno
from collections import deque
from ctypes import c_int32

import pytest
from replica_rig import Rig

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition, java_hash
from barnabas.core.pending import Pending
from barnabas.network.errors import DisconnectedError
from barnabas.network.node_link import Node
from barnabas.node.leader_endpoint import FetchSettings, Follower, leader_endpoints
from barnabas.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.records.batch import build_batch, parse_header, stamp
from barnabas.records.record import Record
from barnabas.replica.fetcher.manager import ReplicaFetcherManager
from barnabas.replica.partition import Partition
from barnabas.replica.quota import ReplicationQuotaManager
from barnabas.replica.state_changes import InitialFetchState
from standing_clock import TickingClock

ME, LEADER = 1, 2
TOPIC, ID = "orders", b"\7" * 16
SESSION = 77
BROKER_EPOCH = 33
BACKOFF_MS = 1000
SETTINGS = FetchSettings(max_wait_ms=500, min_bytes=1, max_bytes=10_000, partition_max_bytes=1_000)


def batch(offset, epoch, count=1):
    """Records as a leader of this epoch has them."""
    records = bytearray(build_batch([Record(n, 1_700_000_000_000, b"k", b"v") for n in range(count)]))
    stamp(records, parse_header(records), offset, epoch)
    return bytes(records)


class Leader:
    """Broker 2, whose answers are the test's; it stands in the place of a `NetworkClient`."""

    def __init__(self, clock):
        self.requests = []
        self.disconnected = []
        self._clock = clock
        self._waiting = deque()

    def request(self, node, request, *, versions):
        assert (node.id, versions[0]) == (LEADER, versions[1])
        answer = Pending()
        self.requests.append(request)
        self._waiting.append((request, answer))
        return answer

    def disconnect(self, node_id):
        self.disconnected.append(node_id)
        self.fail()

    @property
    def asked(self):
        """The request that waits for its answer; None without one."""
        return self._waiting[0][0] if self._waiting else None

    @property
    def named(self):
        """The partitions that it says something about."""
        return {each.partition: each for topic in self.asked.topics for each in topic.partitions}

    def answer(self, *partitions, error=ErrorCode.NONE, session_id=SESSION, topic_id=ID, turn=True):
        request, answer = self._waiting.popleft()
        assert isinstance(request, FetchRequest)
        topics = (
            [FetchableTopicResponse(topic_id=topic_id, partitions=list(partitions))] if partitions else []
        )
        answer.complete(FetchResponse(error_code=error, session_id=session_id, responses=topics))
        if turn:
            self._clock.advance()

    def answer_offset(self, offset, error=ErrorCode.NONE):
        request, answer = self._waiting.popleft()
        (topic,) = request.topics
        found = ListOffsetsPartitionResponse(
            partition_index=topic.partitions[0].partition_index, error_code=error, offset=offset
        )
        answer.complete(
            ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=[found])])
        )

    def fail(self):
        while self._waiting:
            self._waiting.popleft()[1].fail(DisconnectedError("gone"))


def data(partition=0, *, high_watermark=0, **fields):
    return PartitionData(
        partition_index=partition,
        high_watermark=high_watermark,
        log_start_offset=fields.pop("log_start_offset", 0),
        **fields,
    )


def refused(code, partition=0):
    return PartitionData(partition_index=partition, error_code=code, high_watermark=-1)


class Following:
    """Broker 1 and the partitions that it follows."""

    def __init__(self, fetchers=1, **config):
        self.rig = Rig(**config)
        self.leaders = [Leader(self.rig.clock) for _ in range(fetchers)]
        self.cuts = 0
        self.truncation_fails = False
        self.quota = ReplicationQuotaManager(self.rig.clock.monotonic_ms, samples=11, window_ms=1000)
        self.end_points = leader_endpoints(
            self.leaders,
            lambda broker: Node(broker, "there", 9092),
            Follower(ME, lambda: BROKER_EPOCH),
            SETTINGS,
            self.rig.clock,
        )
        self.manager = ReplicaFetcherManager(
            self.end_points,
            self.rig.clock,
            backoff_ms=BACKOFF_MS,
            truncated=self._truncated,
            quota=self.quota,
        )
        self.partitions = {}

    def _truncated(self):
        self.cuts += 1
        if self.truncation_fails:
            raise RuntimeError("a bug")

    @property
    def leader(self):
        return self.leaders[0]

    @property
    def clock(self):
        return self.rig.clock

    def log(self, number=0):
        return self.partitions[number].log

    def partition(self, number=0):
        made = Partition(TopicPartition(TOPIC, number), self.rig.ports)
        return self.partitions.setdefault(number, made)

    def follow(self, *numbers, epoch=5, isr=(1, 2, 3)):
        """What LeaderAndIsr does: the fetcher stops, the role is taken, the fetcher starts."""
        partitions = [self.partition(number) for number in numbers or (0,)]
        self.manager.stop([each.tp for each in partitions])
        for each in partitions:
            assert each.make_follower(self.rig.state(leader=LEADER, epoch=epoch, isr=isr), ID)
        self.manager.fetch([InitialFetchState(each, LEADER, epoch) for each in partitions])
        self.clock.advance()
        return self

    def with_records(self, *epochs):
        """A log that has one record of each of these epochs."""
        partition = self.partition()
        partition.make_follower(self.rig.state(leader=LEADER, epoch=0), ID)
        for offset, epoch in enumerate(epochs):
            partition.append_as_follower(batch(offset, epoch))
        return self


@pytest.fixture
def following():
    return Following()


# --- asking


def test_the_first_fetch_says_who_asks_and_from_where(following):
    following.with_records(3, 4).follow()
    asked = following.leader.asked
    wanted = following.leader.named[0]
    assert (asked.replica_state.replica_id, asked.replica_state.replica_epoch) == (ME, BROKER_EPOCH)
    assert (asked.session_id, asked.session_epoch) == (0, 0)
    assert (asked.max_wait_ms, asked.min_bytes, asked.max_bytes) == (500, 1, 10_000)
    assert (wanted.fetch_offset, wanted.last_fetched_epoch, wanted.current_leader_epoch) == (2, 4, 5)
    assert (wanted.log_start_offset, wanted.partition_max_bytes) == (0, 1_000)


def test_what_came_is_appended_and_the_next_fetch_goes_on_behind_it(following):
    following.follow()
    following.leader.answer(data(records=batch(0, 5, count=3), high_watermark=1))
    assert (following.log().log_end_offset, following.log().high_watermark) == (3, 1)
    assert (following.leader.asked.session_id, following.leader.asked.session_epoch) == (SESSION, 1)
    assert (following.leader.named[0].fetch_offset, following.leader.named[0].last_fetched_epoch) == (3, 5)


def test_what_was_copied_and_what_lacks_is_counted(following):
    following.follow(0, 1)
    following.leader.answer(
        data(0, records=batch(0, 5, count=3), high_watermark=10),
        data(1, records=batch(0, 5), high_watermark=1),
    )
    assert following.manager.max_lag == 7
    assert following.manager.fetched.total == len(batch(0, 5, count=3)) + len(batch(0, 5))

    following.manager.close()

    assert following.manager.max_lag == 0
    assert following.manager.fetched.total == len(batch(0, 5, count=3)) + len(batch(0, 5))


def test_the_high_watermark_is_the_leaders_as_far_as_the_log_reaches(following):
    following.follow()
    following.leader.answer(data(records=batch(0, 5), high_watermark=9))
    assert following.log().high_watermark == 1
    following.leader.answer(data(records=batch(1, 5), high_watermark=9))
    assert following.log().high_watermark == 2
    assert following.rig.progress == [TopicPartition(TOPIC, 0)] * 2, "consumers here may wait for it"


def test_the_log_starts_where_the_leaders_does(following):
    following.with_records(5, 5, 5).follow()
    following.leader.answer(data(high_watermark=3, log_start_offset=2))
    assert following.log().log_start_offset == 2
    assert following.leader.named[0].log_start_offset == 2


def without_its_front(following):
    """A follower of three records in as many segments that finds the first of them gone when it starts."""
    following.with_records(5, 5, 5)
    following.rig.logs.shutdown()
    for suffix in (".log", ".index", ".timeindex"):
        following.rig.disk.remove(f"/data/{TOPIC}-0/{0:020d}{suffix}")
    following.rig.logs.start(broker_id=ME, cluster_id="c").result()
    following.partitions.clear()
    return following


def test_a_follower_without_its_front_copies_all_of_it_again():
    """It kept what was left of it, and made the others delete theirs once it led."""
    following = without_its_front(Following(segment_bytes=1))
    following.follow(isr=(LEADER,))
    following.leader.answer(data(high_watermark=3))
    assert following.leader.named[0].fetch_offset == 0
    following.leader.answer(data(records=batch(0, 5, count=3), high_watermark=3))

    log = following.log()
    assert (log.log_start_offset, log.log_end_offset, log.lacks_front) == (0, 3, False)
    assert log.segments[0].base_offset == 0


@pytest.mark.parametrize(
    ("isr", "leader_start"),
    [((ME, LEADER), 0), ((LEADER,), 1)],
    ids=["it may be elected", "nothing is missing"],
)
def test_a_follower_keeps_what_it_has_while_it(isr, leader_start):
    following = without_its_front(Following(segment_bytes=1))
    following.follow(isr=isr)
    following.leader.answer(data(high_watermark=3, log_start_offset=leader_start))

    assert (following.log().log_start_offset, following.log().log_end_offset) == (leader_start, 3)
    assert following.log().segments[0].base_offset == 1


def test_a_thousand_idle_partitions_share_a_session_that_says_nothing(following):
    following.follow(*range(1000))
    assert len(following.leader.named) == 1000
    following.leader.answer(*(data(number) for number in range(1000)))
    for epoch in (1, 2):
        assert (following.leader.asked.session_epoch, following.leader.asked.topics) == (epoch, [])
        following.leader.answer()
    following.leader.answer(data(7, records=batch(0, 5), high_watermark=0))
    assert list(following.leader.named) == [7]


def test_partitions_that_are_added_in_slices_are_in_one_request(following):
    def slice_of_leader_and_isr(number):
        partition = following.partition(number)
        partition.make_follower(following.rig.state(leader=LEADER, epoch=5), ID)
        following.manager.fetch([InitialFetchState(partition, LEADER, 5)])
        if number < 4:
            following.clock.call_soon(lambda: slice_of_leader_and_isr(number + 1))

    slice_of_leader_and_isr(0)
    following.clock.advance()
    assert list(following.leader.named) == [0, 1, 2, 3, 4]


def test_a_partition_that_is_added_or_removed_changes_the_session(following):
    following.follow(0, 1)
    following.leader.answer()
    following.leader.answer()
    following.manager.stop([TopicPartition(TOPIC, 0)])
    following.follow(2)
    following.leader.answer()
    asked = following.leader.asked
    assert list(following.leader.named) == [2]
    assert [(each.topic_id, each.partitions) for each in asked.forgotten_topics_data] == [(ID, [0])]


def test_fetchers_share_the_partitions_of_a_leader_by_their_hash():
    following = Following(fetchers=2)
    following.follow(0, 1, 2, 3)
    assert [sorted(leader.named) for leader in following.leaders] == [[1, 3], [0, 2]]
    assert sorted(map(repr, following.manager.fetchers)) == [
        f"<ReplicaFetcherThread-{number}-{LEADER} partitions=2 delayed=0>" for number in (0, 1)
    ]


def test_a_fetcher_without_partitions_ends_and_closes_its_connection(following):
    following.follow()
    following.manager.stop([TopicPartition(TOPIC, 0)])
    following.leader.answer(data(records=batch(0, 5)))
    assert following.log().log_end_offset == 0, "the answer came too late"
    assert (following.manager.fetchers, following.leader.disconnected) == ([], [LEADER])
    following.follow(epoch=6)
    assert following.leader.asked.session_epoch == 0


def test_a_fetcher_whose_partitions_all_waited_ends_at_once(following):
    following.follow()
    following.leader.answer(refused(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    following.manager.stop([TopicPartition(TOPIC, 0)])
    following.clock.advance()
    assert (following.manager.fetchers, following.leader.disconnected) == ([], [LEADER])


def test_a_broker_that_stops_follows_no_new_leader(following):
    following.follow()
    following.manager.begin_shutdown()
    following.follow(1)
    following.leader.answer(data(records=batch(0, 5)))
    assert following.log().log_end_offset == 1, "what is copied already goes on"
    assert list(following.leader.named) == [0]
    following.follow(epoch=6)
    following.leader.answer()
    assert (following.manager.fetchers, following.leader.disconnected) == ([], [LEADER])


def test_nothing_is_asked_after_the_end(following):
    following.follow()
    following.manager.close()
    following.follow(1)
    following.clock.advance(10 * BACKOFF_MS)
    assert (following.leader.asked, len(following.leader.requests)) == (None, 1)


def test_what_must_be_synced_is_so_before_the_leader_hears_of_it():
    following = Following(flush_messages=1)
    following.follow()
    log = following.log()
    following.leader.answer(data(records=batch(0, 5)), turn=False)
    assert (log.log_end_offset, following.leader.asked) == (1, None)
    following.clock.advance()
    assert (log.recovery_point, following.leader.named[0].fetch_offset) == (1, 1)


# --- where the logs part


def test_a_log_is_cut_where_the_leaders_epoch_ends(following):
    following.with_records(3, 3, 3, 4).follow()
    following.leader.answer(data(high_watermark=4, diverging_epoch=EpochEndOffset(epoch=3, end_offset=2)))
    assert (following.log().log_end_offset, following.log().high_watermark) == (2, 0)
    wanted = following.leader.named[0]
    assert (wanted.fetch_offset, wanted.last_fetched_epoch) == (2, 3)
    assert following.cuts == 1


def test_a_log_that_lacks_the_leaders_epoch_is_cut_in_two_steps(following):
    following.with_records(1, 1, 3, 3).follow()
    following.leader.answer(data(diverging_epoch=EpochEndOffset(epoch=2, end_offset=3)))
    assert following.leader.named[0].fetch_offset == 2, "the end of epoch 1 here"
    following.leader.answer(data(diverging_epoch=EpochEndOffset(epoch=1, end_offset=1)))
    assert (following.log().log_end_offset, following.leader.named[0].last_fetched_epoch) == (1, 1)


def test_a_leader_that_appended_nothing_forgets_its_epoch(following):
    following.with_records(3)
    following.partition().make_leader(following.rig.state(leader=ME, epoch=4), ID)
    following.follow()
    assert following.leader.named[0].last_fetched_epoch == 4
    following.leader.answer(data(diverging_epoch=EpochEndOffset(epoch=3, end_offset=1)))
    assert (following.leader.named[0].fetch_offset, following.leader.named[0].last_fetched_epoch) == (1, 3)


def test_a_log_without_epochs_is_cut_to_its_high_watermark(following):
    following.with_records(3, 3)
    following.log().high_watermark = 1
    following.log().leader_epochs.clear()
    following.follow()
    assert (following.leader.named[0].fetch_offset, following.leader.named[0].last_fetched_epoch) == (1, -1)


def test_a_log_beyond_the_leaders_end_is_cut_to_it(following):
    following.with_records(3, 3, 3).follow()
    following.leader.answer(refused(ErrorCode.OFFSET_OUT_OF_RANGE))
    (topic,) = following.leader.asked.topics
    assert (following.leader.asked.replica_id, topic.partitions[0].timestamp) == (ME, -1)
    assert topic.partitions[0].current_leader_epoch == 5
    following.leader.answer_offset(1)
    assert (following.log().log_end_offset, following.leader.named[0].fetch_offset) == (1, 1)
    assert following.cuts == 1


def test_a_log_before_the_leaders_start_begins_again_there(following):
    following.with_records(3, 3, 3).follow()
    following.leader.answer(refused(ErrorCode.OFFSET_OUT_OF_RANGE))
    following.leader.answer_offset(100)
    assert following.leader.asked.topics[0].partitions[0].timestamp == -2
    following.leader.answer_offset(50)
    log = following.log()
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (50, 50, 50)
    assert (following.leader.named[0].fetch_offset, following.leader.named[0].last_fetched_epoch) == (50, -1)
    assert following.cuts == 1


@pytest.mark.parametrize("asked_before", [(), (100,)], ids=["its end", "its start"])
def test_a_leader_that_cannot_say_where_its_log_is_cuts_nothing(following, asked_before):
    following.with_records(3, 3, 3).follow()
    following.leader.answer(refused(ErrorCode.OFFSET_OUT_OF_RANGE))
    for offset in asked_before:
        following.leader.answer_offset(offset)
    following.leader.answer_offset(-1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (following.log().log_start_offset, following.log().log_end_offset) == (0, 3)
    assert following.leader.asked is None
    following.clock.advance(BACKOFF_MS)
    assert following.leader.asked is not None, "it is tried again"


def test_a_leader_that_fences_while_it_is_asked_for_its_end_is_asked_no_more(following):
    following.with_records(3, 3, 3).follow()
    following.leader.answer(refused(ErrorCode.OFFSET_OUT_OF_RANGE))
    following.leader.answer_offset(-1, error=ErrorCode.FENCED_LEADER_EPOCH)
    assert following.manager.failed_partitions == {TopicPartition(TOPIC, 0)}


def test_an_empty_log_begins_with_the_batch_that_its_start_lies_in(following):
    following.follow()
    following.log().truncate_fully_and_start_at(2)
    following.follow(epoch=6)
    following.leader.answer()
    following.leader.answer(data(records=batch(0, 5, count=4)))
    assert (following.log().log_start_offset, following.log().log_end_offset) == (0, 4)


def test_an_answer_of_another_epoch_is_not_used(following):
    following.with_records(3, 3).follow()
    following.follow(epoch=6)
    following.leader.answer(data(diverging_epoch=EpochEndOffset(epoch=3, end_offset=1)))
    assert following.log().log_end_offset == 2
    assert following.leader.named[0].current_leader_epoch == 6


def test_an_answer_of_the_topic_that_had_the_name_before_is_not_used(following):
    following.follow()
    tp, other_id = TopicPartition(TOPIC, 0), b"\x08" * 16
    following.manager.stop([tp])
    following.rig.logs.delete(tp)
    made_again = following.partitions[0] = Partition(tp, following.rig.ports)
    made_again.make_follower(following.rig.state(leader=LEADER, epoch=5), other_id)
    following.manager.fetch([InitialFetchState(made_again, LEADER, 5)])
    following.leader.answer(data(records=batch(0, 5), high_watermark=1))
    assert following.log().log_end_offset == 0
    assert [topic.topic_id for topic in following.leader.asked.topics] == [other_id]


def test_a_log_that_gets_its_topics_id_meanwhile_is_asked_for_under_it(following):
    partition = following.partition()
    partition.make_follower(following.rig.state(leader=LEADER, epoch=5), bytes(16))
    following.manager.fetch([InitialFetchState(partition, LEADER, 5)])
    following.clock.advance()
    following.log().assign_topic_id(ID)
    following.leader.answer(refused(ErrorCode.UNKNOWN_TOPIC_ID), topic_id=bytes(16))
    assert [topic.topic_id for topic in following.leader.asked.topics] == [ID]


def test_a_role_that_ends_while_the_leaders_end_is_asked_for_is_not_cut(following):
    following.with_records(3, 3, 3).follow()
    following.leader.answer(refused(ErrorCode.OFFSET_OUT_OF_RANGE))
    following.manager.stop([TopicPartition(TOPIC, 0)])
    following.leader.answer_offset(1)
    assert following.log().log_end_offset == 3


# --- what goes wrong


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_a_partition_that_is_refused_waits_and_the_others_go_on(following, code):
    following.follow(0, 1)
    following.leader.answer(refused(code), data(1, records=batch(0, 5)))
    assert list(following.leader.named) == [1]
    assert following.leader.asked.forgotten_topics_data[0].partitions == [0]
    following.clock.advance(BACKOFF_MS)
    following.leader.answer()
    assert list(following.leader.named) == [0]


def test_a_follower_whose_disk_is_full_goes_on_when_there_is_room(following):
    following.follow()
    following.rig.disk.fail("/data", "write", errno.ENOSPC)
    following.leader.answer(data(records=batch(0, 5)))
    assert (following.log().log_end_offset, following.log().offline) == (0, False)

    following.rig.disk.heal()
    following.clock.advance(BACKOFF_MS)
    following.leader.answer(data(records=batch(0, 5)))

    assert following.log().log_end_offset == 1


def test_the_only_partition_is_asked_for_again_after_the_backoff(following):
    following.follow()
    following.leader.answer(refused(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert following.leader.asked is None
    following.clock.advance(BACKOFF_MS - 1)
    assert following.leader.asked is None
    following.clock.advance(1)
    assert following.leader.asked is not None


def test_a_fenced_partition_waits_for_the_controller(following):
    following.follow(0, 1)
    following.leader.answer(refused(ErrorCode.FENCED_LEADER_EPOCH), data(1))
    assert following.manager.failed_partitions == {TopicPartition(TOPIC, 0)}
    following.clock.advance(BACKOFF_MS)
    following.leader.answer()
    assert following.leader.named == {}
    following.follow(0, epoch=6)
    following.leader.answer()
    assert (following.manager.failed_partitions, list(following.leader.named)) == (set(), [0])


def test_a_fenced_partition_that_is_stopped_has_failed_no_more(following):
    following.follow(0, 1)
    following.leader.answer(refused(ErrorCode.FENCED_LEADER_EPOCH), data(1))
    following.manager.stop([TopicPartition(TOPIC, 0)])
    assert following.manager.failed_partitions == set()


def test_a_fenced_partition_that_is_given_again_has_failed_no_more(following):
    following.follow(0, 1)
    following.leader.answer(refused(ErrorCode.FENCED_LEADER_EPOCH), data(1))
    following.manager.fetch([InitialFetchState(following.partition(0), LEADER, 5)])
    assert following.manager.failed_partitions == set()


def test_a_partition_that_goes_while_it_waits_keeps_no_other_waiting(following):
    following.follow(0, 1)
    following.leader.answer(refused(ErrorCode.NOT_LEADER_OR_FOLLOWER), data(1))
    following.manager.stop([TopicPartition(TOPIC, 0)])
    for _ in range(3):
        following.leader.answer()
        assert following.leader.asked is not None
    following.clock.advance(BACKOFF_MS)
    following.leader.answer()
    assert following.leader.named == {}, "what is gone is not asked for when its time is over"


def test_a_damaged_batch_is_asked_for_again(following):
    following.follow(0, 1)
    damaged = bytearray(batch(0, 5))
    damaged[-1] ^= 1
    following.leader.answer(data(records=bytes(damaged)), data(1, records=batch(0, 5)))
    assert (following.log(0).log_end_offset, following.log(1).log_end_offset) == (0, 1)
    following.clock.advance(BACKOFF_MS)
    following.leader.answer()
    following.leader.answer(data(records=batch(0, 5)))
    assert following.log().log_end_offset == 1


def test_records_that_do_not_follow_stop_their_partition_alone(following):
    following.with_records(3, 3).follow(0, 1)
    following.leader.answer(data(records=batch(1, 3)), data(1, records=batch(0, 5)))
    assert following.manager.failed_partitions == {TopicPartition(TOPIC, 0)}
    assert following.log(1).log_end_offset == 1


def test_a_leader_that_is_gone_is_tried_again_with_a_full_fetch(following, caplog):
    following.follow(0, 1)
    following.leader.answer()
    for _ in range(3):
        following.leader.fail()
        assert following.leader.asked is None
        following.clock.advance(BACKOFF_MS)
        assert (following.leader.asked.session_id, following.leader.asked.session_epoch) == (SESSION, 0)
        assert list(following.leader.named) == [0, 1]
    assert caplog.text.count("leader_unreachable") == 1


@pytest.mark.parametrize(
    "error", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH]
)
def test_a_session_that_is_lost_begins_again_at_once(following, error):
    following.follow(0, 1)
    following.leader.answer()
    following.leader.answer(error=error, session_id=0)
    assert (following.leader.asked.session_epoch, list(following.leader.named)) == (0, [0, 1])


def test_a_leader_that_refuses_the_whole_request_is_asked_after_the_backoff(following):
    following.follow()
    following.leader.answer(error=ErrorCode.UNKNOWN_SERVER_ERROR, session_id=0)
    assert following.leader.asked is None
    following.clock.advance(BACKOFF_MS)
    assert following.leader.asked.session_epoch == 0


def test_a_bug_in_one_turn_costs_a_pause_and_no_partition(following, caplog):
    following.follow(0, 1)
    following.leader.answer(data(0), data(1))
    following.truncation_fails = True
    following.leader.answer(data(0, high_watermark=0, diverging_epoch=EpochEndOffset(epoch=0, end_offset=0)))
    assert (following.leader.asked, caplog.text.count("fetcher.failed")) == (None, 1)
    following.truncation_fails = False
    following.clock.advance(BACKOFF_MS)
    for offset in range(3):
        following.leader.answer(*(data(each, records=batch(offset, 5)) for each in (0, 1)))
    assert [following.log(each).log_end_offset for each in (0, 1)] == [3, 3]


def test_a_partition_whose_sync_fails_is_not_copied_on():
    following = Following(flush_messages=1)
    following.follow(0)
    following.rig.disk.fail("/data", "sync")
    following.leader.answer(data(0, records=batch(0, 5)))
    assert following.manager.failed_partitions == {TopicPartition(TOPIC, 0)}
    assert following.manager.fetchers == []


def test_a_failed_disk_stops_the_partition(following):
    following.follow(0, 1)
    following.log(0).release()
    following.leader.answer(data(records=batch(0, 5)), data(1, records=batch(0, 5)))
    assert following.manager.failed_partitions == {TopicPartition(TOPIC, 0)}
    assert following.log(1).log_end_offset == 1


# --- throttled replicas (KIP-73)


def throttled(following, *numbers, rate):
    """Partitions that are throttled, in a session that is open."""
    following.quota.mark_throttled(TOPIC, frozenset(numbers))
    following.quota.bound = rate
    return following.follow(0, 1)


def test_a_throttled_partition_that_is_behind_waits_while_the_quota_is_exceeded(following):
    throttled(following, 0, rate=100)
    following.leader.answer(
        data(0, records=batch(0, 5, count=50), high_watermark=1000),
        data(1, records=batch(0, 5), high_watermark=1000),
    )
    [forgotten] = following.leader.asked.forgotten_topics_data
    assert (forgotten.partitions, [*following.leader.named]) == ([0], [1])

    following.leader.answer()
    following.clock.advance(60_000)
    following.leader.answer()
    assert following.leader.named[0].fetch_offset == 50, "the bytes of a minute ago count no more"


def test_a_throttled_partition_in_sync_is_fetched_though_the_quota_is_exceeded(following):
    throttled(following, 0, rate=100)
    following.leader.answer(data(0, records=batch(0, 5, count=50), high_watermark=50), data(1))
    assert following.quota.is_exceeded()
    assert not following.leader.asked.forgotten_topics_data
    assert following.leader.named[0].fetch_offset == 50


def test_what_is_not_throttled_counts_for_no_quota(following):
    throttled(following, 0, rate=100)
    following.leader.answer(data(0), data(1, records=batch(0, 5, count=50), high_watermark=1000))
    assert not following.quota.is_exceeded()


def test_with_a_throttle_of_zero_one_answer_comes_and_then_none(following):
    throttled(following, 0, 1, rate=0)
    assert [*following.leader.named] == [0, 1]
    following.leader.answer(data(0, records=batch(0, 5), high_watermark=9), data(1, high_watermark=9))
    assert following.leader.asked is None
    following.clock.advance(5_000)
    assert following.leader.asked is None
    following.quota.bound = 1_000_000
    following.clock.advance(BACKOFF_MS)
    assert [*following.leader.named] == [0], "the session still has the other one"


def test_a_throttled_partition_that_is_new_waits_while_the_quota_is_exceeded(following):
    throttled(following, 0, 2, rate=100)
    following.leader.answer(data(0, records=batch(0, 5, count=50), high_watermark=50), data(1))
    following.follow(2)
    following.leader.answer()
    assert 2 not in following.leader.named, "nothing is known of it, so it counts as behind"


# --- thousands of partitions


def test_a_session_of_many_partitions_begins_in_slices(monkeypatch):
    monkeypatch.setattr("replica_rig.Clock", TickingClock)
    following = Following()
    many = range(100)
    following.follow(*many)
    assert [*following.leader.named] == [*many]
    assert following.clock.turns > 15, (
        "half a millisecond a partition, 5 ms a slice: for the plan, and for the request"
    )


@pytest.fixture
def beginning(monkeypatch):
    """Plans the first request for a hundred partitions; the function is called in the middle of it."""
    monkeypatch.setattr("replica_rig.Clock", TickingClock)
    following = Following()
    partitions = [following.partition(number) for number in range(100)]
    for each in partitions:
        each.make_follower(following.rig.state(leader=LEADER, epoch=5), ID)

    def begin(meanwhile):
        following.manager.fetch([InitialFetchState(each, LEADER, 5) for each in partitions])
        # The fourth turn of the loop comes in the middle of the plan, and the controller speaks in it.
        turns = []

        def turn():
            turns.append(following.leader.asked)
            if len(turns) == 4:
                meanwhile(following)
            if len(turns) < 100:
                following.clock.call_soon(turn)

        turn()
        following.clock.advance()
        assert turns[3] is None, "the request was not out yet"
        return following

    return begin


def test_what_changes_while_a_session_begins_is_left_to_its_second_request(beginning):
    following = beginning(lambda it: it.manager.stop([TopicPartition(TOPIC, 99)]))
    assert [*following.leader.named] == [*range(99)]
    following.leader.answer()
    assert not following.leader.asked.forgotten_topics_data


def test_partitions_that_all_change_while_a_session_begins_are_asked_for(beginning):
    def all_again(following):
        states = [InitialFetchState(each, LEADER, 5) for each in following.partitions.values()]
        following.manager.stop([each.partition.tp for each in states])
        following.manager.fetch(states)

    following = beginning(all_again)
    assert [*following.leader.named] == [*range(100)]


def test_a_fetcher_whose_partitions_all_go_while_its_session_begins_ends(beginning):
    following = beginning(lambda it: it.manager.stop([each.tp for each in it.partitions.values()]))
    assert following.manager.fetchers == []


def test_partitions_are_spread_over_fetchers_as_kafka_spreads_them():
    """Operators and quotas know them by their names. The hash of the topic is negative, as Java's int."""
    following = Following(fetchers=3)
    following.follow(*range(7))

    expected = [abs(c_int32(31 * java_hash(TOPIC) + number).value) % 3 for number in range(7)]
    found = [
        fetcher.name
        for number in range(7)
        for fetcher in following.manager.fetchers
        if TopicPartition(TOPIC, number) in fetcher
    ]
    assert found == [f"ReplicaFetcherThread-{each}-{LEADER}" for each in expected]
    assert {name[-3] for name in found} == {"0", "1", "2"}


def test_other_numbers_of_fetchers_copy_the_same_partitions():
    following = Following(fetchers=4)
    following.manager.resize(following.end_points[:1])
    following.follow(*range(8))
    for number in (4, 2):
        following.manager.resize(following.end_points[:number])
        following.clock.advance()
        copied = [len(fetcher) for fetcher in following.manager.fetchers]
        assert (len(copied), sum(copied)) == (number, 8)
    following.manager.begin_shutdown()
    following.manager.resize(following.end_points)
    assert following.manager.fetchers == []
