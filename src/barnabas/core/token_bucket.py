"""`TokenBucket`: what may be spent, which grows again by a rate up to a limit
(``stats.TokenBucket``, KIP-599).

A bucket begins full. Spending more than there is takes it below zero; it is in debt until the rate has paid
that back.
"""

from collections.abc import Callable


class TokenBucket:
    """Tokens that grow by `rate` a second, up to those of `burst_s` seconds. The rate may change."""

    __slots__ = ("_burst_s", "_now_ms", "_tokens", "_updated_ms", "rate")

    def __init__(self, now_ms: Callable[[], float], rate: float, *, burst_s: float) -> None:
        self._now_ms = now_ms
        self._burst_s = burst_s
        self.rate = rate
        self._tokens = rate * burst_s
        self._updated_ms = now_ms()

    @property
    def tokens(self) -> float:
        """What there is now; below zero it is a debt."""
        now_ms = self._now_ms()
        grown = self._tokens + self.rate * (now_ms - self._updated_ms) / 1000
        self._tokens = min(self.rate * self._burst_s, grown)
        self._updated_ms = now_ms
        return self._tokens

    @property
    def full(self) -> bool:
        """Whether it is as a new one would be."""
        return self.tokens >= self.rate * self._burst_s

    def spend(self, tokens: float) -> None:
        """Takes these out, also those that are not there."""
        self._tokens = min(self.rate * self._burst_s, self.tokens - tokens)

    def debt_ms(self) -> float:
        """How long it takes until a debt is paid back; 0 without one, or where nothing ever pays it."""
        tokens = self.tokens
        return -tokens / self.rate * 1000 if tokens < 0 < self.rate else 0.0

    def __repr__(self) -> str:
        return f"<TokenBucket {self.tokens:.1f} tokens, {self.rate:.1f}/s>"
