"""AlterClientQuotas (49), v0-1.

Behaviour: quotas are set and removed, on whichever broker is asked; what is wrong with one entity leaves the
           others. They hold on every broker once it has read the notice in the store.
Versions:  v1 flexible.
Not implemented: addresses by the name of a host.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import alone, sliced
from barnabas.cluster.metadata.client_quota_admin import QuotaAlteration
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)


def _failed(
    request: AlterClientQuotasRequest, error: KafkaError, _version: int
) -> Sliced[AlterClientQuotasResponse]:
    response = AlterClientQuotasResponse()
    for entry in request.entries:
        yield
        response.entries.append(
            AlterClientQuotasResponseEntryData(
                error_code=error.code, error_message=str(error), entity=entry.entity
            )
        )
    return response


@handles(ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), failed=_failed)
@sliced
def alter_client_quotas(
    context: RequestContext, request: AlterClientQuotasRequest
) -> Sliced[AlterClientQuotasResponse]:
    context.require_cluster(Operation.ALTER_CONFIGS)
    answers: dict[frozenset[tuple[str, str | None]], AlterClientQuotasResponseEntryData] = {}
    for entry in request.entries:
        yield
        entity: dict[str, str | None] = {}
        for each in entry.entity:
            entity[each.entity_type] = each.entity_name
            yield
        values: list[tuple[str, float | None]] = []
        for operation in entry.ops:
            values.append((operation.key, None if operation.remove else operation.value))
            yield
        admin, alteration = context.broker.client_quotas, QuotaAlteration(entity, values)
        error = yield from alone(context, admin.alter(alteration, validate_only=request.validate_only))
        # An entity that is named twice is altered twice, and answered once.
        answers[frozenset(entity.items())] = AlterClientQuotasResponseEntryData(
            error_code=ErrorCode.NONE if error is None else error.code,
            error_message=None if error is None else error.own_message,
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        )
    return AlterClientQuotasResponse(entries=list(answers.values()))
