"""`AddressRates`: how fast connections may come from each address (KIP-612, ``ConnectionQuotas``)."""

from collections.abc import Callable
from typing import Final

from barnabas.core.sampled_rate import SampledRate, most_used

ADDRESSES_MAX: Final = 10_000
"""How many addresses are measured; of more, those that came most are kept."""


class AddressRates:
    """The limits of addresses, and how many connections came from those that have one."""

    __slots__ = ("_limits", "_now_ms", "_rates", "_samples", "_window_ms", "default")

    def __init__(self, now_ms: Callable[[], float], *, samples: int, window_ms: int) -> None:
        self._now_ms = now_ms
        self._samples = samples
        self._window_ms = window_ms
        self._limits: dict[str, float] = {}
        self._rates: dict[str, SampledRate] = {}
        self.default: float | None = None
        """Connections a second from an address without a limit of its own; None for as many as come."""

    def set(self, address: str, limit: float | None) -> None:
        """Connections a second from one address; None leaves it to the default of all."""
        if limit is None:
            self._limits.pop(address, None)
        else:
            self._limits[address] = limit

    def throttle_ms(self, address: str) -> int:
        """Counts a connection that came; more than 0 where it is one too many, and is not counted then: for
        how long it stays open, unread (``recordIpConnectionMaybeThrottle``).
        """
        limit = self._limits.get(address, self.default)
        if limit is None:
            return 0
        rate = self._rates.get(address)
        if rate is None:
            rate = self._rate(address)
        rate.record(1)
        excess_ms = rate.excess_ms(limit) if limit else self._window_ms
        throttle_ms = min(int(excess_ms + 0.5), self._window_ms)
        if throttle_ms > 0:
            rate.record(-1)
        return throttle_ms

    def _rate(self, address: str) -> SampledRate:
        if len(self._rates) >= ADDRESSES_MAX:
            busy = {name: rate for name, rate in self._rates.items() if not rate.is_idle}
            self._rates = most_used(busy, lambda rate: rate, ADDRESSES_MAX // 2)
        rate = self._rates[address] = SampledRate(
            self._now_ms, samples=self._samples, window_ms=self._window_ms, full_windows=True
        )
        return rate

    def __repr__(self) -> str:
        return f"<AddressRates limits={len(self._limits)} default={self.default}>"
