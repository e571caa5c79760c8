"""CPU-bound Python in a child process, so that the event loop keeps the interpreter to itself."""

import asyncio
import logging
import os
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from functools import partial
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from barnabas.core.eventlog import EventFormatter, EventLog, shown
from barnabas.core.offload import ChildEndedError
from barnabas.core.pending import Pending

_log = EventLog("node.offload")

P = ParamSpec("P")
T = TypeVar("T")

LINES_MAX: Final = 1000
"""How many lines of the log come back with one piece of work; a last one counts the others."""

ATTEMPTS: Final = 2
"""How often a piece of work is begun:
a child that ends in the middle of it may have been killed for another's sake.
"""


class ProcessOffload:
    """`core.offload.Offload` on child processes that start with the first piece of work.

    A spawned child shares nothing with the broker: forking a process that holds sockets, locks and an event
    loop would share all of them. It has no log of its own either: what the work logs comes back with its
    value and goes through the broker's log, with the time at which it happened.

    A child that ends (killed by hand, or for want of memory) takes all the work with it that was given to it
    and its siblings. All of that is begun again in new children: work may be done twice, and must bear that.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, processes: int = 1) -> None:
        self._loop = loop
        self._processes = processes
        self._executor: Executor | None = None
        self._closed = False

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        """The value of a module-level function, computed in a child;
        ChildEndedError when no child outlives it.
        """
        outcome: Pending[T] = Pending()
        level = logging.getLogger("barnabas").getEffectiveLevel()
        self._begin(partial(_work, level, function, args, kwargs), outcome, 1)
        return outcome

    def resize(self, processes: int) -> None:
        """How many children there are, where they have not started yet."""
        self._processes = processes

    def _begin(self, work: Callable[[], "_Done"], outcome: Pending[Any], attempt: int) -> None:
        if self._executor is None:
            self._executor = _children(self._processes)
        executor = self._executor
        try:
            future = executor.submit(work)
        except BrokenExecutor:
            # Its child has ended, and the work that reports this has not come back yet.
            self._give_up(executor)
            self._begin(work, outcome, attempt)
            return

        def hand_over(done: "Future[_Done]") -> None:
            if not done.cancelled() and isinstance(done.exception(), BrokenExecutor):
                self._child_ended(executor, work, outcome, attempt)
            else:
                _hand_over(done, outcome)

        future.add_done_callback(lambda done: self._loop.call_soon_threadsafe(hand_over, done))

    def _child_ended(
        self, executor: Executor, work: Callable[[], "_Done"], outcome: Pending[Any], attempt: int
    ) -> None:
        self._give_up(executor)
        if attempt < ATTEMPTS and not self._closed:
            _log.warning(
                "offload.child_ended", meaning="it was killed, or memory ran out: its work begins again"
            )
            self._begin(work, outcome, attempt + 1)
        else:
            outcome.fail(
                ChildEndedError(
                    "a child process of the broker was killed in the middle of its work: see whether memory "
                    "is short"
                )
            )

    def _give_up(self, executor: Executor) -> None:
        """Ends the siblings of a child that has ended, as Python lets none of them take more work.

        That takes a moment, but none may still be writing to a segment when another begins with it again.
        """
        if self._executor is executor:
            self._executor = None
            executor.shutdown(wait=True)

    def close(self) -> None:
        """Ends the children after what they are at; work that has not begun fails."""
        self._closed = True
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None


def _children(processes: int) -> Executor:
    # Most brokers start after a clean stop and never need these modules.
    import multiprocessing  # noqa: PLC0415
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(processes, mp_context=context, initializer=end_with_the_parent)


def end_with_the_parent() -> None:
    """Ends this child when its parent has ended: a parent that was killed cannot say so, and a child that
    waits for work holds both ends of the pipe that the work would come through.
    """
    import multiprocessing  # noqa: PLC0415

    def watch() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


class _Done(NamedTuple):
    """What a child sends back."""

    value: Any
    error: Exception | None
    lines: list[logging.LogRecord]
    left_out: int


class _Lines(logging.Handler):
    """Keeps what is logged as plain values, which can be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[logging.LogRecord] = []
        self.left_out = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the line, as long as there are not too many."""
        if len(self.kept) >= LINES_MAX:
            self.left_out += 1
            return
        if record.exc_info:
            record.exc_text = EventFormatter().formatException(record.exc_info)
        record.msg, record.args, record.exc_info = record.getMessage(), None, None
        fields = getattr(record, "fields", {})
        record.fields = {name: shown(value) for name, value in fields.items()}
        self.kept.append(record)


def _work(level: int, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Done:
    """Runs in the child: the work, and everything that it logs at this level or above."""
    lines = _Lines()
    logger = logging.getLogger("barnabas")
    logger.setLevel(level)
    logger.propagate = False
    logger.addHandler(lines)
    value, failure = None, None
    try:
        value = function(*args, **kwargs)
    except Exception as error:
        # A traceback cannot be sent; as a note its text is shown with the error.
        error.add_note(f"in the child process:\n{traceback.format_exc()}")
        failure = error
    finally:
        logger.removeHandler(lines)
    return _Done(value, failure, lines.kept, lines.left_out)


def _hand_over(future: "Future[_Done]", outcome: Pending[Any]) -> None:
    if future.cancelled():
        outcome.fail(RuntimeError("the broker stopped before this work began"))
        return
    if error := future.exception():
        outcome.fail(error)
        return
    done = future.result()
    for line in done.lines:
        logging.getLogger(line.name).handle(line)
    if done.left_out:
        _log.warning("offload.lines_left_out", lines=done.left_out)
    if done.error is not None:
        outcome.fail(done.error)
    else:
        outcome.complete(done.value)
