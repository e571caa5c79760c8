"""The snapshot file of producer state: ``<offset>.snapshot``, valid for the log up to that offset.

::

    version:int16=1 crc:uint32 count:int32
    {producerId:int64 producerEpoch:int16 lastSequence:int32 lastOffset:int64 offsetDelta:int32
     timestamp:int64 coordinatorEpoch:int32 currentTxnFirstOffset:int64}*

The CRC-32C covers everything behind it. The file is Kafka's, byte for byte, and has the last batch of each
producer only. The ones before are in a file of ours beside it: `producer_batches`.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from barnabas.core.errors import BarnabasError
from barnabas.records.crc import crc32c

_FRONT: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_VERSION: Final = 1


class SnapshotError(BarnabasError):
    """A snapshot that is damaged; an older one, or the log itself, is read instead."""


class SnapshotEntry(NamedTuple):
    """One producer in a snapshot."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def encode_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _FRONT.pack(_VERSION, crc32c(body)) + body


def crc_of(snapshot: bytes) -> int:
    """The checksum that an encoded snapshot carries; what `producer_batches` names its snapshot by."""
    crc: int = _FRONT.unpack_from(snapshot)[1]
    return crc


def decode_snapshot(data: bytes) -> list[SnapshotEntry]:
    """The entries of a snapshot file; raises SnapshotError."""
    if len(data) < _FRONT.size + _COUNT.size:
        raise SnapshotError(f"a snapshot of {len(data)} bytes")
    version, crc = _FRONT.unpack_from(data)
    if version != _VERSION:
        raise SnapshotError(f"snapshot version {version}")
    if crc32c(data[_FRONT.size :]) != crc:
        raise SnapshotError("the checksum does not fit")
    (count,) = _COUNT.unpack_from(data, _FRONT.size)
    body = data[_FRONT.size + _COUNT.size :]
    if len(body) != count * _ENTRY.size:
        raise SnapshotError(f"{len(body)} bytes for {count} producers")
    return [SnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(body)]
