"""Appending a produce request, and waiting for the ISR where acks=all asks for it (``DelayedProduce``)."""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import count
from typing import Final, NamedTuple, TypeAlias

from barnabas.core.errors import ErrorCode, KafkaError, RecordValidationError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending, Steps, gather, steps
from barnabas.log.log import Log
from barnabas.log.producers import AppendOrigin
from barnabas.log.results import AppendInfo
from barnabas.log.validator import HeavyBatchError
from barnabas.log.verification import VerificationGuard
from barnabas.log.write_turn import UnwrittenAppends, WriteTurn
from barnabas.records.batch import NO_SEQUENCE, BatchHeader
from barnabas.replica.hosted import HostedPartitions
from barnabas.replica.partition import Partition
from barnabas.replica.purgatory import DelayedOperation, Purgatory
from barnabas.replica.topic_stats import BrokerTopicStats
from barnabas.replica.verification import (
    TransactionOf,
    TransactionSupport,
    Unverified,
    Verifier,
    known_to_committers,
    known_to_producers,
)

_log = EventLog("replica.produce")

ACKS_ALL: Final = -1
VALID_ACKS: Final = frozenset({-1, 0, 1})

_NONE: Final = ErrorCode.NONE
_ADDED: Final = TransactionSupport.ADDED
_CLIENT: Final = AppendOrigin.CLIENT
_EXPECTED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Codes that say nothing about the log:
the answer names no log start offset, and the append does not count as failed.
"""

_WITH_MESSAGE: Final = frozenset({ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP})
"""Only rejected records carry a message to the client (KIP-467)."""


class AppendResult:
    """What became of one partition's records: where they are, or why they are not."""

    __slots__ = (
        "error",
        "info",
        "message",
        "partition",
        "record_errors",
        "settled",
        "synced",
        "tp",
        "unwritten",
    )

    def __init__(
        self,
        tp: TopicPartition,
        info: AppendInfo | None = None,
        error: ErrorCode = _NONE,
        message: str | None = None,
    ) -> None:
        self.tp = tp
        self.info = info or NOWHERE
        self.error = error
        self.message = message
        self.record_errors: Sequence[tuple[int, str]] = ()
        """Which records of the batch were refused, and why (KIP-467)."""
        self.partition: Partition | None = None
        """Where the records were appended."""
        self.synced: Pending[None] | None = None
        """Where ``flush.messages`` asks for it: done when the records are on stable storage."""
        self.settled: Pending[None] | None = None
        """Where the batch is validated in another process: done when the rest of the result is there."""
        self.unwritten: UnwrittenAppends | None = None
        """Where the records wait for the end of a turn: the result may still change then."""

    def __repr__(self) -> str:
        return f"<AppendResult {self.tp} {self.error.name} {self.info.first_offset}..{self.info.last_offset}>"


def _nowhere(log_start_offset: int = -1) -> AppendInfo:
    return AppendInfo(-1, -1, -1, -1, log_start_offset, duplicate=False, size=0)


NOWHERE: Final = _nowhere()
"""Where refused records went."""

Results: TypeAlias = list[AppendResult]


class UnverifiedAppend(NamedTuple):
    """The first batch of a transaction in a partition, until its coordinator has answered."""

    result: AppendResult
    records: bytearray | memoryview
    header: BatchHeader
    guard: VerificationGuard
    partition: Partition
    """The replica that asked: the answer is for no other one of that name."""


class DelayedProduce(DelayedOperation):
    """An acks=all produce whose records not all in-sync replicas have yet."""

    __slots__ = ("_hosted", "_results", "_waiting", "answer")

    def __init__(self, hosted: HostedPartitions, results: Results, waiting: Results) -> None:
        super().__init__()
        self.answer: Pending[Results] = Pending()
        self._hosted = hosted
        self._results = results
        self._waiting: dict[Hashable, Results] = {}
        for result in waiting:
            result.error = ErrorCode.REQUEST_TIMED_OUT  # what holds if nothing else comes
            self._waiting.setdefault(result.tp, []).append(result)

    def try_complete(self, key: Hashable = None) -> bool:
        """Completes when every partition has the acknowledgements, or can no longer get them.

        A partition that has moved is looked at alone: a request of ten thousand is woken ten thousand times.
        """
        waiting = self._waiting
        for tp in list(waiting) if key is None else (key,):
            left = [result for result in waiting.pop(tp, ()) if not self._settled(result)]
            if left:
                waiting[tp] = left
        return not waiting and self.force_complete()

    def _settled(self, result: AppendResult) -> bool:
        if result.partition is None:
            return True  # the write of its turn has failed
        try:
            partition = self._hosted.serve(result.tp)
        except KafkaError as gone:
            result.error = gone.code
            return True
        enough, error = partition.enough_replicas(result.info.last_offset + 1)
        if enough or error:
            result.error = error
        return enough or bool(error)

    def on_complete(self) -> None:
        self.answer.complete(self._results)

    def __repr__(self) -> str:
        return f"<DelayedProduce waits for {[str(tp) for tp in self._waiting]}>"


