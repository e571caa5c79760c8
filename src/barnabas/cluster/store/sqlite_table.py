"""The tables of a SQLite metadata store: znodes, sessions, and what changed lately.

Plain statements on one connection; threads, sockets and retries are `barnabas.cluster.store.sqlite`'s. The
table ``change`` is how the other processes learn what a commit changed: each remembers the number of the last
row that it has seen.
"""

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.cluster.store import tree
from barnabas.cluster.store.contract import Change, Stat, StoreUnusableError, WatchEvent
from barnabas.cluster.store.sqlite_failures import damaged, wal_damage
from barnabas.cluster.store.tree import Znode

SCHEMA_VERSION: Final = 1
SESSIONS_CHANGED: Final = "sessions"
"""The kind of a change row that is no znode's: a session began or ended."""

_SCHEMA: Final = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS znode(
    path TEXT PRIMARY KEY, parent TEXT NOT NULL, name TEXT NOT NULL, data BLOB,
    czxid INTEGER NOT NULL, mzxid INTEGER NOT NULL,
    created_ms INTEGER NOT NULL, modified_ms INTEGER NOT NULL,
    version INTEGER NOT NULL, owner INTEGER NOT NULL, children_made INTEGER NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS znode_parent ON znode(parent, name);
CREATE INDEX IF NOT EXISTS znode_owner ON znode(owner) WHERE owner != 0;
CREATE TABLE IF NOT EXISTS counter(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO counter VALUES ('zxid', 0), ('session', 0);
CREATE TABLE IF NOT EXISTS session(
    id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, heartbeat_ms INTEGER NOT NULL, timeout_ms INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS change(
    number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, path TEXT NOT NULL, at_ms INTEGER NOT NULL
);
INSERT OR IGNORE INTO znode VALUES ('/', '', '', x'', 0, 0, 0, 0, 0, 0, 0);
PRAGMA user_version = 1;
COMMIT;
"""

_COLUMNS: Final = "path, data, czxid, mzxid, created_ms, modified_ms, version, owner, children_made"


class UnknownSchemaError(StoreUnusableError):
    """The file belongs to another version of this program, or is no metadata store."""


class SessionRow(NamedTuple):
    """A session that began and was not ended; times on the clock that all processes of a machine share."""

    id: int
    pid: int
    heartbeat_ms: int
    timeout_ms: int


class Database:
    """A connection to the file; implements `barnabas.cluster.store.tree.ZnodeTable`."""

    def __init__(self, path: Path, synchronous: str) -> None:
        """Opens the file, made if it is missing; raises StoreUnusableError, sqlite3.Error, OSError."""
        fresh = _make(path)
        # Before SQLite looks at it: it would pass over what does not hold, and lose what comes after.
        damage = wal_damage(path) if synchronous == "FULL" and not fresh else None
        if damage is not None:
            raise StoreUnusableError(damaged(path, damage))
        # Transactions are said explicitly, and waiting for locks is the caller's business.
        self._connection = sqlite3.connect(path, timeout=0, isolation_level=None)
        self._path = path
        try:
            self._open(path, synchronous)
            self._inode = path.stat().st_ino
        except BaseException:
            self._connection.close()
            raise

    @classmethod
    def read_only(cls, path: Path) -> "Database":
        """A connection that begins no session and changes no znode, whether brokers use the file or not.

        Raises UnknownSchemaError, sqlite3.Error; no file is made.
        """
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version != SCHEMA_VERSION:
                raise UnknownSchemaError(
                    f"the file {path} is not a metadata store with schema {SCHEMA_VERSION}, which this "
                    "version reads"
                )
        except BaseException:
            connection.close()
            raise
        self = cls.__new__(cls)
        self._connection = connection
        self._path = path
        return self

    def _open(self, path: Path, synchronous: str) -> None:
        execute = self._connection.execute
        execute("PRAGMA busy_timeout = 5000")
        execute("BEGIN")  # another process may be making the tables
        (version,) = execute("PRAGMA user_version").fetchone()
        (tables,) = execute("SELECT count(*) FROM sqlite_master").fetchone()
        execute("COMMIT")
        if version not in (0, SCHEMA_VERSION):
            raise UnknownSchemaError(
                f"the metadata store {path} has schema {version}; this version reads {SCHEMA_VERSION}: "
                "start the version of barnabas that wrote it"
            )
        if version == 0 and tables:
            raise UnknownSchemaError(
                f"the file {path} is a database of another program, not a metadata store: name another file"
            )
        if version:
            (found,) = execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise StoreUnusableError(damaged(path, found.replace("\n", " ")))
        execute("PRAGMA journal_mode = WAL")
        execute(f"PRAGMA synchronous = {synchronous}")
        if version == 0:
            self._connection.executescript(_SCHEMA)
        execute("PRAGMA busy_timeout = 0")

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    # ----------------------------------------------------------------------------------- transactions

    def begin(self, *, write: bool) -> None:
        """Begins a transaction; raises sqlite3.OperationalError while another process writes.

        Raises FileNotFoundError for a write when the file is no longer at its path. SQLite would write into
        the removed file, and what was acknowledged would be lost with the process.
        """
        if write and not self._is_in_place():
            raise FileNotFoundError(
                errno.ENOENT,
                "removed or replaced while it was open; what it says of topics is lost when this broker "
                "stops, so note it down first",
                str(self._path),
            )
        self._connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")

    def _is_in_place(self) -> bool:
        try:
            return self._path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def commit(self) -> None:
        """Makes the transaction durable."""
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Undoes the transaction, if there is one."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def drop_refused(self) -> None:
        """Takes out of the write-ahead log what a failed commit left there; outside transactions.

        Where the disk took a transaction but refused to sync it, SQLite does not show it; yet a start after a
        kill would read it, and bring back what was refused and seen not to be there. Raises
        sqlite3.OperationalError while another process is in the way.
        """
        (busy, _, _) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            error = sqlite3.OperationalError("another process uses the write-ahead log")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error

    @contextmanager
    def part(self) -> Iterator[None]:
        """A part of the transaction that is undone alone when it fails."""
        self._connection.execute("SAVEPOINT part")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK TO part")
            self._connection.execute("RELEASE part")
            raise
        self._connection.execute("RELEASE part")

    def next_number(self, counter: str) -> int:
        """Counts one on."""
        statement = "UPDATE counter SET value = value + 1 WHERE name = ? RETURNING value"
        ((value,),) = self._connection.execute(statement, (counter,)).fetchall()
        return int(value)

    # ----------------------------------------------------------------------------------------- znodes

    def find(self, path: str) -> Znode | None:
        """The znode of a path."""
        # The columns are a constant.
        found = self._connection.execute(f"SELECT {_COLUMNS} FROM znode WHERE path = ?", (path,))  # noqa: S608
        row = found.fetchone()
        return Znode(row[0], row[1], Stat(*row[2:8]), row[8]) if row else None

    def put(self, znode: Znode) -> None:
        """Adds or replaces a znode."""
        is_root = znode.path == tree.ROOT
        parent, name = ("", "") if is_root else (tree.parent_of(znode.path), tree.name_of(znode.path))
        self._connection.execute(
            "INSERT OR REPLACE INTO znode VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (znode.path, parent, name, znode.data, *znode.stat, znode.children_made),
        )

    def remove(self, path: str) -> None:
        """Takes a znode out."""
        self._connection.execute("DELETE FROM znode WHERE path = ?", (path,))

    def children(self, path: str) -> list[str]:
        """The names below a path, sorted."""
        rows = self._connection.execute("SELECT name FROM znode WHERE parent = ? ORDER BY name", (path,))
        return [name for (name,) in rows]

    def owned_by(self, session_id: int) -> list[str]:
        """The paths of a session's ephemeral znodes."""
        statement = "SELECT path FROM znode WHERE owner = ? AND owner != 0 ORDER BY path"
        return [path for (path,) in self._connection.execute(statement, (session_id,))]

    # -------------------------------------------------------------------------------- sessions, changes

    def sessions(self) -> list[SessionRow]:
        """All sessions that were not ended."""
        return [SessionRow(*row) for row in self._connection.execute("SELECT * FROM session ORDER BY id")]

    def has_session(self, session_id: int) -> bool:
        """Whether a session was not ended."""
        found = self._connection.execute("SELECT 1 FROM session WHERE id = ?", (session_id,)).fetchone()
        return found is not None

    def put_session(self, session: SessionRow) -> None:
        """Adds a session, or its heartbeat."""
        self._connection.execute("INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?)", session)

    def remove_session(self, session_id: int) -> None:
        """Takes a session out."""
        self._connection.execute("DELETE FROM session WHERE id = ?", (session_id,))

    def add_changes(self, changes: Iterable[WatchEvent], at_ms: int) -> None:
        """Writes down what the transaction changes."""
        self._connection.executemany(
            "INSERT INTO change(kind, path, at_ms) VALUES (?, ?, ?)",
            [(event.change.value, event.path, at_ms) for event in changes],
        )

    def add_session_change(self, at_ms: int) -> None:
        """Writes down that a session begins or ends."""
        self._connection.execute(
            "INSERT INTO change(kind, path, at_ms) VALUES (?, '', ?)", (SESSIONS_CHANGED, at_ms)
        )

    def last_change(self) -> int:
        """The number of the last change; 0 before the first."""
        (number,) = self._connection.execute("SELECT max(number) FROM change").fetchone()
        return int(number or 0)

    def changes_after(self, number: int) -> tuple[list[WatchEvent], bool, int]:
        """The changes of znodes after a number, whether sessions changed, and the number of the last."""
        rows = self._connection.execute(
            "SELECT number, kind, path FROM change WHERE number > ? ORDER BY number", (number,)
        ).fetchall()
        events = [WatchEvent(Change(kind), path) for _, kind, path in rows if kind != SESSIONS_CHANGED]
        return events, len(events) < len(rows), rows[-1][0] if rows else number

    def forget_changes(self, before_ms: int) -> None:
        """Drops changes that every session has seen."""
        last = "SELECT max(number) FROM change"
        self._connection.execute(f"DELETE FROM change WHERE at_ms < ? AND number < ({last})", (before_ms,))  # noqa: S608


def _make(path: Path) -> bool:
    """Makes the file if it is missing, for its owner and group at most; SQLite would let every user read it.

    Whether it was missing. A file that exists must not be opened here: closing it again would drop the locks
    that another connection of this process has on it.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o660))
    except FileExistsError:
        return False
    return True
