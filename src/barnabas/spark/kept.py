"""The Kafka clients that a process keeps between tasks."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from barnabas.core.errors import BarnabasError

_log = logging.getLogger("barnabas.spark")

_MOST: Final = 8
"""Clients of one kind in one process:
a worker serves all queries of a session, one task after the other.
"""


class Closable(Protocol):
    """A client with connections."""

    def close(self) -> None:
        """Ends them."""


C = TypeVar("C", bound=Closable)


class KeptClients(Generic[C]):
    """Clients by their ``kafka.*`` options. Spark uses a worker again, so their connections stay open.

    The one that was unused for longest is closed when there would be too many: a session may run for months,
    and each of its queries may have options of its own (as ``KafkaDataConsumer``'s pool has a capacity).
    """

    def __init__(self, make: Callable[[dict[str, str]], C], most: int = _MOST) -> None:
        self._make = make
        self._most = most
        self._clients: OrderedDict[tuple[tuple[str, str], ...], C] = OrderedDict()

    def get(self, options: Mapping[str, str]) -> C:
        """The client with these options; made now if there is none. Raises what making one raises."""
        key = tuple(sorted(options.items()))
        if key not in self._clients:
            self._clients[key] = self._make(dict(options))
            if len(self._clients) > self._most:
                self._close(self._clients.popitem(last=False)[1])
        self._clients.move_to_end(key)
        return self._clients[key]

    @staticmethod
    def _close(idle: C) -> None:
        """Ends a client that another query left behind;
        what was in flight there is no matter of this one's.
        """
        try:
            idle.close()
        except (BarnabasError, OSError) as error:
            _log.warning("%r did not close well: %s", idle, error)

    def __repr__(self) -> str:
        return f"<KeptClients {len(self._clients)} of at most {self._most}>"
