"""`Environment`: the ports through which a broker uses the machine, as one constructor argument.

`BrokerNode` uses these ports and its sockets, and nothing else of the machine. `of_machine` makes the real
ones; `barnabas.testing` has simulated ones, and the node cannot tell them apart.
"""

import asyncio
import gc
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.broker.registry import ApiTable
from barnabas.cluster.store.contract import MetadataStore, StoreUnusableError
from barnabas.cluster.store.sqlite import CallSoon, SqliteStore
from barnabas.core.broker_config import log_directories
from barnabas.core.clock import Clock
from barnabas.core.config import Config
from barnabas.core.eventlog import EventLog
from barnabas.core.login_file import OPTIONS, java_properties
from barnabas.core.offload import ClosableOffload, ResizableOffload
from barnabas.log.cleaner.work import Throttle
from barnabas.log.directory import META_PROPERTIES
from barnabas.log.filesystem import Filesystem, OsFilesystem
from barnabas.log.flush import Syncer
from barnabas.network.clock import LoopClock
from barnabas.node.disk_thread import DiskThread, ThreadSyncer
from barnabas.node.offload import ProcessOffload
from barnabas.node.throttler import Throttler

if TYPE_CHECKING:
    from barnabas.cluster.store.zookeeper_security import ZookeeperSecurity

_log: Final = EventLog("core.config")

METADATA_FILE: Final = "metadata.sqlite"
_COLLECTOR_THRESHOLDS: Final = (25_000, 4, 500)
"""Objects between two collections of the youngest, and how many of these make one of the next generation.

Requests leave few cycles, so collections may be rare. But a collection takes 0.2 us an object, and one large
request makes a million: the middle generation is collected at 100,000 objects, which is 20 ms, and the oldest
hardly ever.
"""


def as_they_are(table: ApiTable) -> ApiTable:
    """The handlers themselves."""
    return table


class ClosableSyncer(Syncer, Protocol):
    """A syncer with resources of its own."""

    def close(self) -> None:
        """Ends it, after the sync that runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The ports of one broker."""

    clock: Clock
    filesystem: Filesystem
    offload: ResizableOffload
    new_offload: Callable[[], ClosableOffload]
    """Makes one with a single child process, for work that would keep `offload` from others too long."""
    disk_thread: ClosableOffload
    """Makes system calls that may take long, such as the removal of directories."""
    throttle: Callable[[float], Throttle]
    """Makes what holds a child process to a number of bytes a second."""
    syncer: ClosableSyncer
    rng: random.Random
    """Decides what Kafka leaves to chance: ids, the order of replicas."""
    open_store: Callable[[], MetadataStore]
    """Makes the session on the metadata store, not started yet; may raise OSError."""
    settle: Callable[[], None]
    """Called when the broker is up, and while much is loaded: what is in memory now will stay."""
    apis: Callable[[ApiTable], ApiTable] = as_they_are
    """What stands before the handlers: nothing, or the faults of a test."""


def of_machine(config: Config, loop: asyncio.AbstractEventLoop) -> Environment:
    """The machine that this process runs on."""
    return Environment(
        clock=LoopClock(loop),
        filesystem=OsFilesystem(),
        offload=ProcessOffload(
            loop, config["num.recovery.threads.per.data.dir"] * len(log_directories(config))
        ),
        new_offload=lambda: ProcessOffload(loop),
        disk_thread=DiskThread(loop, "log-remover"),
        throttle=Throttler,
        syncer=ThreadSyncer(loop),
        rng=random.Random(),
        open_store=lambda: _open_store(config, loop),
        settle=settle_memory,
    )


def _open_store(config: Config, loop: asyncio.AbstractEventLoop) -> MetadataStore:
    if config["zookeeper.connect"]:
        return zookeeper_store(config, loop.call_soon_threadsafe)
    if config["zookeeper.set.acl"]:
        _log.warning(
            "config.not_obeyed", key="zookeeper.set.acl", reason="the embedded store is its user's file"
        )
    return _embedded_store(config, loop)


def zookeeper_store(config: Config, call_soon: CallSoon, *, tool: bool = False) -> MetadataStore:
    """A session on the ZooKeeper of a configuration, not started yet. Raises ConfigError."""
    # Most brokers do without kazoo.
    from barnabas.cluster.store.zookeeper import ZookeeperStore  # noqa: PLC0415

    return ZookeeperStore(
        config["zookeeper.connect"],
        call_soon,
        session_timeout_ms=config["zookeeper.session.timeout.ms"],
        connection_timeout_ms=config["zookeeper.connection.timeout.ms"],
        security=security_of(config, tool=tool),
    )


def security_of(config: Config, *, tool: bool = False) -> "ZookeeperSecurity":
    """How this process is to connect to ZooKeeper. Raises ConfigError."""
    from barnabas.cluster.store.zookeeper_security import zookeeper_security  # noqa: PLC0415

    return zookeeper_security(config, java_properties(os.environ.get(OPTIONS, "")), tool=tool)


def metadata_path(config: Config) -> Path | None:
    """The file of the embedded store; None when the metadata is in ZooKeeper."""
    if config["zookeeper.connect"]:
        return None
    return Path(config["barnabas.metadata.path"] or f"{log_directories(config)[0]}/{METADATA_FILE}")


def refuse_new_store_for_old_data(path: Path, directories: Sequence[str]) -> None:
    """A store that was lost is not to be made again: it would know none of the topics whose records are here.

    Raises StoreUnusableError.
    """
    try:
        if path.stat().st_size > 0:
            return
    except FileNotFoundError:
        pass
    except OSError:
        return  # the store itself says what is wrong with it
    for directory in directories:
        meta = Path(directory) / META_PROPERTIES
        if meta.exists():
            raise StoreUnusableError(
                f"the metadata store {path} is missing or empty, but {meta} says that {directory} has data "
                f"of a cluster: restore {path.name} from a backup, name the store with "
                "barnabas.metadata.path or zookeeper.connect, or begin with an empty directory"
            )


def _embedded_store(config: Config, loop: asyncio.AbstractEventLoop) -> MetadataStore:
    path = metadata_path(config)
    assert path is not None
    refuse_new_store_for_old_data(path, log_directories(config))
    return SqliteStore(
        path,
        loop.call_soon_threadsafe,
        session_timeout_ms=config["zookeeper.session.timeout.ms"],
        synchronous=config["barnabas.metadata.synchronous"],
    )


def settle_memory() -> None:
    """What lives now lives as long as the broker: the collector need not look at it again."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)
