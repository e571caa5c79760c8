"""Who is whose child, by /proc:
what Spark starts is found by its place below a process of ours, and killed by its id.
"""

import os
import signal
from pathlib import Path

EXECUTOR = "CoarseGrainedExecutorBackend"
DAEMON = "-m barnabas.spark.daemon"
"""In the command line of the process that workers are forked from, and of the workers."""
JVM = "org.apache.spark.deploy.SparkSubmit"
"""In that of a driver's."""


def _parents():
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if words[0] != "Z":
                found[int(folder.name)] = int(words[1])
    return found


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def parent_of(pid):
    return _parents()[pid]


def below(pid, word):
    """The processes below this one whose command line has the word."""
    parents, found = _parents(), []
    for child in parents:
        above = child
        while above in parents and above != pid:
            above = parents[above]
        if above == pid and child != pid and word in command_of(child):
            found.append(child)
    return found


def above(pid, word):
    """The nearest process above this one whose command line has the word."""
    while pid > 1:
        if word in command_of(pid):
            return pid
        pid = parent_of(pid)
    raise AssertionError(f"no {word} above")


def kill(pids):
    assert pids, "there is nothing to kill"
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
