"""A session on a metadata store for a tool that needs no broker: on ZooKeeper, or on the file of an embedded
store, whose brokers may run or not.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

from barnabas.cluster.store.contract import MetadataStore
from barnabas.core.broker_config import broker_config
from barnabas.core.config import Config
from barnabas.network.selector import completed
from barnabas.node.environment import METADATA_FILE, zookeeper_store
from barnabas.operations.errors import OperationError

TIMEOUT_MS: Final = 10_000
_SECURITY: Final = ("zookeeper.ssl.", "zookeeper.clientCnxnSocket", "zookeeper.set.acl")


def store_file(folder: Path) -> Path:
    """The file of an embedded store, which is named by itself or by its folder.
    Raises OperationError where it is not there: it is not made here.
    """
    file = folder / METADATA_FILE if folder.is_dir() else folder
    if not file.is_file():
        raise OperationError(
            f"{file} is not there: --store names the folder of a metadata store, or its file"
        )
    return file


def zookeeper_config(zookeeper: str, timeout_ms: int, settings: Mapping[str, str]) -> Config:
    """The keys of a broker that goes to these servers; what else is among the settings is passed over."""
    given = {key: value for key, value in settings.items() if key.startswith(_SECURITY)}
    given |= {"zookeeper.connect": zookeeper}
    given |= dict.fromkeys(
        ("zookeeper.session.timeout.ms", "zookeeper.connection.timeout.ms"), str(timeout_ms)
    )
    return broker_config(given)


@contextlib.asynccontextmanager
async def opened(
    zookeeper: str | None,
    file: Path | None,
    timeout_ms: int = TIMEOUT_MS,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[MetadataStore]:
    """A session on the one of the two that was named; `settings` are Kafka's keys of ZooKeeper's security.
    Raises OperationError where no server answers.
    """
    call_soon = asyncio.get_running_loop().call_soon_threadsafe
    session: MetadataStore
    if zookeeper is not None:
        session = zookeeper_store(
            zookeeper_config(zookeeper, timeout_ms, settings or {}), call_soon, tool=True
        )
    else:
        from barnabas.cluster.store.sqlite import SqliteStore

        assert file is not None, "one of the two is named"
        session = SqliteStore(file, call_soon)
    try:
        await completed(session.start())
        yield session
    except TimeoutError as error:
        why = f": {error.__cause__}" if error.__cause__ else ""
        raise OperationError(
            f"no ZooKeeper server of {zookeeper} answered within {timeout_ms} ms{why}"
        ) from error
    finally:
        await completed(session.close())
