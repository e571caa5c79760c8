"""``<offset>.batches``, the file beside a producer snapshot: the earlier batches of each producer.

::

    version:int16=1 crc:uint32 snapshotCrc:uint32 producers:int32 {batches:int8}*
    {lastSequence:int32 lastOffset:int64 offsetDelta:int32 timestamp:int64}*

The CRC-32C covers everything behind it. There is a number of batches for each producer, in the order of the
snapshot; then come the batches of the first producer in the order of the log, those of the second, and so on.

Kafka's snapshot has one batch a producer, which is enough for Kafka: it answers a produce before it takes the
next one of a connection, so that no producer has more than one unanswered batch in a log. Here there are up
to five, and a producer may send any of them again after a start. The snapshot stays as Kafka writes it; a JVM
broker leaves this file alone.

It counts only beside the snapshot that it was written for, which `snapshotCrc` names: a JVM broker may have
been here since and have written another one for the same offset. See
docs/decisions/0022-batches-beside-the-snapshot.md.
"""

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

from barnabas.log.producer_snapshot import SnapshotError
from barnabas.records.crc import crc32c

BATCH: Final = struct.Struct(">iqiq")
_FRONT: Final = struct.Struct(">hI")
_BELONGS: Final = struct.Struct(">Ii")
_VERSION: Final = 1


def encode_batches(producers: Sequence[bytes], snapshot_crc: int) -> bytes:
    """A file with the packed batches of each producer of the snapshot."""
    counts = bytes([len(packed) // BATCH.size for packed in producers])
    body = _BELONGS.pack(snapshot_crc, len(producers)) + counts + b"".join(producers)
    return _FRONT.pack(_VERSION, crc32c(body)) + body


def decode_batches(data: bytes) -> tuple[int, list[bytes]]:
    """The CRC of the file's snapshot, and the packed batches by producer; raises SnapshotError."""
    start = _FRONT.size + _BELONGS.size
    if len(data) < start:
        raise SnapshotError(f"a file of batches of {len(data)} bytes")
    version, crc = _FRONT.unpack_from(data)
    if version != _VERSION:
        raise SnapshotError(f"version {version} of a file of batches")
    if crc32c(data[_FRONT.size :]) != crc:
        raise SnapshotError("the checksum of the batches does not fit")
    snapshot_crc, producers = _BELONGS.unpack_from(data, _FRONT.size)
    sizes = (count * BATCH.size for count in data[start : start + producers])
    ends = list(accumulate(sizes, initial=start + producers))
    if len(ends) != producers + 1 or ends[-1] != len(data):
        raise SnapshotError(f"{len(data)} bytes for the batches of {producers} producers")
    return snapshot_crc, [data[one:after] for one, after in pairwise(ends)]
