"""`Console`: the clusters that are looked at, and what may be done."""

import secrets
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from barnabas.console.access.files import WatchedFile
from barnabas.console.access.login import Login
from barnabas.console.actions.audit import AuditLog
from barnabas.console.actions.plans import Plans
from barnabas.console.alerts.book import AlertBook
from barnabas.console.alerts.notices import Addresses, Notifier
from barnabas.console.collector import Pace
from barnabas.console.health.limits import EditedLimits
from barnabas.console.history.history import ClusterHistory
from barnabas.console.stores.added_clusters import CLUSTERS_MAX, AddedCluster, AddedClusters
from barnabas.console.watched import WatchedCluster
from barnabas.core.errors import BarnabasError
from barnabas.core.eventlog import EventLog
from barnabas.operations.errors import OperationError
from barnabas.operations.messages.masks import NO_MASKS, MaskRules, TopicMasks
from barnabas.operations.schemas.source import SchemaSource

_log = EventLog("console")
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1", "[::1]"})


class NotHereError(BarnabasError):
    """What was asked for is not there (HTTP 404)."""


class ForbiddenError(BarnabasError):
    """What may not be done here (HTTP 403)."""


@dataclass(slots=True)
class Console:
    """All that pages and REST stand on."""

    clusters: dict[str, WatchedCluster]
    allow_changes: bool = False
    hosts: frozenset[str] = LOOPBACK
    """The names that a browser may call the console by."""
    data: Path = Path("barnabas-console")
    """The folder of the audit log, the history, and the clusters that were added."""
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """Of the forms' tokens; new with each start."""
    login: Login | None = None
    """None where everybody who reaches the console is its operator."""
    plans: Plans = field(default_factory=Plans)
    notifier: Notifier = field(default_factory=lambda: Notifier(Addresses()), repr=False)
    """Who is told of incidents."""
    pace: Pace | None = None
    """Of clusters that are added."""
    added: frozenset[str] = frozenset()
    """The names of those that were added while it ran, now or before."""
    problem: str | None = None
    """Why clusters that were added are not there."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    masking: WatchedFile[MaskRules] | None = None
    """What of records nobody sees."""
    schemas: SchemaSource | None = None
    """Of the registry, if there is one."""

    def masks(self, cluster: str, topic: str) -> TopicMasks:
        """What is hidden of a topic's records. Raises UnreadableFileError: then nothing is shown."""
        return NO_MASKS if self.masking is None else self.masking.read().of(topic, cluster)

    @property
    def audit(self) -> AuditLog:
        """Who did what."""
        return AuditLog(self.data)

    def cluster(self, name: str) -> WatchedCluster:
        """The cluster of this name. Raises NotHereError."""
        if name not in self.clusters:
            # Which there are is for those to know whose roles name them.
            raise NotHereError(f"there is no cluster {name!r}")
        return self.clusters[name]

    def add(self, one: AddedCluster) -> WatchedCluster:
        """Looks at one more cluster, now and after each start. Raises OperationError."""
        with self._lock:
            if one.name in self.clusters:
                raise OperationError(f"there is a cluster {one.name!r} already")
            if len(self.clusters) >= CLUSTERS_MAX:
                raise OperationError(f"there are {CLUSTERS_MAX} clusters already")
            file = AddedClusters(self.data)
            file.write({**file.read(), one.name: one})
            watched = WatchedCluster(one.name, one.options, self.pace)
            self.added = self.added | {one.name}
            self.watch(watched)
        return watched

    def remove(self, name: str) -> None:
        """Looks no more at a cluster that was added. Raises NotHereError, OperationError."""
        with self._lock:
            watched = self.cluster(name)
            if name not in self.added:
                raise OperationError(f"{name} was named when the console was started: it is left out there")
            file = AddedClusters(self.data)
            file.write({key: one for key, one in file.read().items() if key != name})
            self.added = self.added - {name}
            self.clusters = {key: one for key, one in self.clusters.items() if key != name}
        watched.close()

    def begin(self, clusters: Iterable[WatchedCluster]) -> None:
        """Begins to look at these clusters, and at those that were added before."""
        for one in clusters:
            self.watch(one)
        self._restore()

    def _restore(self) -> None:
        """Looks at the clusters that were added before. What cannot be read harms no other one."""
        try:
            found = AddedClusters(self.data).read()
        except OperationError as error:
            self.problem = str(error)
            _log.warning("console.clusters", error=error)
            return
        for name, one in found.items():
            if name in self.clusters:
                _log.warning("console.clusters", error=f"{name} was named when the console was started, too")
                continue
            self.added = self.added | {name}
            self.watch(WatchedCluster(name, one.options, self.pace))

    def watch(self, cluster: WatchedCluster) -> None:
        """Begins to look at a cluster, and to remember what is seen."""
        if cluster.history is None:
            cluster.history = ClusterHistory(self.data / "history", cluster.name)
            cluster.edited = EditedLimits(cluster.history.folder)
            cluster.alerts = AlertBook(cluster.history.folder, cluster.name, self.notifier)
        self.clusters = {**self.clusters, cluster.name: cluster.start()}

    def close(self) -> None:
        """Ends the looks."""
        for one in self.clusters.values():
            one.close()


def console_of(clusters: Iterable[WatchedCluster], **settings: Any) -> Console:
    """A console of these clusters, which begin to be looked at."""
    console = Console({}, **settings)
    console.begin(clusters)
    return console
