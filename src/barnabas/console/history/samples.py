"""`SampleStore`: numbers by series and time, a journal for the hour, Parquet for what is over.

Theory of operation
-------------------
``samples/2026-11-27T14.journal`` is the hour that runs. When it is over its samples are sorted by series into
``2026-11-27T14.parquet``, when the day is over its hours into ``2026-11-27.parquet``: columns ``series``,
``at_ms``, ``value``. A file is written under another name, brought to the disk, and then renamed; what it was
made of is deleted after that. So after a kill there may be both: a day's file counts and its hours do not, an
hour's file counts and its journal does not. Days that are too old, or beyond the bound of bytes, go whole.

One thread writes; any may read. A reader that finds a file gone (it was just made part of a larger one) lists
the folder again.
"""

import threading
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from heapq import merge
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from barnabas.console.history.journal import HourJournal
from barnabas.console.history.parquet import ParquetField, ParquetFile, Runs, write
from barnabas.console.stores.private_files import replacing
from barnabas.core.eventlog import EventLog

_log = EventLog("console")

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
FIELDS: Final = (
    ParquetField("series", "text"),
    ParquetField("at_ms", "time"),
    ParquetField("value", "double"),
)
_ROWS: Final = 65_536
"""Of a row group: what is read for one series."""
_SERIES_BYTES_MAX: Final = 1_000

Points = list[tuple[int, float]]


class _Column(NamedTuple):
    """The samples of one series in one file."""

    series: str
    times: "array[int]"
    values: "array[float]"


