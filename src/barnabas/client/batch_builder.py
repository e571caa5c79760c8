"""`BatchBuilder`: grows one record batch, a record at a time, as fast as an interpreter can.

Records are encoded as they come, so that closing a batch costs one join and one checksum. Producer id,
epoch and sequence are known only when a batch is sent, and may change before it is sent again; that is why
`encode` makes a new header each time, around the same compressed section.
"""

from typing import Final

from barnabas.client.types import Headers
from barnabas.records.batch import HEADER_SIZE, NO_LEADER_EPOCH, TRANSACTIONAL_BIT, wrap_section
from barnabas.records.compression import Codec, compress, decompress
from barnabas.records.record import Record, decode_records, encode_record, make_record

_UNLIMITED: Final = 2**31


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
    ) -> int:
        """Adds a record, and says how many bytes it takes; 0, and nothing added, when the batch would outgrow
        the limit. The first record of a batch always fits: one larger than ``batch.size`` travels alone.
        """
        index = self.count
        if not index:
            self.base_timestamp = timestamp
        encoded = encode_record(index, timestamp - self.base_timestamp, key, value, headers)
        added = len(encoded)
        size = self.size_bytes + added
        if index and size > limit_bytes:
            return 0
        self._pieces.append(encoded)
        self.count = index + 1
        self.size_bytes = size
        # As a comparison: `max` takes three times as long, for each record.
        if timestamp > self.max_timestamp:  # noqa: PLR1730
            self.max_timestamp = timestamp
        return added

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

    @property
    def sent_bytes(self) -> int:
        """Its size with the records compressed; `size_bytes` before that."""
        return self.size_bytes if self._section is None else HEADER_SIZE + len(self._section)

    @property
    def compression_ratio(self) -> float:
        """How much is left of the records when they are compressed; 1 before that."""
        return self.sent_bytes / self.size_bytes

    def split(self, first_count: int) -> "tuple[BatchBuilder, BatchBuilder]":
        """Its first records and the others, in batches of their own."""
        data = decompress(self._codec, self.close())
        records = decode_records(make_record, data, self.count, 0, self.base_timestamp)
        return self._with(records[:first_count]), self._with(records[first_count:])

    def _with(self, records: list[Record]) -> "BatchBuilder":
        builder = BatchBuilder(self._codec)
        for one in records:
            builder.append(one.timestamp, one.key, one.value, one.headers, _UNLIMITED)
        return builder

    def release(self) -> None:
        """Gives up the records; sizes and times stay."""
        self._section, self._pieces = b"", []

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
