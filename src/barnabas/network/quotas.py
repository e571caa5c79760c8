"""How many connections there are, in all and from each address (``ConnectionQuotas``)."""

from collections import Counter

from barnabas.network.settings import SocketSettings


class ConnectionQuotas:
    """Counts connections and says whether one more is allowed."""

    __slots__ = ("_by_address", "_settings", "total")

    def __init__(self, settings: SocketSettings) -> None:
        self._settings = settings
        self._by_address: Counter[str] = Counter()
        self.total = 0

    @property
    def full(self) -> bool:
        return self.total >= self._settings.connections_max

    def admit(self, address: str) -> bool:
        """Counts one more connection from the address, unless it has too many already."""
        settings = self._settings
        allowed = settings.connections_per_ip_overrides.get(address, settings.connections_per_ip_max)
        if self._by_address[address] >= allowed:
            if not self._by_address[address]:
                del self._by_address[address]
            return False
        self._by_address[address] += 1
        self.total += 1
        return True

    def release(self, address: str) -> None:
        assert self._by_address[address] > 0, "a connection was released twice"
        self.total -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def __repr__(self) -> str:
        return f"<ConnectionQuotas total={self.total} addresses={len(self._by_address)}>"
