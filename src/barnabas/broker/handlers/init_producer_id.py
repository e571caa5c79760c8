"""InitProducerId (22), v0-5.

Behaviour: gives an idempotent producer an id of its own, with epoch 0.
Versions:  v2 flexible · v3 the producer may bring the id it had (KIP-360) · v4 PRODUCER_FENCED (KIP-588) ·
           v5 as v4.
Not implemented: transactional ids: without a transaction coordinator they are answered
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every client takes for final. COORDINATOR_NOT_AVAILABLE they ask again,
and librdkafka asks UNSUPPORTED_VERSION again too.
"""

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_log = EventLog("broker.init_producer_id")


def _failed(_request: InitProducerIdRequest, error: KafkaError, _version: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)


@handles(ApiKey.INIT_PRODUCER_ID, versions=(0, 5), failed=_failed)
def init_producer_id(
    context: RequestContext, request: InitProducerIdRequest
) -> Pending[InitProducerIdResponse]:
    """Hands out a producer id."""
    _authorize(context, request)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        raise KafkaError(_transactional(context, request))
    return context.broker.producer_ids.generate().then(
        lambda producer_id: InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    )


def _authorize(context: RequestContext, request: InitProducerIdRequest) -> None:
    name = request.transactional_id
    if name is not None:
        if not context.authorize(Operation.WRITE, Resource.TRANSACTIONAL_ID, name):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not (
        context.authorize_cluster(Operation.IDEMPOTENT_WRITE)
        # Who may write to any topic may do so idempotently (KIP-679).
        or context.authorize_any(Operation.WRITE, Resource.TOPIC)
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _transactional(context: RequestContext, request: InitProducerIdRequest) -> ErrorCode:
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= context.broker.config["transaction.max.timeout.ms"]:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    _log.warning(
        "transactions.not_served",
        transactional_id=request.transactional_id,
        client=context.client_id,
        host=context.client_host,
    )
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
