"""`BatchBuilder`: grows one record batch, a record at a time, as fast as an interpreter can.

Records are encoded as they come, so that closing a batch costs one join and one checksum. Producer id,
epoch and sequence are known only when a batch is sent, and may change before it is sent again; that is why
`encode` makes the header anew, each time, around the same compressed section.

Nearly every number in a record is small, so the varints below 4096 are taken from a table: a third of
the time of computing them.
"""

from typing import Final

from barnabas.client.types import Headers
from barnabas.records.batch import HEADER_SIZE, NO_LEADER_EPOCH, TRANSACTIONAL_BIT, wrap_section
from barnabas.records.compression import Codec, compress
from barnabas.records.record import encode_varint

_SMALL: Final = tuple(encode_varint(value) for value in range(4096))
_NULL: Final = encode_varint(-1)
_NO_HEADERS: Final = encode_varint(0)


def _varint(value: int) -> bytes:
    return _SMALL[value] if 0 <= value < 4096 else encode_varint(value)


def _encode_headers(headers: Headers) -> bytes:
    pieces = [_varint(len(headers))]
    for name, value in headers:
        raw = name.encode()
        pieces += (_varint(len(raw)), raw, _NULL if value is None else _varint(len(value)), value or b"")
    return b"".join(pieces)


def encode_record(
    index: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Headers
) -> bytes:
    """One record with its length in front."""
    body = b"".join(
        (
            b"\x00",
            _varint(timestamp_delta),
            _SMALL[index] if index < 4096 else encode_varint(index),
            _NULL if key is None else _varint(len(key)),
            key or b"",
            _NULL if value is None else _varint(len(value)),
            value or b"",
            _encode_headers(headers) if headers else _NO_HEADERS,
        )
    )
    return _varint(len(body)) + body


class BatchBuilder:
    """An open batch. `size_bytes` is what it takes up uncompressed, header included."""

    __slots__ = ("_codec", "_pieces", "_section", "base_timestamp", "count", "max_timestamp", "size_bytes")

    def __init__(self, codec: Codec = Codec.NONE) -> None:
        self.count = 0
        self.size_bytes = HEADER_SIZE
        self.base_timestamp = 0
        self.max_timestamp = -1
        self._codec = codec
        self._pieces: list[bytes] = []
        self._section: bytes | None = None

    def append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers, limit_bytes: int
    ) -> bool:
        """Adds a record; False, and nothing added, when the batch would outgrow the limit. The first record
        of a batch always fits: a record larger than ``batch.size`` travels alone.
        """
        index = self.count
        if not index:
            self.base_timestamp = timestamp
        encoded = encode_record(index, timestamp - self.base_timestamp, key, value, headers)
        size = self.size_bytes + len(encoded)
        if index and size > limit_bytes:
            return False
        self._pieces.append(encoded)
        self.count = index + 1
        self.size_bytes = size
        self.max_timestamp = max(self.max_timestamp, timestamp)
        return True

    def close(self) -> bytes:
        """The compressed records; nothing can be added afterwards."""
        if self._section is None:
            self._section = compress(self._codec, b"".join(self._pieces))
            self._pieces = []
        return self._section

    def encode(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool = False
    ) -> bytes:
        """The whole batch, ready for a produce request. Closes the builder."""
        return wrap_section(
            self.close(),
            base_offset=0,
            leader_epoch=NO_LEADER_EPOCH,
            attributes=self._codec | transactional * TRANSACTIONAL_BIT,
            last_offset_delta=self.count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            count=self.count,
        )

    def __repr__(self) -> str:
        return f"<BatchBuilder {self.count} records, {self.size_bytes} bytes, {self._codec.name}>"
