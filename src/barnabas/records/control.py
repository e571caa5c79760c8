"""Control batches: the markers that end a transaction (``ControlRecordType``, ``EndTransactionMarker``).

::

    key   = version:int16 type:int16
    value = version:int16 coordinatorEpoch:int32
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from barnabas.core.chunks import Buffer
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.records.batch import BatchHeader, build_batch, decode_records_of
from barnabas.records.record import Record

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")


class ControlType(IntEnum):
    """What a control record says."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


class EndTransactionMarker(NamedTuple):
    """The end of a transaction in one partition, written by the transaction coordinator."""

    control_type: ControlType
    coordinator_epoch: int

    @property
    def committed(self) -> bool:
        return self.control_type is ControlType.COMMIT


def control_type(key: bytes | None) -> ControlType:
    """What the key of a control record says; UNKNOWN for types of later versions.

    Raises INVALID_RECORD for a key that is too short.
    """
    if key is None or len(key) < _KEY.size:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Invalid control record key: shorter than 4 bytes")
    number = _KEY.unpack_from(key)[1]
    return ControlType(number) if 0 <= number <= ControlType.KRAFT_VOTERS else ControlType.UNKNOWN


def parse_marker(record: Record) -> EndTransactionMarker:
    """The marker in a control record; raises INVALID_RECORD for a control record of another kind."""
    kind = control_type(record.key)
    if kind not in {ControlType.ABORT, ControlType.COMMIT}:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"Control record of type {kind.name} ends no transaction")
    if record.value is None or len(record.value) < _VALUE.size:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Invalid end transaction marker: value too short")
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"Invalid version {version} of an end transaction marker")
    return EndTransactionMarker(kind, coordinator_epoch)


def marker_of(buffer: Buffer, header: BatchHeader) -> Record | None:
    """The first record of a control batch; None when the cleaner has emptied it."""
    records = decode_records_of(buffer, header) if header.count > 0 else []
    return records[0] if records else None


def build_marker(
    marker: EndTransactionMarker, *, timestamp: int, producer_id: int, producer_epoch: int
) -> bytes:
    record = Record(
        offset=0,
        timestamp=timestamp,
        key=_KEY.pack(0, marker.control_type),
        value=_VALUE.pack(0, marker.coordinator_epoch),
    )
    return build_batch(
        [record],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
