"""Which log is cleaned when (``LogCleaner``, ``LogCleanerManager``).

Each cleaner has a child process of its own, takes the dirtiest log that no other cleaner works on, and then
the next one, until there is none; then it looks again after ``log.cleaner.backoff.ms``. Between two logs it
deletes what retention allows of compacted logs: segments of these disappear only here, so that none is
deleted while it is cleaned.

A log that cannot be cleaned (a damaged batch, say) is set aside with a line in the log of events, and the
others are cleaned. A disk without room is tried again later; any other error of the disk takes its directory
offline, as for appends.
"""

import contextlib
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

from barnabas.core.clock import Clock, Timer
from barnabas.core.config import LONG_MAX
from barnabas.core.errors import KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.offload import ChildEndedError, ClosableOffload
from barnabas.core.pending import Pending, Steps, gather, steps
from barnabas.log.cleaner.dirtiest import LogToClean, to_clean
from barnabas.log.cleaner.filtering import LastRecord, Stats
from barnabas.log.cleaner.grouping import group_segments
from barnabas.log.cleaner.settings import CleanerSettings
from barnabas.log.cleaner.swap import remove_output, replace, stage
from barnabas.log.cleaner.transactions import CleanedTransactions
from barnabas.log.cleaner.work import (
    CleanedGroup,
    CleanerError,
    Cleaning,
    CleaningAbortedError,
    MapLostError,
    SourceSegment,
    Throttle,
    build_map,
    clean_segments,
    forget_map,
)
from barnabas.log.damage import rebuild_index
from barnabas.log.filesystem import Filesystem
from barnabas.log.flush import Syncer
from barnabas.log.index import IndexCorruptError
from barnabas.log.log import Log
from barnabas.log.manager import LogManager
from barnabas.log.names import CLEANED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, offset_name
from barnabas.log.segment import LogSegment
from barnabas.log.shortage import is_full

_events: Final = EventLog("log.cleaner")
_numbers: Final = count(1)
"""Of all cleanings of this process: a child that has the offset map of one must not use it for another."""


class _Cleaner:
    """One of the cleaners (``CleanerThread``): a child process, and the timer of its next look."""

    __slots__ = ("is_running", "last_ms", "last_stats", "offload", "timer")

    def __init__(self, offload: ClosableOffload) -> None:
        self.offload = offload
        self.timer: Timer | None = None
        self.is_running = False
        self.last_stats = Stats()
        """Of the last log that it has cleaned."""
        self.last_ms = 0.0
        """How long that took."""


