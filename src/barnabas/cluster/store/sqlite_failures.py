"""Why the embedded store cannot be used, as one line for a person: which file, what is wrong, the way out."""

import errno
import os
import sqlite3
import struct
from pathlib import Path
from typing import Final

from barnabas.cluster.store.contract import StoreUnusableError

_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_LOCKED: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_REFUSED: Final = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_NO_SPACE: Final = {errno.ENOSPC, errno.EDQUOT}
_SPACE_NEEDED_BYTES: Final = 256 * 1024
"""With less than this free, an I/O error of SQLite is taken for a full disk: it does not say which it was."""

FREE_SPACE: Final = "free some space there, then start again what has ended"
RESTORE: Final = (
    "restore it from a backup, or see whether `sqlite3 FILE .recover` still reads it; without it the topics "
    "are not known any more"
)


def unusable(path: Path, error: Exception) -> Exception:
    """The error to raise instead of one of SQLite or the system; what says enough already stays as it is."""
    if isinstance(error, sqlite3.Error):
        return StoreUnusableError(_sqlite_failure(path, error))
    if isinstance(error, OSError):
        return StoreUnusableError(_system_failure(path, error))
    return error


def is_locked(error: sqlite3.Error) -> bool:
    """Whether another connection is in the way; the same may succeed later."""
    return _code(error) in _LOCKED


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _sqlite_failure(path: Path, error: sqlite3.Error) -> str:
    code = _code(error)
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _disk_is_full(path)):
        return _disk_full(path)
    if code in _DAMAGED:
        return damaged(path, str(error))
    if code in _LOCKED:
        return (
            f"the metadata store {path} is locked by another program ({error}): see with `fuser {path}` "
            "which one, and end it"
        )
    if code in _REFUSED:
        return (
            f"the metadata store {path} cannot be opened ({_what_refuses(path, error)}): give this user "
            "access to it"
        )
    return f"the metadata store {path} cannot be used: {error}"


def _system_failure(path: Path, error: OSError) -> str:
    if error.errno in _NO_SPACE:
        return _disk_full(path)
    where = f"{error.filename}: " if error.filename else ""
    reason = os.strerror(errno.ENOTDIR) if isinstance(error, FileExistsError) else error.strerror
    return (
        f"the metadata store {path} cannot be used ({where}{reason}): "
        "see that its directory is one, on a working disk, and that this user may write there"
    )


def _disk_full(path: Path) -> str:
    return f"the disk of the metadata store {path} is full: {FREE_SPACE}"


def damaged(path: Path, what: str) -> str:
    """The line for a store that does not hold what was written into it."""
    return f"the metadata store {path} is damaged ({what}): {RESTORE.replace('FILE', str(path))}"


def _disk_is_full(path: Path) -> bool:
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _SPACE_NEEDED_BYTES


def _what_refuses(path: Path, error: sqlite3.Error) -> str:
    """SQLite says only that it cannot open a file, not which and why."""
    if path.is_dir():
        return "it is a directory"
    for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        if each.exists() and not os.access(each, os.R_OK | os.W_OK):
            return f"{each.name} may not be read and written by this user"
    if not os.access(path.parent, os.R_OK | os.W_OK | os.X_OK):
        return f"{path.parent} may not be written by this user"
    return str(error)


# --------------------------------------------------------------------------------- the write-ahead log

# WAL      => magic INT32, version INT32, page size INT32, sequence INT32, salts 2 x INT32, checksum 2 x
# INT32, frame* frame    => page INT32, pages after commit INT32 (0: no commit), salts 2 x INT32, checksum 2 x
# INT32, page
_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_MAGIC: Final = 0x377F0682
"""The last bit says whether checksums are of big-endian words."""
_LOOKS: Final = 3


def wal_damage(store: Path) -> str | None:
    """What is wrong with the write-ahead log beyond what a kill or a loss of power leaves; None for nothing.

    SQLite stops reading it at the first frame that does not hold, as it must at the end of a write that was
    interrupted, and says nothing of what comes after: transactions that were committed would be lost. With
    ``synchronous=FULL`` a transaction is written only when the one before it is on the disk; so two commits
    behind a bad frame show that the bad frame was good once.
    """
    path = store.with_name(f"{store.name}-wal")
    try:
        damage = _damage(path.read_bytes())
        for _ in range(_LOOKS):
            # Another process may be writing: only what looks the same each time is damage.
            if damage is None or _damage(path.read_bytes()) != damage:
                return None
    except FileNotFoundError:
        return None
    return damage


def _damage(wal: bytes) -> str | None:
    if len(wal) <= _HEADER.size:
        return None
    magic, _, page_bytes, _, *salts, first, second = _HEADER.unpack_from(wal)
    order = ">" if magic & 1 else "<"
    if magic & ~1 != _MAGIC or _checksum(order, wal[:24], (0, 0)) != (first, second):
        return "the header of its write-ahead log does not hold"
    checksum = (first, second)
    frame_bytes = _FRAME.size + page_bytes
    commits = good = 0
    whole = True
    for at in range(_HEADER.size, len(wal) - frame_bytes + 1, frame_bytes):
        _, commit, salt_1, salt_2, first, second = _FRAME.unpack_from(wal, at)
        if [salt_1, salt_2] != salts:
            whole = False  # of an older round, or torn
            continue
        if whole:
            checksum = _checksum(order, wal[at : at + 8] + wal[at + _FRAME.size : at + frame_bytes], checksum)
            whole = checksum == (first, second)
        good += whole
        commits += not whole and commit != 0
    if commits < 2:
        return None
    return f"{commits} transactions of its write-ahead log come after frame {good}, which does not hold"


def _checksum(order: str, data: bytes, start: tuple[int, int]) -> tuple[int, int]:
    """SQLite's checksum of whole pairs of 32-bit words."""
    one, two = start
    for x, y in struct.iter_unpack(f"{order}2I", data):
        one = (one + x + two) & 0xFFFFFFFF
        two = (two + y + one) & 0xFFFFFFFF
    return one, two
