"""What a `SqliteStore`'s thread works with: a session inside a transaction, and the files that say it lives."""

import fcntl
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from barnabas.cluster import tree
from barnabas.cluster.sqlite_table import Database
from barnabas.cluster.store import (
    NoNodeError,
    Operation,
    Stat,
    Watch,
    WatchEvent,
)
from barnabas.cluster.tree import Transaction, Znode
from barnabas.cluster.watches import Fired, WatchTable


class SessionFiles:
    """The lock file and the socket of each session, in one directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        # A unix socket's path may have 107 bytes; through the descriptor it has few, wherever the data is.
        self._descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.setblocking(False)

    def claim(self, session_id: int) -> tuple[int, socket.socket]:
        """The held lock (a descriptor) and the bound socket of an own session."""
        lock = os.open(self._lock_path(session_id), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.setblocking(False)
        receiver.bind(self._socket_name(session_id))
        return lock, receiver

    def is_dead(self, session_id: int) -> bool:
        """Whether no process holds the session's lock."""
        try:
            lock = os.open(self._lock_path(session_id), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(lock)
        return True

    def wake(self, session_id: int) -> None:
        """Sends a session one datagram; where that cannot be, it will look by itself at its heartbeat."""
        with suppress(OSError):
            self._sender.sendto(b"!", self._socket_name(session_id))

    def remove(self, session_id: int) -> None:
        """Removes what an ended session left."""
        self._lock_path(session_id).unlink(missing_ok=True)
        (self._directory / f"{session_id}.sock").unlink(missing_ok=True)

    def close(self) -> None:
        """Closes what it holds open."""
        self._sender.close()
        os.close(self._descriptor)

    def _lock_path(self, session_id: int) -> Path:
        return self._directory / f"{session_id}.lock"

    def _socket_name(self, session_id: int) -> str:
        return f"/proc/self/fd/{self._descriptor}/{session_id}.sock"


class Session:
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
        """Tells this session's watches, and writes down for the other sessions what changed."""
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