class Wake:
    """Asks the waiting again when a partition's log or high watermark moved."""

    __slots__ = ("_deletions", "_fetches", "_produces")

    def __init__(self, produces: Purgatory, fetches: Purgatory, deletions: Purgatory) -> None:
        self._produces = produces
        self._fetches = fetches
        self._deletions = deletions

    def appended(self, tp: TopicPartition, *, advanced: bool) -> None:
        """Records were appended. Followers read to the log's end, so fetches are asked in any case."""
        if advanced and self._produces.size:
            self._produces.check_and_complete(tp)
        if self._fetches.size:
            self._fetches.check_and_complete(tp)

    def progressed(self, tp: TopicPartition) -> None:
        """The high watermark or a log start moved, or the partition changed its role."""
        self._produces.check_and_complete(tp)
        self._fetches.check_and_complete(tp)
        self._deletions.check_and_complete(tp)


class Appender:
    """Appends to partitions that this broker leads."""

    __slots__ = ("_hosted", "_now_ms", "_purgatory", "_stats", "_turn", "_waiting", "_wake", "verifier")

    def __init__(
        self,
        hosted: HostedPartitions,
        purgatory: Purgatory,
        wake: Wake,
        stats: BrokerTopicStats | None = None,
        *,
        now_ms: Callable[[], int] = lambda: 0,
        verifier: Verifier | None = None,
    ) -> None:
        """Without a `verifier` nobody is asked about transactions."""
        self._stats = stats or BrokerTopicStats()
        self._now_ms = now_ms
        self.verifier = verifier
        self._hosted = hosted
        self._purgatory = purgatory
        self._wake = wake
        self._turn: WriteTurn | None = None
        self._waiting: Results = []
        """The results of this turn that its write may change."""

    @property
    def in_turn(self) -> bool:
        """Whether small appends wait for `end_turn`."""
        return self._turn is not None

    def begin_turn(self) -> None:
        """Requests follow that have arrived together: small appends of clients may wait for `end_turn`."""
        self._turn = WriteTurn()

    def write_turn(self) -> None:
        """Writes what waits: something else than an append comes next."""
        if self._turn is not None:
            self._turn.write()

    def end_turn(self) -> None:
        """Writes what waits, corrects the results of what a disk refused, and wakes those who wait for the
        rest.
        """
        turn, self._turn = self._turn, None
        waiting, self._waiting = self._waiting, []
        if turn is None or not turn.unwritten:
            return
        turn.write()
        # The disk refused the write of a log, and with it each append that waited there.
        if any(unwritten.error is not None for unwritten in turn.unwritten):
            for result in waiting:
                assert result.unwritten is not None, "it is why the result is here"
                if result.unwritten.error is not None:
                    self._count(result.tp, result.info, -1)
                    _refuse(result, result.partition, result.unwritten.error)
        for unwritten in turn.unwritten:
            if unwritten.buffers:
                # A produce that waits for replicas of what was refused gets its error now.
                news = unwritten.advanced or unwritten.error is not None
                self._wake.appended(unwritten.tp, advanced=news)
        turn.written.complete(None)

    def append(
        self,
        tp: TopicPartition,
        records: bytearray | memoryview,
        required_acks: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        header: BatchHeader | None = None,
        result: AppendResult | None = None,
        guard: VerificationGuard | None = None,
    ) -> AppendResult:
        """``appendRecordsToLeader``: appends one partition's batch; offset and leader epoch are stamped into
        the buffer.

        The `header` is that of the batch, where the caller has read it. A batch that takes long to look into
        gives a result that is `settled` later. Within a turn it is perhaps only written when the turn ends,
        which may change the result: `acknowledge` waits for that. Of a batch that was verified the `result`
        is there already, and a `guard`.
        """
        if result is None:
            result = AppendResult(tp)
        partition = self._hosted.online.get(tp)
        try:
            # Not served here, or offline: `serve` raises the code for that.
            if partition is None:
                partition = self._hosted.serve(tp)
            # KIP-890: the coordinator has answered; a marker may have been written since the question.
            if guard is not None and header is not None:
                self._check_guard(partition, header, guard)
            turn = self._turn
            # Only clients' batches wait for the end of the turn: a coordinator's record is applied right
            # after its append.
            if turn is not None and origin is _CLIENT:
                log = partition.leader_log
                if log is not None:
                    log.join(turn)
            info, advanced = partition.append(records, required_acks, origin, header)
        except KafkaError as error:
            self._refused(result, partition, error, records)
        # Validated in another process, so that the others do not wait for the decompression.
        except HeavyBatchError:
            assert partition is not None, "there is a log that looked at the batch"
            result.settled = self._append_heavy(result, partition, records, required_acks, header, guard)
        except Exception:
            self._failed(result)
        else:
            self._appended(result, partition, info, advanced=advanced)
        return result

    # --- transactions that begin in a partition -------------------------------------------------------------

    def unverified(
        self,
        tp: TopicPartition,
        records: bytearray | memoryview,
        header: BatchHeader,
        support: TransactionSupport,
    ) -> UnverifiedAppend | None:
        """A transactional batch that must not be appended before its coordinator was asked
        (`append_verified`). None for any other; it may still be refused.
        """
        if header.producer_id < 0:
            return None  # nobody's: no coordinator knows of it
        producer = header.producer_id, header.producer_epoch
        guard = self._start_verification(tp, *producer, header.base_sequence, support)
        if guard is None:
            return None
        return UnverifiedAppend(AppendResult(tp), records, header, guard, self._hosted.serve(tp))

    @steps
    def append_verified(
        self,
        transaction: TransactionOf,
        batches: Sequence[UnverifiedAppend],
        required_acks: int,
        support: TransactionSupport,
    ) -> Steps[None]:
        """Asks about all of them at once, and appends those that their transaction has; their results say
        what became of them.
        """
        assert self.verifier is not None, "it is why the batches wait"
        partitions = [each.result.tp for each in batches]
        guards = [each.guard for each in batches]

        def ask_again() -> None:
            # Where the transaction has written since, or this broker leads no longer, there is no question to
            # guard: a guard of no question lets the batch in only while that transaction is open.
            guards[:] = [
                self._start_verification(each.result.tp, *producer, each.header.base_sequence, support)
                or VerificationGuard()
                for each in batches
            ]

        def holds() -> bool:
            return all(map(partial(self._is_verified, producer), partitions, guards))

        producer = transaction.producer_id, transaction.epoch
        # KIP-890: one question for all partitions of the request.
        try:
            refused = yield self._ask_coordinator(transaction, partitions, support, ask_again, holds)
        except Exception:
            for each in batches:
                self._failed(each.result)  # a result without an error would say that they were written
            return
        for (result, records, header, _, partition), guard in zip(batches, guards, strict=True):
            code = refused.get(result.tp)
            if code is not None:
                result.error, result.message = known_to_producers(code)
                continue
            try:
                self._require_same(partition)
            except KafkaError as error:
                self._refused(result, None, error, records)
                continue
            self.append(result.tp, records, required_acks, _CLIENT, header, result, guard)
            # In order: a batch may follow that continues the producer's sequence in the same partition.
            if result.settled is not None:
                yield result.settled

    @steps
    def verify_commit(
        self, tp: TopicPartition, transaction: TransactionOf, support: TransactionSupport
    ) -> Steps[Callable[[], None]]:
        """Asks whether a transaction has the partition that offsets are to be committed to. What comes back
        is to be called right before the append: it raises INVALID_TXN_STATE where a marker came in between.

        Raises KafkaError with a code for committers.
        """
        producer = transaction.producer_id, transaction.epoch
        guard = self._start_verification(tp, *producer, NO_SEQUENCE, support)
        if guard is None:
            if not self._asks(support):
                return lambda: None
            # The transaction has written here already. It may end before the append, which is made in slices.
            return partial(self._check_verified, tp, producer, None)

        def ask_again() -> None:
            nonlocal guard
            guard = self._start_verification(tp, *producer, NO_SEQUENCE, support)

        def holds() -> bool:
            return self._is_verified(producer, tp, guard)

        refused = yield self._ask_coordinator(transaction, [tp], support, ask_again, holds)
        if tp in refused:
            raise KafkaError(known_to_committers(refused[tp]))
        return partial(self._check_verified, tp, producer, guard)

    @steps
    def _ask_coordinator(
        self,
        transaction: TransactionOf,
        partitions: Sequence[TopicPartition],
        support: TransactionSupport,
        ask_again: Callable[[], None],
        holds: Callable[[], bool],
    ) -> Steps[Unverified]:
        """The coordinator's answer. It adds nothing while the markers of the transaction before are on their
        way: then it is asked again for a little while, with new guards, as those markers drop the first ones.
        """
        assert self.verifier is not None, "it is why there is a guard"
        for tries in count():
            refused: Unverified = yield self.verifier.verify(transaction, partitions, support)
            # A question that waited on its way is answered when those markers are written: what was added is
            # in the new transaction, but the guard is gone. (Kafka refuses the batch with INVALID_TXN_STATE.)
            is_early = support is _ADDED and (
                ErrorCode.CONCURRENT_TRANSACTIONS in refused.values() or (not refused and not holds())
            )
            later = self.verifier.later(tries) if is_early else None
            if later is None:
                for tp in refused:
                    if (log := self._leader_log(tp)) is not None:
                        log.producers.refuse_verification(transaction.producer_id)
                return refused
            yield later
            ask_again()
        raise AssertionError("the patience ends")

    def _start_verification(
        self,
        tp: TopicPartition,
        producer_id: int,
        epoch: int,
        sequence: int,
        support: TransactionSupport,
    ) -> VerificationGuard | None:
        log = self._leader_log(tp)
        if log is None or not self._asks(support):
            return None
        return log.producers.start_verification(
            producer_id, epoch, sequence, self._now_ms(), bumped=support is _ADDED
        )

    def _asks(self, support: TransactionSupport) -> bool:
        """Whether anybody is asked about a transaction before its first batch."""
        return self._verifies or (support is _ADDED and self.verifier is not None)

    @property
    def _verifies(self) -> bool:
        return self.verifier is not None and self.verifier.enabled

    def _leader_log(self, tp: TopicPartition) -> Log | None:
        partition = self._hosted.online.get(tp)
        return None if partition is None else partition.leader_log

    def _require_same(self, partition: Partition) -> None:
        """Raises what a client is answered whose batch came to another replica than is here now.

        The topic was deleted while the batch waited, and one of its name created, which must not get it.
        """
        if self._hosted.serve(partition.tp) is not partition:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Another replica of {partition.tp} is here now"
            )

    def _is_verified(
        self, producer: tuple[int, int], tp: TopicPartition, guard: VerificationGuard | None
    ) -> bool:
        log = self._leader_log(tp)
        return log is None or log.producers.is_verified(*producer, guard)

    def _check_verified(
        self, tp: TopicPartition, producer: tuple[int, int], guard: VerificationGuard | None
    ) -> None:
        """Raises INVALID_TXN_STATE where the transaction has ended here since it was asked about."""
        log = self._leader_log(tp)
        if log is not None:
            log.producers.check_verified(*producer, guard)

    @staticmethod
    def _check_guard(partition: Partition, header: BatchHeader, guard: VerificationGuard | None) -> None:
        """A batch that is there already is answered as the first time, also if its transaction has ended."""
        log = partition.leader_log
        if log is not None and log.producers.find_duplicate(header) is None:
            log.producers.check_verified(header.producer_id, header.producer_epoch, guard)

    # --- batches that take long -----------------------------------------------------------------------------

    @steps
    def _append_heavy(
        self,
        result: AppendResult,
        partition: Partition,
        records: bytearray | memoryview,
        required_acks: int,
        header: BatchHeader | None,
        guard: VerificationGuard | None,
    ) -> Steps[None]:
        """Appends when another process has validated the batch; much may have changed meanwhile."""
        try:
            changed = yield partition.validate_heavy(records)
            # The batch was away: leadership may have moved, or the directory failed.
            self._require_same(partition)
            # A marker may have ended the transaction, also one that had written here and has no guard.
            if header is not None and header.is_transactional and (self._verifies or guard is not None):
                self._check_guard(partition, header, guard)
            buffer = records if changed is None else bytearray(changed)
            info, advanced = partition.append(buffer, required_acks, validated=True)
        except KafkaError as error:
            self._refused(result, partition, error, records)
        except Exception:
            self._failed(result)
        else:
            self._appended(result, partition, info, advanced=advanced)

    def _appended(
        self, result: AppendResult, partition: Partition, info: AppendInfo, *, advanced: bool
    ) -> None:
        result.info = info
        result.partition = partition
        self._count(result.tp, info, 1)
        log = partition.leader_log
        if log is not None:
            if log.flush_needed:
                _sync(result, partition, log)
            unwritten = log.unwritten
            # In memory until the end of the turn: nobody is woken for records that the disk may refuse.
            if unwritten is not None and unwritten.buffers:
                result.unwritten = unwritten
                unwritten.advanced = unwritten.advanced or advanced
                self._waiting.append(result)
                return
        self._wake.appended(result.tp, advanced=advanced)

    def _refused(
        self,
        result: AppendResult,
        partition: Partition | None,
        error: KafkaError,
        records: bytearray | memoryview,
    ) -> None:
        # Not of every topic that is asked for: there may be no such topic, and its figures would never be
        # removed.
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            self._stats.of(result.tp.topic).bytes_rejected += len(records)
        elif error.code not in _EXPECTED:
            self._stats.of(result.tp.topic).failed_produces += 1
        _refuse(result, partition, error)

    def _failed(self, result: AppendResult) -> None:
        """An error of ours; called where it is handled."""
        _log.error("produce.append_failed", partition=result.tp, exc_info=True)
        self._stats.of(result.tp.topic).failed_produces += 1
        result.error = ErrorCode.UNKNOWN_SERVER_ERROR

    def _count(self, tp: TopicPartition, info: AppendInfo, times: int) -> None:
        """Counts an append, or takes it back (-1). A batch that was there already was counted then."""
        if not info.duplicate:
            topic = tp.topic
            stats = self._stats.topics.get(topic) or self._stats.of(topic)
            stats.messages_in += times * (info.last_offset - info.first_offset + 1)
            stats.bytes_in += times * info.size

    def whole_log(self, tp: TopicPartition) -> AppendResult:
        """All that a partition has now, as if it had just been appended: for `acknowledge`."""
        result = AppendResult(tp)
        try:
            partition = self._hosted.serve(tp)
        except KafkaError as error:
            result.error = error.code
            return result
        log = partition.leader_log
        if log is None:
            result.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return result
        first, last = log.log_start_offset, log.log_end_offset - 1
        result.info = AppendInfo(first, last, -1, -1, first, duplicate=False, size=0)
        result.partition = partition
        return result

    def acknowledge(
        self, results: Results, required_acks: int, timeout_ms: int
    ) -> Results | Pending[Results]:
        """``delayedProduceRequestRequired``: the results of a request, at once, or when enough replicas and
        disks have the records (acks=-1: all in sync), or when the time is over; of those that wait for the
        end of a turn, a Pending of that alone.
        """
        unsynced: list[Pending[None]] | None = None
        waiting: Results | None = None
        turn = self._turn
        is_written = True
        for each in results:
            if each.synced is not None:
                unsynced = unsynced or []
                unsynced.append(each.synced)
            if each.unwritten is not None:
                is_written = False
            # acks=0 and acks=1 are answered by what this broker has done.
            if required_acks == ACKS_ALL and not _acknowledged(each):
                waiting = waiting or []
                waiting.append(each)
        if waiting is None and unsynced is None:
            return results if turn is None or is_written else turn.written
        outcome: Results | Pending[Results] = results
        if waiting is not None:
            operation = DelayedProduce(self._hosted, results, waiting)
            self._purgatory.watch(operation, [result.tp for result in waiting], timeout_ms)
            outcome = operation.answer
        return outcome if unsynced is None else _when_synced(outcome, results, unsynced)


