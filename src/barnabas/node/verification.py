"""`AddPartitionsToTxnManager`: the way to the coordinators of transactions, for what leaders verify and for
what they have added for newer clients (KIP-890).

One request is under way to a broker at a time; what comes up meanwhile goes together in the next one. A
transactional id is asked about once in a request: who comes later displaces who waits. With the same epoch
the producer has tried again, and the older one is told to try again too; with a higher epoch of the same
producer id it is fenced.

A newer client begins its next transaction as soon as the end of the last one is decided, when the markers are
still on their way. Its first batch is asked about again for a little while (`later`): sooner than the client
would, which waits ``retry.backoff.ms``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TRANSACTION_STATE_TOPIC, TopicPartition, by_topic
from barnabas.core.metrics import Histogram
from barnabas.core.pending import Pending
from barnabas.network.errors import UnsupportedVersionError
from barnabas.node.channels import BrokerRequests, LocalBroker, Remote
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.replica.verification import TransactionOf, TransactionSupport, Unverified

CONCURRENT_RETRIES_MS: Final = (0.5, 1, 2, 4, 8, 16, 20, 20, 20)
"""The waits before a first batch is asked about again; markers on one broker take less than a millisecond
where nothing else is done. Kafka waits 20 ms each time
(``add.partitions.to.txn.retry.backoff.ms``), and 100 ms in all (``...retry.backoff.max.ms``).
"""

VERSIONS: Final = (4, 5)
"""The requests of brokers: several transactions, and questions without a change."""

_log = EventLog("node.verification")


class _Verification:
    """A question about one transaction, and who waits for the answer."""

    __slots__ = ("answer", "partitions", "support", "transaction")

    def __init__(
        self, transaction: TransactionOf, partitions: Sequence[TopicPartition], support: TransactionSupport
    ) -> None:
        self.transaction = transaction
        self.partitions = partitions
        self.support = support
        self.answer: Pending[Unverified] = Pending()

    def refuse(self, code: ErrorCode) -> None:
        """All its partitions have this code."""
        self.answer.complete(dict.fromkeys(self.partitions, code))

    def settle(self, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        """The coordinator has answered."""
        self.answer.complete(
            {tp: self._known(code) for tp, code in codes.items() if code is not ErrorCode.NONE}
        )

    def _known(self, code: ErrorCode) -> ErrorCode:
        if code is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code is ErrorCode.TRANSACTION_ABORTABLE and self.support < TransactionSupport.ABORTABLE:
            return ErrorCode.INVALID_TXN_STATE
        return code


class AddPartitionsToTxnManager:
    """Implements `replica.verification.Verifier`."""

    def __init__(
        self,
        broker_id: int,
        listener: str,
        metadata: MetadataCache,
        partition_for: Callable[[str], int],
        *,
        local: LocalBroker,
        remote: Remote,
        clock: Clock,
        enabled: bool,
    ) -> None:
        """`partition_for` is the partition of ``__transaction_state`` that an id belongs to."""
        self.enabled = enabled
        self.failures = 0
        """Partitions that were not verified (``VerificationFailureRate``)."""
        self.times_ms = Histogram()
        """From each question to its answer (``VerificationTimeMs``)."""
        self._clock = clock
        self._metadata = metadata
        self._partition_for = partition_for
        self._brokers = BrokerRequests(broker_id, listener, metadata, local=local, remote=remote)
        self._waiting: dict[int, dict[str, _Verification]] = {}
        """What the next request to a broker asks about, by transactional id."""
        self._in_flight: set[int] = set()

    def verify(
        self, transaction: TransactionOf, partitions: Iterable[TopicPartition], support: TransactionSupport
    ) -> Pending[Unverified]:
        """As `Verifier.verify`."""
        asked = _Verification(transaction, list(partitions), support)
        coordinator = self._coordinator_of(transaction.transactional_id)
        if coordinator is None:
            asked.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return asked.answer
        asked.answer.when_done(partial(self._count, self._clock.monotonic_ms()))
        waiting = self._waiting.setdefault(coordinator, {})
        other = waiting.get(transaction.transactional_id)
        if other is not None:
            # When its epochs are used up a producer goes on under another id, with epoch 0. Which of two ids
            # counts the coordinator knows: none of them is fenced here. (Kafka compares their epochs.)
            is_same = transaction.producer_id == other.transaction.producer_id
            if is_same and transaction.epoch < other.transaction.epoch:
                asked.refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
                return asked.answer
            fenced = is_same and transaction.epoch > other.transaction.epoch
            other.refuse(ErrorCode.INVALID_PRODUCER_EPOCH if fenced else ErrorCode.NETWORK_EXCEPTION)
        waiting[transaction.transactional_id] = asked
        self._send(coordinator)
        return asked.answer

    def later(self, tries: int) -> Pending[None] | None:
        """As `Verifier.later`."""
        if tries >= len(CONCURRENT_RETRIES_MS):
            return None
        time: Pending[None] = Pending()
        self._clock.call_later(CONCURRENT_RETRIES_MS[tries], lambda: time.complete(None))
        return time

    async def close(self) -> None:
        await self._brokers.close()

    def _count(self, asked_ms: float, answer: Pending[Unverified]) -> None:
        self.times_ms.record(self._clock.monotonic_ms() - asked_ms)
        self.failures += len(answer.result())

    def _coordinator_of(self, transactional_id: str) -> int | None:
        """The broker that coordinates an id, where it lives and can be reached
        (``getTransactionCoordinator``).
        """
        tp = TopicPartition(TRANSACTION_STATE_TOPIC, self._partition_for(transactional_id))
        state = self._metadata.partition(tp)
        return None if state is None or self._brokers.node(state.leader) is None else state.leader

    def _send(self, broker_id: int) -> None:
        """Asks what waits for a broker, unless it is being asked."""
        if broker_id in self._in_flight:
            return
        asked = self._waiting.pop(broker_id, None)
        if not asked:
            return
        self._in_flight.add(broker_id)
        answer = self._brokers.request(broker_id, _request(asked.values()), VERSIONS)
        answer.when_done(lambda done: self._answered(broker_id, asked, done))

    def _answered(
        self,
        broker_id: int,
        asked: Mapping[str, _Verification],
        answer: Pending[AddPartitionsToTxnResponse],
    ) -> None:
        self._in_flight.discard(broker_id)
        error = answer.error
        if isinstance(error, UnsupportedVersionError):
            _log.warning("verification.unsupported", broker=broker_id)
            for each in asked.values():
                # A broker before KIP-890 can add nothing. Kafka appends all the same, and the batch gets no
                # marker; but there no client finds Produce 12 while such a broker is in the cluster.
                if each.support is TransactionSupport.ADDED:
                    each.refuse(ErrorCode.INVALID_TXN_STATE)
                # It cannot be asked either: it is as if nobody asked.
                else:
                    each.settle({})
        elif error is not None:
            _log.warning("verification.failed", broker=broker_id, error=error)
            for each in asked.values():
                each.refuse(ErrorCode.NETWORK_EXCEPTION)
        else:
            self._settle(asked, answer.result())
        self._send(broker_id)

    def _settle(self, asked: Mapping[str, _Verification], response: AddPartitionsToTxnResponse) -> None:
        if response.error_code:
            code = ErrorCode.of(response.error_code)
            if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                code = ErrorCode.INVALID_TXN_STATE  # no client's business
            for each in asked.values():
                each.refuse(code)
            return
        answered = {
            result.transactional_id: {
                TopicPartition(topic.name, one.partition_index): ErrorCode.of(one.partition_error_code)
                for topic in result.topic_results
                for one in topic.results_by_partition
            }
            for result in response.results_by_transaction
        }
        for transactional_id, each in asked.items():
            codes = answered.get(transactional_id)
            # A partition that is left out is not verified.
            if codes is None or not codes.keys() >= set(each.partitions):
                each.refuse(ErrorCode.NETWORK_EXCEPTION)
            else:
                each.settle(codes)


def _request(asked: Iterable[_Verification]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=each.transaction.transactional_id,
                producer_id=each.transaction.producer_id,
                producer_epoch=each.transaction.epoch,
                verify_only=each.support is not TransactionSupport.ADDED,
                topics=[
                    AddPartitionsToTxnTopic(name=topic, partitions=[tp.partition for tp in partitions])
                    for topic, partitions in by_topic(each.partitions).items()
                ],
            )
            for each in asked
        ]
    )
