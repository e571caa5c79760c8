"""What the lag of a group in a partition means: by Burrow's seven rules, and by the net slope of the lag.

Theory of operation
-------------------
Burrow looks at the last commits of a group in a partition, each with the lag at the time of its arrival, and
says by the first rule that matches whether the group is well, falls behind, stands or went back (its
``core/internal/evaluator/caching.go``). Here that is the oracle, rule by rule, with its known faults: a
single smaller lag in the window hides a steady climb, and a lag of one record that grows to two is a warning.

`NetSlope` looks at a window of time instead: how far the group came in it, and how the lag at its end
compares with the one at its begin. It says WARN where the line through all lags rises, the lag grew by more
than a tenth and was never made up in between, and takes that back only when the lag is no larger than it was
a window ago. It says STOP where the group came no further in a window in which there was always something to
read, and REWIND where it was further before.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple

INTERVALS: Final = 10
"""How many commits Burrow remembers of a partition unless it is told otherwise."""
WINDOW_MS: Final = 600_000


class LagStatus(IntEnum):
    """Burrow's words; a larger one is worse, and the worst partition is the group's."""

    NOTFOUND = 0
    OK = 1
    WARN = 2
    ERR = 3
    STOP = 4
    STALL = 5
    REWIND = 6


class SeenCommit(NamedTuple):
    """A commit as it arrived."""

    at_ms: int
    offset: int
    lag: int | None
    """None where it came out of order."""


class CommitWindow:
    """The ring of a partition's last commits (``inmemory.go``)."""

    def __init__(self, intervals: int = INTERVALS, min_distance_ms: int = 0) -> None:
        self.intervals = intervals
        self._min_distance_ms = min_distance_ms
        self._commits: deque[SeenCommit] = deque(maxlen=intervals)
        self._ends: deque[int] = deque(maxlen=intervals)

    def ended(self, end: int) -> None:
        """The end of the partition was read."""
        self._ends.append(end)

    def committed(self, at_ms: int, offset: int) -> None:
        """A commit arrived; its lag is against the newest end that is known."""
        lag = max(self._ends[-1] - offset, 0) if self._ends else None
        last = self._commits[-1] if self._commits else None
        if last is not None and at_ms < last.at_ms:
            # One that is filled in behind newer ones has no lag.
            rows = sorted([*self._commits, SeenCommit(at_ms, offset, None)], key=lambda one: one.at_ms)
            self._commits = deque(rows[-self.intervals :], maxlen=self.intervals)
        elif last is not None and at_ms - last.at_ms < self._min_distance_ms:
            self._commits[-1] = SeenCommit(last.at_ms, offset, lag)
        else:
            self._commits.append(SeenCommit(at_ms, offset, lag))

    def status(self, now_ms: int, allowed_lag: int = 0, minimum_complete: float = 0.0) -> LagStatus:
        """What Burrow says now."""
        return burrow(
            list(self._commits),
            list(self._ends),
            now_ms,
            intervals=self.intervals,
            allowed_lag=allowed_lag,
            minimum_complete=minimum_complete,
        )


def burrow(
    commits: Sequence[SeenCommit],
    ends: Sequence[int],
    now_ms: int,
    *,
    intervals: int = INTERVALS,
    allowed_lag: int = 0,
    minimum_complete: float = 0.0,
) -> LagStatus:
    """Burrow's status of one partition; the oldest commits and ends first."""
    # Rule 0: too little is known to say anything bad.
    if not commits or not ends or len(commits) / intervals < minimum_complete:
        return LagStatus.OK
    first, last = commits[0], commits[-1]
    # Rule 1: nothing is left to read.
    if max(ends[-1] - last.offset, 0) <= allowed_lag:
        return LagStatus.OK
    # Rule 2: no commit for longer than the window took, and the end was not reached lately either.
    if now_ms - last.at_ms > last.at_ms - first.at_ms and not any(end <= last.offset for end in ends):
        return LagStatus.STOP
    # Rule 3: it went back, and has not come to where it was.
    if _is_rewound([one.offset for one in commits]):
        return LagStatus.REWIND
    lags = [one.lag for one in commits if one.lag is not None]
    # Rule 4: it had read all at one of these commits.
    if any(lag <= allowed_lag for lag in lags):
        return LagStatus.OK
    # Rule 5: it commits the same offset again and again.
    if all(one.offset == first.offset for one in commits):
        return LagStatus.STALL
    # Rule 6: the lag fell nowhere.
    if all(before <= after for before, after in pairwise(lags)):
        return LagStatus.WARN
    return LagStatus.OK


def _is_rewound(offsets: Sequence[int]) -> bool:
    for place in range(1, len(offsets)):
        before = offsets[place - 1]
        if offsets[place] < before and max(offsets[place:]) < before:
            return True
    return False


def worst(statuses: Iterable[LagStatus]) -> LagStatus:
    """Of a group, from those of its partitions."""
    return max(statuses, default=LagStatus.NOTFOUND)


class Standpoint(NamedTuple):
    """Where a group and a partition were at a time."""

    at_ms: int
    offset: int
    end: int

    @property
    def lag(self) -> int:
        """Offsets up to the end."""
        return max(self.end - self.offset, 0)


@dataclass(slots=True)
class NetSlope:
    """Our rule, one look after the other."""

    window_ms: int = WINDOW_MS
    allowed_lag: int = 0
    _seen: deque[Standpoint] = field(default_factory=deque)
    _status: LagStatus = LagStatus.OK

    def step(self, at_ms: int, offset: int, end: int) -> LagStatus:
        """Takes one more look; what it says now."""
        now = Standpoint(at_ms, offset, end)
        self._seen.append(now)
        # The first one stands for the begin of the window, so it may be older than that.
        while len(self._seen) > 2 and self._seen[1].at_ms <= at_ms - self.window_ms:
            self._seen.popleft()
        self._status = self._judged(now)
        return self._status

    def _judged(self, now: Standpoint) -> LagStatus:
        first = self._seen[0]
        if now.lag <= self.allowed_lag:
            return LagStatus.OK
        if now.offset < max(one.offset for one in self._seen):
            return LagStatus.REWIND
        if now.at_ms - first.at_ms < self.window_ms:
            return self._status if self._status is LagStatus.WARN else LagStatus.OK
        waited = all(one.lag > self.allowed_lag for one in self._seen)
        if now.offset == first.offset:
            return LagStatus.STOP if waited else LagStatus.OK
        grew = now.lag - first.lag
        if self._status is LagStatus.WARN:
            return LagStatus.WARN if grew > 0 else LagStatus.OK
        grows = waited and grew > max(self.allowed_lag, first.lag // 10) and self._slope() > 0
        return LagStatus.WARN if grows else LagStatus.OK

    def _slope(self) -> float:
        """Of the line through all lags of the window."""
        count = len(self._seen)
        mean_at = sum(one.at_ms for one in self._seen) / count
        mean_lag = sum(one.lag for one in self._seen) / count
        square = sum((one.at_ms - mean_at) ** 2 for one in self._seen)
        return sum((one.at_ms - mean_at) * (one.lag - mean_lag) for one in self._seen) / square
