"""``admin.transactions``: list, describe, abort and fence (KIP-664, KIP-588); what partitions remember of
producers is in `ProducerStates`.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from barnabas.admin.context import error_of, whole_ms
from barnabas.admin.coordinators import Answers, ask_coordinators
from barnabas.admin.producer_states import ProducerStates
from barnabas.admin.transaction_types import (
    AbortTransactionSpec,
    FencedProducer,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from barnabas.client import named
from barnabas.client.cluster import Versions
from barnabas.client.errors import ClientTimeoutError
from barnabas.client.keyed_call import KeyedCall, raise_first
from barnabas.client.partition_leaders import PartitionLeaders
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.protocol.coordinator_type import CoordinatorType
from barnabas.protocol.messages import describe_transactions as described
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_WITH_DURATION: Final = (1, ListTransactionsRequest.max_version)
_WITH_PATTERN: Final = (2, ListTransactionsRequest.max_version)
_INIT: Final = (0, 5)
_LEADER_MOVED: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class Transactions(ProducerStates):
    """Transactions. Methods named ``try_...`` give an error per part, the others raise the first."""

    async def list(
        self,
        *,
        states: Iterable[TransactionState] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
        timeout_ms: float | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids of all coordinators; only those in some states, of some producers, with a
        transaction that is older than `longer_than_ms`, or that match the whole of `pattern` (an expression
        of RE2, KIP-1152), where given. A coordinator that loads is waited for.

        Raises the first broker's error, UnsupportedVersionError where a broker cannot filter by duration
        (Kafka before 3.8) or by pattern (before 4.1).
        """
        cluster, deadline = self._context.cluster, self._context.deadline(timeout_ms)
        filters, producers = named.names(states, "states"), named.numbers(producer_ids, "producer ids")
        duration_ms = -1
        if longer_than_ms is not None:
            duration_ms = named.one(longer_than_ms, int, "longer_than_ms is a number of milliseconds, an int")
        await self._context.metadata([], deadline)
        request = ListTransactionsRequest(
            state_filters=filters,
            producer_id_filters=producers,
            duration_filter=duration_ms,
            # An empty one filters nothing, for Kafka's client too.
            transactional_id_pattern=pattern or None,
        )
        versions = _WITH_PATTERN if pattern else None if duration_ms < 0 else _WITH_DURATION

        async def ask(
            broker: int, _brokers: Sequence[int]
        ) -> dict[int, "Collection[TransactionListing] | BarnabasError"]:
            return {broker: await self._list_one(broker, request, versions)}

        async def itself(brokers: Sequence[int]) -> dict[int, int | Exception]:
            return {broker: broker for broker in brokers}

        call: KeyedCall[int, Collection[TransactionListing]] = KeyedCall(
            cluster,
            itself,
            ask,
            deadline,
            again=[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS],
            moved=[],
            expired=lambda broker, last: ClientTimeoutError(
                f"Broker {broker} did not list its transactions in {deadline.total_ms:.0f} ms"
                + (f": {last}" if last is not None and str(last) else "")
            ),
        )
        answers = raise_first(await call.run(sorted(cluster.metadata.brokers)))
        return [listing for listings in answers.values() for listing in listings]

    async def _list_one(
        self, broker: int, request: ListTransactionsRequest, versions: Versions | None
    ) -> Collection[TransactionListing] | BarnabasError:
        """The answer of one broker; its errors in the words of ``ListTransactionsHandler``."""
        response = await self._context.cluster.send(
            broker, request, ListTransactionsResponse, versions=versions
        )
        code, sent = ErrorCode.of(response.error_code), f"request sent to broker {broker} failed"
        if code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            return KafkaError(code, f"ListTransactions {sent} because the coordinator is shutting down")
        if code:
            return KafkaError(code, f"ListTransactions {sent} with an unexpected exception")
        return [
            TransactionListing(
                one.transactional_id, one.producer_id, TransactionState(one.transaction_state), broker
            )
            for one in response.transaction_states
        ]

    async def describe(
        self, transactional_ids: named.Names, *, timeout_ms: float | None = None
    ) -> dict[str, TransactionDescription]:
        """Where each transactional id stands, as its coordinator says; raises the first error of an id."""
        return raise_first(await self.try_describe(transactional_ids, timeout_ms=timeout_ms))

    async def try_describe(
        self, transactional_ids: named.Names, *, timeout_ms: float | None = None
    ) -> dict[str, TransactionDescription | BarnabasError]:
        """As `describe`, with an error per id, say TRANSACTIONAL_ID_NOT_FOUND."""

        async def ask(node: int, ids: Sequence[str]) -> Answers[TransactionDescription]:
            request = described.DescribeTransactionsRequest(transactional_ids=list(ids))
            response = await self._context.cluster.send(node, request, described.DescribeTransactionsResponse)
            return {
                one.transactional_id: _not_described(one) or _description(node, one)
                for one in response.transaction_states
            }

        return await ask_coordinators(
            self._context, ask, transactional_ids, timeout_ms, kind=CoordinatorType.TRANSACTION
        )

    async def abort(self, spec: AbortTransactionSpec, *, timeout_ms: float | None = None) -> None:
        """Has the leader of a partition write the marker that aborts one open transaction there
        (``abortTransaction``). For a hanging transaction, which no coordinator will end: the coordinator is
        not asked, and a transaction that it still has stays open in the other partitions.

        Raises KafkaError, in particular INVALID_PRODUCER_EPOCH for an epoch below the partition's,
        TRANSACTION_COORDINATOR_FENCED for a coordinator's epoch below the last one's, ClientTimeoutError.
        """
        named.one(spec, AbortTransactionSpec, "what is aborted is an AbortTransactionSpec")
        cluster, deadline = self._context.cluster, self._context.deadline(timeout_ms)
        tp = named.partition(spec.partition)
        cluster.need({tp.topic})
        marker = WritableTxnMarker(
            producer_id=spec.producer_id,
            producer_epoch=spec.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition])],
            coordinator_epoch=spec.coordinator_epoch,
        )

        async def ask(
            node: int, _partitions: Sequence[TopicPartition]
        ) -> dict[TopicPartition, BarnabasError | None]:
            request = WriteTxnMarkersRequest(markers=[marker])
            return {tp: _not_aborted(spec, await cluster.send(node, request, WriteTxnMarkersResponse))}

        call: KeyedCall[TopicPartition, None] = KeyedCall(
            cluster,
            PartitionLeaders(cluster).look_up,
            ask,
            deadline,
            moved=_LEADER_MOVED,
            expired=lambda _tp, last: (
                last
                if isinstance(last, KafkaError)
                else ClientTimeoutError(f"{spec} was not written in {deadline.total_ms:.0f} ms")
            ),
        )
        raise_first(await call.run([tp]))

    async def fence(
        self, transactional_ids: named.Names, *, timeout_ms: float | None = None
    ) -> dict[str, FencedProducer]:
        """Fences every producer of these transactional ids, and aborts what they have open
        (``fenceProducers``); raises the first error of an id.
        """
        return raise_first(await self.try_fence(transactional_ids, timeout_ms=timeout_ms))

    async def try_fence(
        self, transactional_ids: named.Names, *, timeout_ms: float | None = None
    ) -> dict[str, FencedProducer | BarnabasError]:
        """As `fence`, with an error per id."""
        # It becomes the id's time-out. The next producer brings its own.
        deadline = self._context.deadline(timeout_ms)
        wait_ms = self._context.request_timeout_ms if timeout_ms is None else whole_ms(deadline.total_ms)

        async def fence_one(node: int, transactional_id: str) -> FencedProducer | BarnabasError:
            request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=wait_ms)
            response = await self._context.cluster.send(node, request, InitProducerIdResponse, versions=_INIT)
            return _not_fenced(transactional_id, response) or FencedProducer(
                response.producer_id, response.producer_epoch
            )

        async def ask(node: int, ids: Sequence[str]) -> Answers[FencedProducer]:
            answers = await asyncio.gather(*(fence_one(node, each) for each in ids))
            return dict(zip(ids, answers, strict=True))

        # While what was open is aborted, the coordinator answers CONCURRENT_TRANSACTIONS.
        again = [ErrorCode.CONCURRENT_TRANSACTIONS]
        return await ask_coordinators(
            self._context, ask, transactional_ids, timeout_ms, again, kind=CoordinatorType.TRANSACTION
        )