class SampleStore:
    """Opens the folder; `add` writes, `read` reads."""

    def __init__(self, folder: Path, days: int = 90, bytes_max: int = 8 << 30) -> None:
        self._folder = folder
        self._days = days
        self._bytes_max = bytes_max
        self._journal: HourJournal | None = None
        self._lock = threading.Lock()
        """Held by one who changes which files there are."""

    def open(self, now_ms: int) -> None:
        """Goes on where the last process stopped. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in self._folder.glob("*.tmp"):
            path.unlink(missing_ok=True)
        for path in sorted(self._folder.glob("*.journal")):
            if path.with_suffix(".parquet").exists() or self._day(path.stem).exists():
                path.unlink()
                continue
            journal = HourJournal(path).load()
            if path.stem == _hour_name(now_ms):
                self._journal = journal
            else:
                self._seal(journal)
        self._merge_days(now_ms)

    def add(self, at_ms: int, samples: Mapping[str, float]) -> bool:
        """One more tick; whether it was taken: an hour that is over, after a clock was set back, takes no
        more. Raises OSError.
        """
        samples = {name: value for name, value in samples.items() if len(name) <= _SERIES_BYTES_MAX}
        name = _hour_name(at_ms)
        path = self._folder / f"{name}.journal"
        journal = self._journal
        if journal is None or journal.path != path:
            if path.with_suffix(".parquet").exists() or self._day(name).exists():
                return False
            if journal is not None:
                if name < journal.path.stem:
                    return False
                self._seal(journal)
                self._merge_days(at_ms)
            journal = HourJournal(path)
        if journal.ticks and at_ms <= journal.ticks[-1].at_ms:
            return False
        journal.append(at_ms, samples)
        self._journal = journal
        return True

    def read(self, series: str, start_ms: int, end_ms: int) -> Points:
        """The samples of a series, from start to end, in order."""
        return self.read_all([series], start_ms, end_ms)[series]

    def read_all(self, series: Iterable[str], start_ms: int, end_ms: int) -> dict[str, Points]:
        """The samples of each series, from start to end, in order. Each file is opened once. A file that is
        damaged is passed over.
        """
        wanted = list(series)
        for _ in range(3):
            try:
                return self._read(wanted, start_ms, end_ms)
            except FileNotFoundError:
                continue
        return {one: [] for one in wanted}

    def _read(self, series: list[str], start_ms: int, end_ms: int) -> dict[str, Points]:
        journal = self._journal
        found: dict[str, dict[int, float]] = {one: {} for one in series}
        for path in self._files(start_ms, end_ms):
            try:
                with ParquetFile(path) as file:
                    for column in _of_series(file, found.keys()):
                        found[column.series].update(zip(column.times, column.values, strict=True))
            except ValueError as error:
                _log.warning("console.history_file", path=str(path), error=error)
        if journal is not None:
            for one in series:
                found[one].update(journal.read(one))
        return {
            one: sorted((at, value) for at, value in samples.items() if start_ms <= at <= end_ms)
            for one, samples in found.items()
        }

    def series(self) -> list[str]:
        """The names of the hour that runs, or of the newest file."""
        if self._journal is not None and self._journal.numbers:
            return list(self._journal.numbers)
        files = self._files(0, 1 << 62)
        if not files:
            return []
        try:
            with ParquetFile(max(files, key=lambda one: one.stem)) as file:
                runs = [file.read(group)[0] for group in file.groups]
        except (ValueError, OSError):
            return []
        return list(dict.fromkeys(name for each in runs for name, _ in _texts(each)))

    def size_bytes(self) -> int:
        """What the folder takes."""
        return sum(path.stat().st_size for path in self._folder.glob("*") if path.is_file())

    def _files(self, start_ms: int, end_ms: int) -> list[Path]:
        """The files that may have samples of the time."""
        low, high = day_name(start_ms), day_name(end_ms)
        there = sorted(path for path in self._folder.glob("*.parquet") if low <= path.stem[:10] <= high)
        days = {path.stem for path in there if len(path.stem) == 10}
        return [path for path in there if len(path.stem) == 10 or path.stem[:10] not in days]

    def _day(self, name: str) -> Path:
        return self._folder / f"{name[:10]}.parquet"

    def _seal(self, journal: HourJournal) -> None:
        """Makes a Parquet file of an hour that is over."""
        with self._lock:
            if journal.ticks:
                self._write(journal.path.with_suffix(".parquet"), _by_series(journal))
            journal.path.unlink(missing_ok=True)

    def _merge_days(self, now_ms: int) -> None:
        """Makes one file of the hours of each day that is over, and lets old days go."""
        today = day_name(now_ms)
        hours = sorted(path for path in self._folder.glob("*T*.parquet"))
        for day, of_day in groupby(hours, lambda path: path.stem[:10]):
            paths = list(of_day)
            if day >= today:
                continue
            with self._lock:
                target = self._day(day)
                if not target.exists():
                    self._write(target, _merged(paths))
                for path in paths:
                    path.unlink(missing_ok=True)
        self._forget(now_ms)

    def _forget(self, now_ms: int) -> None:
        oldest = day_name(now_ms - self._days * DAY_MS)
        left = self.size_bytes()
        for path in sorted(self._folder.glob("*.parquet")):
            if len(path.stem) == 10 and (path.stem < oldest or left > self._bytes_max):
                left -= path.stat().st_size
                path.unlink()

    def _write(self, path: Path, columns: Iterator[_Column]) -> None:
        with replacing(path) as file:
            write(file, FIELDS, _groups(columns))


def _hour_name(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H")


def day_name(at_ms: int) -> str:
    """The day of a time, in UTC, as files are named."""
    return datetime.fromtimestamp(min(max(at_ms, 0), 253_402_300_799_000) / 1000, UTC).strftime("%Y-%m-%d")


def _by_series(journal: HourJournal) -> Iterator[_Column]:
    """The samples of a journal, sorted by series."""
    times: list[array[int]] = [array("q") for _ in journal.numbers]
    values: list[array[float]] = [array("d") for _ in journal.numbers]
    for tick in journal.ticks:
        for number, value in zip(tick.numbers, tick.values, strict=True):
            times[number].append(tick.at_ms)
            values[number].append(value)
    for name, number in sorted(journal.numbers.items(), key=lambda one: one[0].encode()):
        if times[number]:
            yield _Column(name, times[number], values[number])


def _merged(paths: list[Path]) -> Iterator[_Column]:
    """The series of some files, sorted; each with its samples in the order of the files."""
    every = merge(*map(_columns, paths), key=lambda one: one.series.encode())
    for series, parts in groupby(every, key=lambda one: one.series):
        times, values = array("q"), array("d")
        for part in parts:
            times += part.times
            values += part.values
        yield _Column(series, times, values)


def _columns(path: Path) -> Iterator[_Column]:
    try:
        with ParquetFile(path) as file:
            for group in file.groups:
                yield from _split(file.read(group))
    except ValueError as error:
        _log.warning("console.history_file", path=str(path), error=error)


def _split(columns: list[Any]) -> Iterator[_Column]:
    runs, times, values = columns
    at = 0
    for series, count in runs:
        yield _Column(series, times[at : at + count], values[at : at + count])
        at += count


def _of_series(file: ParquetFile, series: Collection[str]) -> Iterator[_Column]:
    """What a file has of these series: only the row groups are read that may have one of them."""
    wanted = sorted(one.encode() for one in series)
    for group in file.groups:
        place = bisect_left(wanted, group.low)
        if place < len(wanted) and wanted[place] <= group.high:
            yield from (one for one in _split(file.read(group)) if one.series in series)


def _texts(values: Any) -> Runs:
    runs: Runs = values
    return runs


def _groups(columns: Iterator[_Column]) -> Iterator[list[Any]]:
    """Row groups of whole series."""
    runs: Runs = []
    times, values = array("q"), array("d")
    for one in columns:
        runs.append((one.series, len(one.times)))
        times += one.times
        values += one.values
        if len(times) >= _ROWS:
            yield [runs, times, values]
            runs, times, values = [], array("q"), array("d")
    if runs:
        yield [runs, times, values]
