"""What the log directories of a broker hold, and how far each replica lags
(``ReplicaManager.describeLogDirs``).
"""

import os.path
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.core.errors import ErrorCode
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.slices import Sliced
from barnabas.log.directory import LogDirectory
from barnabas.log.log import Log
from barnabas.log.strays import StrayLog
from barnabas.replica.hosted import HostedPartitions

UNKNOWN: Final = -1
"""The lag of a log that no partition is served from, and the bytes of a directory that is offline."""

_log = EventLog("replica.log_dirs")


class LogUsage(NamedTuple):
    """One log in a directory."""

    tp: TopicPartition
    size: int
    """Bytes of its segments, without their indexes."""
    offset_lag: int
    """How many offsets it is behind the high watermark; a future log, behind the end of the current one."""
    is_future: bool = False
    """Whether it will take the place of the log in another directory."""


class LogDirUsage(NamedTuple):
    """One directory."""

    path: str
    error: ErrorCode
    logs: Sequence[LogUsage] = ()
    total_bytes: int = UNKNOWN
    """Of the disk that it is on."""
    usable_bytes: int = UNKNOWN
    is_cordoned: bool = False


def describe_log_dirs(
    directories: Sequence[LogDirectory],
    logs: Mapping[TopicPartition, Log],
    futures: Mapping[TopicPartition, Log],
    strays: Iterable[StrayLog],
    hosted: HostedPartitions,
    wanted: Collection[TopicPartition] | None,
) -> Sliced[list[LogDirUsage]]:
    """Every directory, with those of the wanted logs that are in it; None stands for all logs.

    Strays come first: where a replica has come back, clients keep the last that they read of a partition.
    """
    found: dict[str, list[LogUsage]] = {directory.path: [] for directory in directories}
    for stray in strays:
        if wanted is None or stray.tp in wanted:
            found[stray.path.rpartition("/")[0]].append(LogUsage(stray.tp, stray.size, UNKNOWN))
        yield
    for tp in [*logs, *(futures.keys() - logs.keys())] if wanted is None else wanted:
        log, future = logs.get(tp), futures.get(tp)
        if log is not None:
            found[log.parent_dir].append(LogUsage(tp, log.size, _lag(hosted, log)))
        if future is not None:
            usage = LogUsage(tp, future.size, _lag_of_future(hosted, future), is_future=True)
            found[future.parent_dir].append(usage)
        yield
    return [_describe(directory, found[directory.path]) for directory in directories]


def _lag(hosted: HostedPartitions, log: Log) -> int:
    """``getLogEndOffsetLag``."""
    partition = hosted.online.get(log.tp)
    if partition is None or partition.log is not log:
        return UNKNOWN
    return max(0, log.high_watermark - log.log_end_offset)


def _lag_of_future(hosted: HostedPartitions, future: Log) -> int:
    partition = hosted.online.get(future.tp)
    if partition is None or partition.log is None:
        return UNKNOWN
    return partition.log.log_end_offset - future.log_end_offset


def _describe(directory: LogDirectory, logs: Sequence[LogUsage]) -> LogDirUsage:
    path = os.path.abspath(directory.path)  # noqa: PTH100 - a name, nothing is looked up on the disk
    if directory.offline:
        return LogDirUsage(path, ErrorCode.KAFKA_STORAGE_ERROR, is_cordoned=directory.cordoned)
    try:
        total_bytes, usable_bytes = directory.space()
    except OSError as error:
        _log.warning("log_dirs.not_described", directory=path, error=error)
        return LogDirUsage(path, ErrorCode.KAFKA_STORAGE_ERROR, is_cordoned=directory.cordoned)
    return LogDirUsage(path, ErrorCode.NONE, logs, total_bytes, usable_bytes, directory.cordoned)
