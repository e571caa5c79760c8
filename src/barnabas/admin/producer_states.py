"""``admin.transactions``, the half about what partitions remember of producers (KIP-664)."""

from collections.abc import Sequence
from typing import Final

from barnabas.admin.context import AdminContext, error_of
from barnabas.admin.types import ProducerState
from barnabas.client import named
from barnabas.client.errors import ClientTimeoutError
from barnabas.client.keyed_call import KeyedCall, raise_first
from barnabas.client.partition_leaders import PartitionLeaders
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition, by_topic
from barnabas.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)

_NOT_HERE: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class ProducerStates:
    """Producers, asked of the partitions that they wrote to."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    async def describe_producers(
        self,
        partitions: named.Partitions,
        *,
        broker: int | None = None,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, list[ProducerState]]:
        """The producers that each partition remembers, on its leader or on one broker that has a replica of
        it.

        Raises KafkaError or ClientTimeoutError for the first partition that has no answer.
        """
        return raise_first(
            await self.try_describe_producers(partitions, broker=broker, timeout_ms=timeout_ms)
        )

    async def try_describe_producers(
        self,
        partitions: named.Partitions,
        *,
        broker: int | None = None,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, list[ProducerState] | BarnabasError]:
        """As `describe_producers`, with an error per partition."""
        wanted = named.partitions(partitions)
        cluster, deadline = self._context.cluster, self._context.deadline(timeout_ms)
        if broker is not None:
            named.one(broker, int, "a broker is named by int")
        else:
            cluster.need({tp.topic for tp in wanted})

        async def ask(
            node: int, keys: Sequence[TopicPartition]
        ) -> dict[TopicPartition, list[ProducerState] | BarnabasError]:
            topics = [
                TopicRequest(name=name, partition_indexes=[tp.partition for tp in members])
                for name, members in by_topic(keys).items()
            ]
            response = await cluster.send(
                node, DescribeProducersRequest(topics=topics), DescribeProducersResponse
            )
            return {
                tp: _error(tp, each, broker) or _states(each)
                for topic in response.topics
                for each in topic.partitions
                for tp in (TopicPartition(topic.name, each.partition_index),)
            }

        async def on_broker(keys: Sequence[TopicPartition]) -> dict[TopicPartition, int | Exception]:
            assert broker is not None
            if broker not in cluster.metadata.brokers:
                await cluster.refresh()
            return {tp: broker for tp in keys if broker in cluster.metadata.brokers}

        def expired(tp: TopicPartition, last: Exception | None) -> BarnabasError:
            if isinstance(last, KafkaError):
                return last
            return ClientTimeoutError(f"Producers of {tp} were not described in {deadline.total_ms:.0f} ms")

        # A broker that was named either has the partition or not: NOT_LEADER_OR_FOLLOWER is its final answer.
        moved = [_NOT_HERE] if broker is None else []
        look_up = PartitionLeaders(cluster).look_up if broker is None else on_broker
        call: KeyedCall[TopicPartition, list[ProducerState]] = KeyedCall(
            cluster, look_up, ask, deadline, again=[_UNKNOWN], moved=moved, expired=expired
        )
        return await call.run(wanted)


def _error(tp: TopicPartition, response: PartitionResponse, broker: int | None) -> KafkaError | None:
    """The error of one partition in the words of Java's client (``DescribeProducersHandler``)."""
    error = error_of(response.error_code, response.error_message)
    if error is None or error.code is _UNKNOWN or (error.code is _NOT_HERE and broker is None):
        return error
    text = f"Failed to describe active producers for partition {tp} due to unexpected error"
    if error.code is _NOT_HERE:
        text = f"Failed to describe active producers for partition {tp} on brokerId {broker}"
    elif error.code is ErrorCode.INVALID_TOPIC_EXCEPTION:
        text = f"Failed to fetch metadata for partition {tp} due to invalid topic error: {error.message}"
    elif error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        text = (
            f"Failed to describe active producers for partition {tp} due to authorization failure on topic"
            f" `{tp.topic}`"
        )
    return KafkaError(error.code, text)


def _states(response: PartitionResponse) -> list[ProducerState]:
    return [
        ProducerState(
            producer_id=each.producer_id,
            epoch=each.producer_epoch,
            last_sequence=each.last_sequence,
            last_timestamp=each.last_timestamp,
            coordinator_epoch=each.coordinator_epoch,
            current_transaction_start_offset=(
                None if each.current_txn_start_offset < 0 else each.current_txn_start_offset
            ),
        )
        for each in response.active_producers
    ]
