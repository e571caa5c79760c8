"""Draws one Produce request byte by byte into docs/wire.md (`make docs`).

The bytes are those that our own encoder makes, and every one of them has to be claimed by a field, so the
page cannot show what is not on the wire. A test compares the page with what this would write.
"""

import re
from pathlib import Path
from typing import Final

from barnabas.core.chunks import materialize
from barnabas.protocol.framing import RequestHeader, encode_request
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.records.batch import HEADER_SIZE, build_batch
from barnabas.records.record import Record

PAGE: Final = Path(__file__).parent / "wire.md"
VERSION: Final = 9
"""The first version with compact lengths and tagged fields."""
_PART: Final = re.compile(r"(<!-- bytes: .*? -->\n).*?(<!-- end of bytes -->)", re.DOTALL)

Row = tuple[int, str, str]
"""How many bytes, which field, what they say."""


def request_bytes() -> tuple[bytes, int]:
    """The frame of a request that appends one record, and how long its batch is."""
    record = Record(offset=0, timestamp=1_700_000_000_000, key=b"ada", value=b"hello")
    batch = build_batch([record], producer_id=4711, producer_epoch=0, base_sequence=0)
    partition = PartitionProduceData(index=2, records=batch)
    topic = TopicProduceData(name="greetings", partition_data=[partition])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
    header = RequestHeader(0, VERSION, 7, "me")
    return materialize(encode_request(header, request)), len(batch)


def rows(batch_bytes: int) -> list[Row]:
    """Every field in its order."""
    records_bytes = batch_bytes - HEADER_SIZE
    return [
        (4, "frame: INT32 length", "what follows; at most socket.request.max.bytes"),
        (2, "header: INT16 api_key", "0, Produce"),
        (2, "INT16 api_version", f"{VERSION}"),
        (4, "INT32 correlation_id", "7: the answer repeats it"),
        (4, "STRING client_id", "length 2, `me`: never compact"),
        (1, "TAGS", "none"),
        (
            1,
            "body: COMPACT_NULLABLE_STRING transactional_id",
            "0: null. A compact length is one more than it says",
        ),
        (2, "INT16 acks", "-1: when all in-sync replicas have it"),
        (4, "INT32 timeout_ms", "30,000"),
        (1, "COMPACT_ARRAY topic_data", "2: one topic"),
        (10, "COMPACT_STRING name", "length 9, `greetings`"),
        (1, "COMPACT_ARRAY partition_data", "2: one partition"),
        (4, "INT32 index", "2"),
        (1, "COMPACT_RECORDS", f"{batch_bytes + 1}: {batch_bytes} bytes of batch follow"),
        (8, "batch: INT64 baseOffset", "0; **the leader stamps the offset here**"),
        (4, "INT32 batchLength", f"{batch_bytes - 12}: what follows it"),
        (4, "INT32 partitionLeaderEpoch", "-1; **the leader stamps its epoch here**"),
        (1, "INT8 magic", "2"),
        (4, "UINT32 crc", "CRC-32C of all that follows, so that the two stamps do not touch it"),
        (
            2,
            "INT16 attributes",
            "codec in bits 0-2, then timestamp type, transactional, control, delete horizon",
        ),
        (4, "INT32 lastOffsetDelta", "0: the offset of the last record, from the first"),
        (8, "INT64 baseTimestamp", "1,700,000,000,000 ms"),
        (8, "INT64 maxTimestamp", "the same"),
        (8, "INT64 producerId", "4711, from InitProducerId"),
        (2, "INT16 producerEpoch", "0"),
        (4, "INT32 baseSequence", "0: the first record of this producer in this partition"),
        (4, "INT32 recordCount", "1"),
        (
            1,
            "record: VARINT length",
            f"{records_bytes - 1}, zig-zag; what follows. Compression covers records only",
        ),
        (1, "INT8 attributes", "unused"),
        (1, "VARLONG timestampDelta", "0"),
        (1, "VARINT offsetDelta", "0"),
        (4, "VARINT keyLength, key", "3, `ada`; -1 would be null"),
        (6, "VARINT valueLength, value", "5, `hello`"),
        (1, "VARINT headerCount", "0"),
        (1, "TAGS of the partition", "none"),
        (1, "TAGS of the topic", "none"),
        (1, "TAGS of the request", "none"),
    ]


def table() -> str:
    """The bytes, field by field. Raises AssertionError where a byte is nobody's."""
    frame, batch_bytes = request_bytes()
    lines = ["| at | bytes | field | |", "|---|---|---|---|"]
    at = 0
    for size, field, meaning in rows(batch_bytes):
        lines.append(f"| {at} | `{frame[at : at + size].hex(' ')}` | {field} | {meaning} |")
        at += size
    assert at == len(frame), f"{len(frame) - at} bytes belong to no field"
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page as it should be."""
    return _PART.sub(lambda found: f"{found[1]}{table()}{found[2]}", PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
