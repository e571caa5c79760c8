"""The two waits of a rebalance (purgatory ``Rebalance``): `DelayedJoin` for members, `DelayedSync` for syncs."""

from collections.abc import Callable

from barnabas.core.clock import Clock


class _DelayedRebalance:
    """A timer of one group; `cancel` when what it waits for has come."""

    __slots__ = ("_timer", "delay_ms")

    def __init__(self, clock: Clock, delay_ms: float, expired: Callable[[], object]) -> None:
        self.delay_ms = delay_ms
        self._timer = clock.call_later(delay_ms, expired)

    def cancel(self) -> None:
        """Nothing is waited for any more."""
        self._timer.cancel()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} Rebalance delay_ms={self.delay_ms:.0f}>"


class DelayedJoin(_DelayedRebalance):
    """Waits until all members have joined; ends early when they have."""

    __slots__ = ()

    @property
    def ends_early(self) -> bool:
        """Whether it is over as soon as all who are known have joined."""
        return True


class InitialDelayedJoin(DelayedJoin):
    """Waits for members nobody knows of yet: an empty group gives them time before its first assignment."""

    __slots__ = ("remaining_ms",)

    def __init__(
        self, clock: Clock, delay_ms: float, expired: Callable[[], object], *, remaining_ms: float
    ) -> None:
        super().__init__(clock, delay_ms, expired)
        self.remaining_ms = remaining_ms
        """What is left of the rebalance time-out for more such waits."""

    @property
    def ends_early(self) -> bool:
        """Never: who is still to come is not known."""
        return False


class DelayedSync(_DelayedRebalance):
    """Waits until all members of a generation have asked for their assignment."""

    __slots__ = ()
