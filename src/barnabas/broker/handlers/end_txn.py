"""EndTxn (26), v0-5.

Behaviour: commits or aborts the producer's open transaction; answered when the decision is replicated, before
any marker is written. Asked again it is answered CONCURRENT_TRANSACTIONS until all markers are.
Versions:  v2 PRODUCER_FENCED (KIP-588), below it INVALID_PRODUCER_EPOCH · v3 flexible · v4 as v3 · v5 bumps
           the epoch, and brings the next one (the second part of KIP-890), also when it is asked again.
Not implemented: nothing.
"""

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.transaction_requests import known_to_client, require_transactional_id
from barnabas.coordinator.transaction.metadata import ProducerIdAndEpoch
from barnabas.coordinator.transaction.transaction_version import TV_0, TV_2
from barnabas.core.errors import KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_SINCE: Final = 2
BUMPED_SINCE: Final = 5


def _failed(_request: EndTxnRequest, error: KafkaError, version: int) -> EndTxnResponse:
    return EndTxnResponse(error_code=known_to_client(error.code, version, fenced_since=FENCED_SINCE))


def _response(following: ProducerIdAndEpoch) -> EndTxnResponse:
    return EndTxnResponse(producer_id=following.producer_id, producer_epoch=following.epoch)


@handles(ApiKey.END_TXN, versions=(0, 5), failed=_failed)
def end_txn(context: RequestContext, request: EndTxnRequest) -> Pending[EndTxnResponse]:
    require_transactional_id(context, request.transactional_id)
    return context.broker.transaction_coordinator.end_transaction(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        committed=request.committed,
        client_version=TV_2 if context.version >= BUMPED_SINCE else TV_0,
    ).then(_response)
