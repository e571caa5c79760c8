"""`SlowStore`: a broker's session on the metadata store, over a network:
calls and answers take time, in order.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, Protocol, TypeVar

from barnabas.cluster.store.contract import (
    Operation,
    SessionExpiredError,
    SessionListener,
    SingleWrites,
    Stat,
    Watch,
)
from barnabas.cluster.store.memory import MemoryEnsemble, MemoryStore
from barnabas.core.pending import Pending
from barnabas.testing.clock import ProcessClock, VirtualClock

T = TypeVar("T")

_USUAL_MS: Final = 0.3


class _Timers(Protocol):
    def monotonic_ms(self) -> float: ...

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> object: ...


class _Way:
    """One direction of a connection: nothing overtakes."""

    def __init__(self, clock: _Timers, rng: Random) -> None:
        self._clock = clock
        self._rng = rng
        self._free_ms = 0.0

    def carry(self, arrive: Callable[[], object]) -> None:
        """Runs `arrive` at the other end."""
        now_ms = self._clock.monotonic_ms()
        self._free_ms = max(self._free_ms, now_ms + self._rng.expovariate(1 / _USUAL_MS))
        self._clock.call_later(self._free_ms - now_ms, arrive)

    def stall(self, by_ms: float) -> None:
        """Nothing arrives for a while."""
        self._free_ms = max(self._free_ms, self._clock.monotonic_ms() + by_ms)


class SlowStore(SingleWrites):
    """A `barnabas.cluster.store.contract.MetadataStore` for one life of a broker.

    What was sent takes effect even when the broker dies meanwhile, as long as its session lives.
    """

    def __init__(
        self, ensemble: MemoryEnsemble, world: VirtualClock, clock: ProcessClock, rng: Random
    ) -> None:
        self._calls = _Way(world, rng)
        self._answers = _Way(clock, rng)
        self._session = MemoryStore(ensemble, self._answers.carry)

    @property
    def session_id(self) -> int:
        return self._session.session_id

    def start(self) -> Pending[None]:
        return self._session.start()

    def close(self) -> Pending[None]:
        return self._session.close()

    def listen(self, listener: SessionListener) -> None:
        self._session.listen(listener)

    def expired(self) -> None:
        """The broker learns that its session has ended."""
        self._session.expired()

    def stall(self, calls_ms: float, answers_ms: float) -> None:
        """Calls, answers or both arrive only after so long."""
        self._calls.stall(calls_ms)
        self._answers.stall(answers_ms)

    def multi(self, operations: Sequence[Operation]) -> Pending[list[Any]]:
        return self._call(lambda: self._session.multi(operations))

    def get(self, path: str, watch: Watch | None = None) -> Pending[tuple[bytes | None, Stat]]:
        return self._call(lambda: self._session.get(path, watch))

    def exists(self, path: str, watch: Watch | None = None) -> Pending[Stat | None]:
        return self._call(lambda: self._session.exists(path, watch))

    def children(self, path: str, watch: Watch | None = None) -> Pending[list[str]]:
        return self._call(lambda: self._session.children(path, watch))

    def _call(self, call: Callable[[], Pending[T]]) -> Pending[T]:
        answer: Pending[T] = Pending()
        session_id = self.session_id

        def arrive() -> None:
            if self.session_id == session_id:
                call().when_done(answer.end_as)
            else:
                self._answers.carry(lambda: answer.fail(SessionExpiredError("")))

        self._calls.carry(arrive)
        return answer

    def __repr__(self) -> str:
        return f"<SlowStore session={self.session_id}>"