class LogCleaner:
    """Cleans the compacted logs of a `LogManager`."""

    def __init__(
        self,
        logs: LogManager,
        clock: Clock,
        *,
        disk: Filesystem,
        syncer: Syncer,
        new_offload: Callable[[], ClosableOffload],
        settings: CleanerSettings,
        throttle: Callable[[float], Throttle] | None = None,
    ) -> None:
        """`new_offload` makes a cleaner's child process;
        `throttle` what holds it to a number of bytes a second.
        """
        self.settings = settings
        self._logs = logs
        self._clock = clock
        self._disk = disk
        self._syncer = syncer
        self._new_offload = new_offload
        self._throttle = throttle
        self._cleaners: list[_Cleaner] = []
        self._is_closed = False
        self._cleanings = logs.cleanings
        self._replacing: set[Pending[list[str]]] = set()
        """Results that are taking the place of their sources, which is not given up half-way."""
        self._uncleanable: set[Log] = set()
        self._looked_ms = clock.monotonic_ms()
        self.max_dirty_ratio = 0.0
        """``max-dirty-percent`` / 100:
        the greatest dirty share of a log, at the last look for one to clean.
        """

    # -- life ----------------------------------------------------------------------------------------

    def startup(self) -> None:
        """Starts as many cleaners as the settings say."""
        while len(self._cleaners) < self.settings.threads:
            cleaner = _Cleaner(self._new_offload())
            self._cleaners.append(cleaner)
            self._look_after(cleaner, 0)

    def shutdown(self) -> Pending[list[Pending[list[str]]]]:
        """Stops all cleaners; what they are at is given up. Done when no log is between its old segments and
        its new ones.
        """
        self._is_closed = True
        # What is being written is dropped; a result that replaces its sources already is waited for.
        given_up = dict(self._cleanings.outputs)
        for log in given_up:
            with contextlib.suppress(KafkaError):
                self._cleanings.abort(log)
        self._stop(self._cleaners)
        self._cleaners = []
        for log, base_offset in given_up.items():
            # A child writes on until its next look at the output file.
            with contextlib.suppress(KafkaError):  # then the log is offline, which has its line
                remove_output(log, base_offset)
        return gather(self._replacing)

    def reconfigure(self, settings: CleanerSettings) -> None:
        """Takes new settings: those of a cleaning that runs stay, surplus cleaners end after what they are
        at.
        """
        if settings == self.settings:
            return
        self.settings = settings
        if self._cleaners:
            # A cleaner that is at a log ends when that is done.
            surplus = self._cleaners[settings.threads :]
            del self._cleaners[settings.threads :]
            self._stop([cleaner for cleaner in surplus if not cleaner.is_running])
            for cleaner in self._cleaners:
                if cleaner.timer is not None and not cleaner.is_running:
                    cleaner.timer.cancel()
                    self._look_after(cleaner, settings.backoff_ms)
            self.startup()

    @staticmethod
    def _stop(cleaners: Sequence[_Cleaner]) -> None:
        for cleaner in cleaners:
            if cleaner.timer is not None:
                cleaner.timer.cancel()
            cleaner.offload.close()

    # -- how it is -----------------------------------------------------------------------------------

    @property
    def uncleanable(self) -> frozenset[Log]:
        """The logs that are set aside."""
        return frozenset(self._uncleanable)

    @property
    def since_last_look_ms(self) -> float:
        """``time-since-last-run-ms``: since a cleaner looked for a log to clean."""
        return self._clock.monotonic_ms() - self._looked_ms

    @property
    def max_clean_time_ms(self) -> float:
        """``max-clean-time-secs``: the longest of each cleaner's last cleanings."""
        return max((cleaner.last_ms for cleaner in self._cleaners), default=0.0)

    @property
    def recopied(self) -> float:
        """``cleaner-recopy-percent`` / 100: the share of the bytes that was kept, in each cleaner's last
        cleaning.
        """
        last = [cleaner.last_stats for cleaner in self._cleaners]
        return sum(each.bytes_written for each in last) / max(1, sum(each.bytes_read for each in last))

    # -- one cleaner ---------------------------------------------------------------------------------

    def _look_after(self, cleaner: _Cleaner, delay_ms: float) -> None:
        cleaner.timer = self._clock.call_later(delay_ms, lambda: self._look(cleaner))

    def _look(self, cleaner: _Cleaner) -> None:
        """``doWork``: the dirtiest log, if any is dirty enough."""
        # Before a log is chosen: what is deleted need not be cleaned.
        self._delete_old_segments()
        target = self.dirtiest()
        # No log is dirty enough.
        if target is None:
            self._look_after(cleaner, self.settings.backoff_ms)
            return
        cleaner.is_running = True
        began_ms = self._clock.monotonic_ms()

        def done(cleaned: Pending[Stats]) -> None:
            if cleaned.error is None:
                cleaner.last_stats = cleaned.result()
                cleaner.last_ms = self._clock.monotonic_ms() - began_ms
            self._done(cleaner, target.log, cleaned)

        self.clean(target, cleaner.offload).when_done(done)

    def _done(self, cleaner: _Cleaner, log: Log, done: Pending[Stats]) -> None:
        cleaner.is_running = False
        if done.error is not None:
            self._failed(log, done.error)
        if self._is_closed:
            return
        if cleaner not in self._cleaners:
            cleaner.offload.close()  # one too many since the settings changed
            return
        cleaner.offload.run(forget_map)
        # At once after a success; a log that could not be cleaned is not tried in a loop.
        self._look_after(cleaner, 0 if done.error is None else self.settings.backoff_ms)

    def dirtiest(self) -> LogToClean | None:
        """``grabFilthiestCompactedLog``: the log with the greatest dirty share of those that are due."""
        now_ms = self._clock.time_ms()
        found = None
        self._looked_ms, self.max_dirty_ratio = self._clock.monotonic_ms(), 0.0
        self._forget_deleted()
        for log in list(self._logs):
            if not self._may_clean(log):
                continue
            try:
                target = to_clean(log, now_ms)
            # The times of segments are read through their indexes; this one is made again, the others are
            # looked at.
            except IndexCorruptError as error:
                self._rebuild_index(log, error)
                continue
            except (OSError, KafkaError) as error:
                self._failed(log, error)
                continue
            if target is not None:
                self.max_dirty_ratio = max(self.max_dirty_ratio, target.ratio)
            # ``min.cleanable.dirty.ratio`` or ``max.compaction.lag.ms`` (KIP-354); the dirtiest one wins.
            if target is not None and target.is_due and (found is None or target.ratio > found.ratio):
                found = target
        return found

    def _may_clean(self, log: Log) -> bool:
        # A log that moves to another directory is left as it is until it has (``abortAndPauseCleaning``).
        is_busy = self._cleanings.is_running(log) or self._logs.futures.get(log.tp) is not None
        return log.config.is_compacted and not (is_busy or log.offline or log in self._uncleanable)

    def _rebuild_index(self, log: Log, error: IndexCorruptError) -> None:
        with contextlib.suppress(KafkaError):  # it takes a while; the next look finds it whole
            rebuild_index(log, error)

    def _forget_deleted(self) -> None:
        """``maintainUncleanablePartitions``."""
        self._uncleanable = {log for log in self._uncleanable if self._logs.get(log.tp) is log}

    def _delete_old_segments(self) -> None:
        for log in list(self._logs):
            if self._may_clean(log):
                self._logs.clean_up_log(log)

    def _failed(self, log: Log, error: BaseException) -> None:
        # The log was deleted, truncated or moved, or the broker ends: nothing is wrong with it.
        if isinstance(error, CleaningAbortedError) or self._is_closed or log.offline:
            _events.info("cleaner.aborted", partition=log.tp)
        elif isinstance(error, (ChildEndedError, MapLostError)) or (
            isinstance(error, OSError) and is_full(error)
        ):
            # The next one begins with the segments as they are by then.
            _events.warning("cleaner.postponed", partition=log.tp, error=error)
        # Any other error of the disk takes the directory offline, as a refused append does.
        elif isinstance(error, OSError):
            log.refused(error)
        else:
            self._uncleanable.add(log)
            _events.error(
                "cleaner.uncleanable",
                partition=log.tp,
                error=error,
                meaning="this partition is not compacted until the broker starts again",
                exc_info=None if isinstance(error, (KafkaError, CleanerError)) else error,
            )

    # -- one cleaning --------------------------------------------------------------------------------

    @steps
    def clean(self, target: LogToClean, offload: ClosableOffload) -> Steps[Stats]:
        """``Cleaner.doClean``: cleans one log up to where the offset map reaches; what was read and kept.

        Fails with CleaningAbortedError, OSError, or with what cannot be cleaned.
        """
        log = target.log
        cleaning = self._begin(target)
        stats = Stats()
        has_output = True
        try:
            self._open_output(log, cleaning.output_base)
            # First the last offset of each key in the dirty part, as far as the memory for the map goes.
            end_offset: int = yield offload.run(build_map, self._disk, cleaning)
            # Of the whole log: its segments are read from the first one on, and so are the markers of all.
            aborted = log.aborted_transactions(log.segments[0].base_offset, target.end_offset)
            transactions = CleanedTransactions(aborted)
            for group in self._groups(target, end_offset):

                def check(group: Sequence[LogSegment] = group) -> None:
                    self._check(log, group, target.end_offset)

                check()
                cleaning, has_output = cleaning._replace(output_base=group[0].base_offset), True
                self._open_output(log, cleaning.output_base)
                sources, last_records = _sources(group), _last_records(log)
                # Then each group of segments is written again without what a later record supersedes.
                done: CleanedGroup = yield offload.run(
                    clean_segments, self._disk, cleaning, sources, last_records, transactions
                )
                check()
                yield stage(log, cleaning.output_base, disk=self._disk, syncer=self._syncer)
                check()
                swap = log.segments.load(cleaning.output_base, log.config.segment_index_bytes, SWAP_SUFFIX)
                # From here on the result is the log's, and nothing removes it.
                del self._cleanings.outputs[log]
                has_output = False
                replacing = replace(log, group, swap, disk=self._disk, syncer=self._syncer)
                self._replacing.add(replacing)
                replacing.when_done(self._replacing.discard)
                retired = yield replacing
                self._logs.remove_files_later(retired, log.config.file_delete_delay_ms)
                transactions = done.transactions
                stats.add(done.stats)
            self._check(log, (), target.end_offset)
            # Only now does the checkpoint say that this part is clean: after a crash it would be cleaned once
            # more.
            log.first_dirty_offset = end_offset
            self._cleanings.checkpoint(log)
        finally:
            self._cleanings.outputs.pop(log, None)
            del self._cleanings.running[cleaning.directory]
            if has_output:
                # Also where it was given up before: the child may have written more until it noticed.
                remove_output(log, cleaning.output_base)
        _log_stats(log, target.first_dirty_offset, end_offset, stats)
        return stats

    def _begin(self, target: LogToClean) -> Cleaning:
        log, settings = target.log, self.settings
        log.lowest_cut = LONG_MAX
        throttle = None
        if self._throttle is not None:
            throttle = self._throttle(settings.io_bytes_per_second / settings.threads)
        cleaning = Cleaning(
            number=next(_numbers),
            directory=log.directory,
            output_base=(*target.clean, *target.dirty)[0].base_offset,
            first_dirty_offset=target.first_dirty_offset,
            dirty=_sources(target.dirty),
            end_offset=target.end_offset,
            # Of the dirty part alone (``buildOffsetMap``): the marker of any other transaction is not read
            # there, and what its producer commits later would be taken for aborted.
            aborted=log.aborted_transactions(target.first_dirty_offset, target.end_offset),
            now_ms=self._clock.time_ms(),
            delete_retention_ms=log.config.delete_retention_ms,
            index_interval_bytes=log.config.index_interval_bytes,
            memory_bytes=settings.memory_bytes,
            load_factor=settings.load_factor,
            block_bytes=settings.block_bytes,
            throttle=throttle,
        )
        self._cleanings.running[log.directory] = cleaning
        return cleaning

    def _groups(self, target: LogToClean, end_offset: int) -> list[list[LogSegment]]:
        config = target.log.config
        # The clean part too: a key of the dirty part may supersede records there.
        segments = [each for each in (*target.clean, *target.dirty) if each.base_offset < end_offset]
        return group_segments(
            segments,
            size_max=config.segment_bytes,
            index_bytes_max=config.segment_index_bytes,
            end_offset=target.end_offset,
        )

    def _open_output(self, log: Log, base_offset: int) -> None:
        """Makes the output file, without which the child stops."""
        self._cleanings.abort(log)
        self._cleanings.outputs[log] = base_offset
        remove_output(log, base_offset)
        path = f"{log.directory}/{offset_name(base_offset, LOG_SUFFIX)}{CLEANED_SUFFIX}"
        self._disk.open(path, create=True)

    def _check(self, log: Log, group: Sequence[LogSegment], end_offset: int) -> None:
        """``checkDone``: raises CleaningAbortedError when the log has changed since the offset map was made
        of it.
        """
        # Deleted, moved, offline or truncated since.
        is_same = self._logs.get(log.tp) is log and not log.offline and log.lowest_cut >= end_offset
        is_whole = all(segment in log.segments for segment in group)
        is_moving = self._logs.futures.get(log.tp) is not None
        if is_moving or not (is_same and is_whole and log.config.is_compacted) or self._is_closed:
            raise CleaningAbortedError(f"{log.tp} has changed while it was cleaned")


def _sources(segments: Sequence[LogSegment]) -> list[SourceSegment]:
    return [SourceSegment(segment.base_offset, segment.size) for segment in segments]


def _last_records(log: Log) -> dict[int, LastRecord]:
    """``lastRecordsOfActiveProducers``."""
    return {
        producer_id: LastRecord(state.last_offset, state.epoch)
        for producer_id, state in log.producers.producers.items()
    }


def _log_stats(log: Log, first_offset: int, end_offset: int, stats: Stats) -> None:
    _events.info(
        "cleaner.cleaned",
        partition=log.tp,
        dirty_from=first_offset,
        dirty_to=end_offset,
        bytes_read=stats.bytes_read,
        bytes_written=stats.bytes_written,
        messages_read=stats.messages_read,
        messages_written=stats.messages_written,
    )
    if stats.keyless:
        _events.warning("cleaner.keyless", partition=log.tp, dropped=stats.keyless)
