"""The controller's events, one at a time, in the order of their coming (``ControllerEventManager``).

An event is a function that returns a `Pending`; the next begins when that is done, so no two events ever see
each other's half-done work. The event at the front may be overtaken by none but an expired session, which
throws away what waits: it belongs to a term that is over.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending

_events: Final = EventLog("cluster.controller")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that the controller has to look into."""

    name: str
    process: Callable[[], Pending[Any]]
    preempt: Callable[[], object] | None = None
    """Answers the caller that waits for the event when the event is thrown away."""


class ControllerEventManager:
    """Runs events one after the other; an event that fails is handed to `on_failure`."""

    def __init__(self, on_failure: Callable[[Event, BaseException], Pending[None]]) -> None:
        self._waiting: deque[Event] = deque()
        self._on_failure = on_failure
        self._current: Event | None = None
        self._closed = False

    def put(self, event: Event) -> None:
        """Adds an event; it runs at once if none is running."""
        # The broker stops: a request that waits for an answer gets its refusal at once.
        if self._closed:
            _preempt(event)
            return
        self._waiting.append(event)
        self._run()

    def clear_and_put(self, event: Event) -> None:
        """Throws away what waits, and adds an event."""
        # ``clearAndPut``: what waits was meant for a term that ends, and its callers must not wait for it.
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            _preempt(each)
        self.put(event)

    def close(self) -> None:
        """Throws away what waits, and takes no more."""
        self._closed = True
        while self._waiting:
            _preempt(self._waiting.popleft())

    def _run(self) -> None:
        """A loop and not a recursion: a thousand events that are done at once must not use up the stack."""
        while self._current is None and self._waiting:
            event = self._current = self._waiting.popleft()
            _events.debug("event", name=event.name)
            # An event that raises at once is treated like one whose Pending fails.
            pending = _start(event)
            if pending.error is not None:
                pending = self._on_failure(event, pending.error)
            # The event did not have to wait for the store; one that does comes back by `_finished`.
            if pending.done:
                self._current = None
            else:
                pending.when_done(partial(self._finished, event))

    def _finished(self, event: Event, done: Pending[Any]) -> None:
        if done.error is not None:
            self._on_failure(event, done.error).when_done(lambda _: self._next())
        else:
            self._next()

    def _next(self) -> None:
        self._current = None
        self._run()

    def __repr__(self) -> str:
        running = self._current.name if self._current else None
        return f"<ControllerEventManager running={running} waiting={[event.name for event in self._waiting]}>"


def _start(event: Event) -> Pending[Any]:
    try:
        return event.process()
    except Exception as error:
        return Pending.failed(error)


def _preempt(event: Event) -> None:
    if event.preempt is not None:
        event.preempt()
