"""`CoordinatorLink`: finds the coordinator of a group, or of a transactional id, and talks to it.

Theory of operation
-------------------
One look-up is under way at a time, in the background. It repeats until an answer names the coordinator, or
says that this client may not know it (`failure`, raised once to the next caller).

The coordinator is a node of its own with a connection of its own, as in Java's client: a broker answers the
requests of one connection in order, so a JoinGroup that waits for a whole group would hold up the fetches
behind it. When it is no longer the coordinator, or cannot be reached, the connection is
dropped with all that waits on it, and the look-up begins again.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from barnabas.client.cluster import Cluster, Versions
from barnabas.client.coordinators import find_coordinator
from barnabas.client.errors import GroupError
from barnabas.client.home_loop import end
from barnabas.client.retries import Attempts, is_retriable
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.network.errors import DisconnectedError
from barnabas.network.node_link import Node
from barnabas.protocol.coordinator_type import CoordinatorType
from barnabas.protocol.message import Request, Response

R = TypeVar("R", bound=Response)

COORDINATOR_ID_BASE: Final = 2**31 - 1
"""The connection to a coordinator has this id less its broker's."""

_log = EventLog("client.group")


class CoordinatorLink:
    """The coordinator of one group or transactional id, as one client sees it."""

    def __init__(
        self,
        cluster: Cluster,
        key: str,
        on_news: Callable[[], object],
        kind: CoordinatorType = CoordinatorType.GROUP,
    ) -> None:
        self.node: Node | None = None
        """The coordinator; None while it is not known."""
        self.failure: KafkaError | None = None
        """Why there will be none, until it was raised once."""
        self._cluster = cluster
        self._key = key
        self._kind = kind
        self._on_news = on_news
        self._task: asyncio.Task[None] | None = None
        self._connections = 0

    def find_soon(self) -> None:
        """Sees to it that a look-up is under way, unless the coordinator is known."""
        if self.node is None and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._find())

    async def find(self) -> None:
        """Waits until the coordinator is known (``ensureCoordinatorReady``). Raises KafkaError."""
        while self.node is None:
            self.raise_failure()
            self.find_soon()
            assert self._task is not None
            await asyncio.wait([self._task])

    def raise_failure(self) -> None:
        """Raises why there is no coordinator, once."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    async def _find(self) -> None:
        attempts = Attempts(self._cluster.backoff)
        while self.node is None and self.failure is None:
            try:
                await self._look_up()
            except (BarnabasError, OSError) as error:
                if is_retriable(error):
                    _log.debug("coordinator.not_found", key=self._key, error=error)
                    await attempts.another()
                    await self._refresh()
                elif isinstance(error, KafkaError):
                    self.failure = GroupError(
                        error.code, f"{error.message} ({self._kind.name.lower()} {self._key})"
                    )
                else:
                    self.failure = GroupError(ErrorCode.UNSUPPORTED_VERSION, str(error))
        self._on_news()

    async def _refresh(self) -> None:
        try:
            await self._cluster.refresh()
        except (BarnabasError, OSError) as error:
            _log.debug("metadata.failed", error=error)

    async def _look_up(self) -> None:
        found = await find_coordinator(self._cluster, self._key, self._kind)
        if found.error is not ErrorCode.NONE:
            raise KafkaError(found.error, found.message)
        self.node = Node(COORDINATOR_ID_BASE - found.node_id, found.host, found.port)
        self._connections += 1
        _log.info("coordinator.found", key=self._key, broker=found.node_id, at=f"{found.host}:{found.port}")

    async def send(
        self,
        request: Request,
        answer: type[R],
        *,
        versions: Versions | None = None,
        timeout_ms: float | None = None,
    ) -> R:
        """One request to the coordinator. Raises COORDINATOR_NOT_AVAILABLE while it is not known, and as
        `Cluster.send`.
        """
        connection = self._connections
        if self.node is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            return await self._cluster.send(
                self.node, request, answer, versions=versions, timeout_ms=timeout_ms
            )
        except (DisconnectedError, OSError) as error:
            if self._connections == connection:
                self.lost(str(error))
            raise

    def reconnect(self) -> None:
        """Gives up what waits for an answer: what is sent from now on need not wait behind it."""
        if self.node is not None:
            self._connections += 1
            self._cluster.network.disconnect(self.node.id)

    def lost(self, reason: str) -> None:
        """This is not the coordinator, or no longer (``markCoordinatorUnknown``)."""
        if self.node is not None:
            _log.info("coordinator.lost", key=self._key, reason=reason)
            node, self.node = self.node, None
            self._cluster.network.disconnect(node.id)
            self._on_news()

    async def close(self) -> None:
        """Ends a look-up that is under way; nothing is sent from now on."""
        self.node = None
        await end(self._task)

    def __repr__(self) -> str:
        known = "unknown" if self.node is None else f"broker {COORDINATOR_ID_BASE - self.node.id}"
        return f"<CoordinatorLink {self._key} {known}>"
