"""Answering OffsetFetch: what a group committed, or -1 (``GroupMetadataManager.getOffsets``)."""

from collections.abc import Iterable, Iterator
from typing import Final

from barnabas.coordinator.offsets.group_offsets import GroupOffsets
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

NO_OFFSET: Final = -1


def fetch_response(
    request: OffsetFetchRequestGroup, offsets: GroupOffsets | None, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    """Each partition's offset; a group that is not known has none (and that is no error)."""
    offsets = offsets or GroupOffsets()
    wanted = offsets.committed if request.topics is None else dict.fromkeys(_partitions(request))
    return OffsetFetchResponseGroup(
        group_id=request.group_id, topics=_by_topic(wanted, offsets, require_stable=require_stable)
    )


def _partitions(request: OffsetFetchRequestGroup) -> Iterator[TopicPartition]:
    for topic in request.topics or ():
        for index in topic.partition_indexes:
            yield TopicPartition(topic.name, index)


def _by_topic(
    wanted: Iterable[TopicPartition], offsets: GroupOffsets, *, require_stable: bool
) -> list[OffsetFetchResponseTopics]:
    topics: dict[str, OffsetFetchResponseTopics] = {}
    for tp in wanted:
        topic = topics.get(tp.topic)
        if topic is None:
            topic = topics[tp.topic] = OffsetFetchResponseTopics(name=tp.topic, partitions=[])
        unstable = require_stable and offsets.is_unstable(tp)
        topic.partitions.append(_unstable(tp) if unstable else _committed(tp, offsets))
    return list(topics.values())


def _unstable(tp: TopicPartition) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=tp.partition,
        committed_offset=NO_OFFSET,
        metadata="",
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )


def _committed(tp: TopicPartition, offsets: GroupOffsets) -> OffsetFetchResponsePartitions:
    commit = offsets.committed.get(tp)
    if commit is None:
        return OffsetFetchResponsePartitions(
            partition_index=tp.partition, committed_offset=NO_OFFSET, metadata=""
        )
    return OffsetFetchResponsePartitions(
        partition_index=tp.partition,
        committed_offset=commit.offset,
        committed_leader_epoch=commit.leader_epoch,
        metadata=commit.metadata,
    )
