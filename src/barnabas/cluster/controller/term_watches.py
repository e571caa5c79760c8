"""`TermWatches`: the watches of one controller's term, which mean nothing once it is over."""

from collections.abc import Callable
from typing import Any, TypeAlias

from barnabas.cluster.store.contract import Change, MetadataStore, Stat, Watch, WatchEvent
from barnabas.core.pending import Pending

Handler: TypeAlias = Callable[[WatchEvent], object]


class TermWatches:
    """Reads znodes and leaves watches on them.

    Watches fire once, so every read that goes through here leaves the watch again: whoever processes an
    event reads what changed in the same way, and is told of the next change. Two reads leave one watch.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._watches: dict[str, Watch] = {}
        self._over = False

    def children(self, path: str, handler: Handler) -> Pending[list[str]]:
        """The names below a path; the handler is told when one comes or goes."""
        return self._store.children(path, self._watch(f"{path}/", handler, {Change.CHILDREN}))

    def get(self, path: str, handler: Handler) -> Pending[tuple[bytes | None, Stat]]:
        """Data and stat; the handler is told when it is written."""
        return self._store.get(path, self._watch(path, handler, {Change.DATA}))

    def exists(self, path: str, handler: Handler) -> Pending[Any]:
        """The stat or None; the handler is told when it is created."""
        return self._store.exists(path, self._watch(path, handler, {Change.CREATED}))

    def mute(self, path: str) -> None:
        """The handler of this znode shall hear no more."""
        self._watches.pop(path, None)

    def end(self) -> None:
        """The term is over: nothing fires any more."""
        self._over = True
        self._watches.clear()

    def _watch(self, key: str, handler: Handler, changes: set[Change]) -> Watch:
        def watch(event: WatchEvent) -> None:
            if not self._over and self._watches.get(key) is watch and event.change in changes:
                handler(event)

        return self._watches.setdefault(key, watch)

    def __repr__(self) -> str:
        return f"<TermWatches {'over' if self._over else sorted(self._watches)}>"
