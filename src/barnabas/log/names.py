"""The names of files and directories of a log, and what they say."""

import re
from collections.abc import Iterable
from typing import Final

from barnabas.core.ids import TopicPartition, is_topic_name

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
BATCHES_SUFFIX: Final = ".batches"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
DELETE_DIRECTORY_SUFFIX: Final = "-delete"
STRAY_DIRECTORY_SUFFIX: Final = "-stray"
FUTURE_DIRECTORY_SUFFIX: Final = "-future"
DIRECTORY_NAME_LENGTH_MAX: Final = 255
OFFSET_DIGITS: Final = 20
OFFSET_MAX: Final = (1 << 63) - 1
PARTITION_MAX: Final = (1 << 31) - 1
_OFFSET: Final = re.compile(rf"[0-9]{{{OFFSET_DIGITS}}}")
_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def offset_name(offset: int, suffix: str) -> str:
    """The name of a segment's file: 20 digits, so that names sort like offsets."""
    return f"{offset:0{OFFSET_DIGITS}d}{suffix}"


def segment_paths(directory: str, base_offset: int, state: str = "") -> tuple[str, ...]:
    """The files of a segment, the ``.log`` first; `state` is the suffix behind the kind of file."""
    return tuple(f"{directory}/{offset_name(base_offset, suffix)}{state}" for suffix in SEGMENT_SUFFIXES)


def offset_of(name: str, suffix: str) -> int | None:
    """The offset in a name that `offset_name` gave; None for other names.

    With fewer digits (``15.log``) a segment of that offset would have other files than the one that was
    found.
    """
    if not name.endswith(suffix) or not _OFFSET.fullmatch(digits := name[: -len(suffix)]):
        return None
    offset = int(digits)
    return offset if offset <= OFFSET_MAX else None


def offsets_in(names: Iterable[str], suffix: str) -> list[int]:
    """The offsets of the files with this suffix, rising."""
    return sorted(offset for name in names if (offset := offset_of(name, suffix)) is not None)


def directory_name(tp: TopicPartition) -> str:
    return f"{tp.topic}-{tp.partition}"


def partition_of(name: str) -> TopicPartition | None:
    """The partition whose directory has this name; None for other names.

    A topic that Kafka would refuse, as one with a space, could not be told in a checkpoint's line. And
    ``t-010`` is not partition 10: two directories of one partition would keep the broker from starting.
    """
    topic, _, number = name.rpartition("-")
    if not (is_topic_name(topic) and _PARTITION.fullmatch(number)):
        return None
    partition = int(number)
    return TopicPartition(topic, partition) if partition <= PARTITION_MAX else None


def future_name(tp: TopicPartition, unique: str) -> str:
    """``logFutureDirName``: where a partition is copied to, ``topic-0.<32 hex digits>-future``; never cut."""
    return f"{directory_name(tp)}.{unique}{FUTURE_DIRECTORY_SUFFIX}"


def future_partition_of(name: str) -> TopicPartition | None:
    """The partition that a future log's directory belongs to; None for other names."""
    if not name.endswith(FUTURE_DIRECTORY_SUFFIX):
        return None
    return partition_of(name.removesuffix(FUTURE_DIRECTORY_SUFFIX).rpartition(".")[0])


def retired_name(tp: TopicPartition, unique: str, suffix: str) -> str:
    """The name of a directory that waits for its end: ``topic-0.<32 hex digits>-delete``.

    A long topic is cut so that the whole fits a file system's limit.
    """
    tail = f"-{tp.partition}.{unique}{suffix}"
    return f"{tp.topic[: DIRECTORY_NAME_LENGTH_MAX - len(tail)]}{tail}"


def retired_partition_of(name: str, suffix: str) -> TopicPartition | None:
    """The partition in a name that `retired_name` gave; None for other names. A long topic stays cut."""
    if not name.endswith(suffix):
        return None
    return partition_of(name.removesuffix(suffix).rpartition(".")[0])


def unique_part(now_ms: int, number: int) -> str:
    """The 32 hex digits in the names above. Kafka's are random; these are the time and a number."""
    return f"{now_ms:016x}{number:016x}"


def retired_at_ms(name: str, suffix: str) -> int | None:
    """When a directory got its name, where `unique_part` made it; None for a name that has no time in it."""
    digits = name.removesuffix(suffix).rpartition(".")[2]
    return int(digits[:16], 16) if len(digits) == 32 and set(digits) <= set("0123456789abcdef") else None
