"""AddOffsetsToTxn (25), v0-4.

Behaviour: adds the group's partition of ``__consumer_offsets`` to the producer's transaction.
Versions:  v2 PRODUCER_FENCED (KIP-588), below it INVALID_PRODUCER_EPOCH · v3 flexible · v4 as v3.
Not implemented: nothing.
"""

from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import require_group
from barnabas.broker.registry import handles
from barnabas.broker.transaction_requests import known_to_client, require_transactional_id
from barnabas.coordinator.runtime.keys import NO_PARTITION
from barnabas.coordinator.transaction.metadata import ProducerIdAndEpoch
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import GROUP_METADATA_TOPIC
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_SINCE: Final = 2


def _failed(_request: AddOffsetsToTxnRequest, error: KafkaError, version: int) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=known_to_client(error.code, version, fenced_since=FENCED_SINCE))


@handles(ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 4), failed=_failed)
def add_offsets_to_txn(
    context: RequestContext, request: AddOffsetsToTxnRequest
) -> Pending[AddOffsetsToTxnResponse]:
    require_transactional_id(context, request.transactional_id)
    require_group(context, Operation.READ, request.group_id)
    broker = context.broker
    partition = broker.group_coordinator.partition_for(request.group_id)
    if partition == NO_PARTITION:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    return broker.transaction_coordinator.add_partitions(
        request.transactional_id, producer, {GROUP_METADATA_TOPIC: {partition: None}}
    ).then(lambda _: AddOffsetsToTxnResponse())
