"""AlterConfigs (33), v0-2.

Behaviour: replaces all settings of topics, of this broker, or of all brokers (an empty name): what is not
named falls back to its default. Deprecated in Kafka since 2.3 for IncrementalAlterConfigs.
Versions:  v2 flexible.
Not implemented: alter.config.policy.class.name.
"""

from itertools import repeat

from barnabas.broker.alter_configs import Alteration, alter_resources, results_with
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.errors import KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def _failed(request: AlterConfigsRequest, error: KafkaError, _version: int) -> Sliced[AlterConfigsResponse]:
    results = yield from results_with(repeat(error), request, AlterConfigsResourceResponse)
    return AlterConfigsResponse(responses=results)


@handles(ApiKey.ALTER_CONFIGS, versions=(0, 2), failed=_failed)
@sliced
def alter_configs(context: RequestContext, request: AlterConfigsRequest) -> Sliced[AlterConfigsResponse]:
    results = yield from alter_resources(context, request, _alteration, AlterConfigsResourceResponse)
    return AlterConfigsResponse(responses=results)


def _alteration(each: AlterConfigsResource) -> Alteration:
    return Alteration(
        each.resource_type,
        each.resource_name,
        [config.name for config in each.configs],
        [config.name for config in each.configs if config.value is None],
        {config.name: config.value for config in each.configs if config.value is not None},
    )
