"""`ReplicaFetcher`: copies partitions from one leader, one request after the other
(``ReplicaFetcherThread``).
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from barnabas.core.chunks import Chunk, FileSlice
from barnabas.core.clock import Clock, Timer
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import NO_EPOCH, TopicPartition
from barnabas.core.pending import Pending, Steps, gather, steps
from barnabas.core.slices import Slices
from barnabas.log.leader_epochs import EpochEnd
from barnabas.log.log import Log
from barnabas.protocol.fetch_session import FetchPlan, FetchTarget
from barnabas.replica.fetcher.truncation import truncation_offset
from barnabas.replica.partition import Partition
from barnabas.replica.quota import ReplicationQuotaManager

_log = EventLog("replica.fetcher")


class FetchData(NamedTuple):
    """What a leader answers for one partition (``FetchData``)."""

    error: ErrorCode
    records: Chunk | None
    high_watermark: int
    log_start_offset: int
    diverging_epoch: EpochEnd | None
    """Where the leader's log ends for an epoch that this replica has more of, or not at all."""


Answers: TypeAlias = Iterator[tuple[TopicPartition, FetchData]]


class LeaderEndPoint(Protocol):
    """One leader, as one fetcher of this broker sees it; one request at a time (``LeaderEndPoint``)."""

    leader_id: int

    @property
    def partition_max_bytes(self) -> int:
        """How much may be asked of one partition."""

    @property
    def opens_session(self) -> bool:
        """Whether the next fetch names all partitions, not only what changed."""

    def plan(self, wanted: Mapping[TopicPartition, FetchTarget]) -> FetchPlan:
        """The first fetch of a session."""

    def plan_changes(self, changes: Mapping[TopicPartition, FetchTarget | None]) -> FetchPlan:
        """The next fetch of the session, by what changed since the last one;
        None for what is not fetched now.
        """

    def requested(self, tp: TopicPartition) -> FetchTarget | None:
        """What the last fetch asked of a partition."""

    def fetch(self, plan: FetchPlan) -> Pending[Answers]:
        """What the leader answers, by partition.
        Fails with DisconnectedError, and KafkaError for the whole.
        """

    def fetch_latest_offset(self, tp: TopicPartition, leader_epoch: int) -> Pending[int]:
        """Where the leader's log ends. Fails with what the leader answers, and with DisconnectedError."""

    def fetch_earliest_offset(self, tp: TopicPartition, leader_epoch: int) -> Pending[int]:
        """Where the leader's log starts."""

    def close(self) -> None:
        """Ends the connection."""


_TRANSIENT: Final = {
    # The leader has not heard of the partition or of the epoch yet, or the next LeaderAndIsr is under way.
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
}


