"""A broker of the demo's own:
``barnabas serve`` in a child process, on a free port and a folder of its own.
"""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from barnabas.spark.demo.errors import DemoError

_START_S = 20
_STOP_S = 15


class DemoBroker:
    """The child process; `address` once it is ready."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "broker.log"
        command = [
            sys.executable,
            "-m",
            "barnabas",
            "serve",
            "--port",
            "0",
            "--data",
            str(folder / "broker"),
        ]
        with self._log.open("wb") as errors:
            # A session of its own: Ctrl-C is for the demo, which then ends the broker in order.
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        try:
            self.address = self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def _wait_until_ready(self) -> str:
        assert self._process.stdout is not None
        line = _line_of(self._process.stdout, _START_S)
        match = re.search(r"ready \S*?://(\S+:\d+)", line)
        if match is None:
            raise DemoError(f"the broker did not start: {self._reason() or line or 'it said nothing'}")
        return match.group(1).split(",")[0]

    def _reason(self) -> str:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._process.wait(2)
            lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            return lines[-1].removeprefix("Error: ") if lines else ""
        return ""

    def stop(self) -> None:
        """Ends the process in order, or by force when that takes too long."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __repr__(self) -> str:
        state = "running" if self._process.poll() is None else f"ended {self._process.returncode}"
        return f"<DemoBroker {self.pid} {state}>"


def _line_of(stream: IO[bytes], timeout_s: float) -> str:
    """The first line, or what there is of it when the time is over or the process has ended."""
    deadline = time.monotonic() + timeout_s
    received = b""
    while b"\n" not in received and (left := deadline - time.monotonic()) > 0:
        readable, _, _ = select.select([stream], [], [], left)
        piece = os.read(stream.fileno(), 4096) if readable else b""
        if not piece:
            break
        received += piece
    return received.split(b"\n")[0].decode(errors="replace")