def _description(coordinator: int, one: described.TransactionState) -> TransactionDescription:
    return TransactionDescription(
        coordinator,
        TransactionState(one.transaction_state),
        one.producer_id,
        one.producer_epoch,
        one.transaction_timeout_ms,
        None if one.transaction_start_time_ms < 0 else one.transaction_start_time_ms,
        [TopicPartition(topic.topic, number) for topic in one.topics for number in topic.partitions],
    )


def _not_described(one: described.TransactionState) -> KafkaError | None:
    """The error of one id in the words of ``DescribeTransactionsHandler``."""
    reasons = {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "failed due to authorization failure",
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "failed because the ID could not be found",
    }
    asked = f"DescribeTransactions request for transactionalId `{one.transactional_id}`"
    return _in_words(one.error_code, asked, reasons)


def _not_fenced(transactional_id: str, response: InitProducerIdResponse) -> KafkaError | None:
    """The error of one id in the words of ``FenceProducersHandler``."""
    reasons = {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "failed due to cluster authorization failure",
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
            "failed due to transactional ID authorization failure"
        ),
    }
    asked = f"InitProducerId request for transactionalId `{transactional_id}`"
    return _in_words(response.error_code, asked, reasons)


def _not_aborted(spec: AbortTransactionSpec, response: WriteTxnMarkersResponse) -> KafkaError | None:
    """The error of one marker in the words of ``AbortTransactionHandler``."""
    asked = f"WriteTxnMarkers request with {spec}"
    codes = [
        one.error_code
        for marker in response.markers
        for topic in marker.topics
        for one in topic.partitions
        if (marker.producer_id, topic.name, one.partition_index) == (spec.producer_id, *spec.partition)
    ]
    if len(codes) != 1:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{asked} got an answer about something else")
    code = ErrorCode.of(codes[0])
    reasons = {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "failed due to cluster authorization error",
        ErrorCode.INVALID_PRODUCER_EPOCH: "failed due an invalid producer epoch",
        ErrorCode.TRANSACTION_COORDINATOR_FENCED: (
            f"failed since the provided coordinator epoch {spec.coordinator_epoch} has been fenced by the"
            " active coordinator"
        ),
    }
    return _in_words(code, asked, reasons, f"failed due to unexpected error: {code.message}")


def _in_words(
    number: int,
    asked: str,
    reasons: dict[ErrorCode, str],
    otherwise: str = "failed due to unexpected error",
) -> KafkaError | None:
    """None for no error; the codes after which it is asked again never show, so they have no words."""
    error = error_of(number)
    return error and KafkaError(error.code, f"{asked} {reasons.get(error.code, otherwise)}")
