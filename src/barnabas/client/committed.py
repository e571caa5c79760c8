"""Committed offsets between what callers give and get and what OffsetCommit and OffsetFetch carry."""

import operator
from collections.abc import Mapping
from typing import TypeAlias

from barnabas.client import named
from barnabas.client.types import OffsetAndMetadata
from barnabas.core.ids import TopicPartition, by_topic
from barnabas.protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]


def with_metadata(given: Mapping[TopicPartition, int | OffsetAndMetadata]) -> Offsets:
    """What a caller wants committed: a plain number has no metadata. Raises TypeError."""
    return {tp: _offset(tp, one) for tp, one in named.by_partition(given, "offsets to commit").items()}


def _offset(tp: TopicPartition, given: int | OffsetAndMetadata) -> OffsetAndMetadata:
    one = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
    try:
        return one._replace(offset=operator.index(one.offset))
    except TypeError:
        raise TypeError(
            f"an offset to commit is an int or OffsetAndMetadata, not {given!r:.80} (committing {tp})"
        ) from None


def commit_topics(offsets: Offsets) -> list[OffsetCommitRequestTopic]:
    return [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=offsets[tp].offset,
                    committed_leader_epoch=offsets[tp].leader_epoch,
                    committed_metadata=offsets[tp].metadata,
                )
                for tp in members
            ],
        )
        for name, members in by_topic(offsets).items()
    ]


def fetched_offset(
    one: OffsetFetchResponsePartition | OffsetFetchResponsePartitions,
) -> OffsetAndMetadata | None:
    """What an OffsetFetch response says of a partition; None where nothing is committed."""
    if one.committed_offset < 0:
        return None
    return OffsetAndMetadata(one.committed_offset, one.metadata or "", one.committed_leader_epoch)
