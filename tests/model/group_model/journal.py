"""`ReplicatedPartition`: one partition of ``__consumer_offsets`` with its replicas, and `SimulatedJournal`, a
leader's pen.

Theory of operation
-------------------
There is one true log. Everything below the high watermark is with all replicas and stays. What lies
above it is with the leader, and with the next one only as far as the generator says: a change of leaders cuts
the log somewhere between the high watermark and the end. An append is acknowledged when the high watermark
has passed it; until then it can time out, or fail because the leader changed, and no member may conclude from
that whether the record is there. A leader that was deposed and does not know it yet appends to a tail that no
one will ever read.

`weather` says how the replicas are: how long they take, whether appends are refused, whether replication
hangs.

The records are kept as the bytes that would lie on disk, so that loading goes through the codecs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from barnabas.coordinator.runtime.journal import NO_PRODUCER, CoordinatorRecord
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.records.batch import NO_SEQUENCE
from barnabas.testing.clock import ProcessClock, VirtualClock, VirtualTimer


class Stored(NamedTuple):
    """A record as it lies in the log; no value is a tombstone."""

    key: bytes
    value: bytes | None


class Entry:
    """One appended batch, and who waits for its replicas."""

    __slots__ = ("base_offset", "batch", "fault", "producer", "records", "timer", "waiter")

    def __init__(self, base_offset: int, records: list[Stored], producer: tuple[int, int]) -> None:
        self.base_offset = base_offset
        self.records = records
        self.producer = producer
        self.batch: bytes | None = None
        """Its bytes, once they were read."""
        self.fault: ErrorCode | None = None
        """What the replicas say of it in the end."""
        self.waiter: Pending[int] | None = None
        self.timer: VirtualTimer | None = None

    @property
    def next_offset(self) -> int:
        """Of the batch behind it."""
        return self.base_offset + len(self.records)

    def settle(self, error: ErrorCode | None) -> None:
        """Answers the request that waits, if it still does."""
        waiter, self.waiter = self.waiter, None
        timer, self.timer = self.timer, None
        if timer is not None:
            timer.cancel()
        if waiter is None:
            return
        if error is None:
            waiter.complete(self.base_offset)
        else:
            waiter.fail(KafkaError(error))

    def __repr__(self) -> str:
        return f"<Entry {self.base_offset}+{len(self.records)} {'waited for' if self.waiter else 'alone'}>"


@dataclass(slots=True)
class Weather:
    """How the replicas of a partition are."""

    replication_ms: float = 2.0
    """How long they take for a batch, on average."""
    refusal: ErrorCode | None = None
    """What the log says to an append; nothing is appended then."""
    hangs: bool = False
    """Whether nothing is replicated at all: appends time out."""
    shrinks: bool = False
    """Whether appends find, once replicated, that too few replicas are in sync:
    they are answered so, and stay.
    """


class ReplicatedPartition:
    """The true log, its leader and its weather."""

    def __init__(self, number: int, clock: VirtualClock, rng: Random) -> None:
        self.number = number
        self.entries: list[Entry] = []
        self.leader: int | None = None
        self.leader_epoch = -1
        self.high_watermark = 0
        self.inherited = 0
        """Where the log ended when its leader took it over: a leader believes all that it finds."""
        self.weather = Weather()
        self.appended: Callable[[int, CoordinatorRecord, int], object] | None = None
        """Called with each record of the true log: partition, record, offset."""
        self.truncated: Callable[[int, int], object] | None = None
        """Called when the log was cut: partition, first offset that is gone."""
        self._clock = clock
        self._rng = rng

    @property
    def log_end_offset(self) -> int:
        """Of the true log."""
        return self.entries[-1].next_offset if self.entries else 0

    @property
    def believed(self) -> int:
        """Below which a leader may tell what is in its log: the replicas have it, or it found it there."""
        return max(self.high_watermark, self.inherited)

    def elect(self, leader: int) -> int:
        """Makes this broker the leader; the new leader epoch.

        What the old leader alone had is gone; what the new one has it will replicate.
        """
        if leader != self.leader:
            self._cut()
            self._leave_waiters()
            self.inherited = self.log_end_offset
        self.leader = leader
        self.leader_epoch += 1
        self._replicate_soon()
        return self.leader_epoch

    def depose(self) -> None:
        """The leader is gone, and there is no other yet."""
        self.leader = None

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        broker: int,
        leader_epoch: int,
        producer: tuple[int, int],
    ) -> Entry | None:
        """The new entry, or None for a leader of the past. Raises KafkaError where nothing was appended."""
        if (broker, leader_epoch) != (self.leader, self.leader_epoch):
            return None
        if self.weather.refusal is not None:
            raise KafkaError(self.weather.refusal)
        entry = Entry(self.log_end_offset, [stored(record) for record in records], producer)
        if self.weather.shrinks:
            entry.fault = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        self.entries.append(entry)
        if self.appended is not None:
            for offset, record in enumerate(records, entry.base_offset):
                self.appended(self.number, record, offset)
        self._replicate_soon()
        return entry

    def weather_changed(self) -> None:
        """Replication goes on if it hung."""
        self._replicate_soon()

    def _replicate_soon(self) -> None:
        """Lets the replicas have everything that is in the log now, after their time."""
        if self.weather.hangs or self.high_watermark == self.log_end_offset:
            return
        delay_ms = self._rng.expovariate(1 / self.weather.replication_ms)
        epoch, end = self.leader_epoch, self.log_end_offset
        self._clock.call_later(delay_ms, lambda: self._replicated(epoch, end))

    def _replicated(self, leader_epoch: int, up_to: int) -> None:
        if leader_epoch != self.leader_epoch or self.leader is None or self.weather.hangs:
            return
        first, self.high_watermark = self.high_watermark, max(self.high_watermark, up_to)
        for entry in self._entries_from(first):
            if entry.next_offset <= self.high_watermark:
                entry.settle(entry.fault)

    def _entries_from(self, offset: int) -> list[Entry]:
        """The entries at and behind an offset, which is that of an entry or the end."""
        index = len(self.entries)
        while index and self.entries[index - 1].base_offset >= offset:
            index -= 1
        return self.entries[index:]

    def _cut(self) -> None:
        """Forgets a tail of what was not acknowledged, if the generator says so."""
        loose = self._entries_from(self.high_watermark)
        if not loose or self._rng.random() < 0.5:
            return
        lost = loose[self._rng.randrange(len(loose)) :]
        del self.entries[len(self.entries) - len(lost) :]
        if self.truncated is not None:
            self.truncated(self.number, lost[0].base_offset)

    def _leave_waiters(self) -> None:
        """The replicas that have the rest now do not fetch from the old leader, so it never hears of it."""
        loose = self._entries_from(self.high_watermark)
        first = len(self.entries) - len(loose)
        self.entries[first:] = [Entry(each.base_offset, each.records, each.producer) for each in loose]

    def __repr__(self) -> str:
        return (
            f"<ReplicatedPartition {self.number} leader={self.leader} epoch={self.leader_epoch} "
            f"hw={self.high_watermark} end={self.log_end_offset}>"
        )


class SimulatedJournal:
    """The `Journal` of one broker for one partition, while it believes that it leads it."""

    def __init__(
        self,
        partition: ReplicatedPartition,
        *,
        broker: int,
        leader_epoch: int,
        clock: ProcessClock,
        timeout_ms: float,
    ) -> None:
        self._partition = partition
        self.leader_epoch = leader_epoch
        """As the broker heard last."""
        self._broker = broker
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._waiting: dict[Entry, None] = {}

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        acks: int | None = None,
        producer: tuple[int, int] = NO_PRODUCER,
        base_sequence: int = NO_SEQUENCE,
    ) -> Pending[int]:
        """As `Journal.append`."""
        del base_sequence
        entry = self._partition.append(
            records, broker=self._broker, leader_epoch=self.leader_epoch, producer=producer
        )
        if entry is None:
            # This leader does not know yet that it is deposed. Its log takes the batch, its followers will
            # never come for it.
            entry = Entry(self._partition.log_end_offset, [stored(record) for record in records], producer)
        if acks == 0:
            return Pending.of(entry.base_offset)
        waiter: Pending[int] = Pending()
        entry.waiter = waiter
        entry.timer = self._clock.call_later(
            self._timeout_ms, lambda: self._settle(entry, ErrorCode.REQUEST_TIMED_OUT)
        )
        self._waiting[entry] = None
        waiter.when_done(lambda _: self._waiting.pop(entry, None))
        return waiter

    def resign(self) -> None:
        """The broker heard that it does not lead any more: requests that wait are answered."""
        for entry in list(self._waiting):
            entry.settle(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _settle(self, entry: Entry, error: ErrorCode) -> None:
        entry.timer = None
        entry.settle(error)

    def __repr__(self) -> str:
        return (
            f"<SimulatedJournal {self._partition.number} of broker {self._broker} epoch={self.leader_epoch}>"
        )


def stored(record: CoordinatorRecord) -> Stored:
    """The bytes of a record."""
    value = None if record.value is None else record.value.to_bytes(record.value_version)
    return Stored(record.key.to_bytes(), value)
