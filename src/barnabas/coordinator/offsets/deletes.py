"""Reading OffsetDelete's request, and what became of each partition back into its response (KIP-496)."""

from collections.abc import Iterator, Mapping

from barnabas.coordinator.offsets.answers import topics_of
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def requested_partitions(request: OffsetDeleteRequest) -> Iterator[TopicPartition]:
    """The partitions of a request, as often as it names them."""
    for topic in request.topics:
        for partition in topic.partitions:
            yield TopicPartition(topic.name, partition.partition_index)


def delete_response(codes: Mapping[TopicPartition, ErrorCode]) -> OffsetDeleteResponse:
    """What became of each partition."""
    topics = topics_of(codes, OffsetDeleteResponseTopic, OffsetDeleteResponsePartition)
    return OffsetDeleteResponse(topics=topics)
