"""DescribeConfigs (32), v1-4.

Behaviour: the configuration of topics, of this broker, and what is set for all brokers, each value with its
source and what it would be without it, in the order of Kafka's answers; the levels of this broker's loggers;
subscriptions of client metrics, and groups, those that there are not with their defaults.
Passwords are never shown. A kind of resource that there is not refuses the whole request.
Limit:     a resource that is named several times is described once (Kafka: as often as it is named), as a
           small request would otherwise fill the memory: the broker has more than a hundred keys.
Versions:  v1 synonyms and sources (KIP-226) · v3 types and documentation (KIP-569) · v4 flexible.
           Client metrics (16) and groups (32) in profile 4.4; Kafka 3.9 has them with KRaft only:
           INVALID_REQUEST, and groups refuse the whole request.
Not implemented: v0 (KIP-896).
"""

from collections.abc import Collection, Container

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.config_entries import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    broker_entries,
    client_metrics_entries,
    cluster_default_entries,
    group_entries,
    in_order,
    logger_entries,
    topic_entries,
)
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core import broker_loggers
from barnabas.core.api_profile import KAFKA_3_9, api_profile
from barnabas.core.client_metrics_config import CLIENT_METRICS_CONFIG
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.group_config import GROUP_CONFIG
from barnabas.core.ids import broker_id_of, validate_topic_name
from barnabas.core.slices import Sliced
from barnabas.core.topic_config import TOPIC_CONFIG, topic_config, topic_defaults
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)


def _failed(request: DescribeConfigsRequest, error: KafkaError, _version: int) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_refused(resource, error) for resource in request.resources])


@handles(ApiKey.DESCRIBE_CONFIGS, versions=(1, 4), failed=_failed)
@sliced
def describe_configs(
    context: RequestContext, request: DescribeConfigsRequest
) -> Sliced[DescribeConfigsResponse]:
    described, denied = [], []
    answered = set()
    for resource in request.resources:
        yield
        problem = _denied(context, resource)
        if problem is not None:
            denied.append(_refused(resource, problem))
            continue
        wanted = None
        if resource.configuration_keys:
            known = _keys_of(context, resource.resource_type)
            wanted = yield from _known_keys(known, resource.configuration_keys)
        try:
            identity = _identity(context, resource), wanted
            if identity not in answered:
                answered.add(identity)
                described.append(_describe(context, request, resource, wanted))
        except KafkaError as error:
            described.append(_refused(resource, error))
    return DescribeConfigsResponse(results=described + denied)


def _denied(context: RequestContext, resource: DescribeConfigsResource) -> KafkaError | None:
    if resource.resource_type not in (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if resource.resource_type == GROUP and api_profile(context.broker.config) == KAFKA_3_9:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if resource.resource_type == TOPIC:
        if context.authorize(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, resource.resource_name):
            return None
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if resource.resource_type == GROUP:
        if context.authorize(Operation.DESCRIBE_CONFIGS, Resource.GROUP, resource.resource_name):
            return None
        return KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if context.authorize_cluster(Operation.DESCRIBE_CONFIGS):
        return None
    return KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _keys_of(context: RequestContext, kind: int) -> Container[str]:
    """The names of all that this kind of resource has."""
    if kind == TOPIC:
        return TOPIC_CONFIG
    if kind == CLIENT_METRICS:
        return CLIENT_METRICS_CONFIG
    if kind == GROUP:
        return GROUP_CONFIG
    return broker_loggers.levels() if kind == BROKER_LOGGER else context.broker.config.table


def _known_keys(known: Container[str], names: list[str]) -> Sliced[frozenset[str]]:
    """Those of the names that are keys at all; others are left out of the answer, as in Kafka."""
    wanted = set()
    for name in names:
        if name in known:
            wanted.add(name)
        yield
    return frozenset(wanted)


def _identity(context: RequestContext, resource: DescribeConfigsResource) -> tuple[int, str | int]:
    """What the resource is, however it is spelt; raises KafkaError where this broker has no such thing."""
    broker = context.broker
    kind, name = resource.resource_type, resource.resource_name
    if kind == TOPIC:
        validate_topic_name(name)
        if name not in broker.metadata_cache:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return kind, name
    if kind == GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return kind, name
    if kind == CLIENT_METRICS:
        missing = "Client metrics subscription name must not be empty"
        no_kraft = "Config type client-metrics is only supported on KRaft clusters"
        if not name or api_profile(broker.config) == KAFKA_3_9:
            raise KafkaError(ErrorCode.INVALID_REQUEST, no_kraft if name else missing)
        return kind, name
    if not name:
        if kind == BROKER_LOGGER:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        return kind, name
    broker_id = _broker_id(name)
    if broker_id != broker.broker_id:
        or_all = " or empty string," if kind == BROKER else ""
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.broker_id}{or_all} but received {name}",
        )
    return kind, broker_id


def _refused(resource: DescribeConfigsResource, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=str(error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _describe(
    context: RequestContext,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    wanted: Collection[str] | None,
) -> DescribeConfigsResult:
    config, name, docs = context.broker.config, resource.resource_name, request.include_documentation
    if resource.resource_type == TOPIC:
        own = context.broker.topic_configs.topic(name)
        # A monitor asks for a few keys of every topic: the others, with their synonyms, are not made first.
        full = topic_config(topic_defaults(config), own)
        entries = topic_entries(config, full, docs=docs, wanted=wanted)
    elif resource.resource_type == BROKER_LOGGER:
        entries = logger_entries()
    elif resource.resource_type == CLIENT_METRICS:
        entries = client_metrics_entries(context.broker.topic_configs.client_metrics.get(name, {}), docs=docs)
    elif resource.resource_type == GROUP:
        entries = group_entries(config, context.broker.topic_configs.groups.get(name, {}), docs=docs)
    elif name:
        entries = broker_entries(config, docs=docs)
    else:
        entries = cluster_default_entries(config, docs=docs)
    if wanted is not None:
        entries = [entry for entry in entries if entry.name in wanted]
    if not request.include_synonyms:
        for entry in entries:
            entry.synonyms = []
    return DescribeConfigsResult(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=in_order(entries),
    )


def _broker_id(name: str) -> int:
    named = broker_id_of(name)
    if named is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    return named
