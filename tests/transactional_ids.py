"""Requests about transactional ids, from a peer on a bare socket."""

from barnabas.core.errors import ErrorCode
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from waiting import until


def coordinated(peer):
    """Waits until the ids have a coordinator that has loaded them."""
    until(lambda: peer.ask(FindCoordinatorRequest(key="clerk", key_type=1), 2).error_code == 0)
    until(lambda: peer.ask(_no_producers(), 1).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def _no_producers():
    return EndTxnRequest(transactional_id="clerk", producer_id=-5, producer_epoch=0, committed=True)


def init(transactional_id):
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
