"""The metadata store's contract: ZooKeeper's data model, without saying who keeps the data.

Theory of operation
-------------------
A store is a tree of znodes seen through one *session*. A znode has bytes (or none), a version that every
write raises, and the transaction id of its creation (``czxid``), which Kafka uses as a broker's epoch. An
*ephemeral* znode goes when its session ends; that is how the cluster learns that a broker died. `multi`
makes several writes one; a `Check` in it is how a controller that was replaced is kept from writing.

Every call returns a `Pending`. The calls of one session take effect, and complete, in the order in which
they were made, whether they succeed or fail. A watch fires once, and never after a result that already
shows the change it announces.

Implementations: `memory`, `sqlite` and `zookeeper` beside it; the contract test runs over all.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from barnabas.core.errors import BarnabasError
from barnabas.core.pending import Pending

ANY_VERSION: Final = -1
"""As an expected version: write, with any version."""


class Stat(NamedTuple):
    """What the store knows of a znode beside its data."""

    czxid: int
    mzxid: int
    created_ms: int
    modified_ms: int
    version: int
    ephemeral_owner: int
    """The session whose end removes the znode; 0 for a persistent one."""


class StoreError(BarnabasError):
    """A call that the store refused; `path` names the znode, `index` the operation inside a `multi`."""

    def __init__(self, path: str, index: int = 0) -> None:
        super().__init__(f"{type(self).__name__} for {path}")
        self.path = path
        self.index = index


class NoNodeError(StoreError):
    """The znode, or the parent of the one to create, is not there."""


class NodeExistsError(StoreError):
    """The znode to create is there already."""


class BadVersionError(StoreError):
    """The znode has another version than the one expected: another client wrote."""


class NotEmptyError(StoreError):
    """The znode to delete has children."""


class EphemeralParentError(StoreError):
    """An ephemeral znode may not have children."""


class SessionExpiredError(StoreError):
    """The session has ended; its ephemeral znodes were deleted, and the call had no effect."""


class InvalidPathError(StoreError, ValueError):
    """There can be no such znode; nothing was asked of the store."""

    def __init__(self, path: str, index: int = 0) -> None:
        super().__init__(path, index)
        self.args = (f"{path!r} is not the path of a znode",)


class StoreUnavailableError(StoreError):
    """The store could not carry out the call (disk full, no access); whether a write took effect is said
    by the next read.
    """

    def __init__(self, path: str, index: int = 0, reason: str = "") -> None:
        super().__init__(path, index)
        if reason:
            self.args = (reason,)


class StoreUnusableError(BarnabasError):
    """The store cannot be opened; the text names it, what is wrong with it, and the way out."""


@dataclass(frozen=True, slots=True)
class Create:
    """Makes a znode; its result is the path, which a `sequence` ends with ten digits."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequence: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Writes a znode if it has the expected version; its result is the new `Stat`."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Removes a znode without children if it has the expected version; its result is None."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Fails the `multi` that it is in unless the znode has the expected version; its result is None."""

    path: str
    version: int


Operation: TypeAlias = Create | SetData | Delete | Check


class Change(Enum):
    """What a watch announces."""

    CREATED = "created"
    DELETED = "deleted"
    DATA = "data"
    CHILDREN = "children"


class WatchEvent(NamedTuple):
    """A change of one znode."""

    change: Change
    path: str


Watch: TypeAlias = Callable[[WatchEvent], object]


class SessionListener(Protocol):
    """Hears of the ends of sessions (``StateChangeHandler``)."""

    def session_expired(self) -> Pending[None]:
        """The session has ended. The next one begins only when the returned Pending is done, so that a
        controller has resigned before its broker registers again.
        """

    def session_renewed(self) -> None:
        """A new session has begun: ephemeral znodes and watches have to be made again."""


class MetadataStore(Protocol):
    """One session on the tree."""

    @property
    def session_id(self) -> int:
        """The id of the current session, which owns the ephemeral znodes made through it;
        0 before `start`.
        """

    def start(self) -> Pending[None]:
        """Begins the session."""

    def close(self) -> Pending[None]:
        """Ends the session: its ephemeral znodes go at once, its watches never fire."""

    def listen(self, listener: SessionListener) -> None:
        """The listener hears of the ends of sessions that were not closed."""

    def create(
        self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequence: bool = False
    ) -> Pending[str]:
        """Makes a znode; the path it got. NodeExistsError, NoNodeError (no parent), EphemeralParentError."""

    def get(self, path: str, watch: Watch | None = None) -> Pending[tuple[bytes | None, Stat]]:
        """Data and stat; the watch fires when it is written or deleted.
        NoNodeError (then without a watch).
        """

    def exists(self, path: str, watch: Watch | None = None) -> Pending[Stat | None]:
        """The stat, or None; the watch fires when it is created, written or deleted."""

    def children(self, path: str, watch: Watch | None = None) -> Pending[list[str]]:
        """The names below a znode, sorted; the watch fires when one comes or goes, or the znode goes.
        NoNodeError.
        """

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Pending[Stat]:
        """Writes a znode. NoNodeError, BadVersionError."""

    def delete(self, path: str, version: int = ANY_VERSION) -> Pending[None]:
        """Removes a znode. NoNodeError, BadVersionError, NotEmptyError."""

    def multi(self, operations: Sequence[Operation]) -> Pending[list[Any]]:
        """All operations or none, as one transaction; their results in order. Fails with the error of the
        first that cannot be done.
        """


class SingleWrites(ABC):
    """The writes of one znode, as the transactions of one operation that they are; the stores share them."""

    __slots__ = ()

    @abstractmethod
    def multi(self, operations: Sequence[Operation]) -> Pending[list[Any]]:
        """See `MetadataStore.multi`."""

    def create(
        self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequence: bool = False
    ) -> Pending[str]:
        return self.multi([Create(path, data, ephemeral, sequence)]).then(lambda results: results[0])

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Pending[Stat]:
        return self.multi([SetData(path, data, version)]).then(lambda results: results[0])

    def delete(self, path: str, version: int = ANY_VERSION) -> Pending[None]:
        return self.multi([Delete(path, version)]).then(lambda _: None)
