"""`Console`: the clusters that are looked at, and what may be done."""

import secrets
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
from barnabas.console.health.limits import EditedLimits
from barnabas.console.history.history import ClusterHistory
from barnabas.console.watched import WatchedCluster
from barnabas.core.errors import BarnabasError
from barnabas.operations.messages.masks import NO_MASKS, MaskRules, TopicMasks
from barnabas.operations.schemas.source import SchemaSource

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
    """The folder of the audit log."""
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """Of the forms' tokens; new with each start."""

    login: Login | None = None
    """None where everybody who reaches the console is its operator."""
    plans: Plans = field(default_factory=Plans)
    notifier: Notifier = field(default_factory=lambda: Notifier(Addresses()), repr=False)
    """Who is told of incidents."""
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
            raise NotHereError(f"there is no cluster {name!r}; there are {', '.join(self.clusters)}")
        return self.clusters[name]

    def watch(self, cluster: WatchedCluster) -> None:
        """Begins to look at a cluster, and to remember what is seen."""
        if cluster.history is None:
            cluster.history = ClusterHistory(self.data / "history", cluster.name)
            cluster.edited = EditedLimits(cluster.history.folder)
            cluster.alerts = AlertBook(cluster.history.folder, cluster.name, self.notifier)
        self.clusters[cluster.name] = cluster.start()

    def close(self) -> None:
        """Ends the looks."""
        for one in self.clusters.values():
            one.close()


def console_of(clusters: Iterable[WatchedCluster], **settings: Any) -> Console:
    """A console of these clusters, which begin to be looked at."""
    console = Console({}, **settings)
    for one in clusters:
        console.watch(one)
    return console
