"""TxnOffsetCommit (28), v0-6.

Behaviour: stores how far a group has come, as a part of the producer's transaction: the offsets become valid
when the transaction's marker is in the group's partition, and only if it commits.
Versions:  v2 leader epochs · below v2 a load is COORDINATOR_NOT_AVAILABLE (KAFKA-7296) · v3 flexible;
           names the member, so that one of an earlier generation is refused (KIP-447) ·
           v4 TRANSACTION_ABORTABLE · v5 adds the group's partition to the transaction (the second part of
           KIP-890) · v6 topic ids (KIP-1319).
Order:     the first commit of a transaction in the group's partition waits until the transaction's
           coordinator has said that it counts the partition to it (KIP-890).
"""

from collections.abc import Callable, Mapping
from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import require_group
from barnabas.broker.offset_requests import PORTION, PartitionCodes, known_commits, named_by_id
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.broker.transaction_requests import require_transactional_id
from barnabas.coordinator.offsets.group_offsets import CommittedOffset
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import GROUP_METADATA_TOPIC, TopicPartition
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.replica.verification import TransactionOf, support_of

LOAD_IN_PROGRESS_SINCE: Final = 2
ABORTABLE_SINCE: Final = 4
ADDED_SINCE: Final = 5
TOPIC_IDS_SINCE: Final = 6


def _failed(
    request: TxnOffsetCommitRequest, error: KafkaError, version: int
) -> Sliced[TxnOffsetCommitResponse]:
    codes = PartitionCodes()
    for topic in request.topics:
        yield from codes.refuse(
            topic.topic_id if version >= TOPIC_IDS_SINCE else topic.name,
            topic.partitions,
            _known_to_client(error.code, version),
        )
    return (yield from _response(codes))


@handles(ApiKey.TXN_OFFSET_COMMIT, versions=(0, 6), failed=_failed)
@sliced
def txn_offset_commit(
    context: RequestContext, request: TxnOffsetCommitRequest
) -> Sliced[TxnOffsetCommitResponse]:
    require_transactional_id(context, request.transactional_id)
    require_group(context, Operation.READ, request.group_id)
    codes = PartitionCodes()
    if context.version >= TOPIC_IDS_SINCE:
        known = yield from known_commits(context, named_by_id(context, request.topics, codes), codes)
    else:
        asked = ((topic.name, topic.partitions) for topic in request.topics)
        known = yield from known_commits(context, asked, codes)
    if known.by_partition:
        commits = yield from _commits(known.by_partition, context.broker.clock.time_ms())
        try:
            context.broker.group_coordinator.begin_transactional_commit(request.group_id)
            check = yield _verified(context, request)
            answer = yield from context.broker.group_coordinator.commit_offsets(
                request.group_id,
                commits,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                generation=request.generation_id,
                version=context.version,
                producer=(request.producer_id, request.producer_epoch),
                check=check,
            )
            committed = (yield answer) if isinstance(answer, Pending) else answer
        except KafkaError as refusal:
            # What was refused before the group was asked keeps its own code.
            committed = dict.fromkeys(known.by_partition, _known_to_client(refusal.code, context.version))
        yield from codes.add_committed(known, committed)
    return (yield from _response(codes))


def _verified(context: RequestContext, request: TxnOffsetCommitRequest) -> Pending[Callable[[], None]]:
    """As `Appender.verify_commit`, for the group's partition."""
    broker = context.broker
    tp = TopicPartition(GROUP_METADATA_TOPIC, broker.group_coordinator.partition_for(request.group_id))
    transaction = TransactionOf(request.transactional_id, request.producer_id, request.producer_epoch)
    support = support_of(context.version, abortable_since=ABORTABLE_SINCE, added_since=ADDED_SINCE)
    return broker.replica_manager.appender.verify_commit(tp, transaction, support)


def _commits(
    known: Mapping[TopicPartition, TxnOffsetCommitRequestPartition], now_ms: int
) -> Sliced[dict[TopicPartition, CommittedOffset]]:
    commits: dict[TopicPartition, CommittedOffset] = {}
    for tp, each in known.items():
        commits[tp] = CommittedOffset(
            each.committed_offset, each.committed_leader_epoch, each.committed_metadata or "", now_ms
        )
        if not len(commits) % PORTION:
            yield
    return commits


def _known_to_client(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOAD_IN_PROGRESS_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def _response(codes: PartitionCodes) -> Sliced[TxnOffsetCommitResponse]:
    topics = yield from codes.topics_of(TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition)
    return TxnOffsetCommitResponse(topics=topics)
