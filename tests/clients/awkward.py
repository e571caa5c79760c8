"""Records that are awkward on purpose: empty and absent parts, repeated headers, times out of order."""

from typing import NamedTuple


class Sample(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp: int


FIRST_TIMESTAMP = 1_600_000_000_000

SAMPLES = [
    Sample(b"k", b"v", [], FIRST_TIMESTAMP),
    Sample(None, b"no key", [("trace", b"\x00\xff"), ("trace", b"twice")], FIRST_TIMESTAMP + 7),
    Sample(b"tombstone", None, [], FIRST_TIMESTAMP + 3),
    Sample(b"", b"", [("empty", b"")], FIRST_TIMESTAMP + 60_000),
    Sample(b"\x00" * 130, "snow ❄ ".encode() * 3000, [("ключ", b"value")], FIRST_TIMESTAMP + 3_600_000),
]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
