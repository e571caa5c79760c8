"""IncrementalAlterConfigs (44), v0-1.

Behaviour: sets and deletes settings of topics, of this broker, and of all brokers (an empty name), and adds
to and takes from settings that are lists (KIP-339). Any broker changes those of topics. Sets the levels of
this broker's loggers (KIP-412), which it forgets when it ends.
Versions:  v1 flexible.
Not implemented: alter.config.policy.class.name.
"""

from itertools import repeat

from barnabas.broker.alter_configs import Alteration, alter_resources, results_with
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.cluster.metadata.config_admin import ConfigOp, OpType
from barnabas.core.errors import KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def _failed(
    request: IncrementalAlterConfigsRequest, error: KafkaError, _version: int
) -> Sliced[IncrementalAlterConfigsResponse]:
    results = yield from results_with(repeat(error), request, AlterConfigsResourceResponse)
    return IncrementalAlterConfigsResponse(responses=results)


@handles(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), failed=_failed)
@sliced
def incremental_alter_configs(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Sliced[IncrementalAlterConfigsResponse]:
    results = yield from alter_resources(context, request, _alteration, AlterConfigsResourceResponse)
    return IncrementalAlterConfigsResponse(responses=results)


def _alteration(each: AlterConfigsResource) -> Alteration:
    return Alteration(
        each.resource_type,
        each.resource_name,
        [config.name for config in each.configs],
        # A key that is deleted has no value.
        [
            config.name
            for config in each.configs
            if config.value is None and config.config_operation != OpType.DELETE
        ],
        [ConfigOp(config.name, config.config_operation, config.value or "") for config in each.configs],
    )
