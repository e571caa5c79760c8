"""AlterConfigs (33), v0-2.

Behaviour: replaces all settings of topics, of this broker, or of all brokers (an empty name): what is not named falls
back to its default. Deprecated in Kafka since 2.3 for IncrementalAlterConfigs.
Versions:  v2 flexible.
Not implemented: alter.config.policy.class.name.
"""

from barnabas.broker.alter_configs import Alteration, alter_resources
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def _failed(request: AlterConfigsRequest, error: KafkaError, _version: int) -> Sliced[AlterConfigsResponse]:
    response = AlterConfigsResponse()
    for each in request.resources:
        response.responses.append(_answer(each, error))
        yield
    return response


@handles(ApiKey.ALTER_CONFIGS, versions=(0, 2), failed=_failed)
@sliced
def alter_configs(context: RequestContext, request: AlterConfigsRequest) -> Sliced[AlterConfigsResponse]:
    alterations: list[Alteration] = []
    for each in request.resources:
        alterations.append(_alteration(each))
        yield
    errors = yield from alter_resources(context, alterations, validate_only=request.validate_only)
    response = AlterConfigsResponse()
    for each, error in zip(request.resources, errors, strict=True):
        response.responses.append(_answer(each, error))
        yield
    return response


def _alteration(each: AlterConfigsResource) -> Alteration:
    return Alteration(
        each.resource_type,
        each.resource_name,
        [config.name for config in each.configs],
        [config.name for config in each.configs if config.value is None],
        {config.name: config.value for config in each.configs if config.value is not None},
    )


def _answer(resource: AlterConfigsResource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code if error else ErrorCode.NONE,
        error_message=str(error) if error and str(error) != error.code.message else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
