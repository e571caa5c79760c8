"""WriteTxnMarkers (27), v0-2.

Behaviour: the coordinator of a transaction has the leaders of its partitions write how it ended. Each
partition is answered when the in-sync replicas have its marker; in ``__consumer_offsets`` the transaction's
offsets are valid then.
Versions:  v1 flexible · v2 names the transaction's version: from 2 on the marker's epoch must be above
           that of the open transaction (the second part of KIP-890).
Repeats:   a partition that a marker names twice gets it once.
Not implemented: nothing.
"""

from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced_by_time
from barnabas.coordinator.transaction.transaction_version import supports_epoch_bump
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import GROUP_METADATA_TOPIC, TopicPartition
from barnabas.core.pending import Pending, gather
from barnabas.core.slices import Sliced
from barnabas.log.producers import AppendOrigin
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.records.control import ControlType, EndTransactionMarker, build_marker
from barnabas.replica.produce import ACKS_ALL, Results

_log: Final = EventLog("broker.write_txn_markers")

Codes = dict[int, dict[TopicPartition, ErrorCode]]


def _failed(
    request: WriteTxnMarkersRequest, error: KafkaError, _version: int
) -> Sliced[WriteTxnMarkersResponse]:
    codes: Codes = {}
    for marker in request.markers:
        of_producer = codes.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for partition in topic.partition_indexes:
                of_producer[TopicPartition(topic.name, partition)] = error.code
                yield
        yield
    return (yield from _response(codes))


@handles(ApiKey.WRITE_TXN_MARKERS, versions=(0, 2), failed=_failed, throttled=False)
@sliced_by_time
def write_txn_markers(
    context: RequestContext, request: WriteTxnMarkersRequest
) -> Sliced[WriteTxnMarkersResponse]:
    if not context.authorize_cluster(Operation.ALTER, log_if_denied=False):
        context.require_cluster(Operation.CLUSTER_ACTION)
    codes: Codes = {}
    written: list[Pending[None]] = []
    for marker in request.markers:
        of_producer = codes.setdefault(marker.producer_id, {})
        results = yield from _append(context, marker, of_producer)
        outcome = _acknowledge(context, marker, results, of_producer)
        if outcome is not None:
            written.append(outcome)
        yield
    if written:
        yield gather(written)
    return (yield from _response(codes))


def _append(
    context: RequestContext, marker: WritableTxnMarker, codes: dict[TopicPartition, ErrorCode]
) -> Sliced[Results]:
    """Appends one transaction's markers; `codes` gets those of partitions that are not here.

    The results are at most as many as there are partitions here: they are acknowledged in one piece.
    """
    manager = context.broker.replica_manager
    kind = ControlType.COMMIT if marker.transaction_result else ControlType.ABORT
    content = EndTransactionMarker(kind, marker.coordinator_epoch)
    origin = AppendOrigin.COORDINATOR
    if supports_epoch_bump(marker.transaction_version):
        origin = AppendOrigin.COORDINATOR_OF_BUMPED
    results: Results = []
    written: set[TopicPartition] = set()
    for topic in marker.topics:
        for partition in topic.partition_indexes:
            yield
            tp = TopicPartition(topic.name, partition)
            # Also for one that the cluster has elsewhere: the coordinator looks for its leader again.
            if tp not in manager.partitions.online:
                codes[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            # One that is named twice ends its transaction once. (Kafka 3.9 never answers such a request.)
            if tp in written:
                continue
            if marker.producer_id < 0 or marker.producer_epoch < 0:
                # Kafka fails over a batch of nobody, and answers so for the whole request.
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            if marker.transaction_version < 0:
                codes[tp] = ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka's too, of an argument that cannot be
                continue
            written.add(tp)
            batch = build_marker(
                content,
                timestamp=context.broker.clock.time_ms(),
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
            )
            results.append(manager.appender.append(tp, bytearray(batch), ACKS_ALL, origin))
        yield
    return results


def _acknowledge(
    context: RequestContext,
    marker: WritableTxnMarker,
    results: Results,
    codes: dict[TopicPartition, ErrorCode],
) -> Pending[None] | None:
    """Waits for the replicas, marker by marker:
    `codes` has what became of each, now or when the Pending is done.
    """
    appender = context.broker.replica_manager.appender
    outcome = appender.acknowledge(results, ACKS_ALL, context.broker.config["request.timeout.ms"])
    if isinstance(outcome, Pending):
        return outcome.then(lambda done: _acknowledged(context, marker, done, codes))
    _acknowledged(context, marker, outcome, codes)
    return None


def _acknowledged(
    context: RequestContext,
    marker: WritableTxnMarker,
    results: Results,
    codes: dict[TopicPartition, ErrorCode],
) -> None:
    for result in results:
        codes[result.tp] = result.error
    offsets = {
        result.tp.partition: result.info.first_offset
        for result in results
        if result.tp.topic == GROUP_METADATA_TOPIC and not result.error
    }
    if not offsets:
        return
    try:
        context.broker.group_coordinator.complete_transaction(
            marker.producer_id, offsets, committed=marker.transaction_result
        )
    except Exception:
        _log.error("markers.offsets_not_completed", producer_id=marker.producer_id, exc_info=True)
        for partition in offsets:
            codes[TopicPartition(GROUP_METADATA_TOPIC, partition)] = ErrorCode.UNKNOWN_SERVER_ERROR


def _response(codes: Codes) -> Sliced[WriteTxnMarkersResponse]:
    response = WriteTxnMarkersResponse()
    for producer_id, of_producer in codes.items():
        topics: dict[str, WritableTxnMarkerTopicResult] = {}
        for tp, code in of_producer.items():
            topic = topics.get(tp.topic)
            if topic is None:
                topic = topics[tp.topic] = WritableTxnMarkerTopicResult(name=tp.topic)
            topic.partitions.append(
                WritableTxnMarkerPartitionResult(partition_index=tp.partition, error_code=code)
            )
            yield
        if topics:
            response.markers.append(
                WritableTxnMarkerResult(producer_id=producer_id, topics=list(topics.values()))
            )
        yield
    return response
