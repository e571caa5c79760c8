"""OffsetFetch (9), v1-9.

Behaviour: how far groups have come: -1 where nothing is committed, for unknown groups too. Topics that the
client may not describe are refused, or left out where all were asked for.
Versions:  v2 all topics (null), and an error for the group · v5 leader epochs (KIP-320) · v6 flexible ·
           v7 only what no open transaction can change (KIP-447) · v8 several groups (KIP-709) ·
           v9 members of the consumer protocol (KIP-848).
Not implemented: v0, which reads from ZooKeeper (KIP-896).
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import may, once
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
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
PORTION: Final = 500
"""So many partitions are looked up in one piece."""


def _failed(request: OffsetFetchRequest, error: KafkaError, version: int) -> Sliced[OffsetFetchResponse]:
    response = OffsetFetchResponse(error_code=error.code)
    if version >= SEVERAL_SINCE:
        response.error_code = ErrorCode.NONE
        for group_id in once(group.group_id for group in request.groups):
            if group_id is not None:
                response.groups.append(OffsetFetchResponseGroup(group_id=group_id, error_code=error.code))
            yield
    elif version < GROUP_ERRORS_SINCE:
        response.error_code = ErrorCode.NONE
        for topic in _only_group(request).topics or ():
            refused = yield from _refused(topic, error.code)
            response.topics.append((yield from _of_one(refused)))
            yield
    return response


@handles(ApiKey.OFFSET_FETCH, versions=(1, 9), failed=_failed)
@sliced
def offset_fetch(context: RequestContext, request: OffsetFetchRequest) -> Sliced[OffsetFetchResponse]:
    """Reads groups' positions."""
    stable = request.require_stable
    if context.version < SEVERAL_SINCE:
        group = yield from _group(context, _only_group(request), require_stable=stable)
        topics = []
        for topic in group.topics:
            topics.append((yield from _of_one(topic)))
            yield
        return OffsetFetchResponse(topics=topics, error_code=group.error_code)
    groups = []
    answered = set()
    for wanted in request.groups:
        yield
        if wanted.topics is None:
            # All topics of a group are answered once, however often they are asked for: else a small request fills the memory.
            if wanted.group_id in answered:
                continue
            answered.add(wanted.group_id)
        groups.append((yield from _group(context, wanted, require_stable=stable)))
    return OffsetFetchResponse(groups=groups)


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
    context: RequestContext, wanted: OffsetFetchRequestGroup, *, require_stable: bool
) -> Sliced[OffsetFetchResponseGroup]:
    """The positions of a group; one that is refused says only why."""
    group_id = wanted.group_id
    if not may(context, Operation.DESCRIBE, group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return OffsetFetchResponseGroup(group_id=group_id, error_code=code)
    try:
        return (yield from _positions(context, wanted, require_stable=require_stable))
    except KafkaError as error:
        # Before v2 nothing is left of it: there is neither a field for the group nor a partition.
        return OffsetFetchResponseGroup(group_id=group_id, error_code=error.code)


def _positions(
    context: RequestContext, wanted: OffsetFetchRequestGroup, *, require_stable: bool
) -> Sliced[OffsetFetchResponseGroup]:
    coordinator = context.broker.group_coordinator
    everything = wanted.topics is None
    asked = coordinator.committed_topics(wanted.group_id) if wanted.topics is None else wanted.topics
    may_describe = context.may(Operation.DESCRIBE)
    hidden: list[OffsetFetchResponseTopics] = []
    found: dict[str, dict[int, None]] = {}
    for topic in asked:
        yield
        if may_describe[topic.name]:
            if not topic.partition_indexes:
                continue  # the answer does not name it either, as in Kafka
            indexes = found.setdefault(topic.name, {})
            for index in topic.partition_indexes:
                indexes[index] = None
                yield
        elif not everything:
            hidden.append((yield from _refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
    answer = OffsetFetchResponseGroup(group_id=wanted.group_id)
    for topics in _portions(found):
        portion = OffsetFetchRequestGroup(
            group_id=wanted.group_id,
            member_id=wanted.member_id,
            member_epoch=wanted.member_epoch,
            topics=topics,
        )
        group = coordinator.offset_fetch(portion, require_stable=require_stable)
        if group.error_code:
            return group
        for each in group.topics:
            if answer.topics and answer.topics[-1].name == each.name:
                answer.topics[-1].partitions += each.partitions
            else:
                answer.topics.append(each)
        yield
    answer.topics += hidden
    return answer


def _portions(wanted: Mapping[str, Iterable[int]]) -> Iterator[list[OffsetFetchRequestTopics]]:
    """What is asked of a group, in pieces that the coordinator may answer at once; one of nothing for nothing."""
    portion: list[OffsetFetchRequestTopics] = []
    room = PORTION
    asked = False
    for name, indexes in wanted.items():
        left = iter(indexes)
        while part := list(islice(left, room)):
            portion.append(OffsetFetchRequestTopics(name=name, partition_indexes=part))
            room -= len(part)
            if not room:
                yield portion
                portion, room, asked = [], PORTION, True
    if portion or not asked:
        yield portion


def _refused(topic: OffsetFetchRequestTopics, code: int) -> Sliced[OffsetFetchResponseTopics]:
    answer = OffsetFetchResponseTopics(name=topic.name)
    for index in topic.partition_indexes:
        answer.partitions.append(
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code
            )
        )
        yield
    return answer


def _of_one(topic: OffsetFetchResponseTopics) -> Sliced[OffsetFetchResponseTopic]:
    """A topic as the answer of one group has it."""
    answer = OffsetFetchResponseTopic(name=topic.name)
    for each in topic.partitions:
        answer.partitions.append(
            OffsetFetchResponsePartition(
                partition_index=each.partition_index,
                committed_offset=each.committed_offset,
                committed_leader_epoch=each.committed_leader_epoch,
                metadata=each.metadata,
                error_code=each.error_code,
            )
        )
        yield
    return answer
