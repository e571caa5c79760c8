"""Checkpoint files: a version, a count, and that many lines (``CheckpointFile``).

::

    0
    2
    orders 0 120
    orders 1 118

An offset checkpoint has ``topic partition offset`` lines, a leader-epoch checkpoint ``epoch start-offset``.
They are replaced as a whole; a file that does not hold what its count says raises `CheckpointError`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition
from barnabas.log.filesystem import Filesystem

RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK: Final = "replication-offset-checkpoint"
CLEANER_OFFSET: Final = "cleaner-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"


class CheckpointError(BarnabasError):
    """A checkpoint file that cannot be read; says which file and which line."""


def encode_checkpoint(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "".join(f"{line}\n" for line in ["0", str(len(entries)), *entries]).encode()


def decode_checkpoint(data: bytes, path: str) -> list[list[str]]:
    """The fields of each line; an empty file has none. Raises CheckpointError."""
    lines = data.decode("utf-8", "replace").splitlines()
    if not lines:
        return []
    if lines[0] != "0":
        raise CheckpointError(f"{path}: unrecognized version {lines[0]!r} in its first line")
    entries = [line.split() for line in lines[2:]]
    if len(lines) < 2 or lines[1] != str(len(entries)):
        raise CheckpointError(f"{path}: {len(entries)} entries do not match the count in its second line")
    return entries


class OffsetCheckpoint:
    """One of the offset checkpoints in a log directory."""

    __slots__ = ("_filesystem", "_written", "path")

    def __init__(self, filesystem: Filesystem, path: str) -> None:
        self._filesystem = filesystem
        self._written: bytes | None = None
        """What the file surely holds."""
        self.path = path

    def read(self) -> dict[TopicPartition, int]:
        """The offsets; none when the file is missing. Raises CheckpointError or OSError."""
        try:
            data = self._filesystem.read(self.path)
        except FileNotFoundError:
            return {}
        offsets = {}
        for number, fields in enumerate(decode_checkpoint(data, self.path), start=3):
            try:
                topic, partition, offset = fields
                offsets[TopicPartition(topic, int(partition))] = int(offset)
            except ValueError:
                raise CheckpointError(f"{self.path}: line {number} is malformed: {fields}") from None
        return offsets

    def write(self, offsets: Mapping[TopicPartition, int], *, sync: bool = True) -> None:
        """Replaces the file durably, unless it says the same already. Raises OSError.

        Without `sync` a kill leaves the new file, and a loss of power one of the two or none.
        """
        data = encode_checkpoint(f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items())
        if data != self._written:
            self._written = None
            self._filesystem.write_atomic(self.path, data, sync=sync)
            if sync:
                self._written = data
