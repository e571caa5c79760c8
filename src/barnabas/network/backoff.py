"""How long to wait before the next attempt (``org.apache.kafka.common.utils.ExponentialBackoff``)."""

import math
from collections.abc import Callable
from typing import Final

JITTER: Final = 0.2
"""What Kafka's clients use for reconnects, connection set-up and retries alike."""


class ExponentialBackoff:
    """initial * multiplier ** attempts, spread by a jitter, and capped after the jitter.

    So values at the ceiling lie in [(1 - jitter) * max, max]. Where max does not exceed initial, the value
    is initial without any jitter.
    """

    __slots__ = ("_exponent_max", "_initial_ms", "_jitter", "_max_ms", "_multiplier", "_uniform")

    def __init__(
        self,
        *,
        initial_ms: int,
        max_ms: int,
        uniform: Callable[[float, float], float],
        multiplier: int = 2,
        jitter: float = JITTER,
    ) -> None:
        """`uniform(low, high)` draws the jitter (``random.Random.uniform``)."""
        self._initial_ms = initial_ms
        self._max_ms = max_ms
        self._multiplier = multiplier
        self._jitter = jitter
        self._uniform = uniform
        self._exponent_max = (
            math.log(max_ms / max(initial_ms, 1)) / math.log(multiplier) if max_ms > initial_ms else 0.0
        )

    def after(self, attempts: int) -> int:
        """Milliseconds to wait after a number of failed attempts (0 for the first wait)."""
        if not self._exponent_max:
            return self._initial_ms
        term = self._initial_ms * self._multiplier ** min(attempts, self._exponent_max)
        spread = self._uniform(1 - self._jitter, 1 + self._jitter) if self._jitter else 1.0
        return min(int(spread * term), self._max_ms)

    def __repr__(self) -> str:
        return f"<ExponentialBackoff {self._initial_ms}-{self._max_ms} ms>"