class PartitionFetchState:
    """One partition that is copied under one leader epoch (``PartitionFetchState``)."""

    __slots__ = ("delayed_until_ms", "lag", "leader_epoch", "partition")

    def __init__(self, partition: Partition, leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.delayed_until_ms: float | None = None
        """Until when it is left out of requests, after an error or for its throttle."""
        self.lag: int | None = None
        """How many records below the leader's high watermark are not here;
        None before the leader's first answer.
        """

    @property
    def in_sync(self) -> bool:
        """``isReplicaInSync``, as far as it can be seen from here."""
        return self.lag is not None and self.lag <= 0

    def target(self, max_bytes: int) -> FetchTarget | None:
        """What to ask for; None while it waits, and for one whose disk has failed."""
        log = self.partition.log
        if log is None or self.delayed_until_ms is not None:
            return None
        # KIP-595: the leader compares this epoch with its own, and says where the two logs part.
        epoch = log.leader_epochs.latest_epoch
        return FetchTarget(
            self.partition.topic_id,
            log.log_end_offset,
            self.leader_epoch,
            max_bytes,
            NO_EPOCH if epoch is None else epoch,
            log.log_start_offset,
        )

    def expects(self, requested: FetchTarget | None) -> bool:
        """Whether the answer to this is still of use."""
        log = self.partition.log
        return (
            requested is not None
            and log is not None
            and self.delayed_until_ms is None
            and requested.leader_epoch == self.leader_epoch
            and requested.offset == log.log_end_offset
            # A topic that is deleted and made again under its name begins with the same epoch and offset.
            and requested.topic_id == self.partition.topic_id
        )

    def __repr__(self) -> str:
        waits = "" if self.delayed_until_ms is None else " delayed"
        return f"<PartitionFetchState {self.partition.tp} epoch={self.leader_epoch}{waits}>"


class FetchedBytes:
    """How many bytes of records all fetchers of a broker have copied since it started."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0

    def __repr__(self) -> str:
        return f"<FetchedBytes {self.total}>"


class ReplicaFetcher:
    """All partitions that one broker copies from one leader, or its share of them where
    `num.replica.fetchers` is more than 1.
    """

    def __init__(
        self,
        name: str,
        leader: LeaderEndPoint,
        clock: Clock,
        *,
        backoff_ms: int,
        failed: set[TopicPartition],
        truncated: Callable[[], object],
        on_empty: Callable[["ReplicaFetcher"], object],
        quota: ReplicationQuotaManager,
        fetched: FetchedBytes,
    ) -> None:
        """`failed` takes the partitions that cannot be copied before the next LeaderAndIsr; `truncated` is
        called after logs were cut, `on_empty` when there is nothing left to copy: then this fetcher has
        ended. What arrives is added to `fetched`.
        """
        self.name = name
        self.leader = leader
        self._clock = clock
        self._backoff_ms = backoff_ms
        self._failed = failed
        self._truncated = truncated
        self._on_empty = on_empty
        self._quota = quota
        self._fetched_bytes = fetched
        self._partitions: dict[TopicPartition, PartitionFetchState] = {}
        self._changed: dict[TopicPartition, None] = {}
        """What the next request says something new about, in order."""
        self._delayed: dict[TopicPartition, PartitionFetchState] = {}
        """Those that wait, the first to be ready in front: each waits equally long."""
        self._adding = False
        """Whether partitions came in this turn of the loop."""
        self._wait: Pending[None] | None = None
        """Where the fetcher stands while it has nothing to ask."""
        self._timer: Timer | None = None
        self._unreachable = False
        self._closed = False
        clock.call_soon(self._start)

    @property
    def max_lag(self) -> int:
        """Records by which the partition that is the furthest behind lacks its leader's high watermark."""
        return max((state.lag or 0 for state in self._partitions.values()), default=0)

    # --- what is copied -----------------------------------------------------------------------------------

    def add(self, partition: Partition, leader_epoch: int) -> None:
        """``addPartitions``: begins to copy, from the end of the log on.
        Cuts a log without epochs to its high watermark.
        """
        tp, log = partition.tp, partition.log
        assert log is not None, f"{partition!r} has no log to copy to"
        self._failed.discard(tp)
        self._delayed.pop(tp, None)
        # An answer to a request of the former epoch no longer fits (`expects`).
        self._partitions[tp] = PartitionFetchState(partition, leader_epoch)
        self._changed[tp] = None
        self._adding = True
        if log.leader_epochs.latest_epoch is None:
            # What lies above has no epoch to compare, so it may be other records than the leader's.
            try:
                if log.truncate_to(log.high_watermark):
                    self._truncated()
            except KafkaError as error:
                self._fail(tp, error)
        if self._wait is not None:
            self._clock.call_soon(self._wake)

    def remove(self, tp: TopicPartition) -> None:
        """``removePartitions``: an answer that is under way is dropped when it comes."""
        if self._partitions.pop(tp, None) is not None:
            self._delayed.pop(tp, None)
            self._changed[tp] = None
            if self._wait is not None and not self._partitions:
                self._clock.call_soon(self._wake)

    def copied(self) -> list[tuple[Partition, int]]:
        """The partitions that are copied, with the leader epochs under which they are."""
        return [(each.partition, each.leader_epoch) for each in self._partitions.values()]

    def __contains__(self, tp: object) -> bool:
        return tp in self._partitions

    def __len__(self) -> int:
        return len(self._partitions)

    def close(self) -> None:
        """Ends the fetcher; a request in flight has no effect."""
        self._closed = True
        self._partitions.clear()
        if self._timer is not None:
            self._timer.cancel()
        self.leader.close()

    # --- the loop -----------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._run().when_done(self._ended)

    def _ended(self, done: Pending[None]) -> None:
        if done.error is not None:
            # A bug in one turn. The state of each partition is in its log, so the next turn finds all it
            # needs.
            _log.error("fetcher.failed", fetcher=self.name, exc_info=done.error)
            self._changed = dict.fromkeys(self._partitions)
            self._timer = self._clock.call_later(self._backoff_ms, self._start)

    @steps
    def _run(self) -> Steps[None]:
        """``doWork``, turn after turn, until `close` or until there is nothing left to copy."""
        while not self._closed:
            if not self._partitions:
                self._closed = True
                self._on_empty(self)
                return
            if self._adding:
                # LeaderAndIsr is worked off in slices. A request between two of them would hold up the
                # partitions of the next one for as long as the leader waits with its answer.
                self._adding = False
                yield self._next_turn()
                continue
            self._end_delays()
            self._throttle()
            plan = yield from self._plan()
            if self._closed:
                return
            if plan is None:
                # What changed while a session was planned woke no one, as nothing waited yet.
                if not (self.leader.opens_session and self._changed):
                    yield self._until_ready()
                continue
            try:
                answers: Answers = yield self.leader.fetch(plan)
            # The leader does not answer, or refuses the whole: all partitions wait for
            # ``replica.fetch.backoff.ms``.
            except BarnabasError as error:
                if not self._closed:
                    self._say_unreachable(error)
                    yield self._pause()
                continue
            self._say_reachable()
            yield from self._process(answers)

    def _plan(self) -> Steps[FetchPlan | None]:
        """``buildFetch``: the next request; None while no partition is ready.

        A session begins with all partitions, in slices; what changes meanwhile is left to its second request.
        """
        max_bytes = self.leader.partition_max_bytes
        changed, self._changed = self._changed, {}
        if self.leader.opens_session:
            wanted: dict[TopicPartition, FetchTarget] = {}
            slices = Slices(self._clock)
            for tp, copied in list(self._partitions.items()):
                target = copied.target(max_bytes)
                if target is not None:
                    wanted[tp] = target
                if slices.over():
                    yield slices.next_turn()
            # What changed while the session was planned in slices may be planned wrongly: the second request
            # names it.
            for tp in self._changed:
                wanted.pop(tp, None)
            return self.leader.plan(wanted) if wanted else None
        # All of them wait: there is nothing to ask for.
        if len(self._delayed) == len(self._partitions):
            self._changed = changed
            return None
        changes = {
            tp: None if (state := self._partitions.get(tp)) is None else state.target(max_bytes)
            for tp in changed
        }
        return self.leader.plan_changes(changes)

    def _next_turn(self) -> Pending[None]:
        turn: Pending[None] = Pending()
        self._clock.call_soon(partial(turn.complete, None))
        return turn

    def _until_ready(self) -> Pending[None]:
        """Done when a partition is added, or the first of those that wait is ready."""
        self._wait = Pending()
        first = next(iter(self._delayed.values()), None)
        if first is not None and first.delayed_until_ms is not None:
            delay_ms = first.delayed_until_ms - self._clock.monotonic_ms()
            self._timer = self._clock.call_later(max(delay_ms, 0.0), self._wake)
        return self._wait

    def _pause(self) -> Pending[None]:
        pause: Pending[None] = Pending()
        self._timer = self._clock.call_later(self._backoff_ms, partial(pause.complete, None))
        return pause

    def _wake(self) -> None:
        wait, self._wait = self._wait, None
        if wait is not None:
            if self._timer is not None:
                self._timer.cancel()
            wait.complete(None)

    def _say_unreachable(self, error: BarnabasError) -> None:
        if not self._unreachable:
            self._unreachable = True
            _log.warning(
                "fetcher.leader_unreachable", fetcher=self.name, leader=self.leader.leader_id, reason=error
            )

    def _say_reachable(self) -> None:
        if self._unreachable:
            self._unreachable = False
            _log.info("fetcher.leader_reachable", fetcher=self.name, leader=self.leader.leader_id)

    # --- what the leader answers --------------------------------------------------------------------------

    def _process(self, answers: Answers) -> Steps[None]:
        """``processFetchRequest``, in slices."""
        slices = Slices(self._clock)
        flushes: dict[TopicPartition, Pending[None]] = {}
        cut = False
        for tp, data in answers:
            state = self._partitions.get(tp)
            requested = self.leader.requested(tp)
            # Removed while the request was in flight.
            if state is None:
                continue
            if not state.expects(requested):
                self._changed[tp] = None  # the next request says what is expected now
                continue
            log = state.partition.log
            assert log is not None, "what is expected has a log"
            error = data.error
            try:
                # The end of this log is not in the leader's: the logs are brought together before the next
                # fetch.
                if error is ErrorCode.OFFSET_OUT_OF_RANGE:
                    yield from self._handle_out_of_range(state)
                    cut = True
                    if state.expects(requested):
                        raise KafkaError(error)  # nothing has changed: to ask again at once would be in vain
                elif error is not ErrorCode.NONE:
                    raise KafkaError(error)
                # KIP-595: the logs part at an epoch; this one is cut, and the next fetch compares again.
                elif data.diverging_epoch is not None:
                    self._truncate(log, data.diverging_epoch)
                    cut = True
                else:
                    self._append(state, data)
                    # ``flush.messages``: what the next request acknowledges has to be on the disk.
                    if log.flush_needed:
                        flushes[tp] = log.flush_soon()
            except Exception as problem:
                self._handle(state, problem, reported=error is not ErrorCode.NONE)
            self._changed[tp] = None
            if slices.over():
                yield slices.next_turn()
        if cut:
            self._truncated()
        yield from self._flushed(flushes)

    def _append(self, state: PartitionFetchState, data: FetchData) -> None:
        """``processPartitionData``."""
        part, records = state.partition, data.records
        if records:
            assert not isinstance(records, FileSlice), "what was received is in memory"
            part.append_as_follower(records)
            self._fetched_bytes.total += len(records)
            # KIP-73: bytes count also while the replica is in sync, but only one that is behind waits.
            if self._quota.is_throttled(part.tp):
                self._quota.record(len(records))
        # After the append: the high watermark cannot lie beyond what is here.
        part.follow_offsets(data.high_watermark, data.log_start_offset)
        assert part.log is not None, "what is appended to has a log"
        state.lag = max(0, data.high_watermark - part.log.log_end_offset)

    def _flushed(self, flushes: dict[TopicPartition, Pending[None]]) -> Steps[None]:
        """The next request says that all of this has arrived, so it must not get lost in a power cut."""
        if flushes:
            yield gather(flushes.values())
        for tp, flush in flushes.items():
            if flush.error is not None and tp in self._partitions:
                self._fail(tp, flush.error)

    def _truncate(self, log: Log, leader: EpochEnd) -> None:
        """``truncateOnFetchResponse``: the leader has not all of this log;
        the next fetch shows whether more has to go.
        """
        offset = truncation_offset(log, leader)
        if offset < log.high_watermark:
            _log.warning(
                "replica.truncated_below_high_watermark",
                partition=log.tp,
                offset=offset,
                high_watermark=log.high_watermark,
            )
        _log.info("replica.truncated", partition=log.tp, offset=offset, end=log.log_end_offset)
        log.truncate_to(offset)

    def _handle_out_of_range(self, state: PartitionFetchState) -> Steps[None]:
        """``fetchOffsetAndTruncate``: the leader's log ends before this one does, or starts after its end.

        The first follows an unclean election, the second a time in which the leader deleted old segments
        while this replica was away.
        """
        tp, epoch = state.partition.tp, state.leader_epoch
        leader_end: int = yield self.leader.fetch_latest_offset(tp, epoch)
        log = self._copied(state)
        if log is None:
            return
        # An unclean election: the leader never had the end of this log.
        if leader_end < log.log_end_offset:
            _log.warning("replica.truncated", partition=tp, offset=leader_end, end=log.log_end_offset)
            log.truncate_to(leader_end)
            return
        leader_start: int = yield self.leader.fetch_earliest_offset(tp, epoch)
        log = self._copied(state)
        if log is not None and leader_start > log.log_end_offset:
            _log.warning("replica.started_again", partition=tp, offset=leader_start, end=log.log_end_offset)
            log.truncate_fully_and_start_at(leader_start)

    def _copied(self, state: PartitionFetchState) -> Log | None:
        """The log, unless the controller has decided otherwise while the leader was asked."""
        current = self._partitions.get(state.partition.tp) is state
        return state.partition.log if current else None

    # --- errors of one partition --------------------------------------------------------------------------

    def _handle(self, state: PartitionFetchState, problem: Exception, *, reported: bool) -> None:
        """What is wrong with one partition does not hold up the others;
        `reported` says whether by the leader.
        """
        tp = state.partition.tp
        # A LeaderAndIsr has come since: the problem was that of the former epoch.
        if self._partitions.get(tp) is not state:
            return
        code = problem.code if isinstance(problem, KafkaError) else None
        if code is ErrorCode.FENCED_LEADER_EPOCH:
            # ``onPartitionFenced``: there is a newer epoch, and a LeaderAndIsr under way that says so.
            _log.warning(
                "replica.fenced", partition=tp, leader=self.leader.leader_id, epoch=state.leader_epoch
            )
            self._give_up(tp)
        # The leader reported an error, or sent bytes that are damaged: both may pass, so it is asked again.
        elif reported or code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD):
            say = _log.info if code in _TRANSIENT else _log.error
            say("replica.not_copied", partition=tp, leader=self.leader.leader_id, reason=problem, retry=True)
            self._delay(state)
        elif code is ErrorCode.KAFKA_STORAGE_ERROR and (log := state.partition.log) and not log.offline:
            # The disk has no room, or there are no descriptors: the log of events says so, and both pass.
            _log.info(
                "replica.not_copied", partition=tp, leader=self.leader.leader_id, reason=problem, retry=True
            )
            self._delay(state)
        else:
            self._fail(tp, problem)

    def _delay(self, state: PartitionFetchState) -> None:
        """``delayPartitions``: it is left out of requests for `replica.fetch.backoff.ms`."""
        tp = state.partition.tp
        state.delayed_until_ms = self._clock.monotonic_ms() + self._backoff_ms
        self._delayed[tp] = state
        self._changed[tp] = None

    def _throttle(self) -> None:
        """``shouldFollowerThrottle``:
        while the quota is exceeded, throttled partitions that are behind wait.
        """
        if not (self._quota.active and self._quota.is_exceeded()):
            return
        for tp, state in self._partitions.items():
            if state.delayed_until_ms is None and not state.in_sync and self._quota.is_throttled(tp):
                self._delay(state)

    def _end_delays(self) -> None:
        now_ms = self._clock.monotonic_ms()
        while self._delayed:
            tp, state = next(iter(self._delayed.items()))
            if state.delayed_until_ms is not None and state.delayed_until_ms > now_ms:
                return
            del self._delayed[tp]
            state.delayed_until_ms = None
            self._changed[tp] = None

    def _fail(self, tp: TopicPartition, problem: BaseException) -> None:
        known = isinstance(problem, KafkaError)
        _log.error(
            "replica.failed",
            partition=tp,
            leader=self.leader.leader_id,
            reason=problem,
            exc_info=None if known else problem,
        )
        self._give_up(tp)

    def _give_up(self, tp: TopicPartition) -> None:
        """``markPartitionFailed``: it is not copied until the controller's next word on it."""
        self.remove(tp)
        self._failed.add(tp)

    def __repr__(self) -> str:
        return f"<{self.name} partitions={len(self._partitions)} delayed={len(self._delayed)}>"
