"""`Trace`: everything that happened in a world, as lines, and one hash of them all."""

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Final, TextIO

REMEMBERED_LINES: Final = 200


class Trace:
    """Lines with their virtual time; the hash covers all, the last ones can be looked at."""

    def __init__(self, time_s: Callable[[], float], sink: TextIO | None = None) -> None:
        self.count = 0
        self.last: deque[str] = deque(maxlen=REMEMBERED_LINES)
        self.time_s = time_s
        self._sink = sink
        self._hash = hashlib.blake2b(digest_size=16)

    def __call__(self, what: str) -> None:
        """Adds one event; the text must be the same in every process."""
        line = f"{self.time_s():.6f} {what}\n"
        self.count += 1
        self._hash.update(line.encode())
        self.last.append(line)
        if self._sink is not None:
            self._sink.write(line)

    @property
    def digest(self) -> str:
        """The hash of all events so far."""
        return self._hash.hexdigest()

    def __repr__(self) -> str:
        return f"<Trace {self.count} events {self.digest[:8]}>"
