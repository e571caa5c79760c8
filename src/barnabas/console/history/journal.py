"""The journal of an hour: samples as they come, until they stand in a Parquet file.

    frame   = length (u32), CRC-32 of the body (u32), body
    body    = "N", JSON list of series: they get the next numbers
            | "T", time in ms (i64), count (u32), numbers (u32 each), values (f64 each)

A tick and the names that are new with it are one write. What a kill or a full disk has cut off does not
match its CRC: reading stops there, and the file is cut to what is whole before anything is appended.
"""

import json
import os
import struct
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_HEAD: Final = struct.Struct("<II")
_TICK: Final = struct.Struct("<cqI")
_FRAME_BYTES_MAX: Final = 1 << 26


@dataclass(slots=True)
class SampleTick:
    """The samples of one time: numbers of series, ascending, and their values."""

    at_ms: int
    numbers: "array[int]"
    values: "array[float]"

    def get(self, number: int) -> float | None:
        """The value of a series."""
        place = bisect_left(self.numbers, number)
        found = place < len(self.numbers) and self.numbers[place] == number
        return self.values[place] if found else None


@dataclass(slots=True)
class HourJournal:
    """An hour as it grows: in memory, and in a file."""

    path: Path
    numbers: dict[str, int] = field(default_factory=dict)
    """The series by name."""
    ticks: list[SampleTick] = field(default_factory=list)
    _size: int = 0
    """Up to here the file is whole."""

    def append(self, at_ms: int, samples: Mapping[str, float]) -> None:
        """One more tick, on the disk when this returns. Raises OSError, and then nothing was added."""
        new = [name for name in samples if name not in self.numbers]
        numbers = self.numbers | {name: len(self.numbers) + place for place, name in enumerate(new)}
        pairs = sorted((numbers[name], value) for name, value in samples.items())
        tick = SampleTick(at_ms, array("I", [one for one, _ in pairs]), array("d", [one for _, one in pairs]))
        body = _TICK.pack(b"T", at_ms, len(pairs)) + struct.pack(
            f"<{len(pairs)}I{len(pairs)}d", *tick.numbers, *tick.values
        )
        frames = (_frame(b"N" + json.dumps(new).encode()) if new else b"") + _frame(body)
        self._write(frames)
        self.numbers = numbers
        self.ticks.append(tick)

    def _write(self, frames: bytes) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, self._size)
            os.lseek(descriptor, self._size, os.SEEK_SET)
            written = 0
            while written < len(frames):
                written += os.write(descriptor, frames[written:])
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        self._size += len(frames)

    def read(self, series: str) -> list[tuple[int, float]]:
        """The samples of one series."""
        number = self.numbers.get(series)
        if number is None:
            return []
        found = ((tick.at_ms, tick.get(number)) for tick in self.ticks)
        return [(at_ms, value) for at_ms, value in found if value is not None]

    def load(self) -> "HourJournal":
        """What the file has, as far as it is whole. Raises OSError."""
        data = self.path.read_bytes()
        at = 0
        while at + _HEAD.size <= len(data):
            size, crc = _HEAD.unpack_from(data, at)
            body = data[at + _HEAD.size : at + _HEAD.size + size]
            if size > _FRAME_BYTES_MAX or len(body) < size or zlib.crc32(body) != crc:
                break
            if not self._take(body):
                break
            at += _HEAD.size + size
        self._size = at
        return self

    def _take(self, body: bytes) -> bool:
        try:
            if body[:1] == b"N":
                names = json.loads(body[1:])
                self.numbers |= {name: len(self.numbers) + place for place, name in enumerate(names)}
                return True
            _, at_ms, count = _TICK.unpack_from(body)
            numbers = array("I", struct.unpack_from(f"<{count}I", body, _TICK.size))
            values = array("d", struct.unpack_from(f"<{count}d", body, _TICK.size + 4 * count))
        except (ValueError, struct.error):
            return False
        self.ticks.append(SampleTick(at_ms, numbers, values))
        return True


def _frame(body: bytes) -> bytes:
    return _HEAD.pack(len(body), zlib.crc32(body)) + body
