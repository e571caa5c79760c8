"""A batch under construction: what a producer fills record by record until it is full or old enough."""

from collections.abc import Sequence

from barnabas.records.batch import (
    HEADER_SIZE,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    wrap_section,
)
from barnabas.records.compression import Codec, compress
from barnabas.records.record import Header, encode_record


class BatchBuilder:
    """Collects records for one batch with base offset 0; `build` may be called again after a retry."""

    __slots__ = ("_base_timestamp", "_codec", "_level", "_max_timestamp", "_pieces", "size")

    def __init__(self, codec: Codec = Codec.NONE, level: int | None = None) -> None:
        self._codec = codec
        self._level = level
        self._pieces: list[bytes] = []
        self._base_timestamp = 0
        self._max_timestamp = -1
        self.size = HEADER_SIZE
        """Bytes of the batch before compression."""

    def __len__(self) -> int:
        return len(self._pieces)

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
    ) -> int:
        """Adds a record (time in ms since 1970) and returns its place in the batch, from 0."""
        pieces = self._pieces
        if not pieces:
            self._base_timestamp = timestamp
        place = len(pieces)
        piece = encode_record(place, timestamp - self._base_timestamp, key, value, headers)
        pieces.append(piece)
        self.size += len(piece)
        self._max_timestamp = max(self._max_timestamp, timestamp)
        return place

    def build(
        self,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
    ) -> bytes:
        """The bytes of the batch; raises ValueError when it is empty."""
        if not self._pieces:
            raise ValueError("a batch needs at least one record")
        return wrap_section(
            compress(self._codec, b"".join(self._pieces), self._level),
            base_offset=0,
            leader_epoch=NO_LEADER_EPOCH,
            attributes=self._codec | transactional * TRANSACTIONAL_BIT,
            last_offset_delta=len(self._pieces) - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            count=len(self._pieces),
        )

    def __repr__(self) -> str:
        return f"<BatchBuilder {len(self._pieces)} records, {self.size} bytes, {self._codec.name}>"
