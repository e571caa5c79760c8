"""From options to ranges: which partitions there are, where a read begins and ends, and whether data is lost.

It asks Kafka through a small port, `Catalog`, and knows neither Spark nor the client, so its rules are tested
without Java and without a broker.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import DataLossError, OffsetError
from barnabas.spark.offsets import EARLIEST, LATEST, OffsetSpec, Positions, SpecKind, describe
from barnabas.spark.options import SourceOptions
from barnabas.spark.ranges import OffsetRange

_log = logging.getLogger("barnabas.spark")


class Catalog(Protocol):
    """What planning asks of Kafka."""

    def partitions(self, options: SourceOptions) -> set[TopicPartition]:
        """The partitions that the strategy (subscribe, subscribePattern or assign) means now."""

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """ListOffsets: the offset for a timestamp (-2 earliest, -1 latest), -1 where no record is that young."""


class Planner:
    """Turns what was asked for into offsets of the partitions that there are."""

    def __init__(self, options: SourceOptions, catalog: Catalog) -> None:
        self._options = options
        self._catalog = catalog

    def partitions(self) -> set[TopicPartition]:
        """The partitions to read now."""
        return self._catalog.partitions(self._options)

    def earliest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The first offset of each partition that is still there."""
        return self._catalog.offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The offset behind the last record that a reader may see (read_committed: the last stable offset)."""
        return self._catalog.offsets(dict.fromkeys(partitions, LATEST))

    def initial(self) -> Positions:
        """Where a new query begins."""
        return self._resolve(self._options.starting, self.partitions(), edge="start")

    def batch_ranges(self) -> list[OffsetRange]:
        """What a batch query reads. Raises OffsetError and DataLossError."""
        partitions = self.partitions()
        _same_partitions(self._options)
        start = self._resolve(self._options.starting, partitions, edge="start")
        end = self._resolve(self._options.ending, partitions, edge="end")
        ranges = [OffsetRange(tp, start[tp], end[tp]) for tp in sorted(partitions)]
        for piece in ranges:
            if piece.start > piece.end:
                raise OffsetError(_start_behind_end(piece))
        return self.surviving(ranges)

    def stream_ranges(self, start: Positions, end: Positions) -> list[OffsetRange]:
        """What the micro-batch from `start` to `end` reads; partitions new in `end` are read from their first offset."""
        gone = start.keys() - end.keys()
        if gone:
            self._report("PARTITIONS_DELETED", f"Partitions {describe(gone)} have been deleted.")
        begin = {**start, **self._first_offsets_of_new(end.keys() - start.keys())}
        ranges = []
        for tp in sorted(end.keys() & begin.keys()):
            if end[tp] >= begin[tp]:
                ranges.append(OffsetRange(tp, begin[tp], end[tp]))
            else:
                self._report("PARTITION_OFFSET_CHANGED", _went_backwards(tp, begin[tp], end[tp]))
        return self.surviving(ranges)

    def surviving(self, ranges: list[OffsetRange]) -> list[OffsetRange]:
        """The ranges that are still in Kafka.

        Only the log start offset can tell: gaps between offsets are no loss, compaction and transactions
        leave them (SPARK-24720).
        """
        first = self.earliest(piece.tp for piece in ranges if piece.size)
        kept = []
        for piece in ranges:
            start = max(piece.start, first.get(piece.tp, piece.start))
            if start > piece.start:
                self._report("START_OFFSET_RESET", start_was_reset(piece.tp, piece.start, start))
            kept.append(OffsetRange(piece.tp, min(start, piece.end), piece.end))
        return kept

    def _first_offsets_of_new(self, added: Iterable[TopicPartition]) -> Positions:
        added = set(added)
        first = self.earliest(added)
        missing = added - first.keys()
        if missing:
            self._report(
                "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
                f"Cannot find initial offsets for partitions {describe(missing)}. They may have been deleted.",
            )
        for tp, offset in sorted(first.items()):
            if offset != 0:
                self._report(
                    "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
                    f"Added partition {tp} starts from {offset} instead of 0.",
                )
        return first

    def _resolve(self, spec: OffsetSpec, partitions: set[TopicPartition], *, edge: str) -> Positions:
        if spec.kind is SpecKind.EARLIEST:
            return self.earliest(partitions)
        if spec.kind is SpecKind.LATEST:
            return self.latest(partitions)
        if spec.kind is SpecKind.OFFSETS:
            return self._specific(spec.values, partitions, edge)
        if spec.kind is SpecKind.TIMESTAMP:
            return self._by_time(dict.fromkeys(partitions, spec.timestamp), spec)
        _check_assigned(
            f"[KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED] Partitions specified for Kafka timestamp based {edge} "
            "offsets don't match what are assigned. Maybe topic partitions are created or deleted while the query "
            "is running, or you didn't specify all the partitions.",
            spec.values,
            partitions,
        )
        return self._by_time(spec.values, spec)

    def _specific(self, values: Positions, partitions: set[TopicPartition], edge: str) -> Positions:
        _check_assigned(
            f"[KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED] Partitions specified for Kafka {edge} offsets don't match "
            "what are assigned. Maybe topic partitions are created or deleted while the query is running. "
            "Use -1 for latest, -2 for earliest.",
            values,
            partitions,
        )
        return {**values, **self._catalog.offsets({tp: value for tp, value in values.items() if value < 0})}

    def _by_time(self, times: Positions, spec: OffsetSpec) -> Positions:
        found = self._catalog.offsets(times)
        behind = [tp for tp in sorted(times) if found.get(tp, -1) < 0]
        if behind and not spec.no_match_is_latest:
            raise OffsetError(
                f"No offset matched from request of topic-partition {behind[0]} and timestamp {times[behind[0]]}."
            )
        return {**found, **self.latest(behind)}

    def _report(self, condition: str, reason: str) -> None:
        report_data_loss(condition, reason, fail=self._options.fail_on_data_loss)


def report_data_loss(condition: str, reason: str, *, fail: bool) -> None:
    """Raises DataLossError, or only warns where the user said that loss is no failure."""
    if fail:
        raise DataLossError(condition, reason)
    _log.warning("some data may have been lost: %s", reason)


def start_was_reset(tp: TopicPartition, start: int, first: int) -> str:
    """The reason when the log begins behind the start of a range."""
    return f"Starting offset for {tp} was {start} but consumer reset to {first}."


def retrying(attempts: int, pause: Callable[[], None], call: Callable[[], Positions]) -> Positions:
    """The call's value; tried again (``fetchOffset.numRetries``) when Kafka could not answer."""
    for _ in range(attempts):
        try:
            return call()
        except (OSError, TimeoutError) as error:
            _log.warning("looking up offsets failed, trying again: %s", error)
            pause()
    return call()


