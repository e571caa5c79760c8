"""The few Kafka frames that a load generator needs, written out by hand.

The same bytes drive both sides, so nothing of Barnabas is used here. The versions are old, fixed ones
that every broker of the last years answers, because a response of known length needs no parsing.

    request   length:i32 key:i16 version:i16 correlation:i32 client:str body
    response  length:i32 correlation:i32 body
"""

import struct
import time
from typing import Final

from crc32c import crc32c

CREATE_TOPICS, DELETE_TOPICS, PRODUCE, FETCH = 19, 20, 0, 1

_BATCH_HEAD: Final = struct.Struct(">qiibI")  # base offset, length, leader epoch, magic, crc
_BATCH_REST: Final = struct.Struct(">hiqqqhii")  # attributes ... record count
BATCH_HEADER_BYTES: Final = _BATCH_HEAD.size + _BATCH_REST.size
_LENGTH_COUNTS_FROM: Final = 12


def string(text: str) -> bytes:
    """A string with its length in two bytes."""
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def request(api_key: int, version: int, body: bytes, correlation_id: int = 7) -> bytes:
    """A whole frame."""
    head = struct.pack(">hhi", api_key, version, correlation_id) + string("bench")
    return struct.pack(">i", len(head) + len(body)) + head + body


def _varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def batch(value: bytes, count: int) -> bytes:
    """A batch of `count` equal records without keys or headers, uncompressed, stamped with this moment."""
    now = int(time.time() * 1000)
    records = bytearray()
    for delta in range(count):
        record = b"\x00\x00" + _varint(delta) + _varint(-1) + _varint(len(value)) + value + b"\x00"
        records += _varint(len(record)) + record
    rest = _BATCH_REST.pack(0, count - 1, now, now, -1, -1, -1, count) + records
    length = _BATCH_HEAD.size - _LENGTH_COUNTS_FROM + len(rest)
    return _BATCH_HEAD.pack(0, length, -1, 2, crc32c(rest)) + rest


def produce(topic: str, records: bytes, acks: int = 1) -> bytes:
    """Produce v7 of one batch to partition 0."""
    body = struct.pack(">hhii", -1, acks, 30_000, 1) + string(topic)
    return request(PRODUCE, 7, body + struct.pack(">iii", 1, 0, len(records)) + records)


class ProduceResponse:
    """Where things lie in the answer to `produce`; its length depends on the topic's name only."""

    def __init__(self, topic: str) -> None:
        self.error_at = 4 + 4 + 4 + 2 + len(topic.encode()) + 4 + 4
        self.size = self.error_at + 2 + 8 + 8 + 8 + 4

    def base_offset(self, response: bytes) -> int:
        """The offset given to the batch; raises RuntimeError for an error code."""
        error, offset = struct.unpack_from(">hq", response, self.error_at)
        if error:
            raise RuntimeError(f"produce was answered with error code {error}")
        return offset


def fetch(topic: str, offset: int, max_bytes: int) -> bytes:
    """Fetch v11 of partition 0, outside any session, that waits for nothing."""
    body = struct.pack(">iiiibii", -1, 500, 1, 50 * 2**20, 0, 0, -1) + struct.pack(">i", 1) + string(topic)
    body += struct.pack(">iiiqqi", 1, 0, -1, offset, -1, max_bytes) + struct.pack(">i", 0) + string("")
    return request(FETCH, 11, body)


def fetched_records(topic: str, response: memoryview) -> memoryview:
    """The records of the answer to `fetch` (without its length); raises RuntimeError for an error code."""
    at = 4 + 4 + 2 + 4 + 4 + 2 + len(topic.encode()) + 4 + 4
    (error,) = struct.unpack_from(">h", response, at)
    if error:
        raise RuntimeError(f"fetch was answered with error code {error}")
    (aborted,) = struct.unpack_from(">i", response, at + 2 + 24)
    at += 2 + 24 + 4 + 16 * max(aborted, 0) + 4
    (length,) = struct.unpack_from(">i", response, at)
    return response[at + 4 : at + 4 + length]


def next_offset(records: memoryview, offset: int) -> int:
    """The offset after the last whole batch of fetched records."""
    position = 0
    while len(records) - position >= BATCH_HEADER_BYTES:
        base, length = struct.unpack_from(">qi", records, position)
        if position + _LENGTH_COUNTS_FROM + length > len(records):
            break
        offset = base + struct.unpack_from(">i", records, position + 23)[0] + 1
        position += _LENGTH_COUNTS_FROM + length
    return offset


def create_topic(topic: str, partitions: int = 1) -> bytes:
    """CreateTopics v2: one replica."""
    body = struct.pack(">i", 1) + string(topic) + struct.pack(">ihii", partitions, 1, 0, 0)
    return request(CREATE_TOPICS, 2, body + struct.pack(">ib", 60_000, 0))


def created_error(topic: str, response: bytes) -> int:
    """The error code in the answer to `create_topic` (without its length)."""
    return int(struct.unpack_from(">h", response, 4 + 4 + 4 + 2 + len(topic.encode()))[0])


def delete_topic(topic: str) -> bytes:
    """DeleteTopics v1."""
    return request(DELETE_TOPICS, 1, struct.pack(">i", 1) + string(topic) + struct.pack(">i", 15_000))
