"""`EditedLimits`: limits of checks that were changed while the console ran, in ``limits.json``."""

import json
import math
import threading
from pathlib import Path

from barnabas.console.health.checks import CHECKS
from barnabas.console.private_files import replacing
from barnabas.core.eventlog import EventLog
from barnabas.operations.errors import OperationError

_log = EventLog("console")
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
        self._file = folder / "limits.json"
        self._lock = threading.Lock()
        self.limits: dict[str, float] = {}
        self.problem: str | None = None
        try:
            kept = json.loads(self._file.read_text(encoding="utf-8"))
            self.limits = {str(key): checked(str(key), float(limit)) for key, limit in kept.items()}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, AttributeError, OperationError) as error:
            self.problem = f"{self._file} cannot be read: {error}"
            _log.warning("console.limits", file=str(self._file), error=error)

    def put(self, key: str, limit: float | None) -> None:
        """Keeps a limit; None takes it back. Raises OperationError where it is none, or cannot be kept."""
        if limit is None:
            checked(key, 0)
        with self._lock:
            limits = {name: one for name, one in self.limits.items() if name != key}
            if limit is not None:
                limits[key] = checked(key, limit)
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                with replacing(self._file) as file:
                    file.write(json.dumps(limits, indent=1).encode())
            except OSError as error:
                raise OperationError(
                    f"the limits cannot be written to {self._file}: {error.strerror or error}"
                ) from error
            self.limits, self.problem = limits, None
