"""`BatchBuilder`: grows one record batch, a record at a time, as fast as an interpreter can.

Records are encoded as they come, so that closing a batch costs one join and one checksum. Producer id,
epoch and sequence are known only when a batch is sent, and may change before it is sent again; that is why
`encode` makes a new header each time, around the same compressed section.
"""

from barnabas.client.types import Headers
from barnabas.records.batch import HEADER_SIZE, NO_LEADER_EPOCH, TRANSACTIONAL_BIT, wrap_section
from barnabas.records.compression import Codec, compress
from barnabas.records.record import encode_record


class BatchBuilder:
    """An open batch. `size_bytes` is its size uncompressed, header included."""

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

    def fill(self, section: bytes, count: int, timestamp: int) -> None:
        """Puts records that are encoded already, all of one time, into a batch that is empty."""
        self.base_timestamp = self.max_timestamp = timestamp
        self._pieces.append(section)
        self.count = count
        self.size_bytes += len(section)

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
