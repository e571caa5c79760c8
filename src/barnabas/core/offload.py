"""The port for CPU-bound Python, which must never share the interpreter with the event loop.

Measured: a pure-Python thread beside the loop takes a request's p50 from 74 us to 10 ms, a child process
leaves it at 36 us. So recovery scans, compaction and recompression go through `Offload`, whose real
implementation is a child process (`barnabas.node`) and whose simulated one runs in place.
"""

from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from barnabas.core.errors import BarnabasError
from barnabas.core.pending import Pending

P = ParamSpec("P")
T = TypeVar("T")


class Offload(Protocol):
    """Runs a module-level function of plain values elsewhere."""

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        """The function's value, later. Function, arguments and value must be importable / plain values."""


class ClosableOffload(Offload, Protocol):
    """One with resources of its own."""

    def close(self) -> None:
        """Ends it, after the work that runs."""


class ResizableOffload(ClosableOffload, Protocol):
    """One that does several pieces of work at a time."""

    def resize(self, processes: int) -> None:
        """How many, by what begins from now on."""


class ChildEndedError(BarnabasError):
    """The child process that had the work was killed, each time; nothing is known of the work."""


class InPlace:
    """The simplest `Offload`: runs at once, in this process. For tools and simulation."""

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        """Runs the function now; its exception becomes the failure."""
        try:
            return Pending.of(function(*args, **kwargs))
        except Exception as error:
            return Pending.failed(error)
