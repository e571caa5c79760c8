"""UpdateMetadata (6), v0-8.

Behaviour: the controller sends the metadata that brokers give to clients. Requests that wait for a topic to appear
or to disappear look again.
Versions:  v5 broker epochs (KIP-380) · v6 flexible · v7 topic ids (KIP-516) · v8 as sent by Kafka 3.4 to 3.9.
Not implemented: full requests of a KRaft controller (v8 type 2), which only a migration sends.
"""

from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.epochs import require_current_broker
from barnabas.broker.registry import handles
from barnabas.broker.sliced import in_turn
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

PORTION: Final = 500
"""Topics whose change is announced in one piece."""


@handles(ApiKey.UPDATE_METADATA, versions=(0, 8), throttled=False)
@in_turn
def update_metadata(
    context: RequestContext, request: UpdateMetadataRequest
) -> Sliced[UpdateMetadataResponse]:
    """Takes in the cluster's metadata."""
    context.require_cluster(Operation.CLUSTER_ACTION)
    require_current_broker(context, request.broker_epoch)
    topics, deleted = yield from context.broker.replica_manager.update_metadata(request)
    for start in range(0, len(deleted), PORTION):
        context.broker.topic_configs.forget({tp.topic for tp in deleted[start : start + PORTION]})
        yield
    names = list(topics)
    for start in range(0, len(names), PORTION):
        context.broker.topic_changes.metadata_changed(names[start : start + PORTION])
        yield
    return UpdateMetadataResponse()
