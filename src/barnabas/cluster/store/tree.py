"""The rules of the znode tree, over any table that can hold znodes.

`apply` carries out the operations of one transaction against a `ZnodeTable`; both stores use it, so they
cannot differ in what a version, a sequence or an ephemeral znode means. It does not undo: the table's owner
rolls back when an operation fails. It knows neither sessions' lives nor watches: it returns the changes, and
`barnabas.cluster.store.watches` has the watches that wait for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from barnabas.cluster.store.contract import (
    ANY_VERSION,
    BadVersionError,
    Change,
    Check,
    Create,
    Delete,
    EphemeralParentError,
    InvalidPathError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    SetData,
    Stat,
    StoreError,
    WatchEvent,
)

ROOT: Final = "/"


@dataclass(frozen=True, slots=True)
class Znode:
    """A znode as a table keeps it."""

    path: str
    data: bytes | None
    stat: Stat
    children_made: int = 0
    """How many children were ever created below it: the number that the next sequence gets."""


class ZnodeTable(Protocol):
    """Where znodes are kept; the root is always there."""

    def find(self, path: str) -> Znode | None:
        """The znode of a path."""

    def put(self, znode: Znode) -> None:
        """Adds or replaces a znode."""

    def remove(self, path: str) -> None:
        """Takes a znode out."""

    def children(self, path: str) -> list[str]:
        """The names below a path, sorted."""

    def owned_by(self, session_id: int) -> list[str]:
        """The paths of a session's ephemeral znodes."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """Who writes, when, and as which transaction."""

    zxid: int
    session_id: int
    now_ms: int


def parent_of(path: str) -> str:
    """The path one level up."""
    return path[: path.rindex("/")] or ROOT


def name_of(path: str) -> str:
    """The last part of a path."""
    return path[path.rindex("/") + 1 :]


def check_path(path: str) -> None:
    """Refuses a path that is no path (``PathUtils.validatePath``). Raises InvalidPathError."""
    if path == ROOT:
        return
    is_relative = "/." in path and not {".", ".."}.isdisjoint(path.split("/"))
    if not path.startswith("/") or path.endswith("/") or "//" in path or "\0" in path or is_relative:
        raise InvalidPathError(path)


def root() -> Znode:
    """The znode that a new tree consists of."""
    return Znode(ROOT, b"", Stat(0, 0, 0, 0, 0, 0))


def apply(
    table: ZnodeTable, operations: Sequence[Operation], transaction: Transaction
) -> tuple[list[Any], list[WatchEvent]]:
    """The results and the changes of the operations, which the table now holds. Raises StoreError."""
    results: list[Any] = []
    changes: list[WatchEvent] = []
    for index, operation in enumerate(operations):
        check_path(operation.path)
        try:
            results.append(_apply_one(table, operation, transaction, changes))
        except StoreError as error:
            error.index = index
            raise
    return results, changes


def end_session(table: ZnodeTable, transaction: Transaction) -> list[WatchEvent]:
    """Removes the ephemeral znodes of the transaction's session; the changes."""
    changes: list[WatchEvent] = []
    for path in table.owned_by(transaction.session_id):
        _delete(table, Delete(path), changes)
    return changes


def _apply_one(
    table: ZnodeTable, operation: Operation, transaction: Transaction, changes: list[WatchEvent]
) -> Any:
    if isinstance(operation, Create):
        return _create(table, operation, transaction, changes)
    if isinstance(operation, SetData):
        return _set(table, operation, transaction, changes)
    if isinstance(operation, Delete):
        return _delete(table, operation, changes)
    return _expect(table, operation)


def _create(table: ZnodeTable, operation: Create, transaction: Transaction, changes: list[WatchEvent]) -> str:
    parent = table.find(parent_of(operation.path))
    if parent is None:
        raise NoNodeError(operation.path)
    path = operation.path + (f"{parent.children_made:010d}" if operation.sequence else "")
    if table.find(path) is not None:
        raise NodeExistsError(path)
    if parent.stat.ephemeral_owner:
        raise EphemeralParentError(path)
    owner = transaction.session_id if operation.ephemeral else 0
    stat = Stat(transaction.zxid, transaction.zxid, transaction.now_ms, transaction.now_ms, 0, owner)
    table.put(Znode(path, operation.data, stat))
    table.put(replace(parent, children_made=parent.children_made + 1))
    changes += (WatchEvent(Change.CREATED, path), WatchEvent(Change.CHILDREN, parent.path))
    return path


def _set(table: ZnodeTable, operation: SetData, transaction: Transaction, changes: list[WatchEvent]) -> Stat:
    znode = _expect_version(table, operation.path, operation.version)
    stat = znode.stat._replace(
        mzxid=transaction.zxid, modified_ms=transaction.now_ms, version=znode.stat.version + 1
    )
    table.put(replace(znode, data=operation.data, stat=stat))
    changes.append(WatchEvent(Change.DATA, operation.path))
    return stat


def _delete(table: ZnodeTable, operation: Delete, changes: list[WatchEvent]) -> None:
    _expect_version(table, operation.path, operation.version)
    if table.children(operation.path):
        raise NotEmptyError(operation.path)
    table.remove(operation.path)
    changes += (
        WatchEvent(Change.DELETED, operation.path),
        WatchEvent(Change.CHILDREN, parent_of(operation.path)),
    )


def _expect(table: ZnodeTable, operation: Check) -> None:
    _expect_version(table, operation.path, operation.version)


def _expect_version(table: ZnodeTable, path: str, version: int) -> Znode:
    znode = table.find(path)
    if znode is None:
        raise NoNodeError(path)
    if version not in (ANY_VERSION, znode.stat.version):
        raise BadVersionError(path)
    return znode
