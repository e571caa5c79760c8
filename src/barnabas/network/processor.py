"""What the connections of one server share: turns of the loop, threads, receive memory (Kafka's
``Processor``).

A connection that was woken sends in the next turn of the loop, together with all others of this one
(`schedule`).

A connection that has more requests than fit one turn waits in a queue (`queue`). The loop gives a turn to one
connection of the queue, looks then at all sockets, and then gives the next one its turn: however many clients
pipeline, a client with a request now and then waits for one turn, and a new connection is accepted after one.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from barnabas.core.clock import Clock, Timer
from barnabas.core.eventlog import EventLog
from barnabas.core.fault_log import FaultLog
from barnabas.network.conversation import Conversation
from barnabas.network.frames import FrameReader, ReceiveMemory
from barnabas.network.peer import Service
from barnabas.network.sasl.server import SaslListener, SaslServerAuthenticator
from barnabas.network.settings import SocketSettings

_TRIM_DELAY_MS: Final = 1000
_TRIM_INTERVAL_MS: Final = 5000
"""How often memory goes back to the system at most, while connections end inside their frames."""


class Processor:
    """One event loop, as connections see it."""

    service: Service
    """Answers the requests of the connections to come; set before the first is accepted."""

    def __init__(self, clock: Clock, settings: SocketSettings) -> None:
        self.loop = asyncio.get_running_loop()
        self.clock = clock
        self.settings = settings
        self.threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="network-read-ahead")
        self.faults = FaultLog(clock, EventLog("network"), "network")
        """The lines of the log about what peers did wrong."""
        self._memory = ReceiveMemory()
        self._scheduled: list[Callable[[], None]] = []
        self._queue: deque[Callable[[], None]] = deque()
        self._trim_timer: Timer | None = None
        self._trimmed_ms = -math.inf
        self._stopped = False
        self.sasl: dict[str, SaslListener] = {}
        """How clients log in, by the name of the listener; they need not where it is not here."""

    def log_in(self, conversation: Conversation) -> None:
        """Has the peer of a new conversation log in first, where its listener asks for that."""
        listener = self.sasl.get(conversation.peer.listener.name)
        if listener is not None:
            bytes_max = self.settings.request_bytes_max
            authenticator = SaslServerAuthenticator(
                listener, self.service, self.clock, bytes_max, self.faults
            )
            conversation.serve(authenticator, min(listener.receive_bytes_max, bytes_max))

    def new_reader(self) -> FrameReader:
        return FrameReader(self._memory, self.settings.request_bytes_max)

    def schedule(self, pump: Callable[[], None]) -> None:
        """Runs it in the next turn of the loop, together with all others of this one."""
        if not self._scheduled:
            self.loop.call_soon(self._pump_scheduled)
        self._scheduled.append(pump)

    def _pump_scheduled(self) -> None:
        scheduled, self._scheduled = self._scheduled, []
        for pump in scheduled:
            pump()

    def queue(self, turn: Callable[[], None]) -> None:
        """Runs it when all before it in the queue had a turn; the loop looks at all sockets in between."""
        if not self._queue:
            self.loop.call_soon(self._give_turn)
        self._queue.append(turn)

    def _give_turn(self) -> None:
        turn = self._queue.popleft()
        if self._queue:
            self.loop.call_soon(self._give_turn)
        turn()

    def trim_memory(self) -> None:
        """A part of a frame, which may be large, was dropped: its memory goes back to the system, soon.

        Frames grow in the C library's heap, which keeps the hundreds of megabytes of many connections after
        these are closed.
        """
        if self._trim_timer is None and not self._stopped:
            due_ms = self._trimmed_ms + _TRIM_INTERVAL_MS - self.clock.monotonic_ms()
            self._trim_timer = self.clock.call_later(max(due_ms, _TRIM_DELAY_MS), self._trim)

    def _trim(self) -> None:
        self._trim_timer = None
        self._trimmed_ms = self.clock.monotonic_ms()
        # It takes milliseconds and needs the interpreter for none of them: a thread does it.
        from barnabas.core.memory import trim  # noqa: PLC0415 - ctypes is loaded by those who need it

        self.threads.submit(trim)

    def stop(self) -> None:
        """All connections are closed: ends the threads."""
        self._stopped = True
        if self._trim_timer is not None:
            self._trim_timer.cancel()
        self.faults.close()
        self.threads.shutdown(wait=True, cancel_futures=True)

    def __repr__(self) -> str:
        return f"<Processor scheduled={len(self._scheduled)} queued={len(self._queue)}>"
