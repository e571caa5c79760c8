"""`ServeProcess`: a broker as a user starts it, in a process of its own; and what such processes need.

A module beside `conftest`, so that commands (tests/chaos, bench) can import from it too.
"""

import atexit
import os
import random
import re
import select
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import broker_forks
from broker_forks import die_with_parent  # noqa: F401 - for the servers of others

PATIENCE = float(os.environ.get("BARNABAS_TEST_PATIENCE", "1"))
"""How many times as long a broker may take to start and to stop: more for a build with sanitizers."""
READY_SECONDS = 60 * PATIENCE
STOP_SECONDS = 30 * PATIENCE
PLAINTEXT = ("PLAINTEXT",)


@dataclass(frozen=True)
class Broker:
    """A broker to talk to. One from outside (BARNABAS_TEST_BOOTSTRAP) has no pid and no folder."""

    host: str
    port: int
    pid: int | None = None
    data_dir: Path | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"


_reserved: deque[socket.socket] = deque()
"""The newest ports that were given out, each held by a socket that is bound and does not listen."""
_RESERVED_AT_MOST = 200


@atexit.register
def _give_back() -> None:
    while _reserved:  # else each is a warning in the log of the run
        _reserved.pop().close()


def free_port() -> int:
    """A port that nobody listens on, and that nobody gets after this one: no second call, no process of
    another test run, no outgoing connection.

    A socket stays bound to it. Once that has SO_REUSEADDR, a server which sets it too (ours and the JVM's do)
    may bind and listen, now and after each restart; a connection never takes a port that is bound, and the
    next probe, which is bound without the option, is refused.
    """
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range")
    ephemeral = int(limits.read_text().split()[0]) if limits.exists() else 32_768
    # The system's randomness: every worker of a test run seeds `random` alike.
    for port in random.SystemRandom().sample(range(10_000, max(ephemeral, 20_000)), 200):
        if _reserve(port):
            return port
    raise RuntimeError("every port that was tried is taken")


def free_ports(count: int) -> int:
    """The first of so many ports, one after the other, each as `free_port` gives them."""
    for _ in range(100):
        first = free_port()
        if all(_reserve(first + each) for each in range(1, count)):
            return first
    raise RuntimeError(f"no {count} ports in a row are free")


def _reserve(port: int) -> bool:
    """Whether nobody has the port; it is held from now on, as `free_port` says."""
    probe = socket.socket()
    try:
        probe.bind(("127.0.0.1", port))
    except OSError:
        probe.close()
        return False
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _reserved.append(probe)
    if len(_reserved) > _RESERVED_AT_MOST:
        _reserved.popleft().close()
    return True


class ServeProcess:
    """A child process `barnabas serve`, from its start to the line that says it is ready, to its end."""

    def __init__(
        self,
        data_dir: Path,
        *options: str,
        port: int | None = None,
        listeners: Sequence[str] = PLAINTEXT,
        descriptors: int | None = None,
    ) -> None:
        """The first of several listeners is for brokers, the last for clients: `port` is of that one.
        `descriptors` is the limit, soft and hard, under which the process starts.
        """
        self.data_dir = data_dir
        self.ports = {name: free_port() for name in listeners}
        self.port = self.ports[listeners[-1]] = port or self.ports[listeners[-1]]
        self.log = data_dir.with_name(data_dir.name + ".log")
        if len(listeners) > 1:
            options = (*_listener_options(self.ports), *options)
        self._stderr = self.log.open("ab")
        arguments = ["serve", "--data", str(data_dir), "--port", str(self.port), *options]
        self.process = broker_forks.start(arguments, self._stderr, descriptors)

    def wait_until_ready(self, seconds: float = READY_SECONDS) -> Broker:
        """Returns when the `ready` line is there; fails with the end of the log when it does not come."""
        deadline = time.monotonic() + seconds
        seen = b""
        while not re.search(rb"^ready.*\n", seen, re.MULTILINE):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                self._give_up(f"printed no ready line within {seconds} s")
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                self._give_up("ended before it was ready")
            seen += piece
        self.ready_line = seen.decode().strip()
        return Broker("127.0.0.1", self.port, self.process.pid, self.data_dir)

    def _give_up(self, reason: str) -> None:
        self.kill()
        raise AssertionError(f"barnabas serve {reason}; its log ends:\n{self.tail()}")

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def tail(self) -> str:
        """The end of what the process wrote to its log."""
        return self.log.read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        """kill -9, and what belongs to it is closed."""
        self.process.kill()
        self._closed()

    def stop(self) -> int:
        """SIGTERM; the exit code, or -9 for one that had to be killed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
        return self._closed()

    def _closed(self) -> int:
        code = self.process.wait()
        self.process.stdout.close()
        self._stderr.close()
        return code


def _listener_options(ports: dict[str, int]) -> Iterator[str]:
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in ports),
        "inter.broker.listener.name": next(iter(ports)),
    }
    for key, value in settings.items():
        yield from ("--set", f"{key}={value}")
