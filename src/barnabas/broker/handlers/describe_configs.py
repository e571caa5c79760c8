"""DescribeConfigs (32), v1-4.

Behaviour: the configuration of topics, of this broker, and what is set for all brokers, each value with
its source and what it would be without it. Passwords are never told.
Versions:  v1 synonyms and sources (KIP-226) · v3 types and documentation (KIP-569) · v4 flexible.
Not implemented: v0 (KIP-896); log levels (resource 8) and client metrics (resource 16), which this broker
does not have: INVALID_REQUEST.
"""

from typing import Final

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.config_entries import broker_entries, cluster_default_entries, topic_entries
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import validate_topic_name
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

TOPIC: Final = 2
BROKER: Final = 4


def _failed(request: DescribeConfigsRequest, error: KafkaError, _version: int) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_refused(resource, error) for resource in request.resources])


@handles(ApiKey.DESCRIBE_CONFIGS, versions=(1, 4), failed=_failed)
def describe_configs(context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Describes configurations."""
    described, denied = [], []
    for resource in request.resources:
        problem = _denied(context, resource)
        if problem is None:
            described.append(_describe(context, request, resource))
        else:
            denied.append(_refused(resource, problem))
    return DescribeConfigsResponse(results=described + denied)


def _denied(context: RequestContext, resource: DescribeConfigsResource) -> KafkaError | None:
    if resource.resource_type == TOPIC:
        if context.authorize(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, resource.resource_name):
            return None
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if context.authorize_cluster(Operation.DESCRIBE_CONFIGS):
        return None
    return KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _refused(resource: DescribeConfigsResource, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=str(error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _describe(
    context: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    try:
        entries = _entries(context, resource, docs=request.include_documentation)
    except KafkaError as error:
        return _refused(resource, error)
    wanted = resource.configuration_keys
    if wanted:
        entries = [entry for entry in entries if entry.name in wanted]
    if not request.include_synonyms:
        for entry in entries:
            entry.synonyms = []
    return DescribeConfigsResult(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=entries,
    )


def _entries(
    context: RequestContext, resource: DescribeConfigsResource, *, docs: bool
) -> list[DescribeConfigsResourceResult]:
    broker = context.broker
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        validate_topic_name(name)
        if name not in broker.metadata_cache:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic_entries(broker.config, broker.topic_configs.topic(name), docs=docs)
    if resource.resource_type != BROKER:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")
    if not name:
        return cluster_default_entries(broker.config, docs=docs)
    if _broker_id(name) != broker.broker_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.broker_id} or empty string, but received {name}",
        )
    return broker_entries(broker.config, docs=docs)


def _broker_id(name: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        ) from None
