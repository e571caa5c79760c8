"""`ForkedProcess`: a child that begins with all that its parent has in memory, and pipes for what it says.

Theory of operation
-------------------
A broker that starts as a program of its own imports 530 modules first, which is most of the work of its
start. A child of a parent that has them goes on at once, and shares their memory until one of the two writes
to it (docs/decisions/0087).

A fork copies more than a child may use, so the child, before anything else,

- closes every descriptor but the standard three: the parent's pipes, and what its event loop waits with;
- gives the signals that the parent handles their defaults. They are blocked around the fork: the parent's
  handler in the child would tell the parent's loop of a signal that was not for it;
- has no logging handlers, and streams of its own on the pipes;
- is a session of its own: Ctrl-C at a terminal is for the parent.

It never returns into the parent's code, whose objects so stay as they are. The parent must have one thread:
what others have locked would stay locked in the child.
"""

import asyncio
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NoReturn, TextIO

_DESCRIPTORS_MAX: Final = 4096
"""More than the parent of 256 brokers has open."""
_HANDLED: Final = (signal.SIGTERM, signal.SIGINT)
_CODE_UNKNOWN: Final = 255
_LOOK_S: Final = 0.01
_COMM: Final = Path("/proc/self/comm")


class ForkedProcess:
    """A child, as its parent sees it."""

    def __init__(
        self, pid: int, stdout: asyncio.StreamReader, stderr: asyncio.StreamReader, pipes: ExitStack
    ) -> None:
        """`pipes` closes the ends from which the readers have what it says."""
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self._pipes = pipes
        self._code: int | None = None

    @property
    def returncode(self) -> int | None:
        """Its exit code, minus the number of the signal that ended it, or None while it runs."""
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # whoever started the parent has it ignore the end of children
                self._code = _CODE_UNKNOWN
            else:
                self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def send_signal(self, number: int) -> None:
        """Harmless once it has ended: until `returncode` says so, nobody else gets its pid."""
        if self.returncode is None:
            os.kill(self.pid, number)

    async def wait(self) -> int:
        """Returns its exit code when it has ended."""
        while (code := self.returncode) is None:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(_LOOK_S)
        return code

    def close(self) -> None:
        """Hears no more of it: a child of its own may hold the other ends open. Harmless when repeated."""
        self._pipes.close()

    def __repr__(self) -> str:
        return f"<ForkedProcess {self.pid} {'runs' if self._code is None else f'code={self._code}'}>"


async def fork(name: str, run: Callable[[], object], *, line_bytes_max: int = 1 << 16) -> ForkedProcess:
    """Starts a child that calls `run` and ends with its SystemExit, or with 0, or with 1 and a traceback.

    `name` is what ``ps -e`` and ``top`` show of it, cut at 15 bytes, on Linux. Raises OSError.
    """
    loop = asyncio.get_running_loop()
    forked: asyncio.Future[int] = loop.create_future()
    with ExitStack() as ours, ExitStack() as its:
        # All that may fail for want of descriptors does so before there is a child, and leaves none open.
        stdout, its_out = await _pipe(ours, its, line_bytes_max)
        stderr, its_err = await _pipe(ours, its, line_bytes_max)

        def begin() -> None:
            if forked.cancelled():
                return
            try:
                pid = _fork(name, run, its_out, its_err)
            except OSError as error:
                forked.set_exception(error)
            else:
                forked.set_result(pid)

        # Not from a task: the child would be inside of it, and could have no task of its own (Python 3.14).
        loop.call_soon(begin)
        pid = await forked
        return ForkedProcess(pid, stdout, stderr, ours.pop_all())


async def _pipe(ours: ExitStack, its: ExitStack, line_bytes_max: int) -> tuple[asyncio.StreamReader, int]:
    """The reader of a new pipe and its other end, with what closes each of them. Raises OSError."""
    our_end, its_end = os.pipe()
    its.callback(os.close, its_end)
    reader, pipe = asyncio.StreamReader(limit=line_bytes_max), os.fdopen(our_end, "rb", 0)
    ours.callback(pipe.close)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    ours.callback(transport.close)
    return reader, its_end


def _fork(name: str, run: Callable[[], object], out: int, err: int) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    try:
        pid = os.fork()
        if pid == 0:
            _be_child(name, run, out, err, before)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _be_child(
    name: str, run: Callable[[], object], out: int, err: int, signals: set[signal.Signals | int]
) -> NoReturn:
    code = 1
    try:
        os.setsid()
        os.dup2(out, 1)
        os.dup2(err, 2)
        # Before anything is opened: the parent's descriptors may be all that a process may have.
        os.closerange(3, _DESCRIPTORS_MAX)
        os.dup2(nothing := os.open(os.devnull, os.O_RDONLY), 0)
        os.close(nothing)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        sys.stdout = _text(1)
        sys.stderr = _text(2)
        logging.getLogger().handlers.clear()
        with suppress(OSError):
            _COMM.write_text(name, encoding="utf-8")
        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
        # Not sys.exit: the frames below are the parent's.
        os._exit(code)


def _text(descriptor: int) -> TextIO:
    return open(descriptor, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
