"""DescribeTransactions (65), v0.

Behaviour: the state of transactional ids, and the partitions of each that the client may describe (KIP-664).
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def _failed(
    request: DescribeTransactionsRequest, error: KafkaError, _version: int
) -> Sliced[DescribeTransactionsResponse]:
    response = DescribeTransactionsResponse()
    for transactional_id in request.transactional_ids:
        response.transaction_states.append(
            TransactionState(transactional_id=transactional_id, error_code=error.code)
        )
        yield
    return response


@handles(ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0), failed=_failed)
@sliced
def describe_transactions(
    context: RequestContext, request: DescribeTransactionsRequest
) -> Sliced[DescribeTransactionsResponse]:
    may_describe = context.may(Operation.DESCRIBE)
    response = DescribeTransactionsResponse()
    for transactional_id in request.transactional_ids:
        yield
        answer = TransactionState(transactional_id=transactional_id)
        response.transaction_states.append(answer)
        if not context.authorize(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, transactional_id):
            answer.error_code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            continue
        try:
            metadata = context.broker.transaction_coordinator.describe(transactional_id)
        except KafkaError as error:
            answer.error_code = error.code
            continue
        answer.transaction_state = metadata.state.label
        answer.transaction_timeout_ms = metadata.timeout_ms
        answer.transaction_start_time_ms = metadata.start_ms
        answer.producer_id, answer.producer_epoch = metadata.producer
        for topic, partitions in list(metadata.partitions.items()):
            if may_describe[topic]:
                answer.topics.append(TopicData(topic=topic, partitions=list(partitions)))
            yield
    return response
