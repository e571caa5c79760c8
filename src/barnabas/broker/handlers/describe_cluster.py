"""DescribeCluster (60), v0-2.

Behaviour: the brokers as this listener reaches them, the controller, the cluster's id.
Versions:  v0 flexible · v1 asks for brokers or controllers (KIP-919); a broker answers for brokers only
           · v2 brokers that are fenced, if asked for: with ZooKeeper none is (KIP-1073).
Not implemented: nothing.
"""

from typing import Final

from barnabas.broker.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import NO_BROKER
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS: Final = 1
CONTROLLERS: Final = 2


@handles(ApiKey.DESCRIBE_CLUSTER, versions=(0, 2))
def describe_cluster(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return _refuse_endpoint(context, request.endpoint_type)
    snapshot = context.broker.metadata_cache.snapshot
    brokers = [
        DescribeClusterBroker(
            broker_id=broker.id,
            host=snapshot.endpoints[broker.id][context.listener].host,
            port=snapshot.endpoints[broker.id][context.listener].port,
            rack=broker.rack,
        )
        for broker in snapshot.brokers.values()
        if context.listener in snapshot.endpoints[broker.id]
    ]
    known = any(broker.broker_id == snapshot.controller_id for broker in brokers)
    response = DescribeClusterResponse(
        cluster_id=context.broker.cluster_id,
        controller_id=snapshot.controller_id if known else NO_BROKER,
        brokers=brokers,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = _operations(context)
    return response


def _operations(context: RequestContext) -> int:
    if not context.authorize_cluster(Operation.DESCRIBE):
        return 0
    return context.authorized_operations(Resource.CLUSTER, CLUSTER_NAME)


def _refuse_endpoint(context: RequestContext, endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == CONTROLLERS:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = (
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        )
    else:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"Unsupported endpoint type {endpoint_type}"
    return DescribeClusterResponse(
        error_code=code if context.version else ErrorCode.INVALID_REQUEST, error_message=message
    )
