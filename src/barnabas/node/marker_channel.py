"""The way of transaction markers to the leaders of partitions: in process to ourselves, else over the
network.
"""

from collections.abc import Sequence

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.coordinator.transaction.markers import MarkerCodes, TxnMarker
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import NO_BROKER, TopicPartition, by_topic
from barnabas.core.pending import Pending
from barnabas.node.channels import BrokerRequests, LocalBroker, Remote
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

VERSIONS = (1, 1)
"""What a broker of Kafka 3.9 sends to its like; no version is asked for."""


class TxnMarkerChannel:
    """Implements `coordinator.transaction.markers.MarkerChannel`."""

    def __init__(
        self, broker_id: int, listener: str, metadata: MetadataCache, *, local: LocalBroker, remote: Remote
    ) -> None:
        self._listener = listener
        self._metadata = metadata
        self._brokers = BrokerRequests(broker_id, listener, metadata, local=local, remote=remote)

    def leader_of(self, tp: TopicPartition) -> int | None:
        """As `MarkerChannel.leader_of`. Before the controller has sent any metadata nothing is known to be
        deleted.
        """
        state = self._metadata.partition(tp)
        if state is None:
            return None if self._metadata.snapshot.brokers else NO_BROKER
        reachable = self._metadata.broker_endpoint(state.leader, self._listener) is not None
        return state.leader if reachable else NO_BROKER

    def write_markers(self, broker_id: int, markers: Sequence[TxnMarker]) -> Pending[MarkerCodes]:
        """As `MarkerChannel.write_markers`."""
        return self._brokers.request(broker_id, _request(markers), VERSIONS).then(_codes)

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
                    WritableTxnMarkerTopic(name=topic, partition_indexes=[tp.partition for tp in partitions])
                    for topic, partitions in by_topic(marker.partitions).items()
                ],
                coordinator_epoch=marker.coordinator_epoch,
            )
            for marker in markers
        ]
    )


def _codes(response: WriteTxnMarkersResponse) -> MarkerCodes:
    """The codes by producer id. Two markers of one producer are one entry, as in Kafka."""
    codes: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for marker in response.markers:
        of_producer = codes.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for partition in topic.partitions:
                of_producer[TopicPartition(topic.name, partition.partition_index)] = ErrorCode.of(
                    partition.error_code
                )
    return codes
