"""Record batches as scenarios write them: the same bytes on both sides, at a time long ago."""

import struct
from typing import Final

import crc32c

from barnabas.records.batch import build_batch
from barnabas.records.compression import Codec
from barnabas.records.record import Record

START_MS: Final = 1_600_000_000_000


def records(*values: bytes, key: bytes | None = b"k", start_ms: int = START_MS) -> list[Record]:
    """Records a millisecond apart."""
    return [Record(offset, start_ms + offset, key, value, []) for offset, value in enumerate(values)]


def batch(
    *values: bytes, codec: Codec = Codec.NONE, start_ms: int = START_MS, key: bytes | None = b"k"
) -> bytes:
    """A batch with one record for each value."""
    return build_batch(records(*values, key=key, start_ms=start_ms), codec=codec)


def from_producer(
    producer_id: int, epoch: int, sequence: int, *values: bytes, transactional: bool = False
) -> bytes:
    """A batch of an idempotent or transactional producer."""
    return build_batch(
        records(*values),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def change(data: bytes, position: int, form: str, value: int) -> bytes:
    """The batch with a number put over what was there, and a checksum that does not know."""
    changed = bytearray(data)
    struct.pack_into(form, changed, position, value)
    return bytes(changed)


def with_valid_crc(data: bytes) -> bytes:
    """The batch with the checksum of what it holds now."""
    return change(data, 17, ">I", crc32c.crc32c(data[21:]))
