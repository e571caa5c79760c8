"""InitProducerId (22), v0-5.

Behaviour: gives an idempotent producer an id of its own, with epoch 0; gives a transactional one the id and
the next epoch of its transactional id, and aborts what an earlier producer has left open
(CONCURRENT_TRANSACTIONS until then).
Versions:  v2 flexible · v3 the producer may bring the id it had (KIP-360) · v4 PRODUCER_FENCED (KIP-588),
           below it INVALID_PRODUCER_EPOCH · v5 as v4.
Not implemented: nothing.
"""

from typing import Final

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.transaction_requests import known_to_client, require_transactional_id
from barnabas.coordinator.transaction.metadata import ProducerIdAndEpoch
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FENCED_SINCE: Final = 4


def _failed(_request: InitProducerIdRequest, error: KafkaError, version: int) -> InitProducerIdResponse:
    code = known_to_client(error.code, version, fenced_since=FENCED_SINCE)
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


@handles(ApiKey.INIT_PRODUCER_ID, versions=(0, 5), failed=_failed)
def init_producer_id(
    context: RequestContext, request: InitProducerIdRequest
) -> Pending[InitProducerIdResponse]:
    """Hands out a producer id."""
    _authorize(context, request)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return context.broker.producer_ids.generate().then(
            lambda producer_id: InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
        )
    expected = None
    if request.producer_id != -1:
        expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    return context.broker.transaction_coordinator.init_producer_id(
        request.transactional_id, request.transaction_timeout_ms, expected
    ).then(
        lambda producer: InitProducerIdResponse(
            producer_id=producer.producer_id, producer_epoch=producer.epoch
        )
    )


def _authorize(context: RequestContext, request: InitProducerIdRequest) -> None:
    name = request.transactional_id
    if name is not None:
        require_transactional_id(context, name)
    elif not (
        context.authorize_cluster(Operation.IDEMPOTENT_WRITE, log_if_denied=False)
        # Who may write to any topic may do so idempotently (KIP-679).
        or context.authorize_any(Operation.WRITE, Resource.TOPIC)
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
