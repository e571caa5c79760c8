"""One write a turn: small appends that arrived together wait, and go to the disk with one ``pwritev`` a log.

Theory of operation
-------------------
A connection's turn handles several requests before any of their answers leaves. An append of such a turn that
is deferred advances what the next append is judged by: the end of the log, its high watermark and its
producers. The bytes wait (`UnwrittenAppends`) until the turn ends, or until something else looks at the log
or changes it. What the segment keeps of its batches (size, timestamps, index entries) is noted after the
write, append by append, as if each had been written alone.

A write that fails refuses every append that waited, and the log is again what it was before the first of
them. Its state is put back rather than cut: what a part of the write has left in the file lies beyond the
segment's size, where it is no part of the log and the next append overwrites it. Nobody has seen these
appends: answers leave, and waiting fetches are woken, after the end of the turn.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.core.chunks import Buffer
from barnabas.core.ids import TopicPartition
from barnabas.core.slices import TurnEnd
from barnabas.log.filesystem import IOV_MAX
from barnabas.log.producers import ProducerStateEntry, ProducerStateManager
from barnabas.log.results import AppendInfo

if TYPE_CHECKING:
    from barnabas.core.errors import KafkaError

WAITING_BYTES_MAX: Final = 256 * 1024
"""How much of a log may wait: for more, copying the bytes costs so much that the calls do not count."""


class UnwrittenAppends:
    """What waits in one log, and what the log was before."""

    __slots__ = (
        "_producers",
        "advanced",
        "appends",
        "buffers",
        "error",
        "high_watermark",
        "log_end_offset",
        "size",
        "takes_next",
        "tp",
        "write",
    )

    def __init__(
        self, tp: TopicPartition, log_end_offset: int, high_watermark: int, write: Callable[[], None]
    ) -> None:
        self.tp = tp
        self.write = write
        """Writes them, unless that is done; does not raise."""
        self.buffers: list[Buffer] = []
        self.appends: list[AppendInfo] = []
        self.size = 0
        """Bytes in `buffers`."""
        self.log_end_offset = log_end_offset
        self.high_watermark = high_watermark
        self._producers: dict[int, ProducerStateEntry | None] = {}
        self.takes_next = False
        """Whether the next append is one of the turn."""
        self.advanced = False
        """Whether the high watermark moved with one of the appends, which is news at the end of the turn."""
        self.error: KafkaError | None = None
        """Why all of them were refused, if they were."""

    def has_room(self, size: int) -> bool:
        """Whether an append of `size` bytes may wait with the others."""
        return self.size + size <= WAITING_BYTES_MAX and len(self.buffers) < IOV_MAX

    def add(self, buffer: Buffer, append: AppendInfo) -> None:
        self.buffers.append(buffer)
        self.appends.append(append)
        self.size += append.size

    def save_producer(self, producers: ProducerStateManager, producer_id: int) -> None:
        """Keeps the state of a producer as it is before its first append that waits."""
        if producer_id not in self._producers:
            self._producers[producer_id] = producers.copy_of(producer_id)

    def put_back_producers(self, producers: ProducerStateManager) -> None:
        for producer_id, state in self._producers.items():
            producers.put_back(producer_id, state)

    def __repr__(self) -> str:
        return f"<UnwrittenAppends {self.tp} {len(self.buffers)} from {self.log_end_offset}>"


class WriteTurn:
    """The logs with appends of one turn, in the order of their first ones.

    The appender has one while requests that arrived together are handled, a log joins it (`Log.join`), and
    the dispatcher has it written. Nobody else knows of it: for a handler these appends end later, as others
    do.
    """

    __slots__ = ("unwritten", "written")

    def __init__(self) -> None:
        self.unwritten: list[UnwrittenAppends] = []
        """Also those that were written before the end of the turn."""
        self.written = TurnEnd()
        """Done when the turn has ended, and everything was written or refused."""

    def write(self) -> None:
        """Writes all that waits; what the disk refuses has its `error` then."""
        for each in self.unwritten:
            each.write()
