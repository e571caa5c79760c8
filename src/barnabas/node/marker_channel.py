"""The way of transaction markers to the leaders of partitions: in process to ourselves, else over the
network.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.coordinator.transaction.markers import MarkerCodes, TxnMarker
from barnabas.coordinator.transaction.transaction_version import supports_epoch_bump
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import NO_BROKER, TRANSACTION_STATE_TOPIC, TopicPartition
from barnabas.core.pending import Pending
from barnabas.node.channels import BrokerRequests, LocalBroker, Remote
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

VERSIONS: Final = (1, 1)
"""What a broker of Kafka 3.9 sends to its like; no version is asked for."""
VERSIONS_OF_BUMPED: Final = (2, 2)
"""Where an end has bumped the epoch, which only brokers of this program do."""


class TxnMarkerChannel:
    """Implements `coordinator.transaction.markers.MarkerChannel`."""

    def __init__(
        self, broker_id: int, listener: str, metadata: MetadataCache, *, local: LocalBroker, remote: Remote
    ) -> None:
        self._listener = listener
        self._metadata = metadata
        self._brokers = BrokerRequests(broker_id, listener, metadata, local=local, remote=remote)

    def leaders_of(self, topic: str, partitions: Iterable[int]) -> dict[int | None, list[int]]:
        """As `MarkerChannel.leaders_of`."""
        states = self._metadata.partitions(topic)
        by_leader: dict[int | None, list[int]] = {}
        for partition in partitions:
            state = states.get(partition)
            by_leader.setdefault(None if state is None else state.leader, []).append(partition)
        reached: dict[int | None, list[int]] = {}
        for leader, led in by_leader.items():
            is_reached = leader is None or self._metadata.broker_endpoint(leader, self._listener) is not None
            reached.setdefault(leader if is_reached else NO_BROKER, []).extend(led)
        return reached

    def is_as_new_as(self, state_partition: int, leader_epoch: int) -> bool:
        """As `MarkerChannel.is_as_new_as`."""
        state = self._metadata.partition(TopicPartition(TRANSACTION_STATE_TOPIC, state_partition))
        return state is not None and state.leader_epoch >= leader_epoch

    def write_markers(self, broker_id: int, markers: Sequence[TxnMarker]) -> Pending[MarkerCodes]:
        """As `MarkerChannel.write_markers`."""
        bumped = any(supports_epoch_bump(marker.transaction_version) for marker in markers)
        versions = VERSIONS_OF_BUMPED if bumped else VERSIONS
        return self._brokers.request(broker_id, _request(markers), versions).then(_codes)

    async def close(self) -> None:
        await self._brokers.close()


def _request(markers: Sequence[TxnMarker]) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer.producer_id,
                producer_epoch=marker.producer.epoch,
                transaction_result=marker.committed,
                topics=[
                    WritableTxnMarkerTopic(name=topic, partition_indexes=partitions)
                    for topic, partitions in marker.partitions.items()
                ],
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
            for marker in markers
        ]
    )


def _codes(response: WriteTxnMarkersResponse) -> MarkerCodes:
    """The codes by producer id. Two markers of one producer are one entry, as in Kafka."""
    codes: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for marker in response.markers:
        of_producer = codes.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            of_topic = of_producer.setdefault(topic.name, {})
            for partition in topic.partitions:
                of_topic[partition.partition_index] = ErrorCode.of(partition.error_code)
    return codes
