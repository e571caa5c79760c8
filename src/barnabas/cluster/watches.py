"""The watches of one session: who waits for which change of which znode."""

from collections import defaultdict
from collections.abc import Iterable

from barnabas.cluster.store import Change, Watch, WatchEvent


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

    def take(self, changes: Iterable[WatchEvent]) -> list[tuple[Watch, WatchEvent]]:
        """The watches that these changes fire, in order; they are forgotten."""
        fired = []
        for event in changes:
            watches: dict[Watch, None] = {}
            if event.change is not Change.CHILDREN:
                watches |= self._on_node.pop(event.path, {})
            if event.change in (Change.CHILDREN, Change.DELETED):
                watches |= self._on_children.pop(event.path, {})
            fired += [(watch, event) for watch in watches]
        return fired

    def clear(self) -> None:
        """Forgets all of them: the session is over."""
        self._on_node.clear()
        self._on_children.clear()

    def __len__(self) -> int:
        return sum(map(len, self._on_node.values())) + sum(map(len, self._on_children.values()))

    def __repr__(self) -> str:
        return f"<WatchTable {sorted(self._on_node)} children of {sorted(self._on_children)}>"
