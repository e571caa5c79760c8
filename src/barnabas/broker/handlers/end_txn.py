"""EndTxn (26), v0-4.

Behaviour: commits or aborts the producer's open transaction; answered when the decision is replicated, before
any marker is written. Asked again it is answered CONCURRENT_TRANSACTIONS until all markers are.
Versions:  v2 PRODUCER_FENCED (KIP-588), below it INVALID_PRODUCER_EPOCH · v3 flexible · v4 as v3.
Not implemented: v5, whose answer brings the next epoch (the second part of KIP-890, Kafka 4).
"""

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.transaction_requests import known_to_client, require_transactional_id
from barnabas.coordinator.transaction.metadata import ProducerIdAndEpoch
from barnabas.core.errors import KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_SINCE: Final = 2


def _failed(_request: EndTxnRequest, error: KafkaError, version: int) -> EndTxnResponse:
    return EndTxnResponse(error_code=known_to_client(error.code, version, fenced_since=FENCED_SINCE))


@handles(ApiKey.END_TXN, versions=(0, 4), failed=_failed)
def end_txn(context: RequestContext, request: EndTxnRequest) -> Pending[EndTxnResponse]:
    require_transactional_id(context, request.transactional_id)
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    return context.broker.transaction_coordinator.end_transaction(
        request.transactional_id, producer, committed=request.committed
    ).then(lambda _: EndTxnResponse())
