"""`ChangeNotices`: how brokers tell each other that something in the store was changed
(``ZkNodeChangeNotificationListener``).

A broker that has changed a thing writes a notice that names it: a znode with the next number below one path.
Every broker watches that one path instead of a znode for each thing, reads the notices that are new to it,
and then what they name. Notices go after a quarter of an hour, by whichever broker sees them then.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from barnabas.cluster.store.absent import delete_if_there
from barnabas.cluster.store.contract import (
    Change,
    MetadataStore,
    NoNodeError,
    SessionExpiredError,
    WatchEvent,
)
from barnabas.cluster.store.unreadable import readable
from barnabas.core.clock import Clock
from barnabas.core.in_order import InOrder
from barnabas.core.pending import Pending, Steps, steps

NOTICE_LIFE_MS: Final = 15 * 60 * 1000

T = TypeVar("T")


class ChangeNotices(Generic[T]):
    """The notices below one path, and which of them this broker has obeyed."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        prefix: str,
        *,
        decode: Callable[[bytes | None], T],
        apply: Callable[[T], Pending[None]],
        on_notice: Callable[[], object],
    ) -> None:
        """`prefix` is the path of a notice without its number, `decode` reads one (UnreadableZnodeError),
        and `apply` obeys it.

        `on_notice` is called when notices came or went; it sees to it that `read` is called, never twice at
        a time.
        """
        self._store = store
        self._clock = clock
        self._prefix = prefix
        self._parent = prefix.rpartition("/")[0]
        self._decode = decode
        self._apply = apply
        self._on_notice = on_notice
        self._last = -1

    @steps
    def write(self, notice: bytes) -> Steps[None]:
        """Tells every broker, this one too, of a change that is in the store already."""
        yield self._store.create(self._prefix, notice, sequence=True)

    @steps
    def watch(self) -> Steps[None]:
        """Watches from now on; the caller reads all things after this, so notices of before are obeyed."""
        names = yield self._store.children(self._parent, self._came)
        self._last = max(map(_number, names), default=-1)

    @steps
    def read(self) -> Steps[None]:
        """Watches again, obeys what is new and removes what is old."""
        names = yield self._store.children(self._parent, self._came)
        for name in names:
            yield self._read_one(name)

    @steps
    def _read_one(self, name: str) -> Steps[None]:
        path = f"{self._parent}/{name}"
        try:
            data, stat = yield self._store.get(path)
        except NoNodeError:
            return
        if _number(name) > self._last:
            self._last = _number(name)
            notice = readable(self._store, path, self._decode, data)
            if notice is not None:
                yield self._apply(notice)
        if self._clock.time_ms() - stat.created_ms > NOTICE_LIFE_MS:
            yield delete_if_there(self._store, path)

    def _came(self, event: WatchEvent) -> None:
        if event.change is Change.CHILDREN:
            self._on_notice()

    def __repr__(self) -> str:
        return f"<ChangeNotices {self._parent} last={self._last}>"


def in_background(
    queue: InOrder, work: Callable[[], Pending[None]], report: Callable[[BaseException], object]
) -> None:
    """Has the queue do work that nobody waits for; `report` gets why it failed. At the end of a session that
    is nothing: the next one reads everything.
    """

    def ended(done: Pending[None]) -> None:
        if done.error is not None and not isinstance(done.error, SessionExpiredError):
            report(done.error)

    queue.run(work).when_done(ended)


def _number(name: str) -> int:
    """The number of a notice; -1 for a name that no notice has."""
    digits = name.rpartition("_")[2]
    return int(digits) if digits.isascii() and digits.isdigit() else -1
