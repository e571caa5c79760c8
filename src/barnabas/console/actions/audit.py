"""`AuditLog`: a line of JSON for each change before it is done, and one for what became of it."""

import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from barnabas.console.actions.plans import Effect, KeptPlan, Undo
from barnabas.console.stores.line_log import LineLog
from barnabas.operations.clock import now_ms
from barnabas.operations.errors import OperationError

SHOWN_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who did what."""

    at_ms: int
    user: str
    cluster: str
    kind: str
    subject: str
    plan: str
    """The id of the preview: the two lines of one change have the same."""
    outcome: str
    """``begun``, ``done`` or ``failed``; of a change that was only begun nobody knows what became of it: the
    console died, or its second line could not be written.
    """
    error: str | None
    effects: Sequence[Effect]
    undo: Undo | None = None
    """What takes it back, where something does."""


class AuditLog:
    """Appends to ``audit.jsonl`` in the console's folder; what was begun is on the disk before it is done.
    The oldest files go when there are too many (`LineLog`).
    """

    def __init__(self, folder: Path) -> None:
        self._log = LineLog(folder / "audit.jsonl")

    def write(self, plan: KeptPlan, outcome: str, at_ms: int, error: str | None = None) -> None:
        """One line. Raises OperationError where it cannot be written: if it is the first of a change, that is
        not done.
        """
        seen = plan.preview
        self._append(
            AuditEntry(
                at_ms,
                plan.user,
                seen.cluster,
                seen.kind,
                seen.subject,
                seen.id,
                outcome,
                error,
                seen.effects,
                plan.planned.undo,
            )
        )

    @contextmanager
    def change(
        self, cluster: str, user: str, kind: str, subject: str, effects: Sequence[Effect]
    ) -> Iterator[None]:
        """A line before a change of the console's own (a rule, a limit), and one for what became of it.
        Raises OperationError where the first cannot be written.
        """
        number = secrets.token_urlsafe(8)

        def write(outcome: str, error: str | None = None) -> None:
            self._append(AuditEntry(now_ms(), user, cluster, kind, subject, number, outcome, error, effects))

        write("begun")
        try:
            yield
        except Exception as error:  # a bug of ours is written down, too
            write("failed", str(error) or type(error).__name__)
            raise
        try:
            write("done")
        except OperationError as error:
            raise OperationError(f"it was done, but {error}") from error

    def _append(self, entry: AuditEntry) -> None:
        try:
            self._log.append(json.dumps(asdict(entry), ensure_ascii=False))
        except OSError as problem:
            raise OperationError(
                f"the audit log {self._log.path} cannot be written: {problem.strerror}"
            ) from problem

    def entries(self, cluster: str, count: int = SHOWN_MAX) -> list[AuditEntry]:
        """The newest entries of a cluster, the newest first. It may read all files: not for an event loop."""
        found = (one for one in self._of(_member("cluster", cluster)) if one.cluster == cluster)
        return list(islice(found, count))

    def done(self, cluster: str, plan: str) -> AuditEntry | None:
        """The line that says that a change was done, however long ago it was; None where there is none. It
        may read all files.
        """
        found = (one for one in self._of(_member("plan", plan)) if (one.cluster, one.plan) == (cluster, plan))
        return next((one for one in found if one.outcome == "done"), None)

    def _of(self, member: bytes) -> Iterator[AuditEntry]:
        """The entries whose line has this text, the newest first. A line that was cut off by a kill is passed
        over. Raises OperationError where a file cannot be read.
        """
        try:
            for line in self._log.newest():
                if member in line and (entry := _entry(line)) is not None:
                    yield entry
        except OSError as problem:
            raise OperationError(
                f"the audit log {self._log.path} cannot be read: {problem.strerror}"
            ) from problem


def _member(name: str, value: str) -> bytes:
    """How a line has it: most lines that are about something else need not be read."""
    return f'"{name}": {json.dumps(value, ensure_ascii=False)}'.encode(errors="replace")


def _entry(line: bytes) -> AuditEntry | None:
    try:
        values = json.loads(line)
        effects = [Effect(**one) for one in values.pop("effects")]
        undo = values.pop("undo", None)
        return AuditEntry(**values, effects=effects, undo=None if undo is None else Undo(**undo))
    except (ValueError, TypeError, KeyError):
        return None
