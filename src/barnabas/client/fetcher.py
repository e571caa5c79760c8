"""`Fetcher`: keeps a consumer's partitions fetched ahead, one request at a time to each broker.

Theory of operation
-------------------
A partition is fetched while it has a position, is not paused and nothing of it is buffered; so while the
caller works on one partition's records, the next ones of the others are on their way. A broker is asked for
all its partitions in one request, in an incremental fetch session. When an answer comes, each partition
either gets its records buffered, or its position reset (out of range), or fresh metadata (the leader moved).
An answer for a partition that was sought elsewhere in the meantime is dropped.

A leader that was elected although it lacked records has a log that goes on differently. So the first fetch
from each leader epoch names the epoch of the last record before the position, and an answer may say where the
leader's log diverges (KIP-320; Java's consumer asks with OffsetForLeaderEpoch instead, one round trip more).
"""

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from barnabas.client.cluster import Cluster, Versions
from barnabas.client.completed_fetch import CompletedFetch
from barnabas.client.config import ISOLATION_LEVELS
from barnabas.client.consumer_metrics import ConsumerMetrics
from barnabas.client.record_parser import RecordParser
from barnabas.client.subscription_state import AssignedPartition
from barnabas.client.types import AbortedTransaction, RawFetch
from barnabas.core.config import Config
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import ZERO_UUID, TopicPartition, by_topic
from barnabas.core.pending import Pending
from barnabas.network.errors import DisconnectedError, UnsupportedVersionError
from barnabas.protocol.fetch_session import FetchPlan, FetchSessionHandler, FetchTarget
from barnabas.protocol.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

_log = EventLog("client.consumer")
_LAST_VERSION_BY_NAME: Final = 12
_EPOCHS_SINCE: Final = 12
"""From which version on a fetch may name the epoch of the last record."""
_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)


