"""A PostgreSQL of this machine, for one test: a cluster of its own in a folder that is removed.

It runs as the system's user `postgres` where the tests run as root, which it refuses to be.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kafka_harness import UnavailableError

from serving import die_with_parent, free_port
from waiting import until

SETTINGS = {
    "listen_addresses": "127.0.0.1", "wal_level": "logical", "fsync": "off", "max_wal_senders": 2,
    "max_replication_slots": 2, "shared_buffers": "16MB", "timezone": "UTC",
}  # fmt: skip


class Postgres:
    """A server in a folder of its own; `sql` asks it."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.port = free_port()
        self._binaries, self._folder = binaries, folder
        # It refuses to be root.
        self._user = pwd.getpwnam("postgres").pw_uid if os.getuid() == 0 else os.getuid()
        os.chown(folder, self._user, -1)
        subprocess.run(
            [*self._program("initdb"), "-U", "postgres", "-A", "trust", "-N", "--no-locale", "-EUTF8"],
            user=self._user, cwd=folder, check=True, capture_output=True, timeout=60,
        )  # fmt: skip

    def _program(self, name: str) -> list[str]:
        return [str(self._binaries / name), "-D", str(self._folder / "data")]

    def client(self, name: str) -> list[str]:
        """The command of one of PostgreSQL's programs, as its user on this server."""
        return [str(self._binaries / name), "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]

    def start(self) -> None:
        """Returns when it answers, after a crash too."""
        options = {**SETTINGS, "port": self.port, "unix_socket_directories": self._folder}
        given = [text for name, value in options.items() for text in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [*self._program("postgres"), *given],
                user=self._user, cwd=self._folder, stdout=log, stderr=log, preexec_fn=die_with_parent,  # noqa: PLW1509 - no thread runs while servers are started
            )  # fmt: skip
        asked = [*self.client("pg_isready"), "-q"]
        until(
            lambda: self._server.poll() is not None or not subprocess.run(asked, check=False).returncode,
            "PostgreSQL answers",
        )
        assert self._server.poll() is None, (self._folder / "log").read_text()[-2000:]

    def crash(self) -> None:
        """What ``pg_ctl stop -m immediate`` does: all its processes end as they are."""
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait(30)

    def stop(self) -> None:
        self._server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._server.wait(10)
        self._server.kill()
        self._server.wait()

    def sql(self, text: str) -> str:
        """What a text of SQL prints, without headings."""
        done = subprocess.run(
            [*self.client("psql"), "-v", "ON_ERROR_STOP=1", "-qAt", "-c", text, "postgres"],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """Starts one. Raises UnavailableError where there is none."""
    binaries = _binaries()
    folder = Path(tempfile.mkdtemp(prefix="barnabas-postgres-", dir="/tmp"))  # the user must reach it
    try:
        server = Postgres(binaries, folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    if initdb is None:
        raise UnavailableError("no PostgreSQL found (Debian: apt-get install postgresql)")
    return Path(initdb).resolve().parent
