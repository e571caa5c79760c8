"""AddPartitionsToTxn (24), v0-5.

Behaviour: adds partitions to the producer's transaction, all of them or none: where one is refused, the
others are answered OPERATION_NOT_ATTEMPTED.
Versions:  v0-3 come from clients, for one transaction · v2 PRODUCER_FENCED (KIP-588), below it
           INVALID_PRODUCER_EPOCH · v3 flexible · v4 come from brokers, for several transactions, which they
           may also ask about without a change (KIP-890) · v5 as v4.
Repeats:   a transactional id that is named twice is worked on once, as it was named last.
Not implemented: nothing.
"""

from collections.abc import Iterable
from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.broker.transaction_requests import known_to_client, require_transactional_id
from barnabas.coordinator.transaction.metadata import Codes, ProducerIdAndEpoch
from barnabas.coordinator.transaction.transaction_version import TV_0, TV_2
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import INTERNAL_TOPICS, PartitionSet
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FENCED_SINCE: Final = 2
FROM_BROKERS_SINCE: Final = 4


def _failed(
    request: AddPartitionsToTxnRequest, error: KafkaError, version: int
) -> Sliced[AddPartitionsToTxnResponse]:
    if version >= FROM_BROKERS_SINCE:
        return AddPartitionsToTxnResponse(error_code=error.code)
    code = known_to_client(error.code, version, fenced_since=FENCED_SINCE)
    topics = yield from _all_alike(request.v3_and_below_topics, code)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


@handles(ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 5), failed=_failed)
@sliced
def add_partitions_to_txn(
    context: RequestContext, request: AddPartitionsToTxnRequest
) -> Sliced[AddPartitionsToTxnResponse]:
    if context.version < FROM_BROKERS_SINCE:
        require_transactional_id(context, request.v3_and_below_transactional_id)
        only = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        topics = yield from _add(context, only)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
    context.require_cluster(Operation.CLUSTER_ACTION)
    response = AddPartitionsToTxnResponse()
    for transaction in {each.transactional_id: each for each in request.transactions}.values():
        topics = yield from _add(context, transaction)
        response.results_by_transaction.append(
            AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=topics)
        )
        yield
    return response


def _add(
    context: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> Sliced[list[AddPartitionsToTxnTopicResult]]:
    """What becomes of the partitions of one transaction."""
    partitions = yield from _partitions(transaction.topics)
    refused = yield from _refused(context, partitions)
    if refused:
        return (yield from _topic_results(partitions, refused, ErrorCode.OPERATION_NOT_ATTEMPTED))
    coordinator = context.broker.transaction_coordinator
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    try:
        if transaction.verify_only:
            verified = coordinator.verify_partitions(transaction.transactional_id, producer, partitions)
            return (yield from _topic_results(partitions, verified))
        yield coordinator.add_partitions(
            transaction.transactional_id,
            producer,
            partitions,
            # A broker has them added for a client of the second part of KIP-890.
            client_version=TV_2 if context.version >= FROM_BROKERS_SINCE else TV_0,
        )
        code = ErrorCode.NONE
    except KafkaError as error:
        code = known_to_client(error.code, context.version, fenced_since=FENCED_SINCE)
    return (yield from _all_alike(transaction.topics, code))


def _all_alike(
    topics: Iterable[AddPartitionsToTxnTopic], code: ErrorCode
) -> Sliced[list[AddPartitionsToTxnTopicResult]]:
    """The same code for all partitions, as often as the request names them."""
    results = []
    for topic in topics:
        result = AddPartitionsToTxnTopicResult(name=topic.name)
        results.append(result)
        for partition in topic.partitions:
            result.results_by_partition.append(
                AddPartitionsToTxnPartitionResult(partition_index=partition, partition_error_code=code)
            )
            yield
        yield
    return results


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> Sliced[PartitionSet]:
    partitions: PartitionSet = {}
    for topic in topics:
        # A topic without partitions is part of neither the transaction nor the answer.
        if topic.partitions:
            partitions.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions))
        yield
    return partitions


def _refused(context: RequestContext, partitions: PartitionSet) -> Sliced[Codes]:
    """Partitions that the client may not write to, or that there are not.
    Brokers need no right to a topic.
    """
    may_write = context.may(Operation.WRITE, count=lambda topic: len(partitions[topic]))
    from_client = context.version < FROM_BROKERS_SINCE
    existing = context.broker.metadata_cache.snapshot.partitions
    refused: Codes = {}
    for topic, asked in partitions.items():
        # An internal topic is none of the topics that Kafka asks the authorizer about, so it counts as
        # refused.
        if from_client and (topic in INTERNAL_TOPICS or not may_write[topic]):
            refused[topic] = dict.fromkeys(asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif unknown := asked.keys() - existing.get(topic, {}).keys():
            refused[topic] = dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        yield
    return refused


def _topic_results(
    partitions: PartitionSet, codes: Codes, other: ErrorCode = ErrorCode.NONE
) -> Sliced[list[AddPartitionsToTxnTopicResult]]:
    """The code of each partition, `other` for those that have none."""
    results = []
    for topic, asked in partitions.items():
        of_topic = codes.get(topic, {})
        result = AddPartitionsToTxnTopicResult(name=topic)
        results.append(result)
        for partition in asked:
            result.results_by_partition.append(
                AddPartitionsToTxnPartitionResult(
                    partition_index=partition, partition_error_code=of_topic.get(partition, other)
                )
            )
            yield
    return results
