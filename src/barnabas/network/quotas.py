"""How many connections there are, in all, of each listener and from each address, and how fast they come
(``ConnectionQuotas``).
"""

from collections import Counter
from collections.abc import Callable

from barnabas.core.sampled_rate import SampledRate
from barnabas.network.settings import SocketSettings


class ConnectionQuotas:
    """Counts connections and says whether one more is allowed, and when.

    The broker's limits are for all listeners but the protected one, by which brokers reach each other; that
    has the limits of a single listener only (KIP-402, KIP-612).
    """

    __slots__ = (
        "_by_address",
        "_by_listener",
        "_now_ms",
        "_protected",
        "_rate",
        "_rates",
        "_settings",
        "total",
    )

    def __init__(
        self,
        settings: SocketSettings,
        now_ms: Callable[[], float],
        *,
        inter_broker_listener: str | None = None,
    ) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self._protected = inter_broker_listener
        self._by_address: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._rate = self._new_rate()
        self._rates: dict[str, SampledRate] = {}
        self.total = 0

    def _new_rate(self) -> SampledRate:
        settings = self._settings
        return SampledRate(
            self._now_ms,
            samples=settings.quota_samples,
            window_ms=settings.quota_window_ms,
            full_windows=True,
        )

    def reconfigure(self, settings: SocketSettings) -> None:
        """Other limits, for connections that are there too: see `excess`."""
        self._settings = settings

    def add_listener(self, listener: str) -> None:
        self._rates[listener] = self._new_rate()

    def remove_listener(self, listener: str) -> None:
        """Its connections count until they are released."""
        del self._rates[listener]

    def _is_protected(self, listener: str) -> bool:
        return listener == self._protected and len(self._rates) > 1

    @property
    def full(self) -> bool:
        return self.total >= self._settings.connections_max

    @property
    def excess(self) -> int:
        """How many connections there are too many, since the limit was lowered or for the protected
        listener.
        """
        return max(0, self.total - self._settings.connections_max)

    def by_listener(self) -> dict[str, int]:
        """How many connections each listener has."""
        return {listener: self._by_listener[listener] for listener in self._rates}

    def has_slot(self, listener: str) -> bool:
        """``connectionSlotAvailable``: whether the listener may have one more connection."""
        if self._by_listener[listener] >= self._settings.limits(listener)[0]:
            return False
        return self._is_protected(listener) or not self.full

    def throttle_ms(self, listener: str) -> float:
        """Counts a connection that comes; how long nothing may follow it, at most one window
        (``recordConnectionAndGetThrottleTimeMs``).
        """
        settings = self._settings
        rates = [(self._rates[listener], settings.limits(listener)[1])]
        if not self._is_protected(listener):
            rates.append((self._rate, settings.creation_rate_max))
        throttle_ms = 0.0
        for rate, bound in rates:
            rate.record(1)
            # A rate of zero lets one connection in each window.
            excess_ms = rate.excess_ms(bound) if bound else settings.quota_window_ms
            throttle_ms = max(throttle_ms, min(excess_ms, settings.quota_window_ms))
        return throttle_ms

    def admit(self, listener: str, address: str) -> bool:
        """Counts one more connection from the address, unless it has too many already."""
        settings = self._settings
        allowed = settings.connections_per_ip_overrides.get(address, settings.connections_per_ip_max)
        if self._by_address[address] >= allowed:
            if not self._by_address[address]:
                del self._by_address[address]
            return False
        self._by_address[address] += 1
        self._by_listener[listener] += 1
        self.total += 1
        return True

    def release(self, listener: str, address: str) -> None:
        assert self._by_address[address] > 0, "a connection was released twice"
        self.total -= 1
        self._by_listener[listener] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def __repr__(self) -> str:
        return f"<ConnectionQuotas total={self.total} addresses={len(self._by_address)}>"
