"""LeaderAndIsr (4), v0-7.

Behaviour: the controller makes this broker leader or follower of partitions.
Versions:  v2 broker epochs (KIP-380) · v4 flexible · v5 topic ids (KIP-516) · v6 recovery state (KIP-704) ·
           v7 as sent by Kafka 3.4 to 3.9.
Not implemented: full requests of a KRaft controller (v5 type 2), which only a migration sends.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import in_turn_by_time
from barnabas.cluster.leadership import ControllerEpoch
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition, Uuid, is_topic_name
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from barnabas.protocol.partition_states import LeaderAndIsrPartitionState
from barnabas.replica.manager import ReplicaManager

TOPIC_IDS_SINCE: Final = 5
"""Since then the answer names topics by their ids."""
PORTION: Final = 100
"""The number of topics whose settings are read in one piece."""


def refused(request: LeaderAndIsrRequest, error: KafkaError, version: int) -> Sliced[LeaderAndIsrResponse]:
    """The answer to a request that is refused as a whole: it says so for each partition too."""
    topic_ids = yield from _topic_ids(request)
    errors: dict[TopicPartition, ErrorCode] = {}
    for tp, _ in _states(request):
        errors[tp] = error.code
        yield
    response = yield from _response(errors, topic_ids, version)
    response.error_code = error.code
    return response


@handles(ApiKey.LEADER_AND_ISR, versions=(0, 7), failed=refused, throttled=False)
@in_turn_by_time
def leader_and_isr(context: RequestContext, request: LeaderAndIsrRequest) -> Sliced[LeaderAndIsrResponse]:
    """Takes on roles, once it is known how the topics are configured: their logs may have to be made."""
    context.require_cluster(Operation.CLUSTER_ACTION)
    context.require_current_broker(request.broker_epoch)
    names = yield from _topics(request)
    for start in range(0, len(names), PORTION):
        yield context.broker.topic_configs.ensure(names[start : start + PORTION])
        yield
    return (yield from take_roles(context.broker.replica_manager, request, context.version))


def _topics(request: LeaderAndIsrRequest) -> Sliced[list[str]]:
    """The topics that can have a configuration; what is none is refused by the replica manager."""
    names: dict[str, None] = {}
    grouped = (topic.topic_name for topic in request.topic_states)
    for name in chain(grouped, (state.topic_name for state in request.ungrouped_partition_states)):
        if is_topic_name(name):
            names[name] = None
        yield
    return list(names)


def take_roles(
    replicas: ReplicaManager, request: LeaderAndIsrRequest, version: int
) -> Sliced[LeaderAndIsrResponse]:
    """Has the replica manager do what the request says, in the control queue.
    Raises STALE_CONTROLLER_EPOCH.
    """
    controller = ControllerEpoch(request.controller_id, request.controller_epoch)
    topic_ids = yield from _topic_ids(request)
    errors = yield from replicas.become_leader_or_follower(controller, topic_ids, _states(request))
    return (yield from _response(errors, topic_ids, version))


def _topic_ids(request: LeaderAndIsrRequest) -> Sliced[dict[str, Uuid]]:
    topic_ids: dict[str, Uuid] = {}
    for topic in request.topic_states:
        topic_ids[topic.topic_name] = topic.topic_id
        yield
    return topic_ids


def _states(request: LeaderAndIsrRequest) -> Iterator[tuple[TopicPartition, LeaderAndIsrPartitionState]]:
    for state in request.ungrouped_partition_states:
        yield TopicPartition(state.topic_name, state.partition_index), state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield TopicPartition(topic.topic_name, state.partition_index), state


def _response(
    errors: Mapping[TopicPartition, ErrorCode], topic_ids: Mapping[str, Uuid], version: int
) -> Sliced[LeaderAndIsrResponse]:
    if version < TOPIC_IDS_SINCE:
        response = LeaderAndIsrResponse()
        for tp, code in errors.items():
            response.partition_errors.append(
                LeaderAndIsrPartitionError(topic_name=tp.topic, partition_index=tp.partition, error_code=code)
            )
            yield
        return response
    topics: dict[Uuid, LeaderAndIsrTopicError] = {}
    for tp, code in errors.items():
        topic_id = topic_ids[tp.topic]
        topic = topics.setdefault(topic_id, LeaderAndIsrTopicError(topic_id=topic_id))
        topic.partition_errors.append(
            LeaderAndIsrPartitionError(partition_index=tp.partition, error_code=code)
        )
        yield
    return LeaderAndIsrResponse(topics=list(topics.values()))
