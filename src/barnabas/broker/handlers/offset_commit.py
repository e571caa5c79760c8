"""OffsetCommit (8), v2-9.

Behaviour: stores how far a group has come in partitions; answered when the replicas have it. Topics that the
client may not read, and partitions that do not exist, are refused one by one, before the group is looked at.
Versions:  v2 how long to keep it, until v4 · v6 leader epochs (KIP-320) · v7 static members (KIP-345) ·
           v8 flexible · v9 members of the consumer protocol (KIP-848).
Not implemented: v0, which commits to ZooKeeper, and v1 (KIP-896).
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import (
    PartitionCodes,
    client_of,
    known_partitions,
    require_group,
)
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.errors import KafkaError
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def _failed(request: OffsetCommitRequest, error: KafkaError, _version: int) -> Sliced[OffsetCommitResponse]:
    codes = PartitionCodes()
    for topic in request.topics:
        yield from codes.refuse(topic.name, topic.partitions, error.code)
    return (yield from _response(codes))


@handles(ApiKey.OFFSET_COMMIT, versions=(2, 9), failed=_failed)
@sliced
def offset_commit(context: RequestContext, request: OffsetCommitRequest) -> Sliced[OffsetCommitResponse]:
    """Stores a group's positions."""
    require_group(context, Operation.READ, request.group_id)
    codes = PartitionCodes()
    asked = ((topic.name, topic.partitions) for topic in request.topics)
    known = yield from known_partitions(context, asked, codes)
    if not known:
        return (yield from _response(codes))
    wanted = OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_time_ms=request.retention_time_ms,
        topics=[
            OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in known.items()
        ],
    )
    answer = context.broker.group_coordinator.offset_commit(client_of(context), wanted, context.version)
    response = (yield answer) if isinstance(answer, Pending) else answer
    if not codes.topics:
        return response
    yield from codes.add_all(response.topics)
    return (yield from _response(codes))


def _response(codes: PartitionCodes) -> Sliced[OffsetCommitResponse]:
    topics = yield from codes.topics_of(OffsetCommitResponseTopic, OffsetCommitResponsePartition)
    return OffsetCommitResponse(topics=topics)
