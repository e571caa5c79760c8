"""The file beside a producer snapshot: ``<offset>.batches``, the batches before the last one of each producer.

::

    version:int16=1 crc:uint32 snapshotCrc:uint32 count:int32
    {producerId:int64 lastSequence:int32 lastOffset:int64 offsetDelta:int32 timestamp:int64}*

The CRC-32C covers everything behind it. The batches of one producer stand in the order of the log.

Kafka's snapshot has one batch a producer, which is enough for Kafka: it answers a produce before it takes the next one
of a connection, so that no producer has more than one unanswered batch in a log. Here there are up to five, and a
producer may send any of them again after a start. The snapshot stays as Kafka writes it; a JVM broker leaves this file alone.

It counts only beside the snapshot that it was written for, which `snapshotCrc` names: a JVM broker may have been here
since and have written another one for the same offset. See docs/decisions/0022-batches-beside-the-snapshot.md.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from barnabas.log.producer_snapshot import SnapshotError
from barnabas.records.crc import crc32c

_FRONT: Final = struct.Struct(">hI")
_BELONGS: Final = struct.Struct(">Ii")
_ENTRY: Final = struct.Struct(">qiqiq")
_VERSION: Final = 1


class EarlierBatch(NamedTuple):
    """A batch that is not the last one of its producer."""

    producer_id: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int


def encode_batches(batches: Iterable[EarlierBatch], snapshot_crc: int) -> bytes:
    pack = _ENTRY.pack
    packed = [pack(*batch) for batch in batches]
    body = _BELONGS.pack(snapshot_crc, len(packed)) + b"".join(packed)
    return _FRONT.pack(_VERSION, crc32c(body)) + body


def decode_batches(data: bytes) -> tuple[int, list[EarlierBatch]]:
    """The CRC of the snapshot that the file belongs to, and the batches; raises SnapshotError."""
    if len(data) < _FRONT.size + _BELONGS.size:
        raise SnapshotError(f"a file of batches of {len(data)} bytes")
    version, crc = _FRONT.unpack_from(data)
    if version != _VERSION:
        raise SnapshotError(f"version {version} of a file of batches")
    if crc32c(data[_FRONT.size :]) != crc:
        raise SnapshotError("the checksum of the batches does not fit")
    snapshot_crc, count = _BELONGS.unpack_from(data, _FRONT.size)
    body = data[_FRONT.size + _BELONGS.size :]
    if len(body) != count * _ENTRY.size:
        raise SnapshotError(f"{len(body)} bytes for {count} batches")
    return snapshot_crc, [EarlierBatch._make(fields) for fields in _ENTRY.iter_unpack(body)]
