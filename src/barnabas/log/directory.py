"""One log directory: its lock, its identity, the marker of a clean shutdown, its checkpoints.

``meta.properties`` ties a directory to a cluster and a broker: a disk that was moved is noticed before it
does harm. ``.kafka_cleanshutdown`` exists only between a clean shutdown and the next start; without it
every segment beyond the recovery point is checked.
"""

import json
from typing import Final, NamedTuple

from barnabas.core.errors import ConfigError
from barnabas.log.checkpoint import (
    CLEANER_OFFSET,
    HIGH_WATERMARK,
    LOG_START_OFFSET,
    RECOVERY_POINT,
    OffsetCheckpoint,
)
from barnabas.log.filesystem import Filesystem, Lock, LockedError

LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
META_PROPERTIES: Final = "meta.properties"


class MetaProperties(NamedTuple):
    """Whose directory it is."""

    cluster_id: str | None
    broker_id: int | None

    def require(self, wanted: "MetaProperties") -> None:
        """Raises ConfigError when what was found here is another broker's, or another cluster's."""
        if self.cluster_id is not None and self.cluster_id != wanted.cluster_id:
            raise ConfigError(
                f"The Cluster ID {wanted.cluster_id} doesn't match stored clusterId {self.cluster_id} in"
                " meta.properties. The broker is trying to join the wrong cluster. Configured "
                "zookeeper.connect may"
                " be wrong."
            )
        if self.broker_id is not None and self.broker_id != wanted.broker_id:
            raise ConfigError(
                f"Configured broker.id {wanted.broker_id} doesn't match stored broker.id {self.broker_id} "
                "in meta.properties. If you moved your data, make sure your configured broker.id matches. "
                "If you intend to create a new broker, you should remove all data in your data directories "
                "(log.dirs)."
            )


class LogDirectory:
    """A directory of partitions' directories."""

    __slots__ = (
        "_filesystem",
        "_lock",
        "clean",
        "cleaner_offsets",
        "cordoned",
        "failure",
        "high_watermarks",
        "log_start_offsets",
        "offline",
        "path",
        "recovery_points",
    )

    def __init__(self, filesystem: Filesystem, path: str) -> None:
        self._filesystem = filesystem
        self._lock: Lock | None = None
        self.path = path
        self.offline = False
        self.cordoned = False
        """Whether no new log is made in it, and none is moved to it (KIP-1066)."""
        self.failure: OSError | None = None
        """Why it is offline."""
        self.clean = False
        """Whether the shutdown before this start was clean."""
        self.cleaner_offsets = OffsetCheckpoint(filesystem, f"{path}/{CLEANER_OFFSET}")
        self.recovery_points = OffsetCheckpoint(filesystem, f"{path}/{RECOVERY_POINT}")
        self.log_start_offsets = OffsetCheckpoint(filesystem, f"{path}/{LOG_START_OFFSET}")
        self.high_watermarks = OffsetCheckpoint(filesystem, f"{path}/{HIGH_WATERMARK}")

    def open(self) -> None:
        """Makes the directory and takes its lock; raises ConfigError when another process has it, OSError."""
        self._filesystem.mkdir(self.path)
        if self._lock is None:
            try:
                self._lock = self._filesystem.lock(f"{self.path}/{LOCK_FILE}")
            except LockedError:
                raise ConfigError(
                    f"Invalid value {self.path} for configuration log.dirs: Failed to acquire lock on file"
                    f" {LOCK_FILE}. A Kafka instance in another process or thread is using this directory."
                ) from None

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def take_clean_marker(self) -> None:
        """Notes whether the last shutdown was clean, and removes the marker: from now on it is not."""
        path = f"{self.path}/{CLEAN_SHUTDOWN_FILE}"
        self.clean = self._filesystem.exists(path)
        if self.clean:
            self._filesystem.remove(path)
            # A marker that came back after a loss of power would pass damage off as clean.
            self._filesystem.sync_directory(self.path)

    def leave_clean_marker(self, broker_epoch: int = -1) -> None:
        """Says that everything below is closed properly. Raises OSError."""
        text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        self._filesystem.write_atomic(f"{self.path}/{CLEAN_SHUTDOWN_FILE}", text.encode())

    def read_meta(self) -> MetaProperties | None:
        """The identity in ``meta.properties``; None for a new directory. Raises ConfigError."""
        path = f"{self.path}/{META_PROPERTIES}"
        try:
            text = self._filesystem.read(path).decode("utf-8", "replace")
        except FileNotFoundError:
            return None
        lines = [line.strip() for line in text.splitlines()]
        fields = dict(line.split("=", 1) for line in lines if "=" in line and line[0] not in "#!")
        if fields.get("version") != "0":
            version = fields.get("version")
            raise ConfigError(f"{path}: version {version} is not that of a broker with ZooKeeper (0)")
        broker_id = fields.get("broker.id", "")
        if broker_id and not broker_id.lstrip("-").isdigit():
            raise ConfigError(f"{path}: broker.id is {broker_id!r}, which is no number")
        return MetaProperties(fields.get("cluster.id") or None, int(broker_id) if broker_id else None)

    def write_meta(self, meta: MetaProperties) -> None:
        """Writes ``meta.properties``. Raises OSError."""
        lines = ["#", f"broker.id={meta.broker_id}", "version=0", f"cluster.id={meta.cluster_id}", ""]
        self._filesystem.write_atomic(f"{self.path}/{META_PROPERTIES}", "\n".join(lines).encode())

    def ensure_checkpoints(self) -> None:
        """Makes the (empty) cleaner checkpoint, as Kafka does at start."""
        path = f"{self.path}/{CLEANER_OFFSET}"
        if not self._filesystem.exists(path):
            self._filesystem.open(path, create=True)

    def space(self) -> tuple[int, int]:
        """Bytes of the disk that it is on, and those still free; raises OSError."""
        return self._filesystem.space(self.path)

    def go_offline(self, error: OSError) -> None:
        self.offline = True
        self.failure = error

    def __repr__(self) -> str:
        return f"<LogDirectory {self.path}{' OFFLINE' if self.offline else ''}>"
