"""`AuditLog`: a line of JSON for each change before it is done, and one for what became of it."""

import errno
import json
import os
import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from barnabas.console.actions.plans import Effect, KeptPlan, Undo
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
    """Appends to ``audit.jsonl`` in the console's folder; what was begun is on the disk before it is done."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "audit.jsonl"

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
        write("done")

    def _append(self, entry: AuditEntry) -> None:
        line = json.dumps(asdict(entry), ensure_ascii=False) + "\n"
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                # What a kill or a full disk has cut off must not swallow this line.
                size = os.fstat(descriptor).st_size
                is_torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
                data = (("\n" if is_torn else "") + line).encode()
                if os.write(descriptor, data) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as problem:
            raise OperationError(
                f"the audit log {self._file} cannot be written: {problem.strerror}"
            ) from problem

    def entries(self, cluster: str, count: int = SHOWN_MAX) -> list[AuditEntry]:
        """The newest entries of a cluster, the newest first. A line that was cut off by a kill is passed
        over. It reads the whole file: not for an event loop.
        """
        found: deque[AuditEntry] = deque(maxlen=count)
        try:
            with self._file.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    entry = _entry(line)
                    if entry is not None and entry.cluster == cluster:
                        found.append(entry)
        except FileNotFoundError:
            pass
        return list(reversed(found))


def _entry(line: str) -> AuditEntry | None:
    try:
        values = json.loads(line)
        effects = [Effect(**one) for one in values.pop("effects")]
        undo = values.pop("undo", None)
        return AuditEntry(**values, effects=effects, undo=None if undo is None else Undo(**undo))
    except (ValueError, TypeError, KeyError):
        return None
