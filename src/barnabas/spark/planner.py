"""From options to ranges: which partitions there are, where a read begins and ends, and whether data is lost.

It asks Kafka through a small port, `Catalog`, and knows neither Spark nor the client, so its rules are tested
without Java and without a broker.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import DataLossError, OffsetError
from barnabas.spark.offsets import (
    EARLIEST,
    LATEST,
    OffsetSpec,
    Positions,
    SourceOffset,
    SpecKind,
    TopicIds,
    describe,
)
from barnabas.spark.options import SourceOptions
from barnabas.spark.ranges import OffsetRange

_log = logging.getLogger("barnabas.spark")


@dataclass(frozen=True, slots=True)
class FoundTopics:
    """The topics of a query as Kafka knows them now."""

    partitions: set[TopicPartition]
    topic_ids: TopicIds = field(default_factory=dict)
    missing: Mapping[str, BarnabasError] = field(default_factory=dict)
    """Topics that were asked for by name and do not exist."""


class Catalog(Protocol):
    """What planning asks of Kafka."""

    def topics(self, options: SourceOptions) -> FoundTopics:
        """The topics of the strategy (subscribe, subscribePattern or assign), as they are now."""

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """ListOffsets: the offset for a timestamp (-2 earliest, -1 latest), -1 where no record is that
        young.
        """

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> Positions:
        """What the group has committed in these partitions, without those where it has nothing."""


class Planner:
    """Turns what was asked for into offsets of the partitions that there are."""

    def __init__(self, options: SourceOptions, catalog: Catalog) -> None:
        self._options = options
        self._catalog = catalog

    def partitions(self) -> set[TopicPartition]:
        """The partitions that a new query reads. Raises KafkaError for a topic that does not exist."""
        found = self._catalog.topics(self._options)
        for error in found.missing.values():
            raise error
        return found.partitions

    def earliest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The first offset of each partition that is still there."""
        return self._catalog.offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The offset behind the last record that a reader may see (read_committed:
        the last stable offset).
        """
        return self._catalog.offsets(dict.fromkeys(partitions, LATEST))

    def initial(self) -> Positions:
        """Where a new query begins."""
        return self._resolve(self._options.starting, self.partitions(), edge="start")

    def latest_place(self, start: SourceOffset) -> SourceOffset:
        """The end of what a stream can read now that has come as far as `start`.

        Topics that it has read and that were deleted, and partitions that are no longer asked for, are data
        loss: said here, before a batch without them is written down. Where that is no failure, the stream
        keeps its place in a topic that is asked for: it may only be unknown to a broker that has just
        started. Raises DataLossError, and KafkaError for a topic that never was there.
        """
        found = self._catalog.topics(self._options)
        for name in sorted(found.missing.keys() - {tp.topic for tp in start.positions}):
            if self._options.fail_on_data_loss:
                raise found.missing[name]
            _log.warning("topic %s does not exist", name)
        read = _without_topics(start.positions, start.created_again(found.topic_ids))
        absent = {tp: offset for tp, offset in read.items() if tp not in found.partitions}
        left = {tp for tp in absent if not self._options.asks_for(tp)}
        if left:
            self._report("PARTITIONS_DELETED", f"The options do not ask for {describe(left)} any more.")
        kept = {tp: offset for tp, offset in absent.items() if tp not in left}
        for name in sorted({tp.topic for tp in kept} - _same_topics(start.topic_ids, found.topic_ids)):
            self._report("PARTITIONS_DELETED", f"Topic {name} has been deleted.")
        ids = {tp.topic: start.topic_ids[tp.topic] for tp in kept if tp.topic in start.topic_ids}
        return SourceOffset({**self.latest(found.partitions), **kept}, {**found.topic_ids, **ids})

    def begin_of(self, start: SourceOffset, end: SourceOffset) -> Positions:
        """Where the partitions of `end` are read from by a stream that has come to `start`: new ones, and
        those of a topic that was created again, from their first offset.
        """
        begin = _without_topics(start.positions, start.created_again(end.topic_ids))
        return {**begin, **self.earliest(end.positions.keys() - begin.keys())}

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

    def micro_batch_ranges(self, start: SourceOffset, end: SourceOffset) -> list[OffsetRange]:
        """What the micro-batch from `start` to `end` reads. Raises DataLossError."""
        again = start.created_again(end.topic_ids)
        for name in sorted(again):
            self._report("PARTITIONS_DELETED", f"Topic {name} has been deleted and created again.")
        begin = _without_topics(start.positions, again)
        gone = self._gone_since(end)
        unread = {tp for tp in gone if end.positions[tp] > begin.get(tp, 0)}
        if unread:
            self._report("PARTITIONS_DELETED", f"Partitions {describe(unread)} have been deleted.")
        left = {tp: offset for tp, offset in end.positions.items() if tp not in gone}
        return self._between({tp: begin[tp] for tp in begin if tp not in gone}, left)

    def _gone_since(self, planned: SourceOffset) -> set[TopicPartition]:
        """The partitions that were deleted, or made again under their name:
        a batch is planned again after a restart.
        """
        names = tuple(sorted({tp.topic for tp in planned.positions}))
        now = self._catalog.topics(replace(self._options, topics=names, pattern=None, assigned=()))
        same = _same_topics(planned.topic_ids, now.topic_ids)
        again = planned.created_again(now.topic_ids)
        absent = {tp for tp in planned.positions if tp not in now.partitions and tp.topic not in same}
        return absent | {tp for tp in planned.positions if tp.topic in again}

    def _between(self, start: Positions, end: Positions) -> list[OffsetRange]:
        """What the micro-batch from `start` to `end` reads;
        partitions new in `end` are read from their first offset.
        """
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
                f"Cannot find initial offsets for partitions {describe(missing)}. They may have been "
                "deleted.",
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
        if spec.kind is SpecKind.GROUP:
            return self._of_group(spec.group, partitions)
        if spec.kind is SpecKind.TIMESTAMP:
            return self._by_time(dict.fromkeys(partitions, spec.timestamp), spec)
        _check_assigned(
            "[KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED] Partitions specified for Kafka timestamp "
            f"based {edge} offsets don't match what are assigned. Maybe topic partitions are created or "
            "deleted while the query is running, or you didn't specify all the partitions.",
            spec.values,
            partitions,
        )
        return self._by_time(spec.values, spec)

    def _of_group(self, group: str, partitions: set[TopicPartition]) -> Positions:
        """Where the group is; partitions that it never read are read from their first record.

        A group without any position is refused: its name may be misspelt, and all topics would be read again.
        """
        committed = self._catalog.committed(group, partitions)
        if not committed:
            raise OffsetError(f"The group {group} has committed no offsets in {describe(partitions)}.")
        return {**self.earliest(partitions - committed.keys()), **committed}

    def _specific(self, values: Positions, partitions: set[TopicPartition], edge: str) -> Positions:
        _check_assigned(
            f"[KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED] Partitions specified for Kafka {edge} offsets "
            "don't match what are assigned. Maybe topic partitions are created or deleted while the query "
            "is running. Use -1 for latest, -2 for earliest.",
            values,
            partitions,
        )
        return {**values, **self._catalog.offsets({tp: value for tp, value in values.items() if value < 0})}

    def _by_time(self, times: Positions, spec: OffsetSpec) -> Positions:
        found = self._catalog.offsets(times)
        behind = [tp for tp in sorted(times) if found.get(tp, -1) < 0]
        if behind and not spec.no_match_is_latest:
            raise OffsetError(
                f"No offset matched from request of topic-partition {behind[0]} and timestamp "
                f"{times[behind[0]]}."
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


def _without_topics(positions: Positions, names: set[str]) -> Positions:
    return {tp: offset for tp, offset in positions.items() if tp.topic not in names}


def _same_topics(one: TopicIds, other: TopicIds) -> set[str]:
    """The topics that surely are the same.
    One never loses partitions: a broker that lists fewer is behind the others.
    """
    return {name for name, _ in one.items() & other.items()}


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
        f"[RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The resolved start offset {piece.start} is "
        f"greater than the resolved end offset {piece.end} for topic {piece.tp.topic} partition "
        f"{piece.tp.partition}. Check whether the start offset is set beyond the end offset or the latest "
        "available offset, and whether the topic-partition was deleted and re-created."
    )


def _went_backwards(tp: TopicPartition, start: int, end: int) -> str:
    return (
        f"Partition {tp} offset was changed from {start} to {end}. This could be either 1) a user error "
        "that the start offset is set beyond available offset when starting query, or 2) the kafka "
        "topic-partition is deleted and re-created."
    )
