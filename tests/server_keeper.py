"""Keeps a server: kills it (kill -9) when it is told so, and starts it again.

server_keeper.py COMMAND...: a line of its input has how many seconds it waits until it kills the server, and
how many until it starts it again; it answers each with a line when the server is dead. It is a process of its
own: what holds Python's lock while it waits for the server would wait for the start as well.
"""

import subprocess
import sys
import time

from serving import die_with_parent


def start(command):
    return subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - it makes system calls only
    )


def keep(command):
    die_with_parent()
    server = start(command)
    for line in sys.stdin:
        until_it_dies, until_it_lives = map(float, line.split())
        time.sleep(until_it_dies)
        server.kill()
        server.wait()
        sys.stdout.write("dead\n")
        sys.stdout.flush()
        time.sleep(until_it_lives)
        server = start(command)
    server.kill()
    server.wait()


class KeptServer:
    """The other side: a server that can be killed, and comes back by itself."""

    def __init__(self, *command):
        self._keeper = subprocess.Popen(
            [sys.executable, __file__, *map(str, command)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._deaths = 0

    def kill(self, after_s=0.0, down_s=0.3):
        """In a moment, and for a moment."""
        self._keeper.stdin.write(f"{after_s} {down_s}\n")
        self._keeper.stdin.flush()
        self._deaths += 1

    def wait_until_dead(self):
        """For all deaths so far."""
        while self._deaths:
            assert self._keeper.stdout.readline() == "dead\n"
            self._deaths -= 1

    def stop(self):
        self._keeper.communicate()


if __name__ == "__main__":
    keep(sys.argv[1:])
