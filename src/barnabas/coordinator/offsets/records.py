"""Offsets as records of ``__consumer_offsets``, there and back
(``GroupMetadataManager.offsetCommitValue``).
"""

from sys import intern
from typing import Final

from barnabas.coordinator.offsets.group_offsets import NO_TIMESTAMP, CommittedOffset
from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.core.ids import TopicPartition
from barnabas.protocol.coordinator.offset_commit import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)

PLAIN_VERSION: Final = 3
"""Of values; the newest without tagged fields, so that brokers since 2.1 can read it."""
EXPIRING_VERSION: Final = 1
"""The only version with a time of expiry; it loses the leader epoch, as in Kafka."""


def commit_record(group_id: str, tp: TopicPartition, commit: CommittedOffset) -> CoordinatorRecord:
    """What is written for a commit, encoded already: the journal takes a large commit in one piece."""
    value = OffsetCommitValue(
        offset=commit.offset,
        leader_epoch=commit.leader_epoch,
        metadata=commit.metadata,
        commit_timestamp=commit.commit_timestamp,
        expire_timestamp=commit.expire_timestamp,
    )
    version = PLAIN_VERSION if commit.expire_timestamp == NO_TIMESTAMP else EXPIRING_VERSION
    key = _key(group_id, tp)
    return CoordinatorRecord(key, value, version, (key.to_bytes(), value.to_bytes(version)))


def tombstone(group_id: str, tp: TopicPartition) -> CoordinatorRecord:
    """What is written when an offset is deleted or expires."""
    return CoordinatorRecord(_key(group_id, tp))


def _key(group_id: str, tp: TopicPartition) -> OffsetCommitKey:
    return OffsetCommitKey(group=group_id, topic=tp.topic, partition=tp.partition)


def partition_of(key: OffsetCommitKey | LegacyOffsetCommitKey) -> TopicPartition:
    """The partition that a record is about.

    Names of topics are interned: a million offsets know a few thousand topics.
    """
    return TopicPartition(intern(key.topic), key.partition)


def commit_of(value: OffsetCommitValue, journal_offset: int) -> CommittedOffset:
    """The commit that a record holds."""
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        journal_offset,
    )
