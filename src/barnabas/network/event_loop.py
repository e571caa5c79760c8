"""asyncio's event loop for a broker: connections are called by a `Poller`, everything else by asyncio.

Timers, tasks, TLS, threads and child processes are asyncio's as ever. What is watched with ``add_reader`` and
``add_writer`` stands in the poller, and the function is called right where the wait ends. asyncio's own way
makes a key, a tuple, and a call within a copied context out of each event. What asyncio watches itself stays
in its selector, which is one descriptor of the poller (an epoll within an epoll).
"""

import asyncio
import functools
import selectors
from collections.abc import Callable
from typing import Protocol, TypeVarTuple

from barnabas.network.poller import Poller

Ts = TypeVarTuple("Ts")


class HasFileno(Protocol):
    """A socket, or what stands for one."""

    def fileno(self) -> int: ...


class _Selector(selectors.EpollSelector):
    """What asyncio waits with."""

    poller: Poller

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            timeout = -1.0
        elif timeout < 0:
            timeout = 0.0
        return super().select(0) if self.poller.poll(timeout) else []

    def close(self) -> None:
        self.poller.close()
        super().close()


class BrokerEventLoop(asyncio.SelectorEventLoop):
    """The loop that `barnabas serve` runs on, unless uvloop is asked for."""

    def __init__(self, busy_poll_s: float = 0.0) -> None:
        selector = _Selector()
        self._poller = selector.poller = Poller(selector.fileno(), busy_poll_s, self._callback_failed)
        super().__init__(selector)

    def add_reader(self, fd: int | HasFileno, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        self._poller.set_reader(_descriptor(fd), _without_arguments(callback, args))

    def remove_reader(self, fd: int | HasFileno) -> bool:
        # asyncio's own readers, which it does not add with `add_reader`, it does remove with this.
        return self._poller.remove_reader(_descriptor(fd)) or super().remove_reader(fd)

    def add_writer(self, fd: int | HasFileno, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        self._poller.set_writer(_descriptor(fd), _without_arguments(callback, args))

    def remove_writer(self, fd: int | HasFileno) -> bool:
        return self._poller.remove_writer(_descriptor(fd)) or super().remove_writer(fd)

    def _callback_failed(self, error: BaseException, callback: object) -> None:
        """As asyncio with a callback that raises: it is logged, and the loop runs the next one."""
        self.call_exception_handler({"message": f"Exception in callback {callback!r}", "exception": error})


def _descriptor(fd: int | HasFileno) -> int:
    return fd if isinstance(fd, int) else fd.fileno()


def _without_arguments(callback: Callable[..., object], args: tuple[object, ...]) -> Callable[[], object]:
    return functools.partial(callback, *args) if args else callback
