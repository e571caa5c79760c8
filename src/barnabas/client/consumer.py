"""`AsyncConsumer`: records of partitions that the caller assigns, or that its group does.

Theory of operation
-------------------
Each assigned partition has a position: the offset of the next record to hand out. `poll` hands out what was
fetched before, moves the positions behind it, and sees to it that requests for more are under way. Where
there is no position yet one is looked up first (`positions`).

A consumer that has `subscribe`d is a member of its group (`group.member`): each poll takes the
membership a step further, and the listeners are called from there. Positions are committed at the *next*
poll, when the caller has had the records before them, so nothing that was not handed out counts as read.

Three ways out share all of that: `poll` gives records, `poll_arrow` pyarrow batches straight from the
fetched bytes, `fetch_raw` these bytes themselves. Use one of them at a time.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from barnabas.client import named
from barnabas.client.cluster import Cluster
from barnabas.client.committed import Offsets
from barnabas.client.completed_fetch import CompletedFetch
from barnabas.client.config import (
    CONSUMER_CONFIG,
    CONSUMER_OBJECTS,
    ISOLATION_LEVELS,
    Given,
    client_config,
    given_options,
)
from barnabas.client.consumer_hooks import intercepted
from barnabas.client.errors import (
    ClientClosedError,
    ClientTimeoutError,
    LogTruncationError,
    NoOffsetError,
    RecordDeserializationError,
)
from barnabas.client.fetcher import Fetcher
from barnabas.client.group.commits import CommitCallback, offsets_to_commit
from barnabas.client.group.member import GroupMember, member_of
from barnabas.client.group.settings import no_group
from barnabas.client.habits import (
    IN_CLOSE_OF_CONSUMERS,
    IN_COMMIT,
    IN_POLL,
    IN_SUBSCRIBE,
    OF_CONSUMERS,
    knows_arguments,
)
from barnabas.client.keyed_call import raise_first
from barnabas.client.offsets import list_offsets, time_ms, whole_offset
from barnabas.client.options import ConsumerOptions
from barnabas.client.positions import Positions
from barnabas.client.producer_metrics import Metrics
from barnabas.client.record_parser import parser_of
from barnabas.client.retries import Deadline
from barnabas.client.subscription_state import AssignedPartition, Listener, SubscriptionState
from barnabas.client.telemetry import Telemetry
from barnabas.client.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ConsumerGroupMetadata,
    ConsumerRecord,
    ConsumerRecords,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RawFetch,
)
from barnabas.client.wakeup import Wakeup
from barnabas.core.errors import BarnabasError, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.extras import extra, needed
from barnabas.core.ids import TopicPartition, Uuid
from barnabas.core.instead import knows

if TYPE_CHECKING:
    import pyarrow as pa

_IN_FLIGHT_MAX: Final = 100
_CLOSE_TIMEOUT_MS: Final = 30_000
_LIKE_SECONDS: Final = frozenset({0.1, 0.5, 1.0, 2.0, 5.0, 10.0})
"""Times of a poll that are seconds in other clients; here a loop of such polls is busy."""

_log = EventLog("client.consumer")


@knows(OF_CONSUMERS)
class AsyncConsumer:
    """Reads records. Options are the keys of Kafka's consumer with underscores: ``max_poll_records=5000``.

    Use it as an async context manager. Raises ConfigError for a bad option.
    """

    def __init__(self, bootstrap_servers: Given | None = None, /, **options: Unpack[ConsumerOptions]) -> None:
        config = client_config(
            CONSUMER_CONFIG, given_options("consumer", bootstrap_servers, options), CONSUMER_OBJECTS
        )
        self._config = config
        self._isolation_level = ISOLATION_LEVELS[config["isolation.level"]]
        self._timeout_ms = config["default.api.timeout.ms"]
        self._cluster = Cluster(config, in_flight_max=_IN_FLIGHT_MAX)
        self._subscriptions = SubscriptionState()
        self._partitions = self._subscriptions.partitions
        self._said_nothing_chosen = False
        self._said_milliseconds = False
        self._fetcher = Fetcher(config, self._cluster, self._partitions, parser_of(config))
        self._interceptors: Sequence[Any] = config["interceptors"] or ()
        self._wakeup = Wakeup()
        self._coordinator = member_of(config, self._cluster, self._subscriptions, self._fetcher.wake)
        self._positions = Positions(
            config,
            self._cluster,
            self._partitions,
            self._coordinator.commits if self._coordinator else None,
            self._fetcher.wake,
        )
        named = {"group_id": config["group.id"], "client_rack": config["client.rack"]}
        self._telemetry = Telemetry(
            self._cluster,
            self.metrics,
            {name: text for name, text in named.items() if text},
            enabled=config["enable.metrics.push"],
        )
        self._closed = False
        self._closing = False
        """Whether it is being closed: nothing is given any more, so that all that was is committed."""
        self._before: dict[AssignedPartition, tuple[int | None, int]] = {}
        """Where the last poll found each partition of which it gave records: position and its epoch."""

    def _member(self) -> GroupMember:
        """Raises KafkaError (INVALID_GROUP_ID) where there is no group."""
        if self._closed:
            raise ClientClosedError("The consumer was closed")
        if self._coordinator is None:
            raise no_group()
        return self._coordinator

    async def start(self) -> Self:
        """Connects; raises `ClientTimeoutError` when no broker answers. Other calls do it by themselves."""
        await self._cluster.connect(Deadline(self._timeout_ms))
        self._telemetry.begin()
        return self

    def silent_brokers(self, longer_than_ms: float) -> list[str]:
        """Whom a call that goes on waits for: brokers that have owed an answer for longer than this."""
        return self._cluster.silent_brokers(longer_than_ms)

    # Assignment and positions.

    def assign(self, partitions: named.Partitions) -> None:
        """Reads these partitions from now on, and no others; those assigned before keep their position.

        Raises BarnabasError while there is a subscription to topics.
        """
        wanted = named.partitions(partitions)
        if self._coordinator is not None and self._partitions:
            self._coordinator.auto_commit.before_assign()
        self._subscriptions.assign(wanted)
        self._cluster.need({tp.topic for tp in wanted})

    def assignment(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        return frozenset(self._partitions)

    def seek(self, tp: named.Partition, offset: int | datetime) -> None:
        """Continues a partition at this offset, or at the first record that is not older than this time; at
        its end where there is none yet. A time without a zone is one of this machine's.
        """
        if isinstance(offset, datetime):
            self._assigned(tp).reset(time_ms(offset))
            return
        if offset.__class__ is not int:
            offset = whole_offset(offset)
        if offset < 0:
            raise BarnabasError(f"seek offset must not be a negative number, and it is {offset}")
        self._assigned(tp).seek(offset)

    def seek_to_time(self, when: datetime, *partitions: named.Several) -> None:
        """Continues these partitions (all when none is given) at their first record that is not older."""
        if not isinstance(when, datetime):
            raise TypeError(f"a time is a datetime, not {when!r:.80}")
        self._reset(partitions, time_ms(when))

    def wakeup(self) -> None:
        """Ends the poll that is under way with `WakeupError`, or else the next one. From any thread, or a
        signal handler: the one call of a consumer for which that is so.
        """
        self._wakeup.ask()

    def seek_to_beginning(self, *partitions: named.Several) -> None:
        """Continues these partitions (all when none is given) at their first offset."""
        self._reset(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: named.Several) -> None:
        """Continues these partitions (all when none is given) behind their last offset."""
        self._reset(partitions, LATEST_TIMESTAMP)

    def _reset(self, partitions: Iterable[named.Several], timestamp: int) -> None:
        for tp in named.each(partitions) or list(self._partitions):
            self._assigned(tp).reset(timestamp)

    def pause(self, *partitions: named.Several) -> None:
        """Hands out nothing of these partitions until `resume`."""
        for tp in named.each(partitions):
            self._assigned(tp).paused = True

    def resume(self, *partitions: named.Several) -> None:
        """Hands out records of these partitions again."""
        for tp in named.each(partitions):
            self._assigned(tp).paused = False

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return frozenset(tp for tp, state in self._partitions.items() if state.paused)

    async def position(self, tp: named.Partition) -> int:
        """The offset of the next record to hand out;
        raises `NoOffsetError`, `KafkaError`, `ClientTimeoutError`.
        """
        self._cluster.home.enter()
        state = self._assigned(tp)
        await self._positions.find(Deadline(self._timeout_ms))
        if state.position is None:
            raise ClientTimeoutError(f"No position of {state.tp} in {self._timeout_ms} ms")
        return state.position

    def _assigned(self, tp: named.Partition) -> AssignedPartition:
        if self._closed:
            raise ClientClosedError("The consumer was closed")
        tp = named.partition(tp)
        state = self._partitions.get(tp)
        if state is None:
            raise BarnabasError(f"No current assignment for partition {tp}: assign it first")
        return state

    # The group.

    @knows_arguments(IN_SUBSCRIBE)
    def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Reads these topics (or all whose whole name the pattern matches) as a member of the group.

        A later call replaces the topics and the listeners. Listeners get a list of partitions, may be
        coroutine functions, and are called from within `poll`, `unsubscribe` and `close`; partitions are
        lost when the member was out of the group before it could give them up (then `on_revoked` is called
        where there is no `on_lost`). Raises KafkaError without a ``group_id``, BarnabasError while
        partitions are assigned by hand.
        """
        member = self._member()
        names = named.names(topics, "topics")
        if bool(names) == (pattern is not None):
            raise BarnabasError("Subscribe to topics or to a pattern; unsubscribe() ends a subscription")
        self._subscriptions.subscribe(
            names if pattern is None else re.compile(pattern), on_assigned, on_revoked, on_lost
        )
        self._cluster.need(names)
        self._cluster.need_all(pattern is not None)
        member.subscription_changed()

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to."""
        return self._subscriptions.topics

    async def unsubscribe(self) -> None:
        """Leaves the group; nothing is read from now on. Raises what a listener raises."""
        self._cluster.home.enter()
        reason = "the consumer unsubscribed from all topics"
        try:
            if self._coordinator is not None:
                await self._coordinator.leave(reason, Deadline(self._timeout_ms))
        finally:
            self._subscriptions.unsubscribe()
            self._cluster.need_all(False)

    @knows_arguments(IN_COMMIT)
    async def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Commits these offsets (of the next records to read), by default all positions; waits until done.

        Raises CommitFailedError when the group has a new generation without this member, KafkaError
        (REBALANCE_IN_PROGRESS: poll, then try again; others are final), ClientTimeoutError.
        """
        self._cluster.home.enter()
        commits = self._member().commits
        await commits.commit(self._to_commit(offsets), self._deadline(timeout_ms))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commits without waiting, in one attempt. The callback gets the offsets and the error or None,
        from within a later `poll`, `commit` or `close`.
        """
        self._cluster.home.enter()
        self._member().commits.commit_soon(self._to_commit(offsets), callback)

    def _to_commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None) -> Offsets:
        return self._subscriptions.all_consumed() if offsets is None else offsets_to_commit(offsets)

    async def committed(
        self, partitions: named.Partitions, *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for each partition, None for nothing. Raises KafkaError,
        ClientTimeoutError.
        """
        self._cluster.home.enter()
        wanted = named.partitions(partitions)
        return await self._member().commits.committed(wanted, self._deadline(timeout_ms))

    def _deadline(self, timeout_ms: float | None) -> Deadline:
        return Deadline(self._timeout_ms if timeout_ms is None else timeout_ms)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who this consumer is in its group. Raises KafkaError without a ``group_id``."""
        return self._member().commits.group_metadata

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """The next poll begins a rebalance, as after a change that assignors should look at. Does nothing
        with ``group_protocol="consumer"``, where the coordinator alone decides.
        """
        self._member().enforce_rebalance(reason)

    # Reading.

    @knows_arguments(IN_POLL)
    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """The next records, in order within each partition; waits up to the time for the first of them.

        Raises `NoOffsetError` (``auto.offset.reset`` is none; `LogTruncationError` where the leader's log
        diverges from what was read), `KafkaError` (damage, authorization), `RecordDeserializationError`,
        `WakeupError`, and `ClientClosedError` where another thread or task closes the consumer meanwhile. A
        Ctrl-C ends it with `KeyboardInterrupt`, and no record is lost: what it would have given comes with
        the next poll.
        """
        if timeout_ms.__class__ is float and timeout_ms in _LIKE_SECONDS and not self._said_milliseconds:
            self._said_milliseconds = True
            _log.warning("consumer.short_poll", timeout_ms=timeout_ms, advice="poll waits milliseconds")
        with self._wakeup:
            records = await self._poll(Deadline(timeout_ms), max_records or self._config["max.poll.records"])
        return intercepted(self._interceptors, records) if self._interceptors else records

    async def _poll(self, deadline: Deadline, limit: int) -> list[ConsumerRecord]:
        self._fetcher.metrics.polled()
        self._before.clear()
        while True:
            await self._prepare()
            records = self._take_buffered(limit)
            while len(records) < limit and (raw := self._fetcher.take()) is not None:
                state = self._partitions[raw.tp]
                state.buffered = self._fetcher.open(raw)
                records += self._drain(state, state.buffered, limit - len(records), first=not records)
            self._fetcher.send_fetches()
            if records or await self._is_over(deadline):
                return records

    def _take_buffered(self, limit: int) -> ConsumerRecords:
        records = ConsumerRecords()
        for state in self._partitions.values():
            if state.buffered is not None and not state.is_held_back and len(records) < limit:
                records += self._drain(state, state.buffered, limit - len(records), first=not records)
        return records

    def _drain(
        self, state: AssignedPartition, fetch: CompletedFetch, limit: int, *, first: bool
    ) -> list[ConsumerRecord]:
        """Up to `limit` records of one partition. Damage is raised only when it comes first: records that
        were taken before it must reach the caller.
        """
        try:
            records = fetch.take(limit)
        except KafkaError:
            if first:
                raise
            return []
        except RecordDeserializationError as error:
            if not first:
                return []
            # Fetched and parsed again by the next poll: the deserializer may take it then.
            state.seek(error.offset, state.position_epoch)
            raise
        self._before.setdefault(state, (state.position, state.position_epoch))
        state.position = fetch.next_offset
        if records:
            self._fetcher.metrics.consumed(state.tp.topic, len(records))
            state.position_epoch = records[-1].leader_epoch
        if len(records) < limit and not fetch.is_damaged:
            state.buffered = None
        return records

    async def fetch_raw(self, timeout_ms: float = 0) -> list[RawFetch]:
        """The record batches that arrived, as bytes, one piece a partition; waits up to the time for the
        first. Positions move behind the last whole batch. Raises as `poll`.
        """
        with self._wakeup:
            return await self._fetch_raw(Deadline(timeout_ms))

    async def _fetch_raw(self, deadline: Deadline) -> list[RawFetch]:
        self._fetcher.metrics.polled()
        self._before.clear()
        while True:
            await self._prepare()
            pieces = []
            while (raw := self._fetcher.take()) is not None:
                state = self._partitions[raw.tp]
                self._before.setdefault(state, (state.position, state.position_epoch))
                self._fetcher.metrics.consumed(raw.tp.topic, state.move_behind(raw))
                self._fetcher.metrics.read(raw.tp.topic, len(raw.records))
                pieces.append(raw)
            self._fetcher.send_fetches()
            if pieces or await self._is_over(deadline):
                return pieces

    def take_back(self) -> None:
        """What the last poll gave reached nobody, as its caller was interrupted: the next one gives it again,
        and it is not committed.
        """
        for state, (position, epoch) in self._before.items():
            if self._partitions.get(state.tp) is state and position is not None:
                state.seek(position, epoch)
        self._before.clear()

    async def poll_arrow(
        self, timeout_ms: float = 0, *, include_headers: bool = False
    ) -> "list[pa.RecordBatch]":
        """The next records as pyarrow batches with the columns of Spark's Kafka source, one a partition.

        Needs ``barnabas[arrow]``. Raises as `poll`, and ColumnarError for damaged batches.
        """
        # Numba, pyarrow only when wanted.
        with extra("arrow", "poll_arrow"):
            from barnabas.records.columnar import decode_to_arrow  # noqa: PLC0415

        deadline = Deadline(timeout_ms)
        while True:
            batches = [
                decode_to_arrow(
                    raw.records,
                    topic=raw.tp.topic,
                    partition=raw.tp.partition,
                    start_offset=raw.position,
                    aborted=raw.aborted,
                    include_headers=include_headers,
                    check_crc=self._config["check.crcs"],
                )
                for raw in await self.fetch_raw(deadline.left_s * 1000)
            ]
            batches = [batch for batch in batches if batch.num_rows]
            if batches or deadline.is_over:
                return batches

    async def arrow_batches(
        self, *, to_end: bool = False, include_headers: bool = False
    ) -> "AsyncIterator[pa.RecordBatch]":
        """Every record in pyarrow batches, as of `poll_arrow`, without end; with `to_end` up to the ends that
        the assigned partitions have now. Raises as `poll_arrow`.
        """
        ends = await self.ends() if to_end else None
        while ends is None or not self.has_read_to(ends):
            for batch in await self.poll_arrow(timeout_ms=1000, include_headers=include_headers):
                yield batch

    async def ends(self) -> dict[TopicPartition, int]:
        """The ends of the assigned partitions; raises BarnabasError where none is assigned."""
        if not self._partitions:
            raise BarnabasError("There is no end without an assigned partition: assign some, or poll first")
        ends = await self.end_offsets(list(self._partitions))
        await self._positions.find(Deadline(self._timeout_ms))
        return ends

    def has_read_to(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether every partition of these that is assigned still was read up to its end."""
        places = [(self._partitions[tp].position, end) for tp, end in ends.items() if tp in self._partitions]
        return all(position is not None and position >= end for position, end in places)

    async def to_arrow(self, *, include_headers: bool = False) -> "pa.Table":
        """All records from here to the ends that the assigned partitions have now, as one pyarrow table.
        Raises as `poll_arrow`.
        """
        with extra("arrow", "to_arrow", "pyarrow"):
            import pyarrow as pa  # noqa: PLC0415

            from barnabas.records.columnar import SCHEMA, SCHEMA_WITH_HEADERS  # noqa: PLC0415

        batches = self.arrow_batches(to_end=True, include_headers=include_headers)
        found = [batch async for batch in batches]
        return pa.Table.from_batches(found, SCHEMA_WITH_HEADERS if include_headers else SCHEMA)

    async def to_pandas(self, *, include_headers: bool = False) -> Any:
        """As `to_arrow`, as a frame of pandas, which has to be installed."""
        needed("to_pandas", "pandas")
        table = await self.to_arrow(include_headers=include_headers)
        return table.to_pandas()

    async def to_polars(self, *, include_headers: bool = False) -> Any:
        """As `to_arrow`, as a frame of polars, which has to be installed."""
        polars = needed("to_polars", "polars")
        return polars.from_arrow(await self.to_arrow(include_headers=include_headers))

    def _check_open(self) -> None:
        if self._closing:
            raise ClientClosedError("The consumer was closed")

    async def _prepare(self) -> None:
        self._check_open()
        self._cluster.home.enter()
        if self._fetcher.failures:
            tp, failure = self._fetcher.failures.popitem()
            if tp in self._partitions:
                raise failure
        if self._fetcher.out_of_range:
            self._reset_out_of_range()
        if self._fetcher.truncated:
            self._go_back_to_divergence()
        self._cluster.refresh_if_old()
        self._telemetry.begin()
        if self._coordinator is None:
            await self._positions.find(Deadline(self._timeout_ms))
        else:
            # Neither the group nor a position is waited for: partitions that have one are read.
            await self._coordinator.poll()
            self._positions.advance()
        self._check_open()
        self._fetcher.send_fetches()

    async def _is_over(self, deadline: Deadline) -> bool:
        """Waits until there may be something to do; whether there is no time left for it."""
        if deadline.is_over:
            if not self._subscriptions.chosen and not self._said_nothing_chosen:
                self._said_nothing_chosen = True
                _log.warning("consumer.nothing_to_read", advice="call subscribe or assign before poll")
            # A caller that polls in a tight loop must let the loop turn.
            await asyncio.sleep(0)
            return True
        await self._fetcher.wait(
            min(deadline.left_s, self._coordinator.wait_s if self._coordinator else deadline.left_s)
        )
        return False

    def _reset_out_of_range(self) -> None:
        lost, self._fetcher.out_of_range = self._fetcher.out_of_range, {}
        lost = {tp: offset for tp, offset in lost.items() if self._stands_at(tp, offset)}
        if self._config["auto.offset.reset"] == "none" and lost:
            raise NoOffsetError(lost)
        for tp in lost:
            self._partitions[tp].reset(self._positions.default)

    def _go_back_to_divergence(self) -> None:
        """Reads on where the logs of former leaders and of this one part (KIP-320)."""
        lost, self._fetcher.truncated = self._fetcher.truncated, {}
        diverged = {}
        for tp, (offset, end) in lost.items():
            if self._stands_at(tp, offset):
                if end.end_offset < offset and self._config["auto.offset.reset"] == "none":
                    diverged[tp] = end.end_offset
                    continue
                back = min(offset, end.end_offset)
                _log.warning("consumer.truncated", partition=tp, position=offset, back_to=back)
                self._partitions[tp].seek(back, end.epoch)
        if diverged:
            raise LogTruncationError({tp: lost[tp][0] for tp in diverged}, diverged)

    def _stands_at(self, tp: TopicPartition, offset: int) -> bool:
        return tp in self._partitions and self._partitions[tp].position == offset

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Every record, without end: ``async for record in consumer``."""
        while True:
            for record in await self.poll(timeout_ms=1000):
                yield record

    # Looking around.

    async def partitions_for(self, topic: str, *, timeout_ms: float | None = None) -> list[int]:
        """The partitions of a topic, which is waited for as long as ``default.api.timeout.ms``, or
        `timeout_ms`; raises `KafkaError` or `ClientTimeoutError` when it is not there.
        """
        deadline = Deadline(self._timeout_ms if timeout_ms is None else timeout_ms)
        known = await self._cluster.topic(topic, deadline)
        return list(known.partitions)

    async def topic_id(self, topic: str) -> Uuid:
        """The id of the topic that is read under this name now, as far as the client knows;
        all zeros where it does not.
        """
        return self._cluster.metadata.topic_id(topic)

    async def beginning_offsets(self, partitions: named.Partitions) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._special_offsets(partitions, EARLIEST_TIMESTAMP)

    async def end_offsets(self, partitions: named.Partitions) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition (that this isolation level sees)."""
        return await self._special_offsets(partitions, LATEST_TIMESTAMP)

    async def _special_offsets(
        self, partitions: named.Partitions, timestamp: int
    ) -> dict[TopicPartition, int]:
        found = await self._offsets(dict.fromkeys(named.partitions(partitions), timestamp))
        return {tp: one.offset for tp, one in found.items()}

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int | datetime]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset of each partition whose record is not older than the time (milliseconds since
        1970, or a datetime); None without one.
        """
        found = await self._offsets({named.partition(tp): time_ms(when) for tp, when in times_ms.items()})
        return {tp: one if one.offset >= 0 else None for tp, one in found.items()}

    async def _offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        results = await list_offsets(
            self._cluster, wanted, isolation_level=self._isolation_level, timeout_ms=self._timeout_ms
        )
        return raise_first(results)

    def metrics(self) -> Metrics:
        """What this consumer has done and how far behind it is, by Kafka's names in groups:
        ``metrics()["consumer-fetch-manager-metrics"]["records-lag-max"]``; with ``.topic`` and
        ``.topic:partition`` behind the group's name, those of one. Rates and averages are those of the last
        half to whole minute; what did not happen in it is NaN.
        """
        return self._fetcher.metrics.shown(self._partitions.values(), self._isolation_level)

    def lag(self, tp: named.Partition) -> int | None:
        """Records between the position and the end that the last fetch saw; None before there was one."""
        return self._assigned(tp).lag(self._isolation_level)

    @knows_arguments(IN_CLOSE_OF_CONSUMERS)
    async def close(self, timeout_ms: float = _CLOSE_TIMEOUT_MS) -> None:
        """Commits where that is automatic, leaves the group, closes the connections; harmless when repeated.

        Raises what a listener raises, after all of it; EventLoopError on another event loop. Where the loop
        that the consumer ran on is closed, nothing is committed, and the group waits for this member as long
        as ``session.timeout.ms``.
        """
        if self._closed:
            return
        lives = self._cluster.home.enter_to_end()
        self._closing = True
        self._fetcher.wake()  # a poll that waits finds out
        try:
            if self._coordinator is not None and lives:
                await self._coordinator.close(Deadline(timeout_ms))
        finally:
            self._closed = True
            await self._telemetry.close()
            await self._positions.close()
            self._fetcher.close()
            await self._cluster.close()

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        group = f" group={self._config['group.id']}" if self._coordinator else ""
        names = ",".join(sorted(self._subscriptions.topics))
        topics = f" topics={names}" if names else ""
        closed = " closed" if self._closed else ""
        at = self._cluster.bootstrap
        return f"<AsyncConsumer {at}{group}{topics} {len(self._partitions)} partitions{closed}>"
