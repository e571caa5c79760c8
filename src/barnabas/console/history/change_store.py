"""`ChangeStore`: what has changed, a line of JSON each for the day, Parquet for the days that are over."""

import json
import os
from array import array
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from barnabas.console.history.parquet import ParquetField, ParquetFile, runs_of, write
from barnabas.console.history.samples import DAY_MS, day_name
from barnabas.console.snapshot import ClusterChange
from barnabas.console.stores.private_files import replacing
from barnabas.core.eventlog import EventLog

_log = EventLog("console")

FIELDS: Final = (
    ParquetField("what", "text"),
    ParquetField("at_ms", "time"),
    ParquetField("subject", "text"),
    ParquetField("before", "text"),
    ParquetField("after", "text"),
)
SHOWN_MAX: Final = 5_000
_DAY_BYTES_MAX: Final = 256 << 20
"""A cluster that changes more than this in a day has other worries; the rest of the day is not kept."""


class ChangeStore:
    """Opens the folder; `add` appends, `read` reads."""

    def __init__(self, folder: Path, days: int = 90) -> None:
        self._folder = folder
        self._days = days

    def open(self, now_ms: int) -> None:
        """Makes Parquet of the days that are over, and lets old ones go. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        today, oldest = day_name(now_ms), day_name(now_ms - self._days * DAY_MS)
        for path in self._folder.glob("*.tmp"):
            path.unlink(missing_ok=True)
        for path in self._folder.glob("*.jsonl"):
            if path.stem < today:
                self._seal(path)
        for path in self._folder.glob("*.parquet"):
            if path.stem < oldest:
                path.unlink()

    def add(self, found: Iterable[ClusterChange]) -> None:
        """Appends. Raises OSError."""
        lines: dict[str, list[str]] = {}
        newest_ms = 0
        for one in found:
            newest_ms = max(newest_ms, one.at_ms)
            text = json.dumps(asdict(one), ensure_ascii=False)
            lines.setdefault(day_name(one.at_ms), []).append(text + "\n")
        for day, each in lines.items():
            path = self._folder / f"{day}.jsonl"
            if not path.exists():
                self.open(newest_ms)
            elif path.stat().st_size > _DAY_BYTES_MAX:
                continue
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                # What a kill has cut off must not swallow the next line.
                size = os.fstat(descriptor).st_size
                torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
                os.write(descriptor, (("\n" if torn else "") + "".join(each)).encode())
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)

    def read(self, start_ms: int, end_ms: int, count: int = SHOWN_MAX) -> list[ClusterChange]:
        """The newest of the time, the newest first."""
        found: list[ClusterChange] = []
        low, high = day_name(start_ms), day_name(end_ms)
        days = {path.stem for path in self._folder.glob("*") if path.suffix in {".jsonl", ".parquet"}}
        for day in sorted((one for one in days if low <= one <= high), reverse=True):
            of_day = [one for one in self._day(day) if start_ms <= one.at_ms <= end_ms]
            found += sorted(of_day, key=lambda one: one.at_ms, reverse=True)
            if len(found) >= count:
                break
        return found[:count]

    def _day(self, day: str) -> list[ClusterChange]:
        path = self._folder / f"{day}.parquet"
        try:
            with ParquetFile(path) as file:
                return [one for group in file.groups for one in _rows(file.read(group))]
        except FileNotFoundError:
            return _lines(path.with_suffix(".jsonl"))
        except ValueError as error:
            _log.warning("console.history_file", path=str(path), error=error)
            return []

    def _seal(self, path: Path) -> None:
        target = path.with_suffix(".parquet")
        found = sorted(_lines(path), key=lambda one: one.what)
        if found and not target.exists():
            with replacing(target) as file:
                write(file, FIELDS, [_columns(found)])
        path.unlink()


def _columns(found: list[ClusterChange]) -> list[Any]:
    return [
        runs_of(one.what for one in found),
        array("q", [one.at_ms for one in found]),
        runs_of(one.subject for one in found),
        runs_of(one.before for one in found),
        runs_of(one.after for one in found),
    ]


def _rows(columns: list[Any]) -> list[ClusterChange]:
    what, times, *others = columns
    texts = [[text for text, count in runs for _ in range(count)] for runs in (what, *others)]
    return [
        ClusterChange(at_ms, kind, subject, before, after)
        for at_ms, kind, subject, before, after in zip(times, *texts, strict=True)
    ]


def _lines(path: Path) -> list[ClusterChange]:
    """The whole lines of a file."""
    found = []
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    found.append(ClusterChange(**json.loads(line)))
                except (ValueError, TypeError):
                    continue
    except FileNotFoundError:
        pass
    return found