class Fetcher:
    """The fetching half of a consumer; lives on one event loop."""

    def __init__(
        self,
        config: Config,
        cluster: Cluster,
        partitions: Mapping[TopicPartition, AssignedPartition],
        parser: RecordParser | None = None,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._partitions = partitions
        self._parser = parser
        self.metrics = ConsumerMetrics()
        self._sessions: dict[int, FetchSessionHandler] = {}
        self._asked: set[int] = set()
        """The brokers that have not answered yet (``nodesWithPendingFetchRequests``)."""
        self._without_epochs: set[int] = set()
        """The brokers that cannot say where their logs diverge (before Kafka 2.7)."""
        self._closed = False
        self._news = asyncio.Event()
        cluster.watch(lambda _metadata, _topics: self._news.set())
        self.arrived: dict[TopicPartition, RawFetch] = {}
        """What was fetched and not taken yet, in the order it came."""
        self.out_of_range: dict[TopicPartition, int] = {}
        self.truncated: dict[TopicPartition, tuple[int, EpochEndOffset]] = {}
        """Positions whose last record the leader has not, and where its log diverges."""
        self.failures: dict[TopicPartition, KafkaError] = {}
        """Errors that only the caller can deal with."""

    def send_fetches(self) -> None:
        """``sendFetches``: asks every broker that is idle for the partitions that want records."""
        now = time.monotonic()
        # What was fetched and not taken yet is not asked for again: each partition is buffered once.
        wanted = [
            tp
            for tp, state in self._partitions.items()
            if state.is_fetchable(now)
            and tp not in self.arrived
            and tp not in self.failures
            and tp not in self.truncated
        ]
        for node_id, partitions in self._by_node(wanted, now).items():
            # Nobody is known to lead these.
            if node_id < 0:
                self._cluster.need({tp.topic for tp in partitions})
                self._cluster.refresh_soon()
            # One request at a time to a broker: its session counts them.
            elif node_id not in self._asked:
                self._fetch(node_id, partitions)

    def _by_node(
        self, wanted: Iterable[TopicPartition], now: float
    ) -> Mapping[int, Iterable[TopicPartition]]:
        """The partitions under the brokers to ask, -1 for those without a known leader."""
        # Without a rack no leader names a follower (KIP-392): the leaders are grouped once for all fetches.
        if not self._config["client.rack"]:
            return self._cluster.by_leader(wanted)
        grouped: dict[int, list[TopicPartition]] = {}
        for tp in wanted:
            grouped.setdefault(self._read_replica(self._partitions[tp], now), []).append(tp)
        return grouped

    def _read_replica(self, state: AssignedPartition, now: float) -> int:
        """``selectReadReplica``: the follower that the leader named, for a while and as long as it lives;
        else the leader.
        """
        metadata, preferred = self._cluster.metadata, state.preferred_read_replica
        # KIP-392: the follower that the leader named.
        if preferred is not None:
            known = metadata.partition(state.tp)
            offline = known is None or preferred in known.offline_replicas
            if now < state.preferred_until and preferred in metadata.brokers and not offline:
                return preferred
            state.preferred_read_replica = None
            if now < state.preferred_until:
                self._cluster.refresh_soon()
        return metadata.leader(state.tp)

    def _fetch(self, node_id: int, partitions: Iterable[TopicPartition]) -> None:
        # KIP-227: the plan says only what has changed since the last request of the session.
        session = self._sessions.setdefault(node_id, FetchSessionHandler())
        checks = node_id not in self._without_epochs
        targets = {tp: self._target(self._partitions[tp], checks=checks) for tp in partitions}
        for tp in targets:
            self._partitions[tp].in_flight = True
        request = self._request(session.plan(targets))
        self._asked.add(node_id)
        call = self._cluster.request(node_id, request, versions=self._versions(targets))
        now = time.monotonic()
        call.when_done(lambda done: self._completed(node_id, session, targets, now, done))

    def _target(self, state: AssignedPartition, *, checks: bool) -> FetchTarget:
        known = self._cluster.metadata.partition(state.tp)
        leader_epoch = known.leader_epoch if known else -1
        assert state.position is not None
        return FetchTarget(
            topic_id=self._cluster.metadata.topic_id(state.tp.topic),
            offset=state.position,
            leader_epoch=leader_epoch,
            max_bytes=self._config["max.partition.fetch.bytes"],
            # Asked once: brokers serve a fetch without it with less work.
            last_fetched_epoch=state.position_epoch if checks and state.checked_epoch != leader_epoch else -1,
        )

    @staticmethod
    def _versions(targets: Mapping[TopicPartition, FetchTarget]) -> Versions | None:
        """Topics go by id from v13 on; where one has none (its cluster is older), all go by name."""
        nameless = all(target.topic_id != ZERO_UUID for target in targets.values())
        checks = any(target.last_fetched_epoch >= 0 for target in targets.values())
        return (
            _EPOCHS_SINCE if checks else FetchRequest.min_version,
            FetchRequest.max_version if nameless else _LAST_VERSION_BY_NAME,
        )

    def _request(self, plan: FetchPlan) -> FetchRequest:
        topics = []
        for name, members in by_topic(plan.named).items():
            asked = [_fetch_partition(tp, plan.named[tp]) for tp in members]
            topics.append(FetchTopic(topic=name, topic_id=plan.named[members[0]].topic_id, partitions=asked))
        forgotten = [
            ForgottenTopic(
                topic=name,
                topic_id=plan.forgotten[members[0]],
                partitions=[tp.partition for tp in members],
            )
            for name, members in by_topic(plan.forgotten).items()
        ]
        return FetchRequest(
            max_wait_ms=self._config["fetch.max.wait.ms"],
            min_bytes=self._config["fetch.min.bytes"],
            max_bytes=self._config["fetch.max.bytes"],
            isolation_level=ISOLATION_LEVELS[self._config["isolation.level"]],
            session_id=plan.session_id,
            session_epoch=plan.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
            rack_id=self._config["client.rack"],
        )

    def _completed(
        self,
        node_id: int,
        session: FetchSessionHandler,
        targets: Mapping[TopicPartition, FetchTarget],
        asked_at: float,
        call: Pending[Any],
    ) -> None:
        """A request has its answer, or failed (``handleFetchSuccess``, ``handleFetchFailure``)."""
        if self._closed:
            return
        self._asked.discard(node_id)
        for tp in targets:
            if tp in self._partitions:
                self._partitions[tp].in_flight = False
        self._news.set()
        if call.error is None:
            response = call.result()
            size = sum(len(one.records or b"") for topic in response.responses for one in topic.partitions)
            self.metrics.fetched(time.monotonic() - asked_at, size)
            self._answered(session, targets, response)
            return
        # What the broker knows of the session is unknown: the next request begins a new one (KIP-227).
        session.failed()
        if isinstance(call.error, UnsupportedVersionError) and node_id not in self._without_epochs:
            self._without_epochs.add(node_id)
            return
        self._later(targets)
        # A lost connection passes. Anything else (no common version, say) would come again: the caller is
        # told.
        if isinstance(call.error, DisconnectedError | OSError):
            _log.debug("fetch.failed", node=node_id, error=call.error)
        else:
            for tp in targets:
                self.failures[tp] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(call.error))

    def _later(self, targets: Iterable[TopicPartition]) -> None:
        self._cluster.refresh_soon()
        retry_at = time.monotonic() + self._cluster.pause_s(0)
        for tp in targets:
            if tp in self._partitions:
                self._partitions[tp].retry_at = retry_at
                self._partitions[tp].preferred_read_replica = None

    def _answered(
        self,
        session: FetchSessionHandler,
        targets: Mapping[TopicPartition, FetchTarget],
        response: FetchResponse,
    ) -> None:
        code = ErrorCode.of(response.error_code)
        session.answered(code, response.session_id)
        if code is not ErrorCode.NONE:
            _log.debug("fetch.refused", error=code.name)
            # A session that the broker has forgotten: all is asked for again at once.
            if code not in {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH}:
                self._later(targets)
            return
        moved = self._leaders_changed(response)
        for topic in response.responses:
            name = self._cluster.metadata.topic_name(topic.topic_id, topic.topic)
            for data in topic.partitions:
                tp = TopicPartition(name, data.partition_index)
                state = self._partitions.get(tp)
                target = targets.get(tp)
                # Otherwise the caller sought elsewhere, or the partition is no longer assigned.
                if state is not None and target is not None and state.position == target.offset:
                    self._arrived(state, target, data, at_once=tp in moved)

    def _leaders_changed(self, response: FetchResponse) -> Collection[TopicPartition]:
        """KIP-951: a broker that leads a partition no longer says who does, and where that one is."""
        named = {
            TopicPartition(
                self._cluster.metadata.topic_name(topic.topic_id, topic.topic), data.partition_index
            ): data.current_leader
            for topic in response.responses
            for data in topic.partitions
            if data.current_leader is not None
        }
        return self._cluster.leaders_changed(named, response.node_endpoints) if named else ()

    def _arrived(
        self, state: AssignedPartition, target: FetchTarget, data: PartitionData, *, at_once: bool
    ) -> None:
        code = ErrorCode.of(data.error_code)
        if code is ErrorCode.NONE:
            self._take_over(state, target, data)
        elif code is ErrorCode.OFFSET_OUT_OF_RANGE and state.preferred_read_replica is not None:
            # The follower may lack what the leader has: that one says whether the offset is wrong.
            state.preferred_read_replica = None
        # The leader itself says so: auto.offset.reset decides, when the caller polls.
        elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.out_of_range[state.tp] = target.offset
        elif code in _MOVED and at_once:
            _log.debug("fetch.moved", partition=state.tp, error=code.name)
            state.preferred_read_replica = None
        # Another broker leads by now, or the metadata here are older than the broker's (KIP-320): asked again
        # with new ones.
        elif code in _MOVED:
            _log.debug("fetch.moved", partition=state.tp, error=code.name)
            self._later([state.tp])
        elif code.retriable or code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self._later([state.tp])
        # Such as TOPIC_AUTHORIZATION_FAILED: `poll` raises it.
        else:
            self.failures[state.tp] = KafkaError(code, f"{code.message} (fetching {state.tp})")

    def _take_over(self, state: AssignedPartition, target: FetchTarget, data: PartitionData) -> None:
        if data.diverging_epoch is not None:
            self.truncated[state.tp] = target.offset, data.diverging_epoch
            return
        state.checked_epoch = target.leader_epoch
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        # KIP-392: nothing was read here; the next request goes to the follower, for ``metadata.max.age.ms``
        # at most.
        if data.preferred_read_replica >= 0:
            state.preferred_read_replica = data.preferred_read_replica
            state.preferred_until = time.monotonic() + self._config["metadata.max.age.ms"] / 1000
            _log.debug("fetch.preferred_replica", partition=state.tp, broker=data.preferred_read_replica)
        records = data.records
        if records is None or not len(records):
            return
        assert isinstance(records, memoryview | bytes | bytearray)
        self.arrived[state.tp] = RawFetch(
            tp=state.tp,
            position=target.offset,
            records=memoryview(records),
            high_watermark=data.high_watermark,
            last_stable_offset=data.last_stable_offset,
            log_start_offset=data.log_start_offset,
            aborted=[
                AbortedTransaction(one.producer_id, one.first_offset)
                for one in data.aborted_transactions or ()
            ],
        )

    def take(self) -> RawFetch | None:
        """What arrived first and is still wanted where the partition stands."""
        for tp in list(self.arrived):
            state = self._partitions.get(tp)
            # The caller sought elsewhere since it was fetched, or the partition was taken away.
            if state is None or state.position != self.arrived[tp].position:
                del self.arrived[tp]
            # A paused partition keeps what was fetched, so that nothing is fetched twice after `resume`.
            elif not state.is_held_back:
                return self.arrived.pop(tp)
        return None

    def open(self, raw: RawFetch) -> CompletedFetch:
        """The records of what was taken, to be decoded as they are handed out."""
        self.metrics.read(raw.tp.topic, len(raw.records))
        return CompletedFetch(
            raw.tp,
            raw.position,
            raw.records,
            raw.aborted,
            check_crcs=self._config["check.crcs"],
            parser=self._parser,
        )

    async def wait(self, timeout_s: float) -> None:
        """Until there may be something to do: an answer, new metadata, the end of a pause;
        at most this long.
        """
        self._news.clear()
        now = time.monotonic()
        pauses = [state.retry_at - now for state in self._partitions.values() if state.retry_at > now]
        timeout_s = min([timeout_s, *pauses])
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return

    def wake(self) -> None:
        self._news.set()

    def close(self) -> None:
        self._closed = True


def _fetch_partition(tp: TopicPartition, target: FetchTarget) -> FetchPartition:
    return FetchPartition(
        partition=tp.partition,
        current_leader_epoch=target.leader_epoch,
        fetch_offset=target.offset,
        last_fetched_epoch=target.last_fetched_epoch,
        partition_max_bytes=target.max_bytes,
    )
