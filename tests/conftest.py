"""What tests of several folders share: a running broker, as a user would start it."""

import contextlib
import ctypes
import itertools
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

READY_SECONDS = 20
STOP_SECONDS = 10

# What outside clients emit by themselves, at import already; every other warning stays an error.
WARNINGS_OF_OTHERS = [
    # kafka-python 3.0 reads its schemas with importlib.resources.read_text, deprecated in Python 3.11 only.
    "ignore:(read|open)_text is deprecated:DeprecationWarning",
]


def pytest_configure(config: pytest.Config) -> None:
    for line in WARNINGS_OF_OTHERS:
        config.addinivalue_line("filterwarnings", line)


@dataclass(frozen=True)
class Broker:
    """A broker to talk to. One that somebody else runs (BARNABAS_TEST_BOOTSTRAP) has no pid and no folder."""

    host: str
    port: int
    pid: int | None = None
    data_dir: Path | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"


def _port_candidates() -> Iterator[int]:
    """Ports below the ephemeral range, so that no outgoing connection takes one before its server does.
    Steps of a prime from the process id keep test runs side by side out of each other's way.
    """
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range")
    high = int(limits.read_text().split()[0]) if limits.exists() else 32_768
    while True:
        yield from range(10_000 + os.getpid() % 997, max(high, 20_000), 997)


_candidates = _port_candidates()


def free_port() -> int:
    """A port that nobody listens on now, and another one at each call."""
    for port in itertools.islice(_candidates, 200):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("every port that was tried is taken")


def die_with_parent() -> None:
    """Runs in a child before exec: whatever ends the tests (kill -9 too) ends their servers."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _before_exec(descriptors: int | None) -> None:
    die_with_parent()
    if descriptors is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))


class ServeProcess:
    """A child process `barnabas serve`, from its start to the line that says it is ready, to its end."""

    def __init__(
        self, data_dir: Path, *options: str, port: int | None = None, descriptors: int | None = None
    ) -> None:
        """`descriptors` is the limit, soft and hard, under which the process starts."""
        self.data_dir = data_dir
        self.port = port or free_port()
        self.log = data_dir.with_name(data_dir.name + ".log")
        command = [sys.executable, "-m", "barnabas.cli.main", "serve", "--data", str(data_dir)]
        self._stderr = self.log.open("ab")
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port), *options],
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            preexec_fn=partial(_before_exec, descriptors),  # noqa: PLW1509 - it makes system calls only
        )

    def wait_until_ready(self) -> Broker:
        """Returns when the `ready` line is there; fails with the end of the log when it does not come."""
        deadline = time.monotonic() + READY_SECONDS
        seen = b""
        while not re.search(rb"^ready.*\n", seen, re.MULTILINE):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                self._give_up(f"printed no ready line within {READY_SECONDS} s")
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                self._give_up("ended before it was ready")
            seen += piece
        self.ready_line = seen.decode().strip()
        return Broker("127.0.0.1", self.port, self.process.pid, self.data_dir)

    def _give_up(self, reason: str) -> None:
        self.kill()
        pytest.fail(f"barnabas serve {reason}; its log ends:\n{self.tail()}", pytrace=False)

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


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[..., ServeProcess]]:
    """Starts further brokers of a test's own: `serve(data_dir, "--set", "key=value")`; what still runs
    when the session ends is killed.
    """
    started: list[ServeProcess] = []

    def start(data_dir: Path, *options: str) -> ServeProcess:
        started.append(ServeProcess(data_dir, *options))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.kill()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, serve: Callable[..., ServeProcess]) -> Iterator[Broker]:
    """A broker for the whole session: ours in a process of its own, or whichever BARNABAS_TEST_BOOTSTRAP names."""
    elsewhere = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if elsewhere:
        host, _, port = elsewhere.rpartition(":")
        yield Broker(host, int(port))
        return
    server = serve(tmp_path_factory.mktemp("broker") / "data")
    yield server.wait_until_ready()
    code = server.stop()
    assert code == 0, f"barnabas serve ended with {code} on SIGTERM; its log ends:\n{server.tail()}"


@pytest.fixture(scope="session")
def topic_name() -> Callable[[str], str]:
    """Makes a topic name of its own for a test, so that tests share one broker in any order."""
    started = f"{os.getpid()}-{time.time_ns() // 1_000_000 % 1_000_000_000}"
    counts: dict[str, int] = {}

    def name(stem: str = "topic") -> str:
        counts[stem] = counts.get(stem, 0) + 1
        return f"{stem}-{started}-{counts[stem]}"

    return name
