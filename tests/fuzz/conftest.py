"""A broker of its own: bad input may legitimately change what a shared one holds."""

from pathlib import Path

import pytest
from wire_peer import WirePeer


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


@pytest.fixture(scope="module")
def victim(request, serve, tmp_path_factory):
    """The broker of one test module, with its SETTINGS if it has any; it must survive and end in order."""
    settings = getattr(request.module, "SETTINGS", {})
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    server = serve(tmp_path_factory.mktemp("victim") / "data", *options)
    server.wait_until_ready()
    broker = Victim(server, options)
    with broker.connect() as peer:
        peer.create(broker.topic)
    yield broker
    assert broker.server.stop() == 0, broker.server.tail()
