"""LeaderAndIsr (4), v0-7.

Behaviour: the controller makes this broker leader or follower of partitions.
Versions:  v2 broker epochs (KIP-380) · v4 flexible · v5 topic ids (KIP-516) · v6 recovery state (KIP-704) ·
           v7 as sent by Kafka 3.4 to 3.9.
Not implemented: full requests of a KRaft controller (v5 type 2), which only a migration sends.
"""

from itertools import chain
from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.epochs import require_current_broker
from barnabas.broker.registry import handles
from barnabas.broker.sliced import in_turn_by_time
from barnabas.core.errors import KafkaError
from barnabas.core.ids import is_topic_name
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.replica.state_changes import refusal

PORTION: Final = 100
"""The settings of so many topics are read in one piece."""


def _failed(request: LeaderAndIsrRequest, error: KafkaError, version: int) -> Sliced[LeaderAndIsrResponse]:
    return refusal(request, error.code, version)


@handles(ApiKey.LEADER_AND_ISR, versions=(0, 7), failed=_failed, throttled=False)
@in_turn_by_time
def leader_and_isr(context: RequestContext, request: LeaderAndIsrRequest) -> Sliced[LeaderAndIsrResponse]:
    """Takes on roles, once it is known how the topics are configured: their logs may have to be made."""
    context.require_cluster(Operation.CLUSTER_ACTION)
    require_current_broker(context, request.broker_epoch)
    names = yield from _topics(request)
    for start in range(0, len(names), PORTION):
        yield context.broker.topic_configs.ensure(names[start : start + PORTION])
        yield
    return (yield from context.broker.replica_manager.become_leader_or_follower(request, context.version))


def _topics(request: LeaderAndIsrRequest) -> Sliced[list[str]]:
    """The topics that can have a configuration; what is none is refused by the replica manager."""
    names: dict[str, None] = {}
    grouped = (topic.topic_name for topic in request.topic_states)
    for name in chain(grouped, (state.topic_name for state in request.ungrouped_partition_states)):
        if is_topic_name(name):
            names[name] = None
        yield
    return list(names)
