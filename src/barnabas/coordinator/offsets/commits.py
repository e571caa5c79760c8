"""Reading commits out of requests, and what became of each partition back into responses.

Plain functions; `manager` puts them to work. A partition that a request names twice counts once, with what it
says last, as in Kafka, where a map stands between request and coordinator.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.coordinator.offsets.answers import topics_of
from barnabas.coordinator.offsets.group_offsets import NO_TIMESTAMP, Commits, CommittedOffset
from barnabas.coordinator.runtime.journal import COORDINATOR_WORDS
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

BROKER_RETENTION: Final = -1
"""The client leaves the retention of its offsets to the broker."""

_IN_WORDS_OF_COMMIT: Final = {
    **COORDINATOR_WORDS,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}


def commit_error(error: BaseException | None) -> ErrorCode:
    """What a client is told when its commit was not written (``maybeConvertOffsetCommitError``).

    The partition that could not be written to is the coordinator's, not the client's, and the answer must not
    be mistaken for one about the client's.
    """
    if error is None:
        return ErrorCode.NONE
    if not isinstance(error, KafkaError):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return _IN_WORDS_OF_COMMIT.get(error.code, error.code)


def plain_commits(request: OffsetCommitRequest, now_ms: int) -> dict[TopicPartition, CommittedOffset]:
    """The commits of a request, with their times."""
    retention_ms = request.retention_time_ms
    expire_timestamp = NO_TIMESTAMP if retention_ms == BROKER_RETENTION else now_ms + retention_ms
    return {
        TopicPartition(topic.name, partition.partition_index): CommittedOffset(
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata or "",
            now_ms if partition.commit_timestamp == NO_TIMESTAMP else partition.commit_timestamp,
            expire_timestamp,
        )
        for topic in request.topics
        for partition in topic.partitions
    }


def transactional_commits(
    request: TxnOffsetCommitRequest, now_ms: int
) -> dict[TopicPartition, CommittedOffset]:
    """The commits of a transaction's request, with their time."""
    return {
        TopicPartition(topic.name, partition.partition_index): CommittedOffset(
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata or "",
            now_ms,
        )
        for topic in request.topics
        for partition in topic.partitions
    }


def too_large(commits: Commits, limit: int) -> dict[TopicPartition, ErrorCode]:
    """The commits whose metadata is longer than allowed, counted in UTF-16 units as Java does."""
    return {
        tp: ErrorCode.OFFSET_METADATA_TOO_LARGE
        for tp, commit in commits.items()
        if _utf16_length(commit.metadata) > limit
    }


def _utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def commit_response(codes: Mapping[TopicPartition, ErrorCode]) -> OffsetCommitResponse:
    """What became of each partition."""
    topics = topics_of(codes, OffsetCommitResponseTopic, OffsetCommitResponsePartition)
    return OffsetCommitResponse(topics=topics)


def transactional_response(codes: Mapping[TopicPartition, ErrorCode]) -> TxnOffsetCommitResponse:
    """What became of each partition."""
    topics = topics_of(codes, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition)
    return TxnOffsetCommitResponse(topics=topics)


def outcome(
    partitions: Iterable[TopicPartition], code: ErrorCode, refused: Mapping[TopicPartition, ErrorCode]
) -> dict[TopicPartition, ErrorCode]:
    """The same code for every partition but those that were refused on their own account."""
    codes = dict.fromkeys(partitions, code)
    codes.update(refused)
    return codes
