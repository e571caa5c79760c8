"""The mood of the machine: how fast it computes and how fast it wakes a process up, at this moment.

A virtual machine with neighbours changes from minute to minute, and not evenly. A ping-pong between two
processes has two values here and little between them: 5 to 25 us while a processor is at hand, 60 to 140
while the hypervisor must be asked to wake one. A request through Kafka wakes three threads in turn, through
Barnabas one; so slow wake-ups cost Kafka more and flatter us. The loop says who else computes: CPython 3.11
takes 40 ms for a million rounds of it on an undisturbed server processor, and twice that where it gets half
of one.
"""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

LOOP_FAST_MS: Final = 80.0
WAKE_FAST_US: Final = 40.0

_LOOPS: Final = 200_000
_PINGS: Final = 500
_ECHO: Final = (
    "import socket, sys\n"
    "peer = socket.socket(fileno=int(sys.argv[1]))\n"
    "while data := peer.recv(1): peer.send(data)"
)


@dataclass(frozen=True)
class Mood:
    """One look at the machine."""

    loop_ms: float
    """A million rounds of a pure-Python loop."""
    wake_us: float
    """A byte to another process and back: two wake-ups."""

    @property
    def fast(self) -> bool:
        """Whether a ratio that is taken now counts."""
        return self.loop_ms <= LOOP_FAST_MS and self.wake_us <= WAKE_FAST_US

    def __str__(self) -> str:
        word = "fast" if self.fast else "slow"
        return f"loop {self.loop_ms:.0f} ms, ping-pong {self.wake_us:.0f} us ({word})"


class Meter:
    """Takes the mood, with a process that echoes on the other end of a socket pair."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer

    def look(self) -> Mood:
        """The mood now; takes some 50 ms."""
        started = time.perf_counter()
        total = 0
        for number in range(_LOOPS):
            total += number * number % 7
        looped = time.perf_counter()
        for _ in range(_PINGS):
            self._peer.send(b"x")
            self._peer.recv(1)
        pinged = time.perf_counter()
        return Mood((looped - started) * 1e9 / _LOOPS, (pinged - looped) * 1e6 / _PINGS)


@contextlib.contextmanager
def mood_meter() -> Iterator[Meter]:
    """A meter, whose process ends with the block (or with this process: its socket closes)."""
    mine, theirs = socket.socketpair()
    command = [sys.executable, "-c", _ECHO, str(theirs.fileno())]
    with mine, subprocess.Popen(command, pass_fds=[theirs.fileno()]) as echo:
        theirs.close()
        try:
            found = Meter(mine)
            found.look()  # the first one finds Python still starting
            yield found
        finally:
            mine.close()
            echo.wait()
