"""What a `SqliteStore`'s thread works with:
a session inside a transaction, and the files that say it lives.
"""

import errno
import fcntl
import hashlib
import os
import socket
import time
from collections.abc import Callable, Container, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from barnabas.cluster.store import tree
from barnabas.cluster.store.contract import (
    NoNodeError,
    Operation,
    Stat,
    Watch,
    WatchEvent,
)
from barnabas.cluster.store.sqlite_table import Database
from barnabas.cluster.store.tree import Transaction, Znode
from barnabas.cluster.store.watches import Fired, WatchTable

_DESCRIPTORS: Final = Path("/proc/self/fd")
_FOLDER_BYTES_MAX: Final = 70
"""Of a unix socket's path: macOS takes 103 bytes, and the longest name here has 25."""


class Claim(NamedTuple):
    """What shows that a session lives: its lock, held by this process, and the socket that wakes it."""

    session_id: int
    lock: int
    receiver: socket.socket


class SessionFiles:
    """The lock file and the socket of each session, in one directory.

    `claim`, `is_dead` and `sweep` belong inside a write transaction of the store: so no two processes do them
    at once.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o770, parents=True, exist_ok=True)
        self._directory = directory
        # A unix socket's path may have 107 bytes; through the descriptor it has few, wherever the data is.
        has_descriptors = _DESCRIPTORS.exists()
        self._sockets = directory if has_descriptors else _short(directory)
        self._descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._socket_names = _DESCRIPTORS / str(self._descriptor) if has_descriptors else self._sockets
        try:
            self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        except OSError:
            os.close(self._descriptor)
            raise
        self._sender.setblocking(False)

    def claim(self, session_id: int) -> Claim | None:
        """Takes the lock of a new session and binds its socket; None when another process holds that lock.

        Raises OSError; then, as with None, nothing is held.
        """
        with ExitStack() as undo:
            lock = os.open(self._path(session_id, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o660)
            undo.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            if not self._is_in_place(lock, session_id):
                return None
            undo.callback(self.remove, session_id)
            # A process that was killed here may have left its socket. The lock is ours, so no process uses
            # it.
            self._path(session_id, "sock").unlink(missing_ok=True)
            receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            undo.callback(receiver.close)
            receiver.setblocking(False)
            receiver.bind(self._socket_name(session_id))
            undo.pop_all()
        return Claim(session_id, lock, receiver)

    def release(self, claim: Claim) -> None:
        """Gives a claim up. The files go while the lock is held: no other process can have claimed them."""
        self.remove(claim.session_id)
        claim.receiver.close()
        os.close(claim.lock)

    def is_dead(self, session_id: int) -> bool:
        """Whether no process holds the session's lock. Where that cannot be seen it counts as alive."""
        try:
            lock = os.open(self._path(session_id, "lock"), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        except OSError:
            return False  # no descriptor left, no access: its heartbeats will settle it
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(lock)
        return True

    def wake(self, session_id: int) -> None:
        """Sends a session one datagram; where that cannot be, it will look by itself at its heartbeat."""
        with suppress(OSError):
            self._sender.sendto(b"!", self._socket_name(session_id))

    def remove(self, session_id: int) -> None:
        """Removes what a session left; what cannot be removed now is swept later."""
        for kind in ("sock", "lock"):
            with suppress(OSError):
                self._path(session_id, kind).unlink()

    def sweep(self, counted: Container[int]) -> None:
        """Removes the files of all sessions but these: a process was killed before it could."""
        for name in os.listdir(self._directory):  # noqa: PTH208
            number, _, kind = name.partition(".")
            if kind in ("lock", "sock") and number.isdecimal() and int(number) not in counted:
                self.remove(int(number))

    def close(self) -> None:
        """Closes what it holds open."""
        self._sender.close()
        os.close(self._descriptor)

    def _is_in_place(self, lock: int, session_id: int) -> bool:
        """Whether the locked file still has its name:
        its last owner may have removed it while we opened it.
        """
        try:
            named = self._path(session_id, "lock").stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(lock))

    def _path(self, session_id: int, kind: str) -> Path:
        return (self._sockets if kind == "sock" else self._directory) / f"{session_id}.{kind}"

    def _socket_name(self, session_id: int) -> str:
        return f"{self._socket_names}/{session_id}.sock"


def _short(directory: Path) -> Path:
    """Where the sockets are on macOS, which has no path through a descriptor: in the directory, or where its
    path is too long for a socket's in one with a short path that belongs to it.
    """
    if len(bytes(directory.resolve())) <= _FOLDER_BYTES_MAX:
        return directory
    name = hashlib.sha256(bytes(directory.resolve())).hexdigest()[:16]
    short = Path("/tmp") / f"barnabas-{os.getuid()}-{name}"  # noqa: S108 - its mode keeps others out
    short.mkdir(mode=0o700, exist_ok=True)
    if short.stat().st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "belongs to another user", str(short))
    return short


class SessionTransaction:
    """What a call sees while the worker runs it: the open transaction of one session."""

    def __init__(self, database: Database, session_id: int, watches: WatchTable) -> None:
        self.database = database
        self.id = session_id
        self.watches = watches
        self.taken: list[Fired] = []
        """Watches that this transaction fires."""
        self._told = 0
        self.changed = False

    def write(self, operations: Sequence[Operation]) -> list[Any]:
        """Carries out one transaction of the store."""
        with self.database.part():
            transaction = Transaction(self.database.next_number("zxid"), self.id, int(time.time() * 1000))
            results, changes = tree.apply(self.database, operations, transaction)
            self.record(changes)
        return results

    def record(self, changes: list[WatchEvent]) -> None:
        """Fires this session's watches, and writes down for the other sessions what changed."""
        self.database.add_changes(changes, shared_clock_ms())
        self.fire(changes)
        self.changed = True

    def fire(self, changes: list[WatchEvent]) -> None:
        """Takes the watches that changes fire, by whomever these were made."""
        self.taken += self.watches.take(changes)

    def firing(self) -> list[Callable[[], object]]:
        """Calls of the watches taken since the last time that this was asked."""
        new, self._told = self.taken[self._told :], len(self.taken)
        return [partial(each.watch, each.event) for each in new]

    def get(self, path: str, watch: Watch | None) -> tuple[bytes | None, Stat]:
        """Data and stat of a znode."""
        znode = self._find(path)
        if watch:
            self.watches.on_node(path, watch)
        return znode.data, znode.stat

    def exists(self, path: str, watch: Watch | None) -> Stat | None:
        """The stat of a znode, or None."""
        znode = self.database.find(path)
        if watch:
            self.watches.on_node(path, watch)
        return znode.stat if znode else None

    def children(self, path: str, watch: Watch | None) -> list[str]:
        """The names below a znode."""
        self._find(path)
        if watch:
            self.watches.on_children(path, watch)
        return self.database.children(path)

    def _find(self, path: str) -> Znode:
        znode = self.database.find(path)
        if znode is None:
            raise NoNodeError(path)
        return znode


def shared_clock_ms() -> int:
    """Milliseconds on the clock that all processes of the machine share, and that never jumps."""
    return int(time.monotonic() * 1000)
