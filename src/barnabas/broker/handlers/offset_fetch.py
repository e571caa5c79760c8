"""OffsetFetch (9), v1-9.

Behaviour: how far groups have come: -1 where nothing is committed, for unknown groups too. Topics that the
client may not describe are refused, or left out where all were asked for.
Versions:  v2 all topics (null), and an error for the group · v5 leader epochs (KIP-320) · v6 flexible ·
           v7 only what no open transaction can change (KIP-447) · v8 several groups (KIP-709) ·
           v9 members of the consumer protocol (KIP-848).
Not implemented: v0, which reads from ZooKeeper (KIP-896).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import may
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUP_ERRORS_SINCE: Final = 2
SEVERAL_SINCE: Final = 8
NO_OFFSET: Final = -1


def _failed(request: OffsetFetchRequest, error: KafkaError, version: int) -> OffsetFetchResponse:
    if version >= SEVERAL_SINCE:
        named = dict.fromkeys(group.group_id for group in request.groups)
        return OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(group_id=group_id, error_code=error.code) for group_id in named]
        )
    if version >= GROUP_ERRORS_SINCE:
        return OffsetFetchResponse(error_code=error.code)
    asked = [
        OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
        for topic in request.topics or ()
    ]
    return OffsetFetchResponse(topics=[_of_one(_refused(topic, error.code)) for topic in asked])


@handles(ApiKey.OFFSET_FETCH, versions=(1, 9), failed=_failed)
def offset_fetch(context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Reads groups' positions."""
    if context.version >= SEVERAL_SINCE:
        return OffsetFetchResponse(
            groups=[
                _group(context, wanted, request.require_stable) for wanted in _everything_once(request.groups)
            ]
        )
    group = _group(context, _only_group(request), request.require_stable)
    return OffsetFetchResponse(topics=[_of_one(topic) for topic in group.topics], error_code=group.error_code)


def _everything_once(groups: Iterable[OffsetFetchRequestGroup]) -> Iterator[OffsetFetchRequestGroup]:
    """All topics of a group are told once, however often they are asked for; Kafka fills its memory with them."""
    told = set()
    for group in groups:
        if group.topics is None:
            if group.group_id in told:
                continue
            told.add(group.group_id)
        yield group


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = request.topics
    if topics is None:
        return OffsetFetchRequestGroup(group_id=request.group_id, topics=None)
    wanted = [
        OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
        for topic in topics
    ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=wanted)


def _group(
    context: RequestContext,
    wanted: OffsetFetchRequestGroup,
    require_stable: bool,
) -> OffsetFetchResponseGroup:
    """The positions of a group; one that is refused says only why."""
    group_id = wanted.group_id
    if not may(context, Operation.DESCRIBE, group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return OffsetFetchResponseGroup(group_id=group_id, error_code=code)
    fetch = _fetch_all if wanted.topics is None else _fetch
    try:
        return fetch(context, wanted, require_stable)
    except KafkaError as error:
        # Before v2 nothing is left of it: there is neither a field for the group nor a partition.
        return OffsetFetchResponseGroup(group_id=group_id, error_code=error.code)


def _fetch_all(
    context: RequestContext,
    wanted: OffsetFetchRequestGroup,
    require_stable: bool,
) -> OffsetFetchResponseGroup:
    group = context.broker.group_coordinator.offset_fetch(wanted, require_stable=require_stable)
    describable = context.authorized(Operation.DESCRIBE, (topic.name for topic in group.topics))
    group.topics = [topic for topic in group.topics if topic.name in describable]
    return group


def _fetch(
    context: RequestContext,
    wanted: OffsetFetchRequestGroup,
    require_stable: bool,
) -> OffsetFetchResponseGroup:
    topics = wanted.topics or []
    describable = context.authorized(Operation.DESCRIBE, (topic.name for topic in topics))
    hidden = [topic for topic in topics if topic.name not in describable]
    wanted.topics = [topic for topic in topics if topic.name in describable]
    group = context.broker.group_coordinator.offset_fetch(wanted, require_stable=require_stable)
    if not group.error_code:
        group.topics += [_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in hidden]
    return group


def _refused(topic: OffsetFetchRequestTopics, code: int) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code
            )
            for index in topic.partition_indexes
        ],
    )


def _of_one(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    """A topic as the answer of one group has it."""
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=each.partition_index,
                committed_offset=each.committed_offset,
                committed_leader_epoch=each.committed_leader_epoch,
                metadata=each.metadata,
                error_code=each.error_code,
            )
            for each in topic.partitions
        ],
    )
