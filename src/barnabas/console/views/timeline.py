"""One line of everything that happened to a cluster: changes, what was done from here, and alerts."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.console.actions.audit import AuditEntry, AuditLog
from barnabas.console.alerts.book import SHOWN_MAX
from barnabas.console.alerts.rules import Incident
from barnabas.console.snapshot import ClusterChange
from barnabas.console.watched import WatchedCluster
from barnabas.operations.errors import OperationError

COUNT_MAX: Final = 1_000
CHANGES_MAX: Final = 50_000
"""Changes that one answer looks at."""
ACTIONS_MAX: Final = 10_000
KINDS: Final = ("controller", "broker", "topic", "leader", "isr", "config", "group", "action", "alert")


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """Something that happened."""

    at_ms: int
    kind: str
    """One of `KINDS`."""
    subject: str
    before: str
    after: str
    who: str | None
    """Of an action."""


@dataclass(frozen=True, slots=True)
class TimelineView:
    """What happened in a time, the newest first."""

    start_ms: int
    end_ms: int
    entries: Sequence[TimelineEntry]
    counts: dict[str, int]
    """By kind, of all that were looked at."""
    next: str | None
    """For the parameter `positions`: where to go on with what is older; None where nothing is left."""
    left_out: Sequence[str]
    """What is not in it, and why."""


@dataclass(frozen=True, slots=True)
class TimelineQuery:
    """What is asked for."""

    start_ms: int
    end_ms: int
    kinds: frozenset[str] = frozenset()
    """All when empty."""
    resource: str = ""
    """A part of the subject."""
    count: int = 200
    positions: str | None = None
    """Where an earlier answer stopped: ``MILLISECONDS:ENTRIES``, so many of that millisecond were shown."""


def timeline(
    wanted: TimelineQuery,
    changes: Sequence[ClusterChange],
    actions: Iterable[AuditEntry],
    incidents: Iterable[Incident],
    left_out: Sequence[str] = (),
) -> TimelineView:
    """What fits. `changes` are the newest of the time, at most `CHANGES_MAX`. Raises OperationError."""
    if unknown := wanted.kinds - set(KINDS):
        raise OperationError(f"there is no kind {min(unknown)!r}: there are {', '.join(KINDS)}")
    end_ms, skip = _positions(wanted.positions) if wanted.positions else (wanted.end_ms, 0)
    every = {
        *(TimelineEntry(one.at_ms, one.what, one.subject, one.before, one.after, None) for one in changes),
        *(entry for one in actions for entry in of_action(one)),
        *(entry for one in incidents for entry in of_incident(one)),
    }
    needle = wanted.resource.casefold()
    inside = [
        one for one in every if wanted.start_ms <= one.at_ms <= end_ms and needle in one.subject.casefold()
    ]
    counts = {kind: sum(one.kind == kind for one in inside) for kind in KINDS}
    rows = [one for one in inside if not wanted.kinds or one.kind in wanted.kinds]
    # The order of one millisecond is the same for each answer: an answer goes on within it.
    rows.sort(key=lambda one: (-one.at_ms, KINDS.index(one.kind), one.subject, one.before, one.after))
    same = sum(one.at_ms == end_ms for one in rows)
    rows = rows[min(skip, same) :]
    notes, following = list(left_out), None
    if len(changes) >= CHANGES_MAX:
        oldest_ms = min(one.at_ms for one in changes)
        whole = [one for one in rows if one.at_ms > oldest_ms]
        if whole or oldest_ms < end_ms:
            # Of the oldest millisecond some may be missing: it is looked at by who goes on.
            rows, following = whole, f"{oldest_ms}:0"
        else:
            notes.append(f"more than {CHANGES_MAX:,} changes were seen in one look: the others are left out")
    shown = rows[: wanted.count]
    if len(rows) > len(shown):
        following = _after(shown, wanted.positions)
    return TimelineView(wanted.start_ms, end_ms, shown, counts, following, notes)


def _after(shown: Sequence[TimelineEntry], before: str | None) -> str:
    last_ms = shown[-1].at_ms
    seen = sum(one.at_ms == last_ms for one in shown)
    if before is not None:
        at_ms, skipped = _positions(before)
        seen += skipped if at_ms == last_ms else 0
    return f"{last_ms}:{seen}"


_UNITS_MS: Final = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}


def time_of(text: str, now_ms: int) -> int:
    """Milliseconds since 1970 of a text: these, or minutes, hours or days before now such as -24h. Raises
    OperationError.
    """
    found = re.fullmatch(r"(?:([0-9]{1,16})|-([0-9]{1,6})([mhd]))", text.strip())
    if found is None:
        raise OperationError(f"{text!r} is no time: it is milliseconds since 1970, or such as -90m, -24h")
    return int(found[1]) if found[1] else max(now_ms - int(found[2]) * _UNITS_MS[found[3]], 0)


def of_cluster(watched: WatchedCluster, wanted: TimelineQuery, audit: AuditLog | None) -> TimelineView:
    """What happened to a cluster, as far as its history goes; without an audit log for who may not read
    it.
    """
    left_out = [] if audit is not None else ["what was done from here: the audit log is not yours to read"]
    found: list[ClusterChange] = []
    history = watched.history
    if history is None:
        left_out.append("this console remembers nothing: there is only what it has seen since its start")
    else:
        found = history.changes(wanted.start_ms, end_of(wanted), CHANGES_MAX)
        if history.problem is not None:
            left_out.append(history.problem)
    # The history has them with the next sample.
    recent = [one for one in watched.snapshot.changes if wanted.start_ms <= one.at_ms <= end_of(wanted)]
    known = set(found)
    found = [*(one for one in reversed(recent) if one not in known), *found]
    past = [] if watched.alerts is None else watched.alerts.past()
    if len(past) >= SHOWN_MAX:
        left_out.append(f"alerts before the newest {SHOWN_MAX}")
    incidents = past if watched.alerts is None else [*past, *watched.alerts.firing()]
    actions = [] if audit is None else audit.entries(watched.name, ACTIONS_MAX)
    if len(actions) >= ACTIONS_MAX:
        left_out.append(f"actions before the newest {ACTIONS_MAX:,} lines of the audit log")
    return timeline(wanted, found, actions, incidents, left_out)


def end_of(wanted: TimelineQuery) -> int:
    """The newest millisecond that is asked for. Raises OperationError."""
    return _positions(wanted.positions)[0] if wanted.positions else wanted.end_ms


def _positions(text: str) -> tuple[int, int]:
    at_ms, _, skip = text.partition(":")
    if not all(one.isascii() and one.isdigit() and len(one) <= 19 for one in (at_ms, skip)):
        raise OperationError("positions are those of an earlier answer: MILLISECONDS:ENTRIES")
    return int(at_ms), int(skip)


def of_action(one: AuditEntry) -> list[TimelineEntry]:
    """What was done from a console: a line for each thing that it changed, or what became of it."""
    if one.outcome != "done":
        after = one.outcome if one.error is None else f"{one.outcome}: {one.error}"
        return [TimelineEntry(one.at_ms, "action", f"{one.kind} {one.subject}", "", after, one.user)]
    return [
        TimelineEntry(one.at_ms, "action", f"{one.kind} {each.subject}", each.before, each.after, one.user)
        for each in one.effects
    ]


def of_incident(one: Incident) -> list[TimelineEntry]:
    """The beginning of an incident, and its end."""
    subject = f"{one.rule}: {one.series}"
    found = [TimelineEntry(one.fired_ms, "alert", subject, f"limit {one.limit:g}", f"{one.value:g}", None)]
    if one.ended_ms is not None:
        ended = TimelineEntry(one.ended_ms, "alert", subject, f"worst {one.worst:g}", "over", None)
        found.append(ended)
    return found
