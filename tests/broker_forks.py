"""Brokers of the tests begin as forks of one process that has imported what a broker needs.

Theory of operation
-------------------
A broker that starts as a program of its own spends 0.4 s of processor time on the imports of 530 modules, as
often as tests start one. So each process that runs tests has a *forker*: this file, run as a program, which
imports them once and then forks a broker a request. The child goes on as ``barnabas serve`` would: the same
entry point, arguments, environment and folder, the pipe and the log file that the test has made.

Requests and answers are messages on a pair of sockets. The children are the forker's, so it is the one that
asks the system for their exit codes; until then nobody else gets their pid. Whatever ends the test process
ends the forker, and that the brokers.

What the environment says to Python itself, or to the loader of libraries, is read when a program starts:
where that is not what the forker began with, `start` begins a program (`subprocess.Popen`), as it does
without Linux.
"""

import atexit
import ctypes
import gc
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from functools import cache, partial
from typing import IO

_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_MESSAGE_BYTES_MAX = 1 << 18
_DESCRIPTORS_MAX = 4096
_FILES = resource.RLIMIT_NOFILE


def die_with_parent() -> None:
    """Runs in a child before exec: whatever ends the tests (kill -9 too) ends their servers."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start(arguments: list[str], log: IO[bytes], descriptors: int | None = None) -> "subprocess.Popen | Fork":
    """``barnabas`` with these arguments; its standard output is a pipe, its errors go to `log`.
    `descriptors` is the limit, soft and hard, under which it starts.
    """
    if sys.platform == "linux" and _forker().was_started_alike():
        return Fork(_forker(), arguments, log, descriptors)
    return subprocess.Popen(
        [sys.executable, "-m", "barnabas", *arguments],
        stdout=subprocess.PIPE,
        stderr=log,
        preexec_fn=partial(_before, descriptors),  # noqa: PLW1509 - it makes system calls only
    )


def _before(descriptors: int | None) -> None:
    die_with_parent()
    if descriptors is not None:
        resource.setrlimit(_FILES, (descriptors, descriptors))


# --- the side of the tests


class Fork:
    """A broker as `subprocess.Popen` would show it."""

    def __init__(
        self, forker: "_Forker", arguments: list[str], log: IO[bytes], descriptors: int | None
    ) -> None:
        ours, its = os.pipe()
        how = {
            "arguments": arguments,
            "environment": dict(os.environ),
            "folder": os.getcwd(),  # noqa: PTH109 - what a program would inherit
            # Those of this process at this moment, which a program would inherit.
            "limits": (descriptors, descriptors) if descriptors else resource.getrlimit(_FILES),
        }
        self._forker = forker
        self.args = arguments
        self.pid = forker.ask(how, [its, log.fileno()])
        os.close(its)
        self.stdout = os.fdopen(ours, "rb")
        self.returncode: int | None = None
        self._ended = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        """The exit code, minus the number of the signal that ended it, or None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises TimeoutExpired."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _look(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._ended], [], [], seconds)[0]:
            os.close(self._ended)
            self.returncode = self._forker.ask({"ended": self.pid})
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Harmless once it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class _Forker:
    """The forker of this process, as it is asked."""

    def __init__(self) -> None:
        self._environment = _read_at_start()
        self._one_at_a_time = threading.Lock()
        self._asked, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(its.fileno())],
                pass_fds=[its.fileno()],
                stdout=subprocess.DEVNULL,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it makes system calls only
            )
        atexit.register(self._close)

    def was_started_alike(self) -> bool:
        """Whether a program that began now would read what the forker has read."""
        return _read_at_start() == self._environment

    def ask(self, request: dict, descriptors: list[int] | None = None) -> int:
        """Raises AssertionError when the forker has ended."""
        with self._one_at_a_time:
            socket.send_fds(self._asked, [json.dumps(request).encode()], descriptors or [])
            answer = self._asked.recv(_MESSAGE_BYTES_MAX)
        assert answer, f"what forks the brokers of the tests ended with {self._process.wait()}"
        return int(answer)

    def _close(self) -> None:
        self._asked.close()
        self._process.wait()


@cache
def _forker() -> _Forker:
    return _Forker()


def _read_at_start() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key.startswith(("PYTHON", "LD_"))}


# --- the forker


def _serve(asked: socket.socket) -> None:
    """Forks a child a request. Returns in the children, each with `sys.argv` as a program would have it."""
    while True:
        data, descriptors, *_ = socket.recv_fds(asked, _MESSAGE_BYTES_MAX, 2)
        if not data:
            sys.exit()
        request = json.loads(data)
        if "ended" in request:
            _, status = os.waitpid(request["ended"], 0)
            answer = os.waitstatus_to_exitcode(status)
        elif not (answer := os.fork()):
            _be_child(request, *descriptors)
            return
        for each in descriptors:
            os.close(each)
        asked.send(str(answer).encode())


def _be_child(request: dict, out: int, err: int) -> None:
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.closerange(3, _DESCRIPTORS_MAX)
    die_with_parent()
    resource.setrlimit(_FILES, request["limits"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = ["barnabas", *request["arguments"]]


def _run() -> None:
    asked = socket.socket(fileno=int(sys.argv[1]))
    from barnabas.cli import main, secure_start  # noqa: F401 - for the children
    from barnabas.cli.commands import serve  # noqa: F401
    from barnabas.network import event_loop  # noqa: F401
    from barnabas.node import broker_node, service_manager  # noqa: F401
    from barnabas.node.machine import broker_processes  # noqa: F401

    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest, which ends this process
    _serve(asked)
    asked.detach()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main.main()


if __name__ == "__main__":
    _run()
