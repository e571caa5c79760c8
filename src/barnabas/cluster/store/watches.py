"""The watches of one session: which callable waits for which change of which znode."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.cluster.store.contract import Change, Watch, WatchEvent


class Fired(NamedTuple):
    """A watch, the event that it is called with, and its kind."""

    watch: Watch
    event: WatchEvent
    on_children: bool


class WatchTable:
    """One-shot watches by path, of ZooKeeper's two kinds: on a znode itself and on its children.

    The same callable left twice on one path fires once, as in ZooKeeper.
    """

    def __init__(self) -> None:
        self._on_node: defaultdict[str, dict[Watch, None]] = defaultdict(dict)
        self._on_children: defaultdict[str, dict[Watch, None]] = defaultdict(dict)

    def on_node(self, path: str, watch: Watch) -> None:
        """Waits for the creation, a write or the deletion of a znode."""
        self._on_node[path][watch] = None

    def on_children(self, path: str, watch: Watch) -> None:
        """Waits for a child that comes or goes, or for the deletion of the znode."""
        self._on_children[path][watch] = None

    def take(self, changes: Iterable[WatchEvent]) -> list[Fired]:
        """The watches that these changes fire, in order; they are forgotten."""
        fired: list[Fired] = []
        for event in changes:
            if event.change is not Change.CHILDREN:
                fired += [Fired(watch, event, False) for watch in self._on_node.pop(event.path, ())]
            if event.change in (Change.CHILDREN, Change.DELETED):
                fired += [Fired(watch, event, True) for watch in self._on_children.pop(event.path, ())]
        return fired

    def restore(self, fired: Iterable[Fired]) -> None:
        """Lets watches wait again: the changes that fired them were undone."""
        for each in fired:
            leave = self.on_children if each.on_children else self.on_node
            leave(each.event.path, each.watch)

    def clear(self) -> None:
        """Forgets all of them: the session is over."""
        self._on_node.clear()
        self._on_children.clear()

    def __len__(self) -> int:
        return sum(map(len, self._on_node.values())) + sum(map(len, self._on_children.values()))

    def __repr__(self) -> str:
        return f"<WatchTable {sorted(self._on_node)} children of {sorted(self._on_children)}>"