def _same_partitions(options: SourceOptions) -> None:
    """Start and end by partition must speak of the same partitions."""
    by_partition = {SpecKind.OFFSETS, SpecKind.TIMESTAMPS}
    if options.starting.kind not in by_partition or options.ending.kind not in by_partition:
        return
    starting, ending = options.starting.values.keys(), options.ending.values.keys()
    if starting != ending:
        raise OffsetError(
            f"different topic partitions for starting offsets topics[{_listed(starting)}] and "
            f"ending offsets topics[{_listed(ending)}]"
        )


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(map(str, sorted(partitions)))


def _check_assigned(words: str, given: Mapping[TopicPartition, int], assigned: set[TopicPartition]) -> None:
    if given.keys() != assigned:
        raise OffsetError(f"{words} Specified: {describe(given)} Assigned: {describe(assigned)}")


def _start_behind_end(piece: OffsetRange) -> str:
    return (
        f"[RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The resolved start offset {piece.start} is greater than "
        f"the resolved end offset {piece.end} for topic {piece.tp.topic} partition {piece.tp.partition}. Check "
        "whether the start offset is set beyond the end offset or the latest available offset, and whether the "
        "topic-partition was deleted and re-created."
    )


def _went_backwards(tp: TopicPartition, start: int, end: int) -> str:
    return (
        f"Partition {tp} offset was changed from {start} to {end}. This could be either 1) a user error that the "
        "start offset is set beyond available offset when starting query, or 2) the kafka topic-partition is "
        "deleted and re-created."
    )
