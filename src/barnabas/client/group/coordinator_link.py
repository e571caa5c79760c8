"""`CoordinatorLink`: finds the coordinator of a group and talks to it.

Theory of operation
-------------------
One look-up is under way at a time, in the background, whoever needs it; it repeats until there is an answer
that says who the coordinator is, or that it may not be known (`failure`, raised once to whoever asks next).

The coordinator is a node of its own with a connection of its own, as in Java's client: a broker answers the
requests of one connection in order, so a JoinGroup that waits for a whole group would hold up the fetches
behind it. Whenever it turns out not to be the coordinator any more, or cannot be reached, the connection is
dropped with all that waits on it, and the look-up begins anew.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.coordinators import CoordinatorType, find_coordinator
from barnabas.client.errors import GroupError
from barnabas.client.retries import Attempts, is_retriable
from barnabas.client.transport import Versions
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.network.errors import DisconnectedError
from barnabas.protocol.message import Request, Response

if TYPE_CHECKING:
    from barnabas.client.config import Address

R = TypeVar("R", bound=Response)

COORDINATOR_ID_BASE: Final = 2**31 - 1
"""The connection to a coordinator has this id less its broker's."""

_log = EventLog("client.group")


class CoordinatorLink:
    """The coordinator of one group, as one client sees it."""

    def __init__(self, cluster: Cluster, group_id: str, on_news: Callable[[], object]) -> None:
        self.node_id: int | None = None
        """The id of the coordinator's connection; None while it is not known."""
        self.failure: KafkaError | None = None
        """Why there will be none, until somebody was told."""
        self._cluster = cluster
        self._group_id = group_id
        self._on_news = on_news
        self._task: asyncio.Task[None] | None = None
        self._address: Address = ("", 0)
        self._connections = 0

    def find_soon(self) -> None:
        """Sees to it that a look-up is under way, unless the coordinator is known."""
        if self.node_id is None and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._find())

    async def find(self) -> None:
        """Waits until the coordinator is known (``ensureCoordinatorReady``). Raises KafkaError."""
        while self.node_id is None:
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
        while self.node_id is None and self.failure is None:
            try:
                await self._look_up()
            except (BarnabasError, OSError) as error:
                if is_retriable(error):
                    _log.debug("coordinator.not_found", group=self._group_id, error=error)
                    await attempts.another()
                    await self._refresh()
                elif isinstance(error, KafkaError):
                    self.failure = GroupError(error.code, f"{error.message} (group {self._group_id})")
                else:
                    self.failure = GroupError(ErrorCode.UNSUPPORTED_VERSION, str(error))
        self._on_news()

    async def _refresh(self) -> None:
        try:
            await self._cluster.refresh()
        except (BarnabasError, OSError) as error:
            _log.debug("metadata.failed", error=error)

    async def _look_up(self) -> None:
        found = await find_coordinator(self._cluster, self._group_id, CoordinatorType.GROUP)
        if found.error is not ErrorCode.NONE:
            raise KafkaError(found.error, found.message)
        self.node_id = COORDINATOR_ID_BASE - found.node_id
        self._address = (found.host, found.port)
        self._connections += 1
        self._cluster.transport.connect_aside(self.node_id, self._address)
        _log.info(
            "coordinator.found", group=self._group_id, broker=found.node_id, at=f"{found.host}:{found.port}"
        )

    async def send(
        self,
        request: Request,
        answer: type[R],
        *,
        versions: Versions | None = None,
        timeout_ms: float | None = None,
    ) -> R:
        """One request to the coordinator. Raises COORDINATOR_NOT_AVAILABLE while it is not known, and as
        `Transport.send`.
        """
        node_id, connection = self.node_id, self._connections
        if node_id is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            return await self._cluster.send(
                node_id, request, answer, versions=versions, timeout_ms=timeout_ms
            )
        except (DisconnectedError, OSError) as error:
            if self._connections == connection:
                self.lost(str(error))
            raise

    def reconnect(self) -> None:
        """Gives up what waits for an answer: what is sent from now on need not wait behind it."""
        if self.node_id is not None:
            self._connections += 1
            self._cluster.transport.disconnect_aside(self.node_id)
            self._cluster.transport.connect_aside(self.node_id, self._address)

    def lost(self, reason: str) -> None:
        """This is not the coordinator, or not any more."""
        if self.node_id is not None:
            _log.info("coordinator.lost", group=self._group_id, reason=reason)
            node_id, self.node_id = self.node_id, None
            self._cluster.transport.disconnect_aside(node_id)
            self._on_news()

    async def close(self) -> None:
        """Ends a look-up that is under way, and knows nobody any more."""
        self.node_id = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def __repr__(self) -> str:
        known = "unknown" if self.node_id is None else f"broker {COORDINATOR_ID_BASE - self.node_id}"
        return f"<CoordinatorLink {self._group_id} {known}>"
