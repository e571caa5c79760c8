"""`MachineParent`: the brokers of a machine under their parent, as a user starts them."""

import re
import select
import signal
import subprocess
import sys
from pathlib import Path

from serving import READY_SECONDS, STOP_SECONDS, die_with_parent


class MachineParent:
    """The parent of several brokers, as a user starts it."""

    def __init__(self, data, *options):
        command = [sys.executable, "-m", "barnabas", "serve", "--data", str(data), *options]
        self.errors = Path(f"{data}.log")
        self._stderr = self.errors.open("ab")
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - it makes one system call
        )

    def wait_until_ready(self):
        ready, _, _ = select.select([self.process.stdout], [], [], READY_SECONDS)
        self.ready_line = self.process.stdout.readline().decode() if ready else ""
        assert self.ready_line.startswith("ready "), self.errors.read_text()
        self.addresses = re.findall(r"127\.0\.0\.1:\d+", self.ready_line.split()[1])
        return self

    @property
    def bootstrap(self):
        return ",".join(self.addresses)

    def children(self):
        """The brokers' processes, by their ids."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(") ")
                except OSError:
                    continue
                state, parent, *_ = rest.split()
                # Between the fork and its name it has that of its parent.
                if state != "Z" and int(parent) == self.process.pid and name.startswith("barnabas-"):
                    found[int(name.removeprefix("barnabas-"))] = int(entry.name)
        return found

    def end(self, number=signal.SIGTERM):
        """The exit code; harmless when it has ended."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(STOP_SECONDS * 3)
        self.process.stdout.close()
        self._stderr.close()
        return code
