"""`Heartbeat`, when a member has to send one, and `HeartbeatTask`, which sends it between the caller's polls.

Three clocks run: the interval until the next heartbeat, the session (since the coordinator last answered
one), and the poll interval (since the caller last polled). All times are milliseconds of the monotonic clock.
(``Heartbeat`` and ``AbstractCoordinator.HeartbeatThread``.)
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from barnabas.client.coordinator_link import CoordinatorLink
from barnabas.client.coordinators import COORDINATOR_MOVED
from barnabas.client.group.membership import Membership
from barnabas.client.group.settings import MemberSettings
from barnabas.client.home_loop import end
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.network.backoff import ExponentialBackoff
from barnabas.protocol.messages.heartbeat import HeartbeatResponse

if TYPE_CHECKING:
    from barnabas.network.node_link import Node

_log = EventLog("client.group")


def now_ms() -> float:
    return time.monotonic() * 1000


class Heartbeat:
    """The timing of one member."""

    def __init__(self, settings: MemberSettings, backoff: ExponentialBackoff, now_ms: float) -> None:
        self.in_flight = False
        self._settings = settings
        self._backoff = backoff
        self._failures = 0
        self._next_ms = now_ms
        self._session_until_ms = now_ms
        self._poll_until_ms = now_ms
        self.reset(now_ms)

    def reset(self, now_ms: float) -> None:
        """The member has joined: all clocks start again (``resetTimeouts``)."""
        self._next_ms = now_ms + self._settings.heartbeat_interval_ms
        self._failures = 0
        self.reset_session(now_ms)
        self.polled(now_ms)

    def reset_session(self, now_ms: float) -> None:
        """The session starts again, as with a coordinator that was just found (``resetSessionTimeout``)."""
        self._session_until_ms = now_ms + self._settings.session_timeout_ms

    def polled(self, now_ms: float) -> None:
        """The caller is alive."""
        self._poll_until_ms = now_ms + self._settings.rebalance_timeout_ms

    def sent(self, now_ms: float) -> None:
        self.in_flight = True
        self._next_ms = now_ms + self._settings.heartbeat_interval_ms

    def received(self, now_ms: float) -> None:
        self.in_flight = False
        self._failures = 0
        self.reset_session(now_ms)

    def failed(self, now_ms: float) -> None:
        """The heartbeat did not count; the next one comes after a pause that grows."""
        self.in_flight = False
        self._next_ms = now_ms + self._backoff.after(self._failures)
        self._failures += 1

    def session_expired(self, now_ms: float) -> bool:
        return now_ms >= self._session_until_ms

    def poll_expired(self, now_ms: float) -> bool:
        return now_ms >= self._poll_until_ms

    def is_due(self, now_ms: float) -> bool:
        return not self.in_flight and now_ms >= self._next_ms

    def wait_ms(self, now_ms: float) -> float:
        """How long nothing has to be done."""
        first = min(self._session_until_ms, self._poll_until_ms)
        if not self.in_flight:
            first = min(first, self._next_ms)
        return max(0.0, first - now_ms)

    def __repr__(self) -> str:
        return f"<Heartbeat {'in flight' if self.in_flight else 'idle'} failures={self._failures}>"


class HeartbeatTask:
    """Sends heartbeats while the member is in a generation, and notices when something is wrong."""

    def __init__(
        self,
        membership: Membership,
        link: CoordinatorLink,
        heartbeat: Heartbeat,
        *,
        pause_ms: float,
        leave: Callable[[str], Awaitable[object]],
        on_news: Callable[[], object],
    ) -> None:
        self._failure: KafkaError | None = None
        """What only the caller can deal with: the member was fenced."""
        self._membership = membership
        self._link = link
        self._heartbeat = heartbeat
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
        self._news.set()

    def raise_failure(self) -> None:
        """Raises why the member may not stay, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def close(self) -> None:
        await end(self._task, self._request)

    async def _run(self) -> None:
        while self._failure is None:
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
        """Does what is due; how long to wait after it, None until there is news (``HeartbeatThread.run``)."""
        if not self._membership.is_joined:
            self._counting = False
            return None
        if not self._counting:
            # A round may take longer than a session or the poll interval: all clocks start at its end.
            self._counting = True
            self._heartbeat.reset(now)
        if self._link.node is None:
            self._link.find_soon()
            return self._pause_ms
        if self._link.node != self._coordinator:
            self._coordinator = self._link.node
            self._heartbeat.reset_session(now)
        if self._heartbeat.session_expired(now):
            # The coordinator has probably failed; the member keeps its state until another one says
            # otherwise.
            self._coordinator = None
            self._link.lost("session timed out without receiving a heartbeat response")
            return 0
        if self._heartbeat.poll_expired(now):
            # The caller is stuck: others read its partitions until it polls again
            # (``handlePollTimeoutExpiry``).
            _log.warning(
                "group.poll_expired",
                advice="poll more often, or raise max.poll.interval.ms, or lower max.poll.records",
            )
            await self._leave("consumer poll timeout has expired.")
            self._on_news()
            return 0
        if self._heartbeat.is_due(now):
            self._heartbeat.sent(now)
            self._request = asyncio.create_task(self._send())
        return max(1.0, self._heartbeat.wait_ms(now))

    async def _send(self) -> None:
        """One heartbeat and its answer (``sendHeartbeatRequest``)."""
        sent = self._membership.generation
        try:
            response = await self._link.send(self._membership.heartbeat_request(), HeartbeatResponse)
            self._membership.heard(response, sent)
        except (BarnabasError, OSError) as error:
            _log.debug("heartbeat.failed", error=error)
            if isinstance(error, KafkaError) and error.code in COORDINATOR_MOVED:
                self._link.lost(f"error response {error.code.name}")
            if isinstance(error, KafkaError) and error.code is ErrorCode.FENCED_INSTANCE_ID:
                self._failure = error
            self._heartbeat.failed(now_ms())
        else:
            self._heartbeat.received(now_ms())
        self.wake()
        self._on_news()

    def __repr__(self) -> str:
        return f"<HeartbeatTask {self._heartbeat!r}>"
