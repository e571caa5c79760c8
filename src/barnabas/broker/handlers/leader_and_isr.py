"""LeaderAndIsr (4), v0-7.

Behaviour: the controller makes this broker leader or follower of partitions, and so coordinator of groups.
Versions:  v2 broker epochs (KIP-380) · v4 flexible · v5 topic ids (KIP-516) · v6 recovery state (KIP-704) ·
           v7 as sent by Kafka 3.4 to 3.9.
Not implemented: full requests of a KRaft controller (v5 type 2), which only a migration sends.
"""

from functools import partial
from typing import cast

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.epochs import require_current_broker
from barnabas.broker.registry import handles
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.core.errors import KafkaError
from barnabas.core.ids import GROUP_METADATA_TOPIC, is_topic_name
from barnabas.core.pending import Steps, steps
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.replica.state_changes import RoleChanges, refusal


def _failed(request: LeaderAndIsrRequest, error: KafkaError, version: int) -> LeaderAndIsrResponse:
    return refusal(request, error.code, version)


@handles(ApiKey.LEADER_AND_ISR, versions=(0, 7), failed=_failed, throttled=False)
@steps
def leader_and_isr(context: RequestContext, request: LeaderAndIsrRequest) -> Steps[LeaderAndIsrResponse]:
    """Takes on roles, once it is known how the topics are configured: their logs may have to be made."""
    context.require_cluster(Operation.CLUSTER_ACTION)
    require_current_broker(context, request.broker_epoch)
    yield context.broker.topic_configs.ensure(_topics(request))
    answer = yield context.broker.replica_manager.become_leader_or_follower(
        request, context.version, partial(_roles_changed, context.broker.group_coordinator)
    )
    return cast("LeaderAndIsrResponse", answer)


def _roles_changed(coordinator: GroupCoordinator, roles: RoleChanges) -> None:
    """Whoever leads a partition of ``__consumer_offsets`` coordinates its groups."""
    for partition in roles.leaders:
        if partition.tp.topic == GROUP_METADATA_TOPIC:
            coordinator.elected(partition.tp.partition, partition.leader_epoch)
    for partition in roles.followers:
        if partition.tp.topic == GROUP_METADATA_TOPIC:
            coordinator.resigned(partition.tp.partition, partition.leader_epoch)


def _topics(request: LeaderAndIsrRequest) -> list[str]:
    """The topics that can have a configuration; what is none is refused by the replica manager."""
    names = [
        *(topic.topic_name for topic in request.topic_states),
        *(state.topic_name for state in request.ungrouped_partition_states),
    ]
    return [name for name in names if is_topic_name(name)]
