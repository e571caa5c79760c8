"""A group's lag as Burrow's rules and ours judge it, over what was recorded: where they agree."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.console.history.samples import DAY_MS, Points
from barnabas.console.reading import known
from barnabas.console.views.history import RANGES
from barnabas.console.watched import WatchedCluster
from barnabas.operations.errors import OperationError
from barnabas.operations.lag_rules import CommitWindow, LagStatus, NetSlope, worst

_LOOKS_MAX: Final = 1_500
"""So many times of the range are judged."""
_PARTITIONS_MAX: Final = 200
_SPANS_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class RuleSpan:
    """A time in which the two rules did not agree on a partition, and neither changed its mind."""

    partition: str
    from_ms: int
    to_ms: int
    burrow: str
    ours: str


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A partition."""

    partition: str
    burrow: str
    ours: str
    looks: int
    agreed: int


@dataclass(frozen=True, slots=True)
class LagRules:
    """Both rules on one group."""

    group: str
    range: str
    burrow: str
    """The worst of the partitions, now."""
    ours: str
    looks: int
    agreed: int
    """Looks at which both said that all is well, or both that it is not."""
    partitions: Sequence[RuleRow]
    left_out: int
    """Partitions beyond those that were judged."""
    spans: Sequence[RuleSpan]
    """Where they did not agree, the newest first, at most 50."""


def lag_rules(watched: WatchedCluster, group: str, span: str, now_ms: int) -> LagRules:
    """Judges each partition at the times at which the group was known, at most `_LOOKS_MAX` of them. Commits
    are changes of the position that the console saw: a commit of the same offset again is none, so what
    Burrow calls STALL is STOP here. Raises OperationError without a history, and for a range that is none;
    NotAnsweredError while the history is looked through for somebody else.
    """
    kept = watched.history
    if kept is None:
        raise OperationError("this console keeps no history")
    if span not in RANGES:
        raise OperationError(f"the range is one of {', '.join(RANGES)}")
    start_ms = now_ms - RANGES[span]
    times = [at for at, _ in kept.points(f"group.lag/{group}", start_ms, now_ms)]
    times = times[:: max(-(-len(times) // _LOOKS_MAX), 1)]
    there = sorted(tp for tp, one in (known(watched.snapshot.positions, group) or {}).items() if one)
    names = {
        tp: (f"group.offset/{group}/{tp}", f"group.offset_lag/{group}/{tp}") for tp in there[:_PARTITIONS_MAX]
    }
    rows, spans = [], []
    with kept.study():
        for tp, (offsets, lags) in kept.points_by(names, start_ms - DAY_MS, now_ms):
            row, found = _compared(str(tp), times, offsets, lags)
            rows.append(row)
            spans += found
    spans.sort(key=lambda one: -one.from_ms)
    return LagRules(
        group,
        span,
        worst(LagStatus[one.burrow] for one in rows).name,
        worst(LagStatus[one.ours] for one in rows).name,
        sum(one.looks for one in rows),
        sum(one.agreed for one in rows),
        rows,
        max(len(there) - _PARTITIONS_MAX, 0),
        spans[:_SPANS_MAX],
    )


def _compared(tp: str, times: list[int], offsets: Points, lags: Points) -> tuple[RuleRow, list[RuleSpan]]:
    window, slope = CommitWindow(), NetSlope()
    burrow = ours = LagStatus.NOTFOUND
    next_offset = next_lag = looks = agreed = goes_on = 0
    offset = lag = -1
    spans: list[RuleSpan] = []
    for at in times:
        while next_offset < len(offsets) and offsets[next_offset][0] <= at:
            committed_ms, offset = offsets[next_offset][0], int(offsets[next_offset][1])
            # With the lag of its own time: over a long range many commits are between two looks.
            while next_lag < len(lags) and lags[next_lag][0] <= committed_ms:
                lag = int(lags[next_lag][1])
                next_lag += 1
            window.ended(offset + max(lag, 0))
            window.committed(committed_ms, offset)
            next_offset += 1
        while next_lag < len(lags) and lags[next_lag][0] <= at:
            lag = int(lags[next_lag][1])
            next_lag += 1
        if offset < 0 or lag < 0:
            continue
        window.ended(offset + lag)
        burrow, ours = window.status(at), slope.step(at, offset, offset + lag)
        looks += 1
        if (burrow is LagStatus.OK) == (ours is LagStatus.OK):
            agreed += 1
            continue
        last = spans[-1] if spans else None
        if last is not None and looks == goes_on and (last.burrow, last.ours) == (burrow.name, ours.name):
            spans[-1] = RuleSpan(tp, last.from_ms, at, burrow.name, ours.name)
        else:
            spans.append(RuleSpan(tp, at, at, burrow.name, ours.name))
        goes_on = looks + 1
    return RuleRow(tp, burrow.name, ours.name, looks, agreed), spans
