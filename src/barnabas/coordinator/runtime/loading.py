"""`Loader`: reads the partitions that this broker became coordinator of, one after the other
(``CoordinatorLoader``).

Theory of operation
-------------------
Kafka has one thread for a topic (``group-metadata-manager-``), and so has this one queue. A small partition,
and nearly all are empty or small, is read and replayed on the loop in slices. A big one is taken apart in a
child process, some megabytes at a time: while the loop replays one stretch in slices, the child decodes the
next. What comes back are plain values, and the loop creates nothing but what stays.

A load that was cancelled (the broker resigned) ends at its next turn. Its shard was known to the load alone,
so nothing of it is left.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, Generic

from barnabas.coordinator.runtime.decoding import (
    Decoded,
    Step,
    decode_range,
    next_offset_of,
    steps_of,
    unpack,
)
from barnabas.coordinator.runtime.replay import Replay
from barnabas.coordinator.runtime.state_machine import S
from barnabas.core.chunks import FileSlice
from barnabas.core.clock import Clock
from barnabas.core.eventlog import EventLog
from barnabas.core.metrics import RECENT
from barnabas.core.offload import Offload
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Slices
from barnabas.log.filesystem import Filesystem
from barnabas.log.log import Log
from barnabas.records.batch import batch_headers

_events: Final = EventLog("coordinator.loading")

IN_PLACE_BYTES_MAX: Final = 256 * 1024
"""A partition up to this size is decoded on the loop: less than starting a child costs."""
SETTLE_RECORDS: Final = 20_000
"""How often, during a big load, what was loaded is taken out of the garbage collector's sight (`gc.freeze`):
a walk over a million offsets would be a pause of a tenth of a second.
"""
SLICE_MS: Final = 2.0
"""How long a load holds the loop at a stretch; the child is slower than the replay, so there is time."""


LOAD_TIMES_KEPT_MS: Final = 60_000
"""Kafka's samples of its sensors are of two times 30 seconds."""


class LoadTimes:
    """How long the loads of the last minute took (``partition-load-time-max``, ``partition-load-time-avg``).

    As in Kafka, with the time in the queue.
    """

    __slots__ = ("_clock", "_times")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: deque[tuple[float, float]] = deque(maxlen=RECENT)
        """When each ended, and how long it took."""

    def record(self, began_ms: float) -> None:
        now_ms = self._clock.monotonic_ms()
        self._times.append((now_ms, now_ms - began_ms))

    def recent_ms(self) -> list[float]:
        oldest_ms = self._clock.monotonic_ms() - LOAD_TIMES_KEPT_MS
        return [took_ms for ended_ms, took_ms in self._times if ended_ms >= oldest_ms]


class Load(Generic[S]):
    """One partition to load."""

    __slots__ = ("cancelled", "done", "log", "replay", "settled")

    def __init__(self, replay: Replay[S], log: Log | None) -> None:
        self.replay = replay
        self.log = log
        self.cancelled = False
        self.settled = 0
        """Records at the last `settle`."""
        self.done: Pending[None] = Pending()
        """Completes when the shard is whole; fails when its log cannot be read;
        neither once it is cancelled.
        """

    def __repr__(self) -> str:
        return f"<Load {self.replay!r}{' cancelled' if self.cancelled else ''}>"


