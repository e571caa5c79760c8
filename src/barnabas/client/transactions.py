"""`TransactionManager`: the transactions of one producer, from its id to the end of each (KIP-98, KIP-360).

Theory of operation
-------------------
The coordinator of the transactional id gives the producer its id and epoch, which fences every older producer
of that id. From `begin` on the accumulator takes records. The sender asks `admits` before it takes a batch of
a partition: the first batch of each waits until AddPartitionsToTxn has told the coordinator of the partition;
all partitions that come up meanwhile go together in the next request. `commit` waits until every batch is
stored, and only then sends EndTxn: so nothing of a transaction can reach a log after its marker. `abort`
fails what was never sent, waits for the outcome of what was, and sends EndTxn.

A failed batch, or an answer that says so, makes the transaction one that can only be aborted; the producer
then takes a new epoch, so that batches of the old one that are still under way are refused. An answer that
says that another producer has the id, or one that was not foreseen, is the end of this producer.

`EndTxn` and its like are repeated until there is an answer: giving up would leave it open what became of the
transaction. ``max.block.ms`` limits how long a caller waits; a caller that calls again waits for the same
end.

Where the cluster has ``transaction.version`` 2 (the second part of KIP-890), the first batch of a partition
adds it to the transaction, so nothing is asked before; EndTxn is answered with the epoch of the next
transaction, so a failed one is followed by no question for an epoch. A transaction is of one version from its
begin to its end. Elsewhere the requests are those that every broker from Kafka 0.11 on serves (Produce up to
v11, EndTxn up to v4). ``TransactionManager`` of Java's client is the model.
"""

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from barnabas.client import transaction_state as codes
from barnabas.client.accumulator import RecordAccumulator
from barnabas.client.cluster import Cluster
from barnabas.client.committed import Offsets, with_metadata
from barnabas.client.coordinator_link import CoordinatorLink
from barnabas.client.errors import (
    AbortableTransactionError,
    ClientTimeoutError,
    FatalTransactionError,
    ProducerFencedError,
    TransactionStateError,
)
from barnabas.client.home_loop import end
from barnabas.client.partition_queue import NO_IDENTITY, ProducerIdentity
from barnabas.client.retries import Attempts, Deadline, is_retriable
from barnabas.client.transaction_state import VALID_SOURCES, TransactionOutcome, TransactionState
from barnabas.client.types import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas.core.config import Config
from barnabas.core.errors import BarnabasError, ErrorCode, IllegalTransitionError, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition, by_topic
from barnabas.network.backoff import ExponentialBackoff
from barnabas.protocol.coordinator_type import CoordinatorType
from barnabas.protocol.message import Response
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

R = TypeVar("R", bound=Response)
S = TransactionState

TRANSACTION_VERSION: Final = "transaction.version"
_PRODUCE: Final = (3, 11)
_PRODUCE_2: Final = (12, 13)
"""In version 2 a Produce adds its partitions by itself."""
_INIT: Final = (0, 5)
_BUMP: Final = (3, 5)
_ADD_PARTITIONS: Final = (0, 3)
_ADD_OFFSETS: Final = (0, 4)
_OFFSET_COMMIT: Final = (0, 4)
_WITH_MEMBER: Final = (3, 4)
_OFFSET_COMMIT_2: Final = (5, 5)
_END: Final = (0, 4)
_END_2: Final = (5, 5)
_VERSION_2: Final = 2
_SEND_OFFSETS: Final = "send_offsets"
_OPEN: Final = (S.IN_TRANSACTION, S.COMMITTING)
_FAILED: Final = (S.ABORTABLE_ERROR, S.FATAL_ERROR)
_MARKERS_BACKOFF_MS: Final = (1, 20)
"""On one machine markers take two milliseconds; Java's client waits 20 each time."""
_GO_ON: Final = (
    TransactionOutcome.MOVED,
    TransactionOutcome.AGAIN,
    TransactionOutcome.SOON,
    TransactionOutcome.DONE,
)
"""What fails nothing, the slowest first."""

_log = EventLog("client.transactions")


