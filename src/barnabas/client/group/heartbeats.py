"""`Heartbeats`: the task that keeps a member alive between the caller's polls (``HeartbeatThread``)."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from barnabas.client.coordinators import COORDINATOR_MOVED
from barnabas.client.group.coordinator_link import CoordinatorLink
from barnabas.client.group.heartbeat import Heartbeat
from barnabas.client.group.membership import Membership
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.protocol.messages.heartbeat import HeartbeatResponse

if TYPE_CHECKING:
    from barnabas.network.node_link import Node

_log = EventLog("client.group")


def now_ms() -> float:
    """Milliseconds of the monotonic clock."""
    return time.monotonic() * 1000


class Heartbeats:
    """Sends heartbeats while the member is in a generation, and notices when something is wrong."""

    def __init__(
        self,
        membership: Membership,
        link: CoordinatorLink,
        timing: Heartbeat,
        *,
        pause_ms: float,
        leave: Callable[[str], Awaitable[object]],
        on_news: Callable[[], object],
    ) -> None:
        self.failure: KafkaError | None = None
        """What only the caller can deal with: the member was fenced."""
        self._membership = membership
        self._link = link
        self._timing = timing
        self._pause_ms = pause_ms
        self._leave = leave
        self._on_news = on_news
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._request: asyncio.Task[None] | None = None
        self._coordinator: Node | None = None
        self._counting = False
        """Whether the clocks run since the member has joined."""

    def start(self) -> None:
        """Runs from now on; harmless when it does already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """The member's state changed."""
        self._news.set()

    async def close(self) -> None:
        """Ends it."""
        tasks = [task for task in (self._task, self._request) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        while self.failure is None:
            self._news.clear()
            wait_ms = await self._step(now_ms())
            if wait_ms is None:
                await self._news.wait()
            elif wait_ms:
                try:
                    async with asyncio.timeout(wait_ms / 1000):
                        await self._news.wait()
                except TimeoutError:
                    continue

    async def _step(self, now: float) -> float | None:
        """Does what is due; how long to wait after it, None until there is news."""
        if not self._membership.is_joined:
            self._counting = False
            return None
        if not self._counting:
            # A round may take longer than a session or the poll interval: all clocks begin at its end.
            self._counting = True
            self._timing.reset(now)
        if self._link.node is None:
            self._link.find_soon()
            return self._pause_ms
        if self._link.node != self._coordinator:
            self._coordinator = self._link.node
            self._timing.reset_session(now)
        if self._timing.session_expired(now):
            self._coordinator = None
            self._link.lost("session timed out without receiving a heartbeat response")
            return 0
        if self._timing.poll_expired(now):
            await self._poll_expired()
            return 0
        if self._timing.is_due(now):
            self._timing.sent(now)
            self._request = asyncio.create_task(self._beat())
        return max(1.0, self._timing.wait_ms(now))

    async def _poll_expired(self) -> None:
        _log.warning(
            "group.poll_expired",
            advice="poll more often, or raise max.poll.interval.ms, or lower max.poll.records",
        )
        await self._leave("consumer poll timeout has expired.")
        self._on_news()

    async def _beat(self) -> None:
        sent = self._membership.generation
        try:
            response = await self._link.send(self._membership.heartbeat_request(), HeartbeatResponse)
            self._membership.heard(response, sent)
        except (BarnabasError, OSError) as error:
            self._failed(error)
        else:
            self._timing.received(now_ms())
        self.wake()
        self._on_news()

    def _failed(self, error: Exception) -> None:
        _log.debug("heartbeat.failed", error=error)
        code = error.code if isinstance(error, KafkaError) else None
        if code in COORDINATOR_MOVED:
            self._link.lost(f"error response {code.name}" if code else "")
        if code is ErrorCode.FENCED_INSTANCE_ID and isinstance(error, KafkaError):
            self.failure = error
        self._timing.failed(now_ms())

    def __repr__(self) -> str:
        return f"<Heartbeats {self._timing!r}>"
