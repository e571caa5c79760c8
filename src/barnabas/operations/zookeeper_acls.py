"""Sets the ACLs of all znodes of a cluster that is there already (``ZkSecurityMigrator``).

A broker with ``zookeeper.set.acl`` protects what it makes from then on; this protects, or opens, what is
older. A session that ends meanwhile ends the work, which may be done again: each ACL is set whatever it was.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError, ZookeeperError

from barnabas.cluster.store import tree
from barnabas.cluster.store.znodes import CONTROLLER, ancestors
from barnabas.cluster.store.zookeeper_acls import SECURE_ROOTS, default_acls
from barnabas.operations.errors import OperationError

_NOT_MADE: Final = (CONTROLLER, "/migration")
"""What is there only while a broker has made it."""
_AT_ONCE: Final = 500
"""Znodes that are asked for without waiting for the answers."""


class AclMigration:
    """One run on the znodes below a chroot."""

    def __init__(self, client: KazooClient, chroot: str, *, secure: bool) -> None:
        """`client` is connected and without a chroot of its own."""
        self._client = client
        self._chroot = chroot.rstrip("/")
        self._secure = secure

    def missing_roots(self) -> list[str]:
        """Those of Kafka's outermost paths that are not there."""
        return [root for root in SECURE_ROOTS if self._client.exists(self._full(root)) is None]

    def run(self) -> int:
        """Sets the ACL of each znode, and makes the outermost that are missing, but not all of them.
        The number of those that were set. Raises OperationError.
        """
        try:
            done = self._set_root()
            for root in SECURE_ROOTS:
                if root in _NOT_MADE and self._client.exists(self._full(root)) is None:
                    continue
                for path in (*ancestors(root), root):
                    self._make_sure(path)
                done += self._set_below(root)
        except ZookeeperError as error:
            raise OperationError(
                f"ZooKeeper refused to set ACLs ({type(error).__name__}): what was set before is set"
            ) from error
        return done

    def _set_root(self) -> int:
        try:
            self._client.set_acls(self._full(tree.ROOT), self._acl(tree.ROOT))
        except NoNodeError:
            raise OperationError(f"there is no znode {self._full(tree.ROOT)}") from None
        return 1

    def _set_below(self, root: str) -> int:
        """Breadth first: a znode that is made meanwhile by a broker has its ACL from it."""
        done, level = 0, [root]
        while level:
            below: list[str] = []
            for some in _pieces(level):
                asked = [
                    (
                        path,
                        self._client.set_acls_async(self._full(path), self._acl(path)),
                        self._client.get_children_async(self._full(path)),
                    )
                    for path in some
                ]
                for path, was_set, children in asked:
                    try:
                        was_set.get()
                        done += 1
                        below += [f"{path}/{name}" for name in children.get()]
                    except NoNodeError:
                        continue  # it was deleted meanwhile
            level = below
        return done

    def _make_sure(self, path: str) -> None:
        try:
            self._client.create(self._full(path), None, self._acl(path))
        except NodeExistsError:
            return

    def _acl(self, path: str) -> list[Any]:
        return default_acls(path, secure=self._secure)

    def _full(self, path: str) -> str:
        return (self._chroot + path).removesuffix(tree.ROOT) or tree.ROOT

    def __repr__(self) -> str:
        return f"<AclMigration {self._chroot or tree.ROOT} {'secure' if self._secure else 'unsecure'}>"


def _pieces(paths: list[str]) -> Iterator[Iterable[str]]:
    for start in range(0, len(paths), _AT_ONCE):
        yield paths[start : start + _AT_ONCE]
