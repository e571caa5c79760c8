"""One partition as this broker plays it: leader, follower or nothing yet (``kafka.cluster.Partition``).

Theory of operation
-------------------
The controller says who leads (LeaderAndIsr); two epochs guard against its messages arriving late: the
*leader epoch* grows with every election, the *partition epoch* with every change of the ISR.

A leader appends, and learns from its followers' fetches how far each has got: a fetch from offset n says
that everything below n has arrived. The *high watermark* is the smallest log end offset of all replicas that
are, may be, or are about to be in sync; consumers see what lies below it, and a produce with acks=all
is answered when it is passed. It stands still while the ISR is smaller than ``min.insync.replicas``
(KIP-966): what consumers saw must survive the loss of all but that many replicas. A leader that is the
only replica moves it with every append.

A partition refuses to know about requests, sessions and waiting: it raises `KafkaError` or returns values;
what waits is woken through `Ports.on_progress`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from barnabas.cluster.leadership import LeaderAndIsr
from barnabas.core.chunks import Buffer
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import ZERO_UUID, TopicPartition, Uuid
from barnabas.core.pending import Pending
from barnabas.log.leader_epochs import EpochEnd
from barnabas.log.log import Log
from barnabas.log.producers import AppendOrigin
from barnabas.log.results import AppendInfo, UnexpectedAppendOffsetError
from barnabas.protocol.partition_states import LeaderAndIsrPartitionState
from barnabas.records.batch import BatchHeader
from barnabas.replica.cached_partition import CachedPartition
from barnabas.replica.isr import EMPTY_ISR, OUTDATED, REFUSED, AlterPartition, IsrChanges, IsrState
from barnabas.replica.log_read import Isolation, LogRead, read_records
from barnabas.replica.replica import Replica

_log = EventLog("replica.partition")

NO_LEADER_EPOCH: Final = -1
TO_HIGH_WATERMARK: Final = -1
"""The offset that deletes every record which consumers may see (``DeleteRecordsRequest.HIGH_WATERMARK``)."""
_NONE: Final = ErrorCode.NONE


class Role(Enum):
    """What this broker is for the partition."""

    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"


@dataclass(frozen=True, slots=True)
class Ports:
    """What every partition of a broker needs from around it."""

    broker_id: int
    now_ms: Callable[[], int]
    open_log: Callable[[TopicPartition, Uuid, bool], Log]
    """The log of a partition, created if it is new; raises KafkaError KAFKA_STORAGE_ERROR."""
    is_alive: Callable[[int], bool]
    """Whether a broker is registered; a dead one may not join an ISR."""
    alter_partition: AlterPartition
    on_progress: Callable[[TopicPartition], object]
    """Called when a high watermark moved other than by an append, or a log start."""
    replica_lag_time_max_ms: int
    isr_changes: IsrChanges


class Partition:
    """The state of one partition on this broker."""

    __slots__ = (
        "_fills_front",
        "_ports",
        "_replicas",
        "adding_replicas",
        "assignment",
        "controller_epoch",
        "isr_state",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leader_id",
        "leader_log",
        "log",
        "partition_epoch",
        "removing_replicas",
        "tp",
    )

    def __init__(self, tp: TopicPartition, ports: Ports) -> None:
        self.tp = tp
        self._ports = ports
        self.log: Log | None = None
        self.leader_log: Log | None = None
        """The log while this broker leads, else None: the produce path asks only for this."""
        self.leader_id: int | None = None
        self.leader_epoch = NO_LEADER_EPOCH
        self.leader_epoch_start_offset: int | None = None
        self.partition_epoch = -1
        self.controller_epoch = 0
        self.isr_state: IsrState = EMPTY_ISR
        self.assignment: tuple[int, ...] = ()
        self.adding_replicas: tuple[int, ...] = ()
        self.removing_replicas: tuple[int, ...] = ()
        self._replicas: dict[int, Replica] = {}
        self._fills_front = False
        """Whether this follower lacks the front of its log, and may begin again to get it."""

    @property
    def role(self) -> Role:
        """Leader, follower, or none before the first LeaderAndIsr."""
        if self.leader_log is not None:
            return Role.LEADER
        return Role.NONE if self.leader_id is None else Role.FOLLOWER

    @property
    def topic_id(self) -> Uuid:
        """The topic's id as the log on disk has it; zeros if there is none."""
        return ZERO_UUID if self.log is None else self.log.topic_id or ZERO_UUID

    @property
    def replicas(self) -> Iterable[Replica]:
        return self._replicas.values()

    @property
    def min_isr(self) -> int:
        """``min.insync.replicas``, but never more than there are replicas."""
        if self.log is None:
            return 1
        return min(self.log.config.min_insync_replicas, len(self.assignment))

    @property
    def under_min_isr(self) -> bool:
        return self.leader_log is not None and len(self.isr_state.isr) < self.min_isr

    @property
    def is_under_replicated(self) -> bool:
        return self.leader_log is not None and len(self.isr_state.isr) < len(self.assignment)

    # --- roles ----------------------------------------------------------------------------------------

    def make_leader(self, state: LeaderAndIsrPartitionState, topic_id: Uuid) -> bool:
        """``makeLeader``: takes the leadership; whether this broker did not lead before.

        Raises KAFKA_STORAGE_ERROR.
        """
        # The answer to an AlterPartition has overtaken this request: its ISR is the newer one.
        if state.partition_epoch < self.partition_epoch:
            return False
        was_leader = self.leader_log is not None
        self._assign(state, frozenset(state.isr))
        self._keep_replicas(broker for broker in state.replicas if broker != self._ports.broker_id)
        log = self._open_log(state, topic_id)
        # In the same epoch only the ISR or the assignment has changed: what followers have reached still
        # counts.
        if state.leader_epoch > self.leader_epoch:
            self._start_epoch(log, state, is_new_leader=not was_leader)
        self.partition_epoch = state.partition_epoch
        self.leader_id = self._ports.broker_id
        self.leader_log = log
        # The ISR may be down to this broker alone.
        self.advance_high_watermark()
        return not was_leader

    def make_follower(self, state: LeaderAndIsrPartitionState, topic_id: Uuid) -> bool:
        """``makeFollower``: follows a leader; whether the epoch is new: then fetching must start again."""
        if state.partition_epoch < self.partition_epoch:
            return False
        is_new_epoch = state.leader_epoch > self.leader_epoch
        # Before anything that may fail: from here on produces are answered NOT_LEADER_OR_FOLLOWER.
        self.leader_log = None
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.leader_epoch_start_offset = None
        self.partition_epoch = state.partition_epoch
        # Only a leader keeps an ISR, and knows how far the others are.
        self._assign(state, frozenset())
        self._replicas.clear()
        log = self._open_log(state, topic_id)
        # In the ISR it could be elected while only a part of its log is there again.
        self._fills_front = log.lacks_front and self._ports.broker_id not in state.isr
        return is_new_epoch

    def prepare_log(self, state: LeaderAndIsrPartitionState, topic_id: Uuid) -> None:
        """``createLogIfNotExists``: a log without a role, for a follower whose leader is not known yet."""
        self._open_log(state, topic_id)

    def _assign(self, state: LeaderAndIsrPartitionState, isr: frozenset[int]) -> None:
        self.controller_epoch = state.controller_epoch
        self.assignment = tuple(state.replicas)
        self.adding_replicas = tuple(state.adding_replicas)
        self.removing_replicas = tuple(state.removing_replicas)
        self.isr_state = IsrState(isr)

    def _keep_replicas(self, followers: Iterable[int]) -> None:
        # A follower that stays keeps what it has reached: else each change of the assignment would empty the
        # ISR.
        known = self._replicas
        self._replicas = {broker: known.get(broker) or Replica(broker) for broker in followers}

    def _open_log(self, state: LeaderAndIsrPartitionState, topic_id: Uuid) -> Log:
        if self.log is None:
            self.log = self._ports.open_log(self.tp, topic_id, state.is_new)
        # A log of before KIP-516: the controller's first request with an id gives it one.
        elif self.log.topic_id is None and topic_id != ZERO_UUID:
            self.log.assign_topic_id(topic_id)
        return self.log

    def _start_epoch(self, log: Log, state: LeaderAndIsrPartitionState, *, is_new_leader: bool) -> None:
        start_offset = log.log_end_offset
        # A follower may have records of a later epoch than any of ours; it finds where to cut by asking
        # where each epoch ended, so the new epoch is noted before its first record (KIP-101).
        try:
            log.leader_epochs.assign(state.leader_epoch, start_offset)
        except OSError as error:
            raise log.refused(error) from error
        now_ms = self._ports.now_ms()
        for replica in self._replicas.values():
            replica.reset(
                now_ms=now_ms,
                leader_end_offset=start_offset,
                is_new_leader=is_new_leader,
                in_isr=replica.broker_id in state.isr,
            )
        self.leader_epoch = state.leader_epoch
        self.leader_epoch_start_offset = start_offset
        _log.info("partition.leads", partition=self.tp, epoch=self.leader_epoch, offset=start_offset)

    # --- the leader's side ------------------------------------------------------------------------------

    def append(
        self,
        records: bytearray | memoryview,
        required_acks: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        header: BatchHeader | None = None,
        *,
        validated: bool = False,
    ) -> tuple[AppendInfo, bool]:
        """``appendRecordsToLeader``: what came of it, and whether the high watermark moved.

        Raises NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, and what `Log.append` raises.
        """
        log = self.leader_log
        if log is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Leader not local for partition {self.tp} on broker {self._ports.broker_id}",
            )
        # Only acks=all is refused: acks=1 and acks=0 do not ask for more than the leader's copy.
        if required_acks == -1 and self.under_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {sorted(self.isr_state.isr)} is insufficient to satisfy "
                f"the min.isr requirement of {self.min_isr} for partition {self.tp}",
            )
        info = log.append(
            records,
            self.leader_epoch,
            self._ports.now_ms(),
            header,
            origin=origin,
            validated=validated,
        )
        return info, self._advance_high_watermark()

    def validate_heavy(self, records: memoryview | bytearray) -> Pending[bytes | None]:
        """Validates a batch off the loop: see `Log.validate_heavy`. Only as leader."""
        log = self.leader_log
        assert log is not None, "only a leader looks into a batch"
        return log.validate_heavy(records, self._ports.now_ms())

    def advance_high_watermark(self) -> None:
        """Moves the high watermark as far as it may go now, after anything but an append or a fetch; wakes
        what waits for it.
        """
        if self._advance_high_watermark():
            self._ports.on_progress(self.tp)

    def enough_replicas(self, offset: int) -> tuple[bool, ErrorCode]:
        """``checkEnoughReplicasReachOffset``: whether an acks=all produce that ends before `offset` may be
        answered, and with which code.
        """
        log = self.leader_log
        # Another broker leads by now; it may have the records or cut them off.
        if log is None:
            return False, ErrorCode.NOT_LEADER_OR_FOLLOWER
        if log.high_watermark < offset:
            return False, _NONE
        # All replicas of the ISR have it, but the ISR has shrunk since the append: the client may want to
        # know.
        if len(self.isr_state.maximal) < self.min_isr:
            return True, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return True, _NONE

    def _advance_high_watermark(self) -> bool:
        """``maybeIncrementLeaderHW``: whether it moved."""
        log = self.leader_log
        if log is None:
            return False
        # What must be synced first is not there yet: consumers may not see what a power cut can take back.
        offset = log.recovery_point if log.flush_needed else log.log_end_offset
        # A leader that is the only replica waits for nobody.
        if self._replicas:
            # KIP-966: what consumers saw must survive the loss of all but min.insync.replicas.
            if len(self.isr_state.isr) < self.min_isr:
                return False
            offset = self._smallest_end_offset(offset)
        # A replica that came into the ISR may be behind; what consumers have seen stays visible.
        if offset <= log.high_watermark:
            return False
        log.high_watermark = offset
        return True

    def _smallest_end_offset(self, leader_end_offset: int) -> int:
        maximal = self.isr_state.maximal
        now_ms = self._ports.now_ms()
        smallest = leader_end_offset
        for replica in self._replicas.values():
            if replica.log_end_offset < smallest and (
                replica.broker_id in maximal or self._about_to_join(replica, leader_end_offset, now_ms)
            ):
                smallest = replica.log_end_offset
        return smallest

    def _about_to_join(self, replica: Replica, leader_end_offset: int, now_ms: int) -> bool:
        # A replica that has caught up will be in the ISR in a moment; leaving it behind the high watermark
        # now would keep it out for another round.
        lag_max_ms = self._ports.replica_lag_time_max_ms
        return replica.is_caught_up(leader_end_offset, now_ms, lag_max_ms) and self._ports.is_alive(
            replica.broker_id
        )

    # --- deleting -----------------------------------------------------------------------------------------

    def delete_records(self, offset: int) -> tuple[int, int]:
        """``deleteRecordsOnLeader``: moves the log start to the offset, -1 for the high watermark; (the
        offset, the low watermark).

        Raises POLICY_VIOLATION for a topic that is only compacted, OFFSET_OUT_OF_RANGE,
        NOT_LEADER_OR_FOLLOWER.
        """
        log = self.log_for(NO_LEADER_EPOCH, leader_only=True)
        if not log.config.deletes:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Records of partition {self.tp} can not be deleted due to the configured policy",
            )
        # ``-1``: what consumers may see, and nothing that a new leader could lack.
        if offset == TO_HIGH_WATERMARK:
            offset = log.high_watermark
        if offset < 0:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"The offset {offset} for partition {self.tp} is not valid"
            )
        if log.maybe_increment_log_start_offset(offset):
            self._ports.on_progress(self.tp)
        return offset, self.low_watermark

    @property
    def low_watermark(self) -> int:
        """``lowWatermarkIfLeader``: the smallest log start of the live replicas; raises
        NOT_LEADER_OR_FOLLOWER.
        """
        lowest = self.log_for(NO_LEADER_EPOCH, leader_only=True).log_start_offset
        # A dead replica learns the start of the log from its leader when it is back: nobody waits for it.
        for replica in self._replicas.values():
            if replica.log_start_offset < lowest and self._ports.is_alive(replica.broker_id):
                lowest = replica.log_start_offset
        return lowest

    # --- reading ----------------------------------------------------------------------------------------

    def log_for(self, current_leader_epoch: int, *, leader_only: bool) -> Log:
        """``localLogWithEpochOrThrow``: the log, if this broker may serve from it. An epoch of -1 is not
        checked.

        Raises FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER.
        """
        log = self.leader_log if leader_only else self.log
        if log is not None and current_leader_epoch in (NO_LEADER_EPOCH, self.leader_epoch):
            return log
        raise self._not_served(current_leader_epoch, leader_only)

    def _not_served(self, epoch: int, leader_only: bool) -> KafkaError:
        # With the right epoch, or without one, it is the role that does not fit. An older epoch than ours:
        # the client has to refresh its metadata. A newer one: this broker has not heard of the election yet
        # (KIP-320).
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if epoch not in {NO_LEADER_EPOCH, self.leader_epoch}:
            fenced = self.leader_epoch > epoch
            code = ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH
        return KafkaError(
            code,
            f"Failed to find {'leader' if leader_only else ''} log for partition {self.tp} with leader "
            f"epoch {'unknown' if epoch == NO_LEADER_EPOCH else epoch}. The current leader is "
            f"{self.leader_id} and the current epoch {self.leader_epoch}",
        )

    def read(
        self,
        wanted: CachedPartition,
        isolation: Isolation,
        *,
        max_bytes: int,
        min_one_message: bool,
        leader_only: bool,
    ) -> LogRead:
        """``fetchRecords``: reads from the offset asked for, at most to the end that the isolation allows.

        With an epoch that does not fit ours (KIP-595) nothing is read, and `LogRead.diverging` says where
        the reader must cut. Raises what `log_for` does, and OFFSET_OUT_OF_RANGE.
        """
        log = self.log_for(wanted.current_leader_epoch, leader_only=leader_only)
        return read_records(log, wanted, isolation, max_bytes=max_bytes, min_one_message=min_one_message)

    def epoch_end(self, epoch: int, current_leader_epoch: int, *, leader_only: bool) -> EpochEnd:
        """``lastOffsetForLeaderEpoch``: where `epoch` ends here; raises what `log_for` does."""
        log = self.log_for(current_leader_epoch, leader_only=leader_only)
        return log.leader_epochs.end_offset_for(epoch, log.log_end_offset)

    # --- following --------------------------------------------------------------------------------------

    def append_as_follower(self, records: Buffer) -> AppendInfo | None:
        """``appendRecordsToFollowerOrFutureReplica``: appends what the leader has, offsets and epochs
        included.

        Raises what `Log.append_as_follower` does.
        """
        log = self.log
        assert log is not None, "a follower has a log"
        now_ms = self._ports.now_ms()
        try:
            return log.append_as_follower(records, now_ms)
        except UnexpectedAppendOffsetError as error:
            # The leader's log may start in the middle of a batch, which comes whole: an empty log begins with
            # it.
            empty = log.log_start_offset == log.log_end_offset
            if not (empty and error.first_offset < log.log_end_offset <= error.last_offset):
                raise
            log.truncate_fully_and_start_at(error.first_offset)
            return log.append_as_follower(records, now_ms)

    def follow_offsets(self, high_watermark: int, log_start_offset: int) -> None:
        """Takes over the leader's high watermark and log start, as far as this log reaches."""
        log = self.log
        assert log is not None, "a follower has a log"
        if self._fills_front:
            self._fill_front(log, log_start_offset)
        # It is cut to the end of this log: the leader's may lie beyond what has been copied.
        before = log.high_watermark
        log.high_watermark = high_watermark
        moved = log.high_watermark != before
        # ``maybeIncrementLogStartOffset``, by LeaderOffsetIncremented: records that the leader has deleted.
        if log.log_start_offset < log_start_offset <= log.high_watermark:
            moved = log.maybe_increment_log_start_offset(log_start_offset) or moved
        if moved:
            self._ports.on_progress(self.tp)

    def _fill_front(self, log: Log, leader_start_offset: int) -> None:
        """Begins again where the leader's log does, if that is where records are missing here."""
        self._fills_front = False
        first_left = log.segments[0].base_offset
        if leader_start_offset < first_left:
            _log.warning(
                "partition.fills_front",
                partition=self.tp,
                leader=self.leader_id,
                first_offset_left=first_left,
                leader_start_offset=leader_start_offset,
                meaning="this replica lacks the front of its log, and copies all of it again",
            )
            log.truncate_fully_and_start_at(leader_start_offset)

    # --- followers and the ISR --------------------------------------------------------------------------

    def follower(self, replica_id: int, current_leader_epoch: int) -> Replica:
        """The follower of that id; raises for a broker that has no replica."""
        replica = self._replicas.get(replica_id)
        if replica is not None:
            return replica
        unknown_epoch = current_leader_epoch != NO_LEADER_EPOCH
        raise KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH if unknown_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"Replica {replica_id} is not recognized as a valid replica of {self.tp} in leader epoch "
            f"{self.leader_epoch} with partition epoch {self.partition_epoch}",
        )

    def record_follower_fetch(
        self, replica: Replica, wanted: CachedPartition, found: LogRead, broker_epoch: int
    ) -> None:
        """``updateFollowerFetchState``: notes how far a follower has got; may ask for it to join the ISR, may
        move the high watermark.
        """
        start_before, before = replica.log_start_offset, replica.log_end_offset
        replica.record_fetch(
            fetch_offset=wanted.fetch_offset,
            start_offset=wanted.fetcher_log_start_offset,
            now_ms=self._ports.now_ms(),
            leader_end_offset=found.log_end_offset,
            broker_epoch=broker_epoch,
        )
        # First the ISR: a replica that joins counts for the high watermark from the proposal on.
        self._maybe_expand_isr(replica)
        # The low watermark may have moved with the follower's log start.
        progress = replica.log_start_offset != start_before
        if replica.log_end_offset != before and self._advance_high_watermark():
            progress = True
        if progress:
            self._ports.on_progress(self.tp)

    def _maybe_expand_isr(self, replica: Replica) -> None:
        """``maybeExpandIsr``."""
        if (
            not self.isr_state.in_flight
            and replica.broker_id not in self.isr_state.isr
            and self._ports.is_alive(replica.broker_id)
            and self._in_sync(replica)
        ):
            self._propose(self.isr_state.isr | {replica.broker_id})

    def _in_sync(self, replica: Replica) -> bool:
        # Having passed the high watermark is not enough: it may still lag from the epoch before.
        log, epoch_start = self.leader_log, self.leader_epoch_start_offset
        if log is None or epoch_start is None:
            return False
        return replica.log_end_offset >= log.high_watermark and replica.log_end_offset >= epoch_start

    def maybe_shrink_isr(self) -> None:
        """``maybeShrinkIsr``: asks for the removal of followers that have not caught up for
        replica.lag.time.max.ms (``getOutOfSyncReplicas``).
        """
        log = self.leader_log
        # One proposal at a time (KIP-497): the answer to it may change who is behind.
        if log is None or self.isr_state.in_flight:
            return
        now_ms, lag_max_ms = self._ports.now_ms(), self._ports.replica_lag_time_max_ms
        behind = {
            replica.broker_id
            for replica in self._replicas.values()
            if replica.broker_id in self.isr_state.isr
            and not replica.is_caught_up(log.log_end_offset, now_ms, lag_max_ms)
        }
        if behind:
            _log.info("partition.isr_shrinks", partition=self.tp, behind=sorted(behind))
            self._propose(self.isr_state.isr - behind)

    def _propose(self, isr: frozenset[int]) -> None:
        self.isr_state = self.isr_state.propose(isr)
        self._submit(self.isr_state, isr)

    def _submit(self, state: IsrState, isr: frozenset[int]) -> None:
        """``submitAlterPartition``."""
        proposal = LeaderAndIsr(
            self._ports.broker_id,
            tuple(sorted(isr)),
            self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )
        decision = self._ports.alter_partition.submit(self.tp, self.topic_id, proposal)
        decision.when_done(lambda done: self._decided(state, isr, done))

    def _decided(self, state: IsrState, isr: frozenset[int], decision: Pending[LeaderAndIsr]) -> None:
        if self.isr_state is not state:
            return  # the controller has spoken since, by LeaderAndIsr
        if decision.error is None:
            self._accepted(decision.result())
            return
        # REFUSED: the controller will never take it. OUTDATED: a newer LeaderAndIsr is on its way, and ends
        # the proposal. Anything else may pass, and the same proposal is sent again
        # (``handleAlterPartitionError``).
        error = decision.error
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        if code in REFUSED:
            self.isr_state = IsrState(state.isr)
            # The replica that may not join has been waited for.
            self.advance_high_watermark()
        elif code not in OUTDATED:
            _log.warning("partition.isr_change_failed", partition=self.tp, error=code.name, retry=True)
            self._submit(state, isr)

    def _accepted(self, decided: LeaderAndIsr) -> None:
        """``handleAlterPartitionUpdate``."""
        # LeaderAndIsr was faster than this answer.
        if decided.leader_epoch != self.leader_epoch or decided.partition_epoch < self.partition_epoch:
            return
        changes = self._ports.isr_changes
        if len(decided.isr) < len(self.isr_state.isr):
            changes.shrinks += 1
        elif len(decided.isr) > len(self.isr_state.isr):
            changes.expands += 1
        self.isr_state = IsrState(frozenset(decided.isr))
        self.partition_epoch = decided.partition_epoch
        self.advance_high_watermark()

    def close(self) -> None:
        """Forgets the role: the replica is stopped or its log directory failed."""
        self.log = self.leader_log = None
        self.leader_id = None
        self._replicas.clear()
        self.isr_state = EMPTY_ISR

    def __repr__(self) -> str:
        log = self.log
        hw = "-" if log is None else log.high_watermark
        isr = sorted(self.isr_state.isr)
        return f"<Partition {self.tp} {self.role.name} epoch={self.leader_epoch} isr={isr} hw={hw}>"
