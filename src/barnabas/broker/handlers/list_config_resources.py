"""ListConfigResources (74), v0-1.

Behaviour: the names of resources that have, or may have, a configuration (KIP-1142): topics, brokers, their
loggers, subscriptions of client metrics, groups that have settings of their own.
Versions:  v0 (ListClientMetricsResources) client metrics only · v1 types in the request, none for all.
Not implemented: nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.config_entries import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

TYPES_SINCE: Final = 1


def _brokers(context: RequestContext) -> Iterable[str]:
    return map(str, sorted(context.broker.metadata_cache.snapshot.brokers))


def _topics(context: RequestContext) -> Iterable[str]:
    return context.broker.metadata_cache.snapshot.partitions


def _client_metrics(context: RequestContext) -> Iterable[str]:
    return list(context.broker.topic_configs.client_metrics)


def _groups(context: RequestContext) -> Iterable[str]:
    return list(context.broker.topic_configs.groups)


_NAMES: Final[Mapping[int, Callable[[RequestContext], Iterable[str]]]] = {
    GROUP: _groups,
    CLIENT_METRICS: _client_metrics,
    BROKER_LOGGER: _brokers,
    BROKER: _brokers,
    TOPIC: _topics,
}
"""The names of each type, in the order in which Kafka answers."""


@handles(ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1))
@sliced
def list_config_resources(
    context: RequestContext, request: ListConfigResourcesRequest
) -> Sliced[ListConfigResourcesResponse]:
    context.require_cluster(Operation.DESCRIBE_CONFIGS)
    wanted = set(request.resource_types) if context.version >= TYPES_SINCE else {CLIENT_METRICS}
    if not wanted <= _NAMES.keys():
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    response = ListConfigResourcesResponse()
    for resource_type, names in _NAMES.items():
        if not wanted or resource_type in wanted:
            for name in names(context):
                response.config_resources.append(
                    ConfigResource(resource_name=name, resource_type=resource_type)
                )
                yield
    return response
