"""UpdateMetadata (6), v0-8.

Behaviour: the controller sends the metadata that brokers give to clients. Requests that wait for a topic to
appear or to disappear look again.
Versions:  v5 broker epochs (KIP-380) · v6 flexible · v7 topic ids (KIP-516) · v8 as sent by Kafka 3.4 to 3.9.
Not implemented: full requests of a KRaft controller (v8 type 2), which only a migration sends.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import in_turn
from barnabas.cluster.brokers import SECURITY_PROTOCOL_NAMES, Broker
from barnabas.cluster.leadership import ControllerEpoch
from barnabas.cluster.metadata.cache import MetadataChange, MetadataDelta, PartitionState
from barnabas.core.ids import TopicPartition
from barnabas.core.slices import Sliced
from barnabas.network.endpoints import Endpoint
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from barnabas.replica.manager import ReplicaManager

PORTION: Final = 500
"""Topics whose change is announced in one piece."""


@handles(ApiKey.UPDATE_METADATA, versions=(0, 8), throttled=False)
@in_turn
def update_metadata(
    context: RequestContext, request: UpdateMetadataRequest
) -> Sliced[UpdateMetadataResponse]:
    """Takes in the cluster's metadata."""
    context.require_cluster(Operation.CLUSTER_ACTION)
    context.require_current_broker(request.broker_epoch)
    topics, deleted = yield from take_over(context.broker.replica_manager, request)
    for start in range(0, len(deleted), PORTION):
        context.broker.topic_configs.forget({tp.topic for tp in deleted[start : start + PORTION]})
        yield
    names = list(topics)
    for start in range(0, len(names), PORTION):
        context.broker.topic_changes.metadata_changed(names[start : start + PORTION])
        yield
    return UpdateMetadataResponse()


def take_over(replicas: ReplicaManager, request: UpdateMetadataRequest) -> Sliced[MetadataChange]:
    """Has the metadata replaced, in the control queue. Raises STALE_CONTROLLER_EPOCH."""
    controller = ControllerEpoch(request.controller_id, request.controller_epoch)
    delta = yield from delta_of(request)
    return (yield from replicas.update_metadata(controller, delta))


def delta_of(request: UpdateMetadataRequest) -> Sliced[MetadataDelta]:
    """What a request of any version brings. Its partitions are translated while the cache takes them in."""
    brokers: dict[int, Broker] = {}
    for each in request.live_brokers:
        brokers[each.id] = yield from _broker(each)
        yield
    topic_ids = ((topic.topic_name, topic.topic_id) for topic in request.topic_states)
    return MetadataDelta(request.controller_id, brokers, topic_ids, _partitions(request))


def _broker(broker: UpdateMetadataBroker) -> Sliced[Broker]:
    if broker.v0_host:  # version 0 knows one plaintext address
        return Broker(broker.id, (Endpoint("PLAINTEXT", broker.v0_host, broker.v0_port),), broker.rack)
    endpoints = []
    for endpoint in broker.endpoints:
        # Clients get host and port by listener: an unknown protocol does no harm, as in Kafka.
        protocol = SECURITY_PROTOCOL_NAMES.get(endpoint.security_protocol, "")
        # Before version 3 a listener had no name but its protocol's.
        endpoints.append(Endpoint(endpoint.listener or protocol, endpoint.host, endpoint.port, protocol))
        yield
    return Broker(broker.id, tuple(endpoints), broker.rack)


def _partitions(request: UpdateMetadataRequest) -> Iterator[tuple[TopicPartition, PartitionState]]:
    # Before version 5 each partition names its topic. One text and no call for each: there may be 200,000.
    ungrouped = (("", request.ungrouped_partition_states),)
    grouped = ((topic.topic_name, topic.partition_states) for topic in request.topic_states)
    for topic, states in chain(ungrouped, grouped):
        for state in states:
            yield (
                TopicPartition(topic or state.topic_name, state.partition_index),
                PartitionState(
                    state.leader,
                    state.leader_epoch,
                    tuple(state.isr),
                    tuple(state.replicas),
                    tuple(state.offline_replicas),
                    state.zk_version,
                    state.controller_epoch,
                ),
            )
