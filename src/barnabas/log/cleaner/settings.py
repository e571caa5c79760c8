"""What the broker's configuration says to the cleaner (``CleanerConfig``)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.log.cleaner.work import BLOCK_BYTES_MIN


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """Typed values of the ``log.cleaner.*`` keys."""

    threads: int = 1
    dedupe_buffer_bytes: int = 128 << 20
    load_factor: float = 0.9
    io_buffer_bytes: int = 512 << 10
    io_bytes_per_second: float = float("inf")
    backoff_ms: int = 15_000

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "CleanerSettings":
        return cls(
            threads=config["log.cleaner.threads"],
            dedupe_buffer_bytes=config["log.cleaner.dedupe.buffer.size"],
            load_factor=config["log.cleaner.io.buffer.load.factor"],
            io_buffer_bytes=config["log.cleaner.io.buffer.size"],
            io_bytes_per_second=config["log.cleaner.io.max.bytes.per.second"],
            backoff_ms=config["log.cleaner.backoff.ms"],
        )

    @property
    def memory_bytes(self) -> int:
        """For the offset map of one cleaner; like Kafka, no more than 2 GiB of it."""
        return min(self.dedupe_buffer_bytes // self.threads, 2**31 - 1)

    @property
    def block_bytes(self) -> int:
        """What one cleaner reads or writes at once."""
        return max(BLOCK_BYTES_MIN, self.io_buffer_bytes // self.threads // 2)