class Loader:
    """The queue of partitions to load."""

    def __init__(
        self,
        clock: Clock,
        offload: Offload,
        filesystem: Filesystem,
        *,
        buffer_bytes: int,
        settle: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._offload = offload
        self._filesystem = filesystem
        self._buffer_bytes = buffer_bytes
        self._settle = settle
        self.times = LoadTimes(clock)
        self._waiting: deque[Load[Any]] = deque()
        self._running: Load[Any] | None = None

    def load(self, replay: Replay[S], log: Log | None) -> Load[S]:
        """Queues a partition; an empty one, as most are, is done when this returns."""
        load = Load(replay, log)
        load.done.when_done(partial(self._loaded, self._clock.monotonic_ms()))
        # Nothing to read. Most of the fifty partitions are so, and their groups are served without a turn's
        # delay.
        if log is not None and log.log_start_offset == log.log_end_offset:
            load.done.complete(None)
            return load
        self._waiting.append(load)
        if self._running is None and len(self._waiting) == 1:
            # One a turn: fifty partitions that take a millisecond each are a pause too.
            self._clock.call_soon(self._next)
        return load

    def _loaded(self, began_ms: float, done: Pending[None]) -> None:
        if done.error is None:
            self.times.record(began_ms)

    def _next(self) -> None:
        load = self._running = self._waiting.popleft()
        self._run(load).when_done(partial(self._ended, load))

    def _ended(self, load: Load[Any], done: Pending[None]) -> None:
        self._running = None
        # The broker may have resigned while the load ran: then nobody waits for the result.
        if not load.cancelled:
            if done.error is None:
                load.done.complete(None)
            else:
                load.done.fail(done.error)
        if self._waiting:
            self._clock.call_soon(self._next)

    @steps
    def _run(self, load: Load[Any]) -> Steps[None]:
        log, replay = load.log, load.replay
        # LeaderAndIsr named the partition and its directory failed: the shard is served empty, as by Kafka.
        if log is None:
            _events.warning("load.no_log", task=replay.machine.load_task, partition=replay.shard.partition)
            return
        began_ms = self._clock.monotonic_ms()
        if not load.cancelled:
            if log.size <= IN_PLACE_BYTES_MAX:
                yield self._load_here(load, log, log.log_start_offset)
            else:
                yield self._load_elsewhere(load, log)
        if not load.cancelled and replay.records:
            _events.info(
                "load.finished",
                task=replay.machine.load_task,
                partition=f"{replay.machine.topic}-{replay.shard.partition}",
                epoch=replay.shard.leader_epoch,
                records=replay.records,
                took_ms=round(self._clock.monotonic_ms() - began_ms),
            )

    @steps
    def _load_here(self, load: Load[Any], log: Log, offset: int) -> Steps[None]:
        slices = Slices(self._clock, SLICE_MS)
        # The end is looked up each time: producers' markers may be appended while the partition is loaded.
        while 0 <= offset < log.log_end_offset and not load.cancelled:
            found = self._read(log, offset)
            if not found:
                return
            data = found.read()
            headers = list(batch_headers(data))
            yield self._replay(load, steps_of(data, headers, load.replay.machine.bulk), slices)
            offset = next_offset_of(headers)

    @steps
    def _load_elsewhere(self, load: Load[Any], log: Log) -> Steps[None]:
        slices = Slices(self._clock, SLICE_MS)
        offset = log.log_start_offset
        coming = self._decode(load, log, offset)
        while coming is not None and not load.cancelled:
            try:
                decoded: Decoded = yield coming
            except Exception as error:
                if load.cancelled:
                    return
                # The cleaner replaced the file, or the child was killed: what is left is read here.
                _events.warning("load.child_failed", log=log.tp, offset=offset, reason=error)
                yield self._load_here(load, log, offset)
                return
            offset = decoded.next_offset
            # The child is at the next stretch while this one is replayed.
            coming = self._decode(load, log, offset)
            yield self._replay(load, map(unpack, decoded.blobs), slices)
        # What was appended while the last stretch was replayed: the marker of a transaction, by another
        # coordinator.
        yield self._load_here(load, log, offset)

    def _decode(self, load: Load[Any], log: Log, offset: int) -> Pending[Decoded] | None:
        if not 0 <= offset < log.log_end_offset:
            return None
        found = self._read(log, offset)
        if not found:
            return None
        # The child opens the file by its name: a cleaner may have replaced it by then, and the read fails.
        path = log.segments.locate(offset)[0].path
        bulk = load.replay.machine.bulk
        return self._offload.run(decode_range, self._filesystem, path, found.position, found.size, bulk)

    def _read(self, log: Log, offset: int) -> FileSlice | None:
        records = log.read(offset, self._buffer_bytes, min_one_message=True).records
        return records if isinstance(records, FileSlice) and records else None

    @steps
    def _replay(self, load: Load[Any], found: Iterable[Step], slices: Slices) -> Steps[None]:
        replay = load.replay
        for step in found:
            replay.step(step)
            # Offsets that were just read stay for long: they need not be looked at by each collection.
            if replay.records - load.settled >= SETTLE_RECORDS:
                load.settled = replay.records
                self._settle()
            # Requests are served between two steps; the broker may resign in one of them.
            if slices.over():
                yield slices.next_turn()
                if load.cancelled:
                    return

    def __repr__(self) -> str:
        return f"<Loader running={self._running!r} waiting={len(self._waiting)}>"
