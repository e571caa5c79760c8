"""Calls between processes, which arrive late, overtake each other, get lost, or do not get through."""

from collections.abc import Callable
from random import Random
from typing import Any, Final, Protocol, TypeVar

from barnabas.core.chunks import materialize
from barnabas.core.pending import Pending
from barnabas.testing.clock import VirtualClock

T = TypeVar("T")

_USUAL_MS: Final = 1.0
_SPIKE_MS: Final = 60.0
_SPIKES: Final = 0.03
_LOST: Final = 0.005
TIMEOUT_MS: Final = 500.0


class Party(Protocol):
    """One who calls or is called."""

    name: str

    @property
    def life(self) -> int:
        """A number of its own for each life; 0 while it is dead."""

    def arrive(self, callback: Callable[[], object]) -> None:
        """Something comes in: it is taken now, or when a process that is stopped runs again."""


class LostCallError(Exception):
    """The call or its answer did not arrive: whether it was carried out is not known."""


class PartyNetwork:
    """All ways between all parties."""

    def __init__(self, clock: VirtualClock, rng: Random) -> None:
        self._clock = clock
        self._rng = rng
        self._cut: set[frozenset[str]] = set()

    def cut(self, one: str, other: str) -> None:
        """Nothing gets through between the two until `heal`."""
        self._cut.add(frozenset({one, other}))

    def heal(self) -> None:
        """All ways are open again."""
        self._cut.clear()

    def call(
        self,
        caller: Party,
        callee: Party,
        work: Callable[[], Pending[T]],
        answered: Callable[[Pending[T]], object],
    ) -> None:
        """Runs `work` where the callee is, and `answered` where the caller is, each only in the life that it
        was meant for. A call of which nothing was heard within `TIMEOUT_MS` fails with `LostCallError`.
        """
        caller_life, callee_life = caller.life, callee.life
        is_answered = False

        def answer(outcome: Pending[T]) -> None:
            nonlocal is_answered
            if not is_answered and caller.life == caller_life:
                is_answered = True
                answered(outcome)

        def done(outcome: Pending[T]) -> None:
            self._carry(callee, caller, lambda: answer(outcome))

        def arrive() -> None:
            if callee.life == callee_life and callee_life:
                _run(work).when_done(done)

        lost = Pending[T].failed(LostCallError())
        self._clock.call_later(TIMEOUT_MS, lambda: caller.arrive(lambda: answer(lost)))
        self._carry(caller, callee, arrive)

    def _carry(self, source: Party, target: Party, arrive: Callable[[], object]) -> None:
        rng = self._rng
        delay_ms = rng.expovariate(1 / (_SPIKE_MS if rng.random() < _SPIKES else _USUAL_MS))
        way = frozenset({source.name, target.name})
        if source.name == target.name:
            self._clock.call_later(0, lambda: target.arrive(arrive))
        elif rng.random() >= _LOST:
            self._clock.call_later(delay_ms, lambda: None if way in self._cut else target.arrive(arrive))

    def __repr__(self) -> str:
        return f"<Wire cut={sorted(map(sorted, self._cut))}>"


def on_the_wire(message: Any, version: int) -> Any:
    """The message as the other end decodes it."""
    return type(message).decode(materialize(message.encode(version)), version)[0]


def _run(work: Callable[[], Pending[T]]) -> Pending[T]:
    try:
        return work()
    except Exception as error:
        return Pending.failed(error)