def _sync(result: AppendResult, partition: Partition, log: Log) -> None:
    result.synced = log.flush_soon()
    result.synced.when_done(lambda _: partition.advance_high_watermark())


def _refuse(result: AppendResult, partition: Partition | None, error: KafkaError) -> None:
    code = error.code
    log = partition.leader_log if partition is not None else None
    start = log.log_start_offset if log is not None and code not in _EXPECTED else -1
    _log.debug("produce.refused", partition=result.tp, error=code.name, reason=error)
    result.info = _nowhere(start)
    result.partition = None
    result.error = code
    result.message = str(error) if code in _WITH_MESSAGE else None
    if isinstance(error, RecordValidationError):
        result.record_errors = error.record_errors


def _acknowledged(result: AppendResult) -> bool:
    """Whether nothing has to be waited for: enough replicas have the records, or never will."""
    if result.error or result.partition is None:
        return True
    enough, result.error = result.partition.enough_replicas(result.info.last_offset + 1)
    return enough or bool(result.error)


def _when_synced(
    outcome: Results | Pending[Results], results: Results, unsynced: list[Pending[None]]
) -> Pending[Results]:
    """Holds the answer back until the disks have what it says; one sync serves all of a turn."""
    answer: Pending[Results] = Pending()

    def synced(_: object) -> None:
        for result in results:
            if result.synced is not None and result.synced.error is not None:
                result.error = ErrorCode.KAFKA_STORAGE_ERROR
        if isinstance(outcome, Pending):
            outcome.when_done(lambda done: answer.complete(done.result()))
        else:
            answer.complete(outcome)

    gather(unsynced).when_done(synced)
    return answer
