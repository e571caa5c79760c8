"""DescribeClientQuotas (48), v0-1.

Behaviour: the quotas of the users, client ids and addresses that meet a filter, as the store has them.
Versions:  v1 flexible.
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import alone, sliced
from barnabas.cluster.metadata.client_quota_admin import QuotaComponent
from barnabas.core.errors import KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


def _failed(
    _request: DescribeClientQuotasRequest, error: KafkaError, _version: int
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error.code, error_message=error.own_message, entries=None)


@handles(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=(0, 1), failed=_failed)
@sliced
def describe_client_quotas(
    context: RequestContext, request: DescribeClientQuotasRequest
) -> Sliced[DescribeClientQuotasResponse]:
    context.require_cluster(Operation.DESCRIBE_CONFIGS)
    components = []
    for each in request.components:
        yield
        components.append(QuotaComponent(each.entity_type, each.match_type, each.match))
    admin = context.broker.client_quotas
    entries = []
    for place, entity in (yield from alone(context, admin.find(components, strict=request.strict))):
        yield
        values = yield from alone(context, admin.quotas(place))
        if not values:
            continue
        entries.append(
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
                values=[ValueData(key=key, value=value) for key, value in values.items()],
            )
        )
    return DescribeClientQuotasResponse(entries=entries)
