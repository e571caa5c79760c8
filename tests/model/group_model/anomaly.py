"""`Anomaly`: a promise that a coordinator broke, and the list of them that one history collects."""

from typing import Final, NamedTuple

_ENOUGH: Final = 25


class Anomaly(NamedTuple):
    """A broken promise."""

    kind: str
    text: str
    at_ms: float

    def __str__(self) -> str:
        return f"{self.kind}: {self.text} (at {self.at_ms / 1000:.3f} s)"


class Anomalies(list[Anomaly]):
    """The first of them; where one thing is broken many follow."""

    def add(self, kind: str, text: str, at_ms: float) -> None:
        """Notes one, unless there are plenty."""
        if len(self) < _ENOUGH:
            self.append(Anomaly(kind, text, at_ms))
