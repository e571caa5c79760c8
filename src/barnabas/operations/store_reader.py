"""Reads znodes without being a broker: of the embedded store's file, or of ZooKeeper. Changes nothing."""

import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from barnabas.cluster.store import tree
from barnabas.cluster.store.contract import MetadataStore, NoNodeError, Stat
from barnabas.cluster.store.sqlite_table import Database
from barnabas.network.selector import completed
from barnabas.operations import direct_store
from barnabas.operations.direct_store import store_file
from barnabas.operations.errors import OperationError

Znode = tuple[bytes | None, Stat]
"""The data of a znode, and what the store knows beside it."""


def decoded(data: bytes | None) -> Any:
    """The data as JSON, else as the text it is, else as hexadecimal digits; None where there is none."""
    if not data:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


class StoreReader(Protocol):
    """What both stores can be asked. Raises NoNodeError."""

    async def get(self, path: str) -> Znode:
        """The znode of a path."""

    async def children(self, path: str) -> list[str]:
        """The names below a path, sorted."""


@contextlib.asynccontextmanager
async def opened(
    store: Path | None, zookeeper: str | None, timeout_ms: int, settings: Mapping[str, str] | None = None
) -> AsyncIterator[StoreReader]:
    """A reader of the one that was named, `settings` as for `direct_store.opened`.
    Raises OperationError where it cannot be reached.
    """
    if zookeeper is not None:
        async with _on_zookeeper(zookeeper, timeout_ms, settings) as reader:
            yield reader
        return
    assert store is not None
    with _on_file(store) as reader:
        yield reader


class _FileReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, path: str) -> Znode:
        znode = self._database.find(path)
        if znode is None:
            raise NoNodeError(path)
        return znode.data, znode.stat

    async def children(self, path: str) -> list[str]:
        await self.get(path)
        return self._database.children(path)


@contextlib.contextmanager
def _on_file(store: Path) -> Iterator[_FileReader]:
    file = store_file(store)
    try:
        database = Database.read_only(file)
        try:
            yield _FileReader(database)
        finally:
            database.close()
    except sqlite3.Error as error:
        raise OperationError(f"the metadata store {file} cannot be read: {error}") from error


class _ZookeeperReader:
    def __init__(self, store: MetadataStore, chroot: str) -> None:
        self._store = store
        self._chroot = chroot

    async def get(self, path: str) -> Znode:
        found: Znode = await completed(self._store.get(self._full(path)))
        return found

    async def children(self, path: str) -> list[str]:
        names: list[str] = await completed(self._store.children(self._full(path)))
        return names

    def _full(self, path: str) -> str:
        return (self._chroot + path).removesuffix(tree.ROOT) or tree.ROOT


@contextlib.asynccontextmanager
async def _on_zookeeper(
    zookeeper: str, timeout_ms: int, settings: Mapping[str, str] | None
) -> AsyncIterator[_ZookeeperReader]:
    servers, slash, chroot = zookeeper.partition("/")
    # The store would make its path where it is missing: this one has none, and the reader puts it before
    # each.
    async with direct_store.opened(servers, None, timeout_ms, settings) as session:
        yield _ZookeeperReader(session, (slash + chroot).rstrip("/"))
