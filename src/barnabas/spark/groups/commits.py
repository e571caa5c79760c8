"""The commits among the records of ``__consumer_offsets``, by the decoders of the group coordinator."""

import logging
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from barnabas.coordinator.offsets.bulk import decode_commits
from barnabas.core.errors import BarnabasError
from barnabas.protocol.coordinator.offset_commit import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from barnabas.protocol.coordinator.record import UnknownRecordTypeError
from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS
from barnabas.spark.groups.options import GroupOptions

_log = logging.getLogger("barnabas.spark")

_TIME: Final = pa.timestamp("us", tz="UTC")
COMMITS: Final = pa.schema(
    {
        "group": pa.string(), "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(),
        "leaderEpoch": pa.int32(), "metadata": pa.string(), "commitTimestamp": _TIME,
        "expireTimestamp": _TIME,
        "recordPartition": pa.int32(), "recordOffset": pa.int64(), "recordTimestamp": _TIME,
    }
)  # fmt: skip
_BULK_COMMIT_LENGTH: Final = 4
_LIMIT_MS: Final = (2**63 - 1) // 1000


class Commit(NamedTuple):
    """A position of a group in a partition; without an offset, that it was deleted or has expired."""

    group: str
    topic: str
    partition: int
    offset: int | None
    leader_epoch: int | None = None
    metadata: str | None = None
    commit_timestamp: int | None = None
    """Milliseconds since 1970."""
    expire_timestamp: int | None = None


def commit_rows(records: pa.RecordBatch, options: GroupOptions) -> pa.RecordBatch:
    """The commits among records in the columns of the Kafka source, one row each."""
    found: list[tuple[Any, ...]] = []
    for commit, place in commits_of(records):
        if options.wants(commit.group):
            times = (_micros(commit.commit_timestamp), _micros(commit.expire_timestamp))
            found.append((*commit[:6], *times, *place))
    columns = list(zip(*found, strict=True)) or [()] * len(COMMITS)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, COMMITS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=COMMITS)


def commits_of(records: pa.RecordBatch) -> Iterator[tuple[Commit, tuple[int, int, int]]]:
    """Each commit with the partition, the offset and the time (microseconds) of its record.

    Records of other types, which say who is in a group, are left out; those that cannot be read too, with a
    line in the log, as `kafka-dump-log` passes over them.
    """
    names_of: dict[bytes, tuple[str, str]] = {}
    times = records.column("timestamp").cast(pa.int64()).to_pylist()
    columns = [records.column(name).to_pylist() for name in ("key", "value", "partition", "offset")]
    for key, value, partition, offset, time in zip(*columns, times, strict=True):
        try:
            commit = _commit_of(key, value, names_of)
        except UnknownRecordTypeError:
            continue  # of a later Kafka
        except BarnabasError as error:
            _log.warning("record %d of __consumer_offsets-%d cannot be read: %s", offset, partition, error)
            continue
        if commit is not None:
            yield commit, (partition, offset, time)


def _commit_of(
    key: bytes | None, value: bytes | None, names_of: dict[bytes, tuple[str, str]]
) -> Commit | None:
    """Raises UnknownRecordTypeError and ProtocolError."""
    pieces = decode_commits([(key, value)], 0, names_of)
    if not pieces:
        return None  # without a key
    if len(pieces[0]) == _BULK_COMMIT_LENGTH:
        group, topic, (partition,), (fields,) = pieces[0]
        if fields is None:
            return Commit(group, topic, partition, None)
        offset, leader_epoch, metadata, committed_ms, expires_ms, _ = fields
        return Commit(group, topic, partition, offset, leader_epoch, metadata, committed_ms, expires_ms)
    assert key is not None
    name, said = CONSUMER_OFFSETS.decode(key, value)
    if not isinstance(name, OffsetCommitKey | LegacyOffsetCommitKey):
        return None
    if isinstance(said, OffsetCommitValue):
        return Commit(
            name.group, name.topic, name.partition, said.offset, said.leader_epoch, said.metadata,
            said.commit_timestamp, said.expire_timestamp,
        )  # fmt: skip
    if isinstance(said, LegacyOffsetCommitValue):
        return Commit(
            name.group, name.topic, name.partition, said.offset, -1, said.metadata, said.commit_timestamp, -1
        )
    return Commit(name.group, name.topic, name.partition, None)


def _micros(milliseconds: int | None) -> int | None:
    if milliseconds is None or milliseconds < 0:
        return None
    return min(milliseconds, _LIMIT_MS) * 1000