class TransactionManager:
    """The transactions of one producer; lives on its event loop."""

    def __init__(
        self,
        config: Config,
        cluster: Cluster,
        accumulator: RecordAccumulator,
        pump: Callable[[], object],
        give_up_waiting: Callable[[Callable[[], Exception], bool], object],
    ) -> None:
        """`pump` makes the sender look for what it may send now. `give_up_waiting` makes it fail the batches
        that are not on their way; if told so, only those that were never sent.
        """
        self.state = S.UNINITIALIZED
        self.identity: ProducerIdentity = NO_IDENTITY
        """The producer id and epoch under which batches are sent."""
        self.transactional_id: str = config["transactional.id"]
        self._timeout_ms: int = config["transaction.timeout.ms"]
        self._max_block_ms: int = config["max.block.ms"]
        self._cluster = cluster
        self._accumulator = accumulator
        self._pump = pump
        self._give_up_waiting = give_up_waiting
        self._link = CoordinatorLink(
            cluster, self.transactional_id, lambda: None, kind=CoordinatorType.TRANSACTION
        )
        self._group_links: dict[str, CoordinatorLink] = {}
        low, high = _MARKERS_BACKOFF_MS
        self._markers_backoff = ExponentialBackoff(initial_ms=low, max_ms=high, uniform=random.uniform)
        self._partitions: set[TopicPartition] = set()
        """The partitions that the coordinator counts to the transaction."""
        self._new: set[TopicPartition] = set()
        """Those that it has to be told of first."""
        self._pending: set[TopicPartition] = set()
        """Those that it is being told of."""
        self._adding: asyncio.Task[None] | None = None
        self._started = False
        """Whether the coordinator knows of the transaction, so that its end has to be written."""
        self._bump = False
        """Whether a new epoch is needed before the next transaction."""
        self._is_version_2 = False
        """Whether the first batch of a partition adds it, and each end bumps the epoch."""
        self._error: KafkaError | None = None
        self._failed = asyncio.Event()
        self._calls: dict[str, asyncio.Task[None]] = {}
        """What runs, by the name of the call: a caller that gave up waiting comes back to it."""
        accumulator.refuse_with(self._refusal)

    # What a producer's user calls.

    async def init(self) -> None:
        """Fences older producers of the id and gets this one's epoch (``initTransactions``).

        Raises KafkaError where the id may not be used, ClientTimeoutError without an answer in time. Harmless
        when repeated.
        """
        # A second call joins the first one, or does nothing when that is done.
        if self.state in (S.UNINITIALIZED, S.INITIALIZING):
            await self._waited("init_transactions", self._initialize)
        self._raise_fatal()

    def begin(self) -> None:
        """From now on records belong to a new transaction. Raises TransactionStateError while another one is
        open, the failure of a producer that has failed.
        """
        self._raise_fatal()
        self._expect("begin_transaction", S.READY)
        self._look_at_version()
        self._to(S.IN_TRANSACTION)
        self._accumulator.refuse_with(None)

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: ConsumerGroupMetadata,
    ) -> None:
        """Commits a group's offsets with the transaction (``sendOffsetsToTransaction``, KIP-447).

        Raises AbortableTransactionError where the group does not have this member in this generation, and
        as `commit`.
        """
        self.raise_error()
        self._expect("send_offsets", S.IN_TRANSACTION)
        wanted = with_metadata(offsets)
        if wanted:
            await self._waited(
                f"{_SEND_OFFSETS} of group {group.group_id}", lambda: self._commit_offsets(wanted, group)
            )
            self.raise_error()

    async def commit(self) -> None:
        """Waits until all records are stored, then commits. Raises AbortableTransactionError where something
        failed: then abort. Raises ClientTimeoutError when the end is not known within ``max.block.ms``:
        call again, the end is being written.
        """
        # Else an earlier call is still at it, and this one waits for the same end.
        if self.state is not S.COMMITTING:
            self.raise_error()
            self._expect("commit_transaction", S.IN_TRANSACTION)
            self._close_for(S.COMMITTING)
        await self._waited("commit_transaction", self._commit)
        self.raise_error()

    async def abort(self) -> None:
        """Aborts; records that were not sent yet fail. Raises as `commit`."""
        if self.state is not S.ABORTING:
            self._raise_fatal()
            self._expect("abort_transaction", S.IN_TRANSACTION, S.ABORTABLE_ERROR)
            self._failed.clear()
            self._close_for(S.ABORTING)
        await self._waited("abort_transaction", self._abort)
        self._raise_fatal()

    @property
    def can_abort(self) -> bool:
        """Whether there is a transaction that `abort` can end."""
        return self.state in (S.IN_TRANSACTION, S.ABORTING, S.ABORTABLE_ERROR)

    @property
    def is_ending(self) -> bool:
        """Whether an end waits for the records that are accepted."""
        return self.state in (S.COMMITTING, S.ABORTING)

    @property
    def is_fatal(self) -> bool:
        """Whether this producer can do nothing more."""
        return self.state is S.FATAL_ERROR

    @property
    def produce_versions(self) -> tuple[int, int]:
        """The versions of Produce that the transaction may be written with."""
        return _PRODUCE_2 if self._is_version_2 else _PRODUCE

    # What the sender asks and tells.

    def admits(self, tp: TopicPartition, *, sent_before: bool) -> bool:
        """Whether a batch of the partition may be sent now; a new partition is told to the coordinator.

        A batch that was sent before goes again even in a transaction that failed: its outcome is needed.
        """
        if self.state is S.FATAL_ERROR:
            return False
        # Its first batch adds the partition: nothing has to be told before.
        if self._is_version_2 and self.state in _OPEN:
            self._partitions.add(tp)
            self._started = True
        # The coordinator knows of the partition: new batches while the transaction can be committed.
        if tp in self._partitions:
            return sent_before or self.state in _OPEN
        # The first batch of the partition: it waits for AddPartitionsToTxn, which then pumps again.
        if self.state in _OPEN and tp not in self._pending:
            self._new.add(tp)
            if self._adding is None or self._adding.done():
                self._adding = asyncio.create_task(self._add_partitions())
        return False

    def records_failed(self, error: Exception) -> None:
        """A batch of the transaction was given up, or a record was not taken at all: it can only be aborted
        (``maybeTransitionToErrorState``).
        """
        if self.state not in (S.IN_TRANSACTION, S.COMMITTING, S.ABORTABLE_ERROR):
            return
        # The sequence number of a batch is used up, or nobody knows: only a new epoch is surely free of it.
        self._bump = True
        if isinstance(error, KafkaError) and error.code in codes.FATAL_IN_PRODUCE:
            self._fail(FatalTransactionError(error.code, str(error)))
        # The first failure is the one that the caller gets; what follows from it says less.
        elif self.state is not S.ABORTABLE_ERROR:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.TRANSACTION_ABORTABLE
            self._fail(AbortableTransactionError(code, str(error)))

    async def close(self) -> None:
        """Ends what runs; the transaction stays as it is at the coordinator, which aborts it in time."""
        await end(self._adding, *self._calls.values())
        for link in (self._link, *self._group_links.values()):
            await link.close()

    # The steps.

    async def _initialize(self, bumped: ProducerIdentity = NO_IDENTITY) -> None:
        """Asks for id and epoch; with those of before, for the next epoch (``InitProducerIdHandler``)."""
        self._to(S.INITIALIZING)
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=bumped.producer_id,
            producer_epoch=bumped.epoch,
        )
        # KIP-360: only from version 3 on a request names the id and epoch of before.
        versions = _INIT if bumped is NO_IDENTITY else _BUMP

        async def attempt() -> TransactionOutcome:
            answer = await self._link.send(request, InitProducerIdResponse, versions=versions)
            outcome = self._judged(answer.error_code, codes.INIT_PRODUCER_ID, "InitProducerId")
            if outcome is TransactionOutcome.DONE:
                self.identity = ProducerIdentity(
                    answer.producer_id, answer.producer_epoch, transactional=True
                )
            return outcome

        await self._until_done(self._link, attempt)
        self._bump = False
        self._to(S.READY)
        _log.info(
            "transactions.ready",
            id=self.transactional_id,
            producer_id=self.identity.producer_id,
            epoch=self.identity.epoch,
        )

    async def _add_partitions(self) -> None:
        """Tells the coordinator of the partitions that came up, until there are none
        (``AddPartitionsToTxnHandler``).
        """
        # Partitions that come up while a request is under way are collected for the next one.
        while self._new and self.state in _OPEN:
            self._pending, self._new = self._new, set()
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.identity.producer_id,
                v3_and_below_producer_epoch=self.identity.epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=name, partitions=sorted(tp.partition for tp in each))
                    for name, each in by_topic(self._pending).items()
                ],
            )
            try:
                added = await self._while_open(self._link, functools.partial(self._add, request))
            except KafkaError:
                return  # `_fail` has said so
            if added:
                self._started = True
                self._partitions |= self._pending
                self._pending = set()
                self._pump()

    async def _add(self, request: AddPartitionsToTxnRequest) -> TransactionOutcome:
        answer = await self._link.send(request, AddPartitionsToTxnResponse, versions=_ADD_PARTITIONS)
        return self._judged_all(
            (
                one.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for one in topic.results_by_partition
            ),
            codes.ADD_PARTITIONS,
            "AddPartitionsToTxn",
            default=TransactionOutcome.ABORT,
        )

    async def _commit_offsets(self, offsets: Offsets, group: ConsumerGroupMetadata) -> None:
        """AddOffsetsToTxn to the transaction's coordinator, unless the commit adds its partition by itself;
        then TxnOffsetCommit to the group's.
        """
        # Not announced: the transaction has failed meanwhile, and the group must not see the offsets.
        if not self._is_version_2 and not await self._announce(group):
            return
        self._started = True
        # The group's coordinator is another broker than the transaction's, in general.
        link = self._group_links.get(group.group_id)
        if link is None:
            link = self._group_links[group.group_id] = CoordinatorLink(
                self._cluster, group.group_id, lambda: None
            )
        await self._while_open(link, lambda: self._commit_at(link, offsets, group))

    async def _announce(self, group: ConsumerGroupMetadata) -> bool:
        """AddOffsetsToTxn; whether it is done (``AddOffsetsToTxnHandler``)."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            group_id=group.group_id,
        )

        async def announce() -> TransactionOutcome:
            answer = await self._link.send(request, AddOffsetsToTxnResponse, versions=_ADD_OFFSETS)
            return self._judged(answer.error_code, codes.ADD_OFFSETS, "AddOffsetsToTxn")

        return await self._while_open(self._link, announce)

    async def _commit_at(
        self, link: CoordinatorLink, offsets: Offsets, group: ConsumerGroupMetadata
    ) -> TransactionOutcome:
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=name, partitions=[_position(tp, offsets[tp]) for tp in partitions]
                )
                for name, partitions in by_topic(offsets).items()
            ],
        )
        # A broker before KIP-447 cannot fence a zombie of the group: the member must not get lost on the way.
        versions = _WITH_MEMBER if group.member_id else _OFFSET_COMMIT
        if self._is_version_2:
            versions = _OFFSET_COMMIT_2
        answer = await link.send(request, TxnOffsetCommitResponse, versions=versions)
        found = (one.error_code for topic in answer.topics for one in topic.partitions)
        return self._judged_all(found, codes.OFFSET_COMMIT, "TxnOffsetCommit")

    async def _commit(self) -> None:
        # A batch may fail while its outcome is waited for: then there is nothing to commit.
        await self._settled()
        if self.state is S.COMMITTING:
            await self._end(committed=True)
            self._ended(S.READY)

    async def _abort(self) -> None:
        self._give_up_waiting(
            lambda: AbortableTransactionError(
                ErrorCode.TRANSACTION_ABORTABLE, "The transaction was aborted before the record was sent"
            ),
            True,
        )
        await self._settled()
        # An answer has said that the producer is fenced: the transaction is no longer its own to end.
        if self.state is not S.ABORTING:
            return
        # The coordinator no longer has this producer id: there is nothing that it could end.
        lost = self._error is not None and self._error.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        before = self.identity
        if not lost:
            await self._end(committed=False)
        # A sequence number may be used up without its batch: the next transaction has a new epoch. In version
        # 2 the end has brought it.
        if self._bump and self.identity is before:
            await self._initialize(self.identity)
        self._bump = False
        self._ended(S.READY)

    async def _settled(self) -> None:
        """Waits until no batch of the transaction is on its way, nor a partition or offsets being added."""
        others = [task for name, task in self._calls.items() if name.startswith(_SEND_OFFSETS)]
        # An abort waits for it: a partition that is added after EndTxn would begin the next transaction.
        if self._adding is not None and self.state is S.ABORTING:
            others.append(self._adding)
        if others:
            await asyncio.wait(others)
        while (futures := self._accumulator.outcomes()) and self.is_ending:
            self._pump()
            stored = asyncio.gather(*map(asyncio.wrap_future, futures), return_exceptions=True)
            # A failure ends the wait of a commit: the batches that are left are the abort's to wait for.
            failed = asyncio.ensure_future(self._failed.wait())
            await asyncio.wait((stored, failed), return_when=asyncio.FIRST_COMPLETED)
            failed.cancel()

    async def _end(self, *, committed: bool) -> None:
        """EndTxn, where the coordinator knows of the transaction (``EndTxnHandler``)."""
        # Nothing was added, so the coordinator has no transaction: it would answer INVALID_TXN_STATE.
        if not self._started:
            return
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=committed,
        )

        async def attempt() -> TransactionOutcome:
            versions = _END_2 if self._is_version_2 else _END
            answer = await self._link.send(request, EndTxnResponse, versions=versions)
            outcome = self._judged(answer.error_code, codes.END, "EndTxn")
            # KIP-890: the next epoch, or the next producer id where the epochs are used up.
            if self._is_version_2 and outcome is TransactionOutcome.DONE:
                self.identity = ProducerIdentity(
                    answer.producer_id, answer.producer_epoch, transactional=True
                )
            return outcome

        await self._until_done(self._link, attempt)

    def _look_at_version(self) -> None:
        """Which version the next transaction has; as before while no broker has told of features
        (``maybeUpdateTransactionV2Enabled``).
        """
        level = self._cluster.network.finalized_level(TRANSACTION_VERSION)
        if level is not None:
            self._is_version_2 = level >= _VERSION_2

    # Answers.

    async def _until_done(
        self, link: CoordinatorLink, attempt: Callable[[], Awaitable[TransactionOutcome]]
    ) -> None:
        """Repeats an attempt until it is done. Raises KafkaError, which is the state's error then."""
        attempts = Attempts(self._cluster.backoff)
        while await self._once(link, attempt) is not TransactionOutcome.DONE:
            await attempts.another()

    async def _while_open(
        self, link: CoordinatorLink, attempt: Callable[[], Awaitable[TransactionOutcome]]
    ) -> bool:
        """Repeats an attempt as long as the transaction may be committed, and whether it is done. One that
        got no answer is repeated until there is one: what the coordinator knows decides about the end.
        """
        attempts, soon = Attempts(self._cluster.backoff), Attempts(self._markers_backoff)
        while (outcome := await self._once(link, attempt)) is not TransactionOutcome.DONE:
            # It was answered, so nothing was done: a transaction that failed needs it no more.
            if outcome is not TransactionOutcome.UNKNOWN and self.state not in _OPEN:
                return False
            await (soon if outcome is TransactionOutcome.SOON else attempts).another()
        return True

    async def _once(
        self, link: CoordinatorLink, attempt: Callable[[], Awaitable[TransactionOutcome]]
    ) -> TransactionOutcome:
        try:
            await link.find()
            outcome = await attempt()
        except (BarnabasError, OSError) as error:
            # No answer: the coordinator may have done it all the same, so it is asked until it says so.
            if not is_retriable(error):
                if not isinstance(error, AbortableTransactionError | FatalTransactionError):
                    self._fail(_fatal(error))
                raise
            return TransactionOutcome.UNKNOWN
        if outcome is TransactionOutcome.MOVED:
            link.lost("it is not the coordinator any more")
        return outcome

    def _judged(
        self,
        number: int,
        table: Mapping[ErrorCode, TransactionOutcome],
        request: str,
        default: TransactionOutcome = TransactionOutcome.DIE,
    ) -> TransactionOutcome:
        """What an answer's code leads to; raises what ends the transaction or the producer."""
        code = ErrorCode.of(number)
        outcome = table.get(code, default)
        if outcome in _GO_ON:
            return outcome
        where = f"{code.message} ({request}, transactional id {self.transactional_id})"
        # Another producer of the id has begun (KIP-98): this one can do nothing more.
        if outcome is TransactionOutcome.FENCED:
            error: KafkaError = ProducerFencedError(ErrorCode.PRODUCER_FENCED, where)
        # While it ends there is nothing left to abort: what would be abortable is fatal then.
        elif outcome is TransactionOutcome.DIE or self.state not in _OPEN:
            error = FatalTransactionError(code, where)
        else:
            self._bump = self._bump or outcome is TransactionOutcome.BUMP
            error = AbortableTransactionError(code, where)
        self._fail(error)
        raise error

    def _judged_all(
        self,
        numbers: Iterable[int],
        table: Mapping[ErrorCode, TransactionOutcome],
        request: str,
        default: TransactionOutcome = TransactionOutcome.DIE,
    ) -> TransactionOutcome:
        """What the codes of several partitions lead to: the first that ends something, else the slowest."""
        outcomes = {self._judged(number, table, request, default) for number in sorted(numbers, key=_gravity)}
        return next(
            (each for each in _GO_ON if each in outcomes),
            TransactionOutcome.DONE,
        )

    # The state.

    def _to(self, state: TransactionState) -> None:
        if self.state not in VALID_SOURCES[state]:
            raise IllegalTransitionError(f"{self!r} cannot become {state.name}")
        _log.debug("transactions.state", id=self.transactional_id, old=self.state.name, new=state.name)
        self.state = state

    def _fail(self, error: KafkaError) -> None:
        """The transaction, or the producer, has failed: records are refused with the reason."""
        if self.state is S.FATAL_ERROR:
            return
        fatal = isinstance(error, FatalTransactionError)
        self._error = error
        self._failed.set()
        self._to(S.FATAL_ERROR if fatal else S.ABORTABLE_ERROR)
        self._accumulator.refuse_with(self._refusal)
        _log.warning("transactions.failed", id=self.transactional_id, fatal=fatal, error=error)
        # No batch can be sent from now on, so the futures of all fail here.
        if fatal:
            self._give_up_waiting(lambda: _again(error), False)
        self._pump()

    def _close_for(self, state: TransactionState) -> None:
        """No record comes in from now on: the transaction is about to end."""
        self._to(state)
        self._accumulator.refuse_with(self._refusal)

    def _ended(self, state: TransactionState) -> None:
        if self.state is not state:
            self._to(state)
        self._partitions.clear()
        self._new.clear()
        self._pending.clear()
        self._started = False
        self._error = None
        self._failed.clear()

    def _refusal(self) -> Exception:
        """Why no record is taken now."""
        if self._error is not None and self.state in _FAILED:
            return _again(self._error)
        return TransactionStateError(
            f"No transaction of {self.transactional_id} is open ({self.state.name}): begin one, and send in "
            "it"
        )

    def _expect(self, call: str, *states: TransactionState) -> None:
        if self.state not in states:
            advice = {
                S.UNINITIALIZED: "call init_transactions first",
                S.READY: "no transaction is open: call begin_transaction first",
                S.IN_TRANSACTION: "a transaction is open: commit or abort it first",
            }.get(self.state, f"it is {self.state.name}")
            raise TransactionStateError(f"{call} of {self.transactional_id} cannot be called now: {advice}")

    def raise_error(self) -> None:
        """Raises why the transaction, or the producer, has failed."""
        if self._error is not None and self.state in _FAILED:
            raise _again(self._error)

    def _raise_fatal(self) -> None:
        if self.state is S.FATAL_ERROR:
            self.raise_error()

    async def _waited(self, call: str, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Waits for a step, which continues when its caller no longer waits. Raises ClientTimeoutError, and
        what it raises.
        """
        task = self._calls.get(call)
        # A caller that gave up after ``max.block.ms`` finds the step here, and does not begin it a second
        # time.
        if task is None or task.done():
            task = self._calls[call] = asyncio.create_task(step())
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        deadline = Deadline(self._max_block_ms)
        try:
            async with asyncio.timeout(deadline.left_s):
                await asyncio.shield(task)
        except TimeoutError:
            raise ClientTimeoutError(
                f"{call} of {self.transactional_id} has no end within {deadline.total_ms:.0f} ms "
                "(max.block.ms); it goes on: call it again"
            ) from None
        except (AbortableTransactionError, FatalTransactionError) as error:
            raise _again(error) from None

    def __repr__(self) -> str:
        return f"<TransactionManager {self.transactional_id} {self.state.name} {self.identity}>"


def _position(tp: TopicPartition, offset: OffsetAndMetadata) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(
        partition_index=tp.partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def _gravity(number: int) -> bool:
    """Sorts what others were only held up by (OPERATION_NOT_ATTEMPTED) behind its reason."""
    return number == ErrorCode.OPERATION_NOT_ATTEMPTED


def _fatal(error: BarnabasError | OSError) -> KafkaError:
    code = error.code if isinstance(error, KafkaError) else ErrorCode.UNSUPPORTED_VERSION
    return FatalTransactionError(code, str(error))


def _again(error: KafkaError) -> KafkaError:
    """The same error once more: an exception that is raised twice collects tracebacks."""
    return type(error)(error.code, error.message)
