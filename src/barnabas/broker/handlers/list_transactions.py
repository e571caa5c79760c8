"""ListTransactions (66), v0-2.

Behaviour: the transactional ids that this broker coordinates, that match all filters and that the client may
describe (KIP-664). While ids are being loaded it is refused.
Versions:  v1 only those whose transaction began so long ago (KIP-994) · v2 ids that match a pattern of RE2
           (KIP-1152), INVALID_REGULAR_EXPRESSION for one that cannot be.
Not implemented: nothing.
"""

from typing import Any

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.coordinator.transaction.states import BY_LABEL
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.regular_expressions import BadExpressionError, compiled
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)


@handles(ApiKey.LIST_TRANSACTIONS, versions=(0, 2))
@sliced
def list_transactions(
    context: RequestContext, request: ListTransactionsRequest
) -> Sliced[ListTransactionsResponse]:
    pattern = _pattern(request.transactional_id_pattern)
    found = yield from context.broker.transaction_coordinator.transactions(
        set(request.producer_id_filters), set(request.state_filters), request.duration_filter
    )
    response = ListTransactionsResponse()
    response.unknown_state_filters = [
        name for name in dict.fromkeys(request.state_filters) if name not in BY_LABEL
    ]
    for metadata in found:
        name = metadata.transactional_id
        matches = pattern is None or pattern.fullmatch(name)
        if matches and context.authorize(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, name):
            response.transaction_states.append(
                TransactionState(
                    transactional_id=name,
                    producer_id=metadata.producer_id,
                    transaction_state=metadata.state.label,
                )
            )
        yield
    return response


def _pattern(expression: str | None) -> Any:
    """What ids must match as a whole; None for an expression that was not given, or is empty."""
    if not expression:
        return None
    try:
        return compiled(expression)
    except BadExpressionError as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error
