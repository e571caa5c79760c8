"""OffsetFetch (9), v1-10.

Behaviour: how far groups have come: -1 where nothing is committed, for unknown groups too. Topics that the
client may not describe are refused, or left out where all were asked for.
Versions:  v2 all topics (null), and an error for the group · v5 leader epochs (KIP-320) · v6 flexible ·
           v7 only what no open transaction can change (KIP-447) · v8 several groups (KIP-709) ·
           v9 members of the consumer protocol (KIP-848) · v10 topic ids; of all topics those that exist.
Not implemented: v0, which reads from ZooKeeper (KIP-896).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import once
from barnabas.broker.offset_requests import PORTION
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.coordinator.offsets.group_offsets import CommittedOffset
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition, Uuid
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
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
TOPIC_IDS_SINCE: Final = 10
NO_OFFSET: Final = -1


class _Form(NamedTuple):
    """The classes of an answer: those of one group are other ones than those of several."""

    topic: Callable[..., Any]
    partition: Callable[..., Any]


_OF_ONE: Final = _Form(OffsetFetchResponseTopic, OffsetFetchResponsePartition)
_OF_SEVERAL: Final = _Form(OffsetFetchResponseTopics, OffsetFetchResponsePartitions)


class _Asked(NamedTuple):
    """What is asked of one group; all its topics without a list of them."""

    group_id: str
    topics: Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None
    member_id: str | None
    member_epoch: int
    require_stable: bool


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
        for topic in request.topics or ():
            response.topics.append((yield from _refused(topic, error.code, _OF_ONE)))
    return response


@handles(ApiKey.OFFSET_FETCH, versions=(1, 10), failed=_failed)
@sliced
def offset_fetch(context: RequestContext, request: OffsetFetchRequest) -> Sliced[OffsetFetchResponse]:
    if context.version < SEVERAL_SINCE:
        asked = _Asked(request.group_id, request.topics, None, -1, request.require_stable)
        topics, code = yield from _positions(context, asked, _OF_ONE)
        if code == ErrorCode.GROUP_AUTHORIZATION_FAILED and context.version < GROUP_ERRORS_SINCE:
            raise KafkaError(code)  # each partition says so
        # Before v2 nothing is left of another code: there is neither a field for the group nor a partition.
        return OffsetFetchResponse(topics=topics, error_code=code)
    groups = []
    answered = set()
    for each in request.groups:
        yield
        group_id = each.group_id
        if each.topics is None:
            # All topics of a group are answered once, however often they are asked for: else a small request
            # fills the memory.
            if group_id in answered:
                continue
            answered.add(group_id)
        asked = _Asked(group_id, each.topics, each.member_id, each.member_epoch, request.require_stable)
        topics, code = yield from _positions(context, asked, _OF_SEVERAL)
        groups.append(OffsetFetchResponseGroup(group_id=group_id, topics=topics, error_code=code))
    return OffsetFetchResponse(groups=groups)


def _positions(context: RequestContext, asked: _Asked, form: _Form) -> Sliced[tuple[list[Any], ErrorCode]]:
    """The topics of a group with its positions; a group that is refused has a code and no topics."""
    if not context.authorize(Operation.DESCRIBE, Resource.GROUP, asked.group_id):
        return [], ErrorCode.GROUP_AUTHORIZATION_FAILED
    coordinator = context.broker.group_coordinator
    topics: dict[str, Any] = {}
    topic_ids: dict[str, Uuid] | None = {} if context.version >= TOPIC_IDS_SINCE else None
    try:
        partitions, hidden = yield from _describable(context, asked, form, topic_ids)
        for start in range(0, len(partitions) or 1, PORTION):  # the group is asked even where nothing is
            found = coordinator.fetch_offsets(
                asked.group_id,
                partitions[start : start + PORTION],
                member_id=asked.member_id,
                member_epoch=asked.member_epoch,
                require_stable=asked.require_stable,
            )
            for tp, position in found.items():
                topic = topics.get(tp.topic)
                if topic is None:
                    topic = topics[tp.topic] = form.topic(name=tp.topic, partitions=[])
                    if topic_ids is not None:
                        topic.topic_id = topic_ids[tp.topic]
                topic.partitions.append(_partition(tp.partition, position, form))
            yield
    except KafkaError as error:
        return [], error.code
    return [*topics.values(), *hidden], ErrorCode.NONE


def _describable(
    context: RequestContext, asked: _Asked, form: _Form, topic_ids: dict[str, Uuid] | None
) -> Sliced[tuple[list[TopicPartition], list[Any]]]:
    """The partitions that the client may see, each once, and the refused topics of those that it named.

    Where topics have ids in this version, `topic_ids` gets those of the partitions.
    """
    snapshot = context.broker.metadata_cache.snapshot
    may_describe = context.may(Operation.DESCRIBE)
    partitions: dict[TopicPartition, None] = {}
    hidden: list[Any] = []
    if asked.topics is None:
        for tp in context.broker.group_coordinator.committed_partitions(asked.group_id):
            yield
            if not may_describe[tp.topic]:
                continue
            if topic_ids is not None:
                # The offsets of a topic that was deleted may still be there; nobody can ask for them by id.
                if tp.topic not in snapshot.topic_ids:
                    continue
                topic_ids[tp.topic] = snapshot.topic_ids[tp.topic]
            partitions[tp] = None
        return list(partitions), hidden
    for topic in asked.topics:
        yield
        name = topic.name
        if topic_ids is not None and isinstance(topic, OffsetFetchRequestTopics):
            name = snapshot.topic_names.get(topic.topic_id, "")
            if not name:
                hidden.append((yield from _refused(topic, ErrorCode.UNKNOWN_TOPIC_ID, form)))
                continue
            topic_ids[name] = topic.topic_id
        if not may_describe[name]:
            hidden.append((yield from _refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED, form)))
            continue
        for index in topic.partition_indexes:
            partitions[TopicPartition(name, index)] = None
            yield
    return list(partitions), hidden


def _partition(index: int, position: CommittedOffset | ErrorCode | None, form: _Form) -> Any:
    if isinstance(position, CommittedOffset):
        return form.partition(
            partition_index=index,
            committed_offset=position.offset,
            committed_leader_epoch=position.leader_epoch,
            metadata=position.metadata,
        )
    code = position or ErrorCode.NONE
    return form.partition(partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code)


def _refused(
    topic: OffsetFetchRequestTopic | OffsetFetchRequestTopics, code: ErrorCode, form: _Form
) -> Sliced[Any]:
    answer = form.topic(name=topic.name, partitions=[])
    if isinstance(topic, OffsetFetchRequestTopics):
        answer.topic_id = topic.topic_id
    for index in topic.partition_indexes:
        answer.partitions.append(_partition(index, code, form))
        yield
    return answer
