"""Transactional ids: producers that copy, abort, vanish, and come back as zombies.

A `TransactionalId` starts one `TransactionalProducer` after the other. Each runs one transaction after the
other until it is fenced or vanishes; one that stands still for a while (a zombie) goes on when the next one
has begun long ago.

Producers of both transaction versions take turns under one id. One of version 0 takes a new epoch when a
request was not answered, because that may come late, into its next transaction. One of version 2 does not:
each end brings it the next epoch, and its requests may come once more whenever they like.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

from barnabas.coordinator.runtime.keys import partition_of
from barnabas.coordinator.transaction.metadata import ProducerIdAndEpoch
from barnabas.coordinator.transaction.transaction_version import TV_0, TV_2
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from barnabas.core.pending import Pending, Steps, steps
from barnabas.protocol.message import Request
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from barnabas.replica.produce import ACKS_ALL
from barnabas.testing.replication.broker import SimulatedBroker
from barnabas.testing.replication.clients import SimulatedClient
from barnabas.testing.replication.wire import LostCallError
from barnabas.testing.sometimes import sometimes
from barnabas.testing.transactions.broker import TransactionalBroker
from barnabas.testing.transactions.judge import ABORTED, COMMITTED, SentTransaction, TransactionJudge
from barnabas.testing.transactions.readers import group_of

_E = ErrorCode
_TIMEOUT_MS: Final = 1_000
_PATIENCE_MS: Final = 4_000.0
"""How long a producer tries one thing before it begins again."""
_BACKOFF_MS: Final = 40.0
_MEANS_MAX: Final = 3
_TWICE: Final = 0.03
"""How often a request arrives twice: its first connection was given up, and not its bytes."""
_LATE: Final = 0.3
"""How often a request comes once more when it was answered long ago, where that is allowed."""
_LATE_MS: Final = 300.0
_PRODUCE: Final = {TV_0: 9, TV_2: 12}
_COMMIT_OFFSETS: Final = {TV_0: 3, TV_2: 5}
_END: Final = {TV_0: 3, TV_2: 5}
"""The version of the request, by that of the transaction."""

_AGAIN: Final = frozenset(
    {
        *(_E.COORDINATOR_LOAD_IN_PROGRESS, _E.COORDINATOR_NOT_AVAILABLE, _E.NOT_COORDINATOR),
        *(_E.CONCURRENT_TRANSACTIONS, _E.NOT_ENOUGH_REPLICAS, _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        *(_E.NOT_LEADER_OR_FOLLOWER, _E.REQUEST_TIMED_OUT, _E.UNKNOWN_TOPIC_OR_PARTITION),
        *(_E.KAFKA_STORAGE_ERROR, _E.NETWORK_EXCEPTION, _E.OPERATION_NOT_ATTEMPTED),
    }
)
_ELSEWHERE: Final = frozenset(
    {
        *(_E.NOT_COORDINATOR, _E.COORDINATOR_NOT_AVAILABLE, _E.NOT_LEADER_OR_FOLLOWER),
        *(_E.UNKNOWN_TOPIC_OR_PARTITION, _E.KAFKA_STORAGE_ERROR, _E.NETWORK_EXCEPTION),
    }
)
"""After these a client looks for the leader anew."""
_FENCED: Final = frozenset({_E.PRODUCER_FENCED, _E.INVALID_PRODUCER_EPOCH, _E.INVALID_PRODUCER_ID_MAPPING})
_ABORTABLE: Final = frozenset(
    # The transaction was aborted behind the producer's back, or its guard is gone.
    {_E.INVALID_TXN_STATE, _E.TRANSACTION_ABORTABLE, _E.OUT_OF_ORDER_SEQUENCE_NUMBER}
)


class ClientMix(NamedTuple):
    """Which clients a history has, and how late their requests come."""

    client_versions: Sequence[int]
    """What producers draw theirs from."""
    late_messages: bool = True
    """Whether requests of version 2 come once more when they were answered long ago."""
    late_of_version_0: bool = False
    """Whether those of version 0 do too, and their producers trust in that it does no harm, which it does."""


class Fate(Enum):
    """What a producer does with its next transaction."""

    COMMIT = "commit"
    ABORT = "abort"
    VANISH = "vanish"
    """It is never heard of again."""
    BEGIN_AGAIN = "begin again"
    """It takes a new epoch in the middle."""
    ZOMBIE = "zombie"
    """It stands still, and commits when another one has begun."""


_FATES: Final = (
    *(Fate.COMMIT,) * 6,
    *(Fate.ABORT,) * 2,
    *(Fate.VANISH, Fate.BEGIN_AGAIN, Fate.ZOMBIE),
)


class TransactionalId(SimulatedClient):
    """Has one producer after the other, now and then two at a time."""

    def __init__(
        self,
        *common: Any,
        transactions: TransactionJudge,
        state_partitions: int,
        group_partitions: int,
        timeout_ms: int,
        mix: "ClientMix",
    ) -> None:
        """`common` is that of `SimulatedClient`."""
        super().__init__(*common)
        self.mix = mix
        self.transactions = transactions
        self.timeout_ms = timeout_ms
        self.running = 0
        """Producers that are at work."""
        self.coordinator = TopicPartition(TRANSACTION_STATE_TOPIC, partition_of(self.name, state_partitions))
        self.offsets = TopicPartition(
            GROUP_METADATA_TOPIC, partition_of(group_of(self.name), group_partitions)
        )
        self._pause_ms = 0.0

    def run(self, tps: list[TopicPartition], pause_ms: float) -> None:
        """Starts a producer."""
        self._pause_ms = pause_ms
        if not self.stopping:
            self.running += 1
            TransactionalProducer(self, tps).live().when_done(lambda done: self._gone(tps, done))

    def _gone(self, tps: list[TopicPartition], done: Pending[None]) -> None:
        done.result()  # a crash of the model is none of the product
        self.running -= 1
        if not self.running:
            # Now and then so late that the coordinator has aborted what was left open.
            pause_ms = self.timeout_ms * 1.5 if self._rng.random() < 0.3 else self._pause_ms
            self._clock.call_later(self._rng.expovariate(1 / pause_ms), lambda: self.run(tps, self._pause_ms))

    def pause(self, mean_ms: float) -> Pending[None]:
        """Done after a while, which is never so long that the end of the run comes first."""
        over: Pending[None] = Pending()
        delay_ms = min(self._rng.expovariate(1 / mean_ms), _MEANS_MAX * mean_ms)
        self._clock.call_later(delay_ms, lambda: over.complete(None))
        return over

    @steps
    def ask(
        self,
        tp: TopicPartition,
        request: Request,
        version: int,
        code_of: Callable[[Any], int],
        known: dict[TopicPartition, SimulatedBroker],
        *,
        may_be_late: bool = False,
    ) -> Steps[tuple[Any, ErrorCode, bool]]:
        """Asks whoever leads a partition until the answer is one that no further question changes, or the
        patience is over; the last answer, its code, and whether any call was not answered.

        Who led it last is `known`, and asked again until it does not answer so, as clients do. One that asked
        anybody each time could have its transaction ended by a coordinator of the past: that one remembers
        the last transaction as committed, and says so again.
        """
        until_ms, lost = self._clock.now_ms + _PATIENCE_MS, False
        while True:
            leader, response, code = known.get(tp) or self._leader(tp), None, _E.NETWORK_EXCEPTION
            if isinstance(leader, TransactionalBroker):
                try:
                    response = yield self._call(leader, request, version, may_be_late=may_be_late)
                    code = ErrorCode.of(code_of(response))
                except LostCallError:
                    lost = True
            known.pop(tp, None)
            if isinstance(leader, TransactionalBroker) and code not in _ELSEWHERE:
                known[tp] = leader
            if code not in _AGAIN or self._clock.now_ms > until_ms or self.stopping:
                return response, code, lost
            yield self.pause(_BACKOFF_MS)

    def _call(
        self, leader: TransactionalBroker, request: Request, version: int, *, may_be_late: bool
    ) -> Pending[Any]:
        answer: Pending[Any] = Pending()
        twice = self._rng.random() < _TWICE

        def serve() -> Pending[Any]:
            if twice:
                leader.serve(request, version)
            return leader.serve(request, version)

        self._wire.call(self, leader, serve, answer.end_as)
        if may_be_late and self._rng.random() < _LATE:
            again = partial(self._wire.call, self, leader, serve, lambda _: None)
            self._clock.call_later(self._rng.expovariate(1 / _LATE_MS), again)
        return answer

    def draw_version(self) -> int:
        """The transaction version of the next producer."""
        return self._rng.choice(self.mix.client_versions)

    def draw_fate(self) -> Fate:
        """What becomes of the next transaction."""
        return self._rng.choice(_FATES)

    def draw_partitions(self, tps: list[TopicPartition]) -> list[TopicPartition]:
        """Where the next transaction writes."""
        return self._rng.sample(tps, self._rng.randint(1, len(tps)))

    def draw(self, low: int, high: int) -> int:
        return self._rng.randint(low, high)

    def batch_of(self, values: Iterable[bytes], producer: ProducerIdAndEpoch, sequence: int) -> bytes:
        """A transactional batch."""
        now_ms = self._clock.time_ms()
        records = [Record(place, now_ms, None, value) for place, value in enumerate(values)]
        batch = build_batch(
            records,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        return bytes(batch)


class _GiveUpError(Exception):
    """This transaction cannot go on; the next epoch ends it."""


class _FencedError(Exception):
    """Another producer has begun."""


class TransactionalProducer:
    """One producer of an id, from its first epoch until it is fenced or vanishes."""

    def __init__(self, owner: TransactionalId, tps: list[TopicPartition]) -> None:
        self._owner = owner
        self._judge = owner.transactions
        self._tps = tps
        self._producer = ProducerIdAndEpoch(-1, -1)
        self._sequences: Counter[TopicPartition] = Counter()
        self._known: dict[TopicPartition, SimulatedBroker] = {}
        """The leaders that have answered it."""
        self._doubtful = False
        """Whether a request of this epoch may still be on its way."""
        self._version = owner.draw_version()
        self._may_be_late = owner.mix.late_messages and (owner.mix.late_of_version_0 or self._version == TV_2)

    @steps
    def live(self) -> Steps[None]:
        """Transactions, one after the other."""
        owner = self._owner
        try:
            yield self._begin()
            while not owner.stopping:
                fate = owner.draw_fate()
                sent = self._judge.new_transaction(owner.name)
                try:
                    yield self._transaction(sent, fate)
                except _GiveUpError:
                    self._doubtful = True
                    if self._version == TV_2 and fate is not Fate.BEGIN_AGAIN and not sent.end_asked:
                        yield self._give_up(sent)
                if fate is Fate.VANISH:
                    return
                if self._doubtful:
                    # What was not answered may come late, into the next transaction: it is fenced.
                    yield self._begin()
        except _FencedError:
            return

    @steps
    def _begin(self) -> Steps[None]:
        """``InitProducerId``: a new producer, or the next epoch of this one (KIP-360)."""
        owner = self._owner
        request = InitProducerIdRequest(
            transactional_id=owner.name,
            transaction_timeout_ms=owner.timeout_ms,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
        )
        response, code, _ = yield owner.ask(
            owner.coordinator, request, 4, lambda answer: answer.error_code, self._known
        )
        if code is not _E.NONE:
            if code not in _FENCED and code not in _AGAIN:
                self._judge.unexplained(f"InitProducerId of {owner.name}", code.name)
            if code in _FENCED:
                self._fenced()
            raise _FencedError
        self._producer = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
        self._judge.producer_is(owner.name, self._producer)
        self._sequences.clear()
        self._doubtful = False

    @steps
    def _give_up(self, sent: SentTransaction) -> Steps[None]:
        """What cannot go on is aborted, which fences what is still under way (``abortTransaction``)."""
        try:
            yield self._end(sent, committed=False)
        except _GiveUpError:
            return  # the next epoch ends it
        self._doubtful = False

    @steps
    def _transaction(self, sent: SentTransaction, fate: Fate) -> Steps[None]:
        owner = self._owner
        tps = owner.draw_partitions(self._tps)
        if self._version == TV_0:
            yield self._add(sent, tps)
        stands_at = owner.draw(0, 2) if fate is Fate.ZOMBIE else -1
        for tp in tps * owner.draw(1, 2):
            if stands_at == 0:
                yield self._stand_still()
                stands_at = -1
            yield self._produce(sent, tp)
        if owner.draw(0, 1):
            if stands_at == 1:
                yield self._stand_still()
            yield self._send_offsets(sent)
        if fate is Fate.VANISH:
            return
        if fate is Fate.BEGIN_AGAIN:
            raise _GiveUpError
        if stands_at >= 1:
            yield self._stand_still()
        yield self._end(sent, committed=fate is not Fate.ABORT)

    @steps
    def _stand_still(self) -> Steps[None]:
        """Long enough for the next producer to begin."""
        owner = self._owner
        owner.run(self._tps, 200.0)
        yield owner.pause(owner.timeout_ms / 2)

    @steps
    def _ask(
        self,
        what: str,
        sent: SentTransaction,
        tp: TopicPartition,
        request: Request,
        version: int,
        code_of: Callable[[Any], int],
    ) -> Steps[Any]:
        """The answer to one request of this producer; raises when it was not carried out."""
        was_fenced = self._judge.is_fenced(self._owner.name, self._producer)
        response, code, lost = yield self._owner.ask(
            tp, request, version, code_of, self._known, may_be_late=self._may_be_late
        )
        # Before version 2 what was not answered may come late, into the next transaction.
        if self._version == TV_0 and not self._may_be_late:
            self._doubtful = self._doubtful or lost
        if code is _E.NONE:
            if was_fenced:
                self._judge.took_fenced(what, sent, self._producer)
            return response
        if code in _FENCED:
            self._fenced()
            raise _GiveUpError  # the next epoch, or the end, is up to the coordinator
        if code not in _AGAIN and code not in _ABORTABLE:
            self._judge.unexplained(f"{what} of {sent}", code.name)
        raise _GiveUpError

    def _fenced(self) -> None:
        if self._judge.is_fenced(self._owner.name, self._producer):
            sometimes("a zombie hears that it is fenced")
        else:
            sometimes("a transaction is aborted because its time is over")

    @steps
    def _add(self, sent: SentTransaction, tps: Iterable[TopicPartition]) -> Steps[None]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._owner.name,
            v3_and_below_producer_id=self._producer.producer_id,
            v3_and_below_producer_epoch=self._producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=tp.topic, partitions=[tp.partition]) for tp in tps
            ],
        )
        yield self._ask("AddPartitionsToTxn", sent, self._owner.coordinator, request, 3, _worst_of_partitions)

    @steps
    def _produce(self, sent: SentTransaction, tp: TopicPartition) -> Steps[None]:
        values = [sent.new_value(tp) for _ in range(self._owner.draw(1, 3))]
        data = PartitionProduceData(
            index=tp.partition, records=self._owner.batch_of(values, self._producer, self._sequences[tp])
        )
        self._sequences[tp] += len(values)
        request = ProduceRequest(
            transactional_id=self._owner.name,
            acks=ACKS_ALL,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=tp.topic, partition_data=[data])],
        )
        yield self._ask("Produce", sent, tp, request, _PRODUCE[self._version], _of_produce)
        sent.answered.update(values)

    @steps
    def _send_offsets(self, sent: SentTransaction) -> Steps[None]:
        owner, producer = self._owner, self._producer
        group_id = group_of(owner.name)
        if self._version == TV_0:
            yield self._add_offsets(sent, group_id)
        place = TxnOffsetCommitRequestPartition(
            partition_index=self._tps[0].partition, committed_offset=sent.number, committed_metadata=""
        )
        commit = TxnOffsetCommitRequest(
            transactional_id=owner.name,
            group_id=group_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self._tps[0].topic, partitions=[place])],
        )
        sent.sends_offsets = True
        yield self._ask(
            "TxnOffsetCommit",
            sent,
            owner.offsets,
            commit,
            _COMMIT_OFFSETS[self._version],
            lambda answer: answer.topics[0].partitions[0].error_code,
        )
        sent.offsets_answered = True

    @steps
    def _add_offsets(self, sent: SentTransaction, group_id: str) -> Steps[None]:
        owner, producer = self._owner, self._producer
        added = AddOffsetsToTxnRequest(
            transactional_id=owner.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=group_id,
        )
        yield self._ask(
            "AddOffsetsToTxn", sent, owner.coordinator, added, 3, lambda answer: answer.error_code
        )

    @steps
    def _end(self, sent: SentTransaction, *, committed: bool) -> Steps[None]:
        owner, producer = self._owner, self._producer
        request = EndTxnRequest(
            transactional_id=owner.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=committed,
        )
        sent.commit_asked, sent.end_asked = committed, True
        ended = yield self._ask(
            "EndTxn",
            sent,
            owner.coordinator,
            request,
            _END[self._version],
            lambda answer: answer.error_code,
        )
        self._judge.ended(sent, COMMITTED if committed else ABORTED)
        if self._version == TV_2:
            self._producer = ProducerIdAndEpoch(ended.producer_id, ended.producer_epoch)
            self._judge.producer_is(owner.name, self._producer)
            self._sequences.clear()


def _worst_of_partitions(answer: Any) -> int:
    codes = [
        partition.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    ]
    return next((code for code in codes if code != _E.NONE), _E.NONE)


def _of_produce(answer: Any) -> int:
    partition = answer.responses[0].partition_responses[0]
    if partition.error_code == _E.INVALID_TXN_STATE and partition.error_message is None:
        # The coordinator had said yes: a marker came between its answer and the append.
        sometimes("a guard is gone when the coordinator's answer comes")
    code: int = partition.error_code
    return code
