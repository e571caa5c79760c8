"""Committed offsets out of bytes, without an object for each record: what a child process does of a load.

Offsets are nearly everything there is in ``__consumer_offsets``, a million of them in a big partition. So
what Kafka writes for them today (key type 1, value version 3) is taken apart here by hand, into pieces of
offsets of one group and topic that follow each other in the log::

    piece  = (group, topic, [partition, ...], [commit, ...])
    commit = the fields of a `CommittedOffset`, in their order; None for a tombstone

All other records go through their schemas.
"""

import struct
from typing import Final, TypeAlias

from barnabas.coordinator.runtime.decoding import KeyValue, Piece

Commit: TypeAlias = tuple[int, int, str, int, int, int]

_NO_TIMESTAMP: Final = -1
_OFFSET_KEY: Final = b"\x00\x01"
# version, offset, leader epoch, length of the metadata; then the metadata and the time of the commit
_VALUE_HEAD: Final = struct.Struct(">hqih")
_TIMESTAMP: Final = struct.Struct(">q")
_INT16: Final = struct.Struct(">h")


def decode_commits(
    records: list[KeyValue], journal_offset: int, names_of: dict[bytes, tuple[str, str]]
) -> list[Piece]:
    """The pieces of a batch's records, in order;
    `names_of` remembers group and topic by the bytes of a key.
    """
    pieces: list[Piece] = []
    run_prefix: bytes | None = None
    partitions: list[int] = []
    commits: list[Commit | None] = []
    for key, value in records:
        if key is None:
            continue
        prefix = key[:-4]
        if prefix == run_prefix or prefix[:2] == _OFFSET_KEY:
            try:
                commit = None if value is None else _commit(value, journal_offset)
                if prefix != run_prefix:
                    names = names_of.get(prefix)
                    if names is None:
                        names = names_of[prefix] = _group_and_topic(prefix)
                    partitions, commits = [], []
                    pieces.append((*names, partitions, commits))
                    run_prefix = prefix
            except (struct.error, ValueError):
                pass  # another version, or damaged: the schema will say
            else:
                partitions.append(int.from_bytes(key[-4:], "big"))
                commits.append(commit)
                continue
        pieces.append((journal_offset, key, value))
        run_prefix = None
    return pieces


def _group_and_topic(prefix: bytes) -> tuple[str, str]:
    """Out of a key up to the partition: type, group, topic."""
    group_end = 4 + _INT16.unpack_from(prefix, 2)[0]
    topic_start = group_end + 2
    if _INT16.unpack_from(prefix, group_end)[0] != len(prefix) - topic_start:
        raise ValueError("a key whose topic does not end before its partition")
    return prefix[4:group_end].decode(), prefix[topic_start:].decode()


def _commit(value: bytes, journal_offset: int) -> Commit:
    """Raises ValueError or struct.error for what is not a whole value of version 3."""
    version, offset, leader_epoch, size = _VALUE_HEAD.unpack_from(value)
    end = _VALUE_HEAD.size + size
    if version != 3 or size < 0 or end + _TIMESTAMP.size > len(value):
        raise ValueError(f"a value of version {version} with {size} bytes of metadata in {len(value)}")
    metadata = value[_VALUE_HEAD.size : end].decode() if size else ""
    return offset, leader_epoch, metadata, *_TIMESTAMP.unpack_from(value, end), _NO_TIMESTAMP, journal_offset
