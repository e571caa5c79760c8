"""`ZnodeWatches`: the watches of one controller's term, each of which puts an event into the controller's
queue.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from barnabas.cluster.store.contract import Change, MetadataStore, Stat, Watch, WatchEvent
from barnabas.core.pending import Pending, Steps, steps

Put: TypeAlias = Callable[[str, Callable[..., Pending[Any]]], object]
"""Queues an event: its name, and what it does to the `Term` that is in office by then (which has these
watches).
"""


class ZnodeEvent(NamedTuple):
    """What a change of a znode leads to: a row of `barnabas.cluster.controller.events`."""

    znode: str
    """A path; with ``*`` as its last part, that of each znode below."""
    change: Change
    name: str
    """As Kafka calls the event; the log has it."""
    process: Callable[..., Pending[Any]]
    """Is called with the term, and with the name of the znode where the path ends with ``*``."""


class ZnodeWatches:
    """Reads znodes and leaves the watches on them that the table asks for.

    Watches fire once, so every read that goes through here leaves the watch again: the function that
    processes an event reads what changed, and the next change is an event too. Two reads leave one watch.
    """

    def __init__(self, store: MetadataStore, events: Iterable[ZnodeEvent], put: Put) -> None:
        self._store = store
        self._events = {(event.znode, event.change): event for event in events}
        self._put = put
        self._watches: dict[tuple[str, Change], Watch] = {}
        self._over = False

    @steps
    def start(self) -> Steps[None]:
        """Leaves the watches of all rows whose znode has one path.
        The others are left as their znodes are read.
        """
        for znode, change in self._events:
            if change is Change.CHILDREN:
                yield self.children(znode)
            elif change is Change.CREATED:
                yield self.exists(znode)

    def children(self, path: str) -> Pending[list[str]]:
        """The names below a path; a name that comes or goes is an event."""
        return self._store.children(path, self._watch(path, Change.CHILDREN))

    def get(self, path: str) -> Pending[tuple[bytes | None, Stat]]:
        """Data and stat; a write is an event."""
        return self._store.get(path, self._watch(path, Change.DATA))

    def exists(self, path: str) -> Pending[Any]:
        """The stat or None; the creation is an event."""
        return self._store.exists(path, self._watch(path, Change.CREATED))

    def mute(self, path: str) -> None:
        """Writes of this znode are no events from now on (``mutePartitionModifications``)."""
        self._watches.pop((path, Change.DATA), None)

    def end(self) -> None:
        """The term is over: a watch that fires later puts no event."""
        self._over = True
        self._watches.clear()

    def _watch(self, path: str, change: Change) -> Watch:
        parent, _, name = path.rpartition("/")
        event = self._events.get((path, change)) or self._events[f"{parent}/*", change]

        def process(term: Any) -> Pending[Any]:
            return event.process(term, name) if event.znode.endswith("/*") else event.process(term)

        def watch(fired: WatchEvent) -> None:
            # A watch cannot be taken back from the store: one that was muted or left by an ended term may
            # still fire.
            if not self._over and self._watches.get((path, change)) is watch and fired.change is change:
                self._put(event.name, process)

        return self._watches.setdefault((path, change), watch)

    def __repr__(self) -> str:
        return f"<ZnodeWatches {'over' if self._over else sorted(path for path, _ in self._watches)}>"
