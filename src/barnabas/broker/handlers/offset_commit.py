"""OffsetCommit (8), v2-10.

Behaviour: stores how far a group has come in partitions; answered when the replicas have it. Topics that the
client may not read, and partitions that do not exist, are refused one by one, before the group is looked at.
Versions:  v2 how long to keep it, until v4 · v6 leader epochs (KIP-320) · v7 static members (KIP-345) ·
           v8 flexible · v9 members of the consumer protocol (KIP-848) ·
           v10 topic ids; one that no topic has is refused before anything else. What is kept has names.
Not implemented: v0, which commits to ZooKeeper, and v1 (KIP-896).
"""

from collections.abc import Mapping
from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import require_group
from barnabas.broker.offset_requests import PORTION, PartitionCodes, known_commits, named_by_id
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.coordinator.offsets.group_offsets import NO_TIMESTAMP, CommittedOffset
from barnabas.core.errors import KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE: Final = 10
BROKER_RETENTION: Final = -1
"""The client leaves the retention of its offsets to the broker."""
LATEST_MS: Final = (1 << 63) - 1
"""The last moment that a record can name.
Kafka's addition overflows there, and the offset expires at once.
"""


def _failed(request: OffsetCommitRequest, error: KafkaError, version: int) -> Sliced[OffsetCommitResponse]:
    codes = PartitionCodes()
    for topic in request.topics:
        yield from codes.refuse(
            topic.topic_id if version >= TOPIC_IDS_SINCE else topic.name, topic.partitions, error.code
        )
    return (yield from _response(codes))


@handles(ApiKey.OFFSET_COMMIT, versions=(2, 10), failed=_failed)
@sliced
def offset_commit(context: RequestContext, request: OffsetCommitRequest) -> Sliced[OffsetCommitResponse]:
    require_group(context, Operation.READ, request.group_id)
    codes = PartitionCodes()
    if context.version >= TOPIC_IDS_SINCE:
        known = yield from known_commits(context, named_by_id(context, request.topics, codes), codes)
    else:
        asked = ((topic.name, topic.partitions) for topic in request.topics)
        known = yield from known_commits(context, asked, codes)
    if known.by_partition:
        commits = yield from _commits(
            known.by_partition, request.retention_time_ms, context.broker.clock.time_ms()
        )
        try:
            answer = yield from context.broker.group_coordinator.commit_offsets(
                request.group_id,
                commits,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                generation=request.generation_id_or_member_epoch,
                version=context.version,
            )
            committed = (yield answer) if isinstance(answer, Pending) else answer
        except KafkaError as refusal:
            # What was refused before the group was asked keeps its own code.
            committed = dict.fromkeys(known.by_partition, refusal.code)
        yield from codes.add_committed(known, committed)
    return (yield from _response(codes))


def _commits(
    known: Mapping[TopicPartition, OffsetCommitRequestPartition], retention_ms: int, now_ms: int
) -> Sliced[dict[TopicPartition, CommittedOffset]]:
    """The commits of a request, with their times."""
    until_ms = min(now_ms + retention_ms, LATEST_MS)
    expire_timestamp = NO_TIMESTAMP if retention_ms == BROKER_RETENTION else until_ms
    commits: dict[TopicPartition, CommittedOffset] = {}
    for tp, each in known.items():
        commits[tp] = CommittedOffset(
            each.committed_offset,
            each.committed_leader_epoch,
            each.committed_metadata or "",
            now_ms if each.commit_timestamp == NO_TIMESTAMP else each.commit_timestamp,
            expire_timestamp,
        )
        if not len(commits) % PORTION:
            yield
    return commits


def _response(codes: PartitionCodes) -> Sliced[OffsetCommitResponse]:
    topics = yield from codes.topics_of(OffsetCommitResponseTopic, OffsetCommitResponsePartition)
    return OffsetCommitResponse(topics=topics)
