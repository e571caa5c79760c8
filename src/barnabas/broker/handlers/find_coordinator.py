"""FindCoordinator (10), v0-6.

Behaviour: names the broker that coordinates a group or a transactional id: the leader of the partition of
``__consumer_offsets`` or ``__transaction_state`` that the key's hash falls on, at its endpoint on the
listener that the request came in on. A topic that is missing is created, and the client asks again.
Versions:  v0 groups only · v1 transactional ids, messages beside errors · v3 flexible · v4 several keys, each
           with an error of its own (KIP-699) · v5 as v4 · v6 share groups (KIP-932).
Not implemented: share groups: as in Kafka 3.9 they are answered COORDINATOR_NOT_AVAILABLE.
"""

from typing import Final, NamedTuple

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.broker.throttling import recorder
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import GROUP_METADATA_TOPIC, NO_BROKER, TRANSACTION_STATE_TOPIC, TopicPartition
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.coordinator_type import CoordinatorType
from barnabas.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

BATCHES_SINCE: Final = 4
SHARE_GROUPS_SINCE: Final = 6
NO_PORT: Final = -1


class Found(NamedTuple):
    """Where a coordinator is, or why that is not known (``Node.noNode``)."""

    error: ErrorCode
    node_id: int = NO_BROKER
    host: str = ""
    port: int = NO_PORT


NOT_AVAILABLE: Final = Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _failed(
    request: FindCoordinatorRequest, error: KafkaError, version: int
) -> Sliced[FindCoordinatorResponse]:
    if version < BATCHES_SINCE:
        return _single(Found(error.code))
    response = FindCoordinatorResponse()
    for key in request.coordinator_keys:
        # Only where the whole request is refused does Kafka put a text beside the code of each key.
        response.coordinators.append(_one_of_several(key, Found(error.code), error.code.message))
        yield
    return response


@handles(ApiKey.FIND_COORDINATOR, versions=(0, 6), failed=_failed)
@sliced
def find_coordinator(
    context: RequestContext, request: FindCoordinatorRequest
) -> Sliced[FindCoordinatorResponse]:
    """Finds the coordinator of one key, or of each of several."""
    if context.version < BATCHES_SINCE:
        return _single(_find(context, request.key_type, request.key))
    coordinators = []
    for key in request.coordinator_keys:
        # Kafka leaves the message at its default here, which is no text rather than null.
        coordinators.append(_one_of_several(key, _find(context, request.key_type, key), ""))
        yield
    return FindCoordinatorResponse(coordinators=coordinators)


def _find(context: RequestContext, key_type: int, key: str) -> Found:
    """``getCoordinator``. Raises INVALID_REQUEST for the whole request where there is no such type of
    keys.
    """
    broker = context.broker
    if key_type == CoordinatorType.GROUP:
        if not context.authorize(Operation.DESCRIBE, Resource.GROUP, key):
            return Found(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        tp = TopicPartition(GROUP_METADATA_TOPIC, broker.group_coordinator.partition_for(key))
    elif key_type == CoordinatorType.TRANSACTION:
        if not context.authorize(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, key):
            return Found(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        tp = TopicPartition(TRANSACTION_STATE_TOPIC, broker.transaction_coordinator.partition_for(key))
    elif key_type == CoordinatorType.SHARE:
        if context.version < SHARE_GROUPS_SINCE:
            return Found(ErrorCode.INVALID_REQUEST)
        if not context.authorize_cluster(Operation.CLUSTER_ACTION):
            return Found(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return NOT_AVAILABLE
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown coordinator type received: {key_type}")

    if tp.topic not in broker.metadata_cache:
        # The right to use a coordinator is enough: its topic is internal, so the client needs no right to
        # create it.
        broker.auto_topics.create(tp.topic, recorder(context, strict_since=None))
        return NOT_AVAILABLE
    state = broker.metadata_cache.partition(tp)
    endpoint = broker.metadata_cache.leader_endpoint(tp, context.listener)
    if state is None or endpoint is None:
        return NOT_AVAILABLE
    return Found(ErrorCode.NONE, state.leader, endpoint.host, endpoint.port)


def _single(found: Found) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=found.error,
        # "NONE" for success: Errors.message() falls back to the name of the code.
        error_message=found.error.message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _one_of_several(key: str, found: Found, message: str) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
        error_code=found.error,
        error_message=message,
    )
