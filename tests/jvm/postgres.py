"""A PostgreSQL of this machine, for one test: a cluster of its own in a folder that is removed.

It runs as the system's user `postgres` where the tests run as root, which it refuses to be.
"""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kafka_harness import UnavailableError

from serving import die_with_parent, free_port

SETTINGS = {
    "listen_addresses": "127.0.0.1", "wal_level": "logical", "fsync": "off", "max_wal_senders": 2,
    "max_replication_slots": 2, "shared_buffers": "16MB", "timezone": "UTC",
}  # fmt: skip


class Postgres:
    """A server that runs; `sql` asks it."""

    def __init__(self, binaries: Path, port: int) -> None:
        self._binaries, self.port = binaries, port

    def sql(self, text: str) -> str:
        """What a text of SQL prints, without headings."""
        command = [str(self._binaries / "psql"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        done = subprocess.run(
            [*command, "-v", "ON_ERROR_STOP=1", "-qAt", "-c", text, "postgres"],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """Starts one. Raises UnavailableError where there is none."""
    binaries = _binaries()
    user = pwd.getpwnam("postgres").pw_uid if os.getuid() == 0 else os.getuid()
    folder = Path(tempfile.mkdtemp(prefix="barnabas-postgres-", dir="/tmp"))  # the user must reach it
    try:
        os.chown(folder, user, -1)
        data, port = folder / "data", free_port()
        subprocess.run(
            [binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N", "--no-locale", "-EUTF8"],
            user=user, cwd=folder, check=True, capture_output=True, timeout=60,
        )  # fmt: skip
        options = {**SETTINGS, "port": port, "unix_socket_directories": folder}
        given = [text for name, value in options.items() for text in ("-c", f"{name}={value}")]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [binaries / "postgres", "-D", data, *given],
                user=user, cwd=folder, stdout=log, stderr=log, preexec_fn=die_with_parent,  # noqa: PLW1509 - no thread runs while servers are started
            )  # fmt: skip
        try:
            _wait(binaries, port, server)
            yield Postgres(binaries, port)
        finally:
            server.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(10)
            server.kill()
            server.wait()
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


def _wait(binaries: Path, port: int, server: "subprocess.Popen[bytes]") -> None:
    command = [binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port), "-t", "1"]
    for _ in range(60):
        if subprocess.run(command, check=False).returncode == 0:
            return
        if server.poll() is not None:
            break
    raise RuntimeError("PostgreSQL does not answer")
