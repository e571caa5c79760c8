"""A broker of its own: bad input may legitimately change what a shared one holds."""

from pathlib import Path

import pytest
from wire_peer import WirePeer

# An unforeseen exception is answered too, but it is a bug; in a timer it has nobody to tell.
UNFORESEEN = ("request.failed", "request_failed", "Traceback", "unreadable")
FORESEEN = "classic.subscription_unreadable"
"""What a member may well have said."""
FAILURE_LINES = 60


class Victim:
    """A running broker with one topic, and what can be seen of it from outside."""

    def __init__(self, server, options=()) -> None:
        self.server = server
        self.options = options
        self.port = server.port
        self.topic = "fuzz"

    def connect(self) -> WirePeer:
        return WirePeer(self.port)

    def memory_bytes(self) -> int:
        """Resident memory."""
        status = Path(f"/proc/{self.server.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024

    def alive(self) -> bool:
        return self.server.process.poll() is None

    def log_lines(self) -> list[str]:
        return self.server.log.read_text(errors="replace").splitlines()

    def failures(self) -> list[str]:
        """The log from the first request on that the broker did not foresee, with its traceback;
        [] for none.
        """
        lines = [line for line in self.log_lines() if FORESEEN not in line]
        first = next((i for i, line in enumerate(lines) if any(word in line for word in UNFORESEEN)), None)
        return [] if first is None else lines[first : first + FAILURE_LINES]


@pytest.fixture(scope="module")
def victim(request, serve, tmp_path_factory):
    """The broker of one test module, with its SETTINGS if it has any; it must survive and end in order."""
    settings = getattr(request.module, "SETTINGS", {})
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    broker = Victim(serve(tmp_path_factory.mktemp("victim") / "data", *options), options)
    yield from _lived(broker)


@pytest.fixture
def untouched(serve, tmp_path):
    """A broker of one test alone: nothing that others asked for is still under way in it."""
    yield from _lived(Victim(serve(tmp_path / "data")))


def _lived(broker):
    """The broker with its topic; in the end, the proof that it can still end in order."""
    broker.server.wait_until_ready()
    with broker.connect() as peer:
        peer.create(broker.topic)
    yield broker
    assert broker.server.stop() == 0, broker.server.tail()
