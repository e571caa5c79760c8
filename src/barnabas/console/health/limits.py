"""`EditedLimits`: limits of checks that were changed while the console ran, in ``limits.json``."""

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from barnabas.console.health.checks import CHECKS
from barnabas.console.stores.private_files import KeptSettings, checked_part
from barnabas.operations.errors import OperationError

_SHAPE: Final = TypeAdapter(dict[str, float])
KEYS = frozenset(one.key for one in CHECKS)


def checked(key: str, limit: float) -> float:
    """The limit itself. Raises OperationError for a check that does not exist, or what is no limit."""
    if key not in KEYS:
        raise OperationError(f"there is no check {key!r}; there are {', '.join(sorted(KEYS))}")
    if not math.isfinite(limit) or limit < 0:
        raise OperationError("a limit is a number from 0 on")
    return limit


class EditedLimits:
    """Of one cluster; they count before those of the command line."""

    def __init__(self, folder: Path) -> None:
        self._file = KeptSettings(folder / "limits.json")
        self._lock = threading.Lock()
        self._editing = threading.Lock()
        self.limits: dict[str, float] = self._file.read(_limits) or {}

    @property
    def problem(self) -> str | None:
        """Why limits that were kept before do not count."""
        return self._file.problem

    @contextmanager
    def editing(self) -> Iterator[None]:
        """For a change from the reading of what was before: of two at once the later one sees the earlier."""
        with self._editing:
            yield

    def put(self, key: str, limit: float | None) -> None:
        """Keeps a limit; None takes it back. Raises OperationError where it is none, or cannot be kept."""
        if limit is None:
            checked(key, 0)
        with self._lock:
            limits = {name: one for name, one in self.limits.items() if name != key}
            if limit is not None:
                limits[key] = checked(key, limit)
            self._file.write(limits)
            self.limits = limits


def _limits(kept: Any) -> dict[str, float]:
    return {key: checked(key, limit) for key, limit in checked_part(_SHAPE, kept, "limits").items()}
