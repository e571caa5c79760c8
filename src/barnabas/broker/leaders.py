"""Who leads a partition now, for a client that asked the wrong broker (KIP-951)."""

from typing import NamedTuple

from barnabas.broker.context import RequestContext
from barnabas.core.ids import NO_BROKER, NO_EPOCH, TopicPartition
from barnabas.network.endpoints import Endpoint


class CurrentLeader(NamedTuple):
    """A leader, and where to reach it on the listener that the client uses; None if it cannot be."""

    id: int
    epoch: int
    endpoint: Endpoint | None
    rack: str | None


def current_leader(context: RequestContext, tp: TopicPartition) -> CurrentLeader:
    """The leader as this broker's replica knows it, else as the controller said last."""
    services = context.broker
    partition = services.replica_manager.partition(tp)
    state = services.metadata_cache.partition(tp)
    if partition is not None:
        leader, epoch = (
            NO_BROKER if partition.leader_id is None else partition.leader_id,
            partition.leader_epoch,
        )
    elif state is not None:
        leader, epoch = state.leader, state.leader_epoch
    else:
        leader, epoch = NO_BROKER, NO_EPOCH
    broker = services.metadata_cache.alive_broker(leader)
    endpoint = services.metadata_cache.broker_endpoint(leader, context.listener)
    return CurrentLeader(leader, epoch, endpoint, None if broker is None else broker.rack)
