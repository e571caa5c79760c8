"""The clock of an event loop, for clients that no broker's composition root hands one."""

import asyncio
import time
from collections.abc import Callable

from barnabas.core.clock import Timer
from barnabas.core.compiled import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class LoopClock:
    """`core.clock.Clock` on an asyncio event loop."""

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    @staticmethod
    def time_ms() -> int:
        return time.time_ns() // 1_000_000

    @staticmethod
    def monotonic_ms() -> float:
        return time.monotonic() * 1000

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        return self._loop.call_later(delay_ms / 1000, callback)

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon(callback)
