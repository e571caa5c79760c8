"""`AsyncConsumer`: records of partitions that the caller assigns, from where the caller says.

Theory of operation
-------------------
Each assigned partition has a position: the offset of the next record to hand out. `poll` hands out what was
fetched before, moves the positions behind it, and sees to it that requests for more are under way. Where
there is no position yet (or the broker says that it is out of range) one is looked up first: by the last
`seek_to_...`, else by ``auto.offset.reset``.

Three ways out share all of that: `poll` gives records, `poll_arrow` pyarrow batches straight from the
fetched bytes, `fetch_raw` these bytes themselves. Use one of them at a time.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from barnabas.client.cluster import Cluster, Deadline
from barnabas.client.completed_fetch import CompletedFetch
from barnabas.client.config import CONSUMER_CONFIG, ISOLATION_LEVELS, BootstrapServers, client_config
from barnabas.client.errors import ClientClosedError, NoOffsetError
from barnabas.client.fetcher import Fetcher
from barnabas.client.offsets import list_offsets, offsets_or_raise
from barnabas.client.subscription import AssignedPartition
from barnabas.client.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ConsumerRecord,
    OffsetAndTimestamp,
    RawFetch,
)
from barnabas.core.errors import BarnabasError, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.records.batch import batch_headers

if TYPE_CHECKING:
    import pyarrow as pa

_IN_FLIGHT_MAX: Final = 100
_RESETS: Final = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP, "none": None}


class AsyncConsumer:
    """Reads records. Options are the keys of Kafka's consumer with underscores: ``max_poll_records=5000``.

    Use it as an async context manager. Raises ConfigError for a bad option.
    """

    def __init__(self, bootstrap_servers: BootstrapServers, **options: Any) -> None:
        config = client_config(
            CONSUMER_CONFIG,
            {"bootstrap_servers": bootstrap_servers, "client_id": "barnabas-consumer", **options},
        )
        self._config = config
        self._isolation_level = ISOLATION_LEVELS[config["isolation.level"]]
        self._timeout_ms = config["default.api.timeout.ms"]
        self._cluster = Cluster(config, in_flight_max=_IN_FLIGHT_MAX)
        self._partitions: dict[TopicPartition, AssignedPartition] = {}
        self._fetcher = Fetcher(config, self._cluster, self._partitions)
        self._closed = False

    async def start(self) -> Self:
        """Connects; raises `ClientTimeoutError` when no broker answers. Other calls do it by themselves."""
        await self._cluster.retrying(
            self._cluster.refresh,
            Deadline(self._timeout_ms),
            f"No broker of {self._cluster.bootstrap} answered",
        )
        return self

    # Assignment and positions.

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Reads these partitions from now on, and no others; those assigned before keep their position."""
        wanted = [TopicPartition(*tp) for tp in partitions]
        for tp in set(self._partitions).difference(wanted):
            del self._partitions[tp]
        for tp in wanted:
            if tp not in self._partitions:
                self._partitions[tp] = AssignedPartition(tp)
        self._cluster.need({tp.topic for tp in wanted})

    def assignment(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        return frozenset(self._partitions)

    def seek(self, tp: TopicPartition | tuple[str, int], offset: int) -> None:
        """Continues a partition at this offset."""
        if offset < 0:
            raise BarnabasError(f"seek offset must not be a negative number, and it is {offset}")
        self._assigned(tp).seek(offset)

    def seek_to_beginning(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Continues these partitions (all when none is given) at their first offset."""
        self._reset(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Continues these partitions (all when none is given) behind their last offset."""
        self._reset(partitions, LATEST_TIMESTAMP)

    def _reset(self, partitions: Iterable[TopicPartition | tuple[str, int]], timestamp: int) -> None:
        for tp in list(partitions) or list(self._partitions):
            self._assigned(tp).reset(timestamp)

    def pause(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Hands out nothing of these partitions until `resume`."""
        for tp in partitions:
            self._assigned(tp).paused = True

    def resume(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Hands out records of these partitions again."""
        for tp in partitions:
            self._assigned(tp).paused = False

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return frozenset(tp for tp, state in self._partitions.items() if state.paused)

    async def position(self, tp: TopicPartition | tuple[str, int]) -> int:
        """The offset of the next record to hand out; raises `NoOffsetError`, `KafkaError`, `ClientTimeoutError`."""
        state = self._assigned(tp)
        await self._find_positions()
        assert state.position is not None
        return state.position

    def _assigned(self, tp: TopicPartition | tuple[str, int]) -> AssignedPartition:
        if self._closed:
            raise ClientClosedError("The consumer was closed")
        state = self._partitions.get(TopicPartition(*tp))
        if state is None:
            raise BarnabasError(f"No current assignment for partition {TopicPartition(*tp)}: assign it first")
        return state

    async def _find_positions(self) -> None:
        """Looks up the position of every partition that has none."""
        unplaced = [state for state in self._partitions.values() if state.position is None]
        if not unplaced:
            return
        default = _RESETS[self._config["auto.offset.reset"]]
        wanted = {state.tp: default if state.reset_to is None else state.reset_to for state in unplaced}
        lost = {tp: None for tp, timestamp in wanted.items() if timestamp is None}
        if lost:
            raise NoOffsetError(lost)
        found = await self._offsets(
            {tp: timestamp for tp, timestamp in wanted.items() if timestamp is not None}
        )
        for state in unplaced:
            # A seek in the meantime wins.
            if state.position is None and state.tp in found:
                state.seek(found[state.tp].offset)

    # Reading.

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """The next records, in order within each partition; waits up to the time for the first of them.

        Raises `NoOffsetError` (``auto.offset.reset`` is none) and `KafkaError` (damage, authorization).
        """
        limit = max_records or self._config["max.poll.records"]
        deadline = Deadline(timeout_ms)
        while True:
            await self._prepare()
            records = self._take_buffered(limit)
            while len(records) < limit and (raw := self._fetcher.take()) is not None:
                state = self._partitions[raw.tp]
                state.buffered = self._fetcher.open(raw)
                records += self._drain(state, state.buffered, limit - len(records), first=not records)
            self._fetcher.send_fetches()
            if records or deadline.is_over:
                return records
            await self._fetcher.wait(deadline.left_s)

    def _take_buffered(self, limit: int) -> list[ConsumerRecord]:
        records: list[ConsumerRecord] = []
        for state in self._partitions.values():
            if state.buffered is not None and not state.paused and len(records) < limit:
                records += self._drain(state, state.buffered, limit - len(records), first=not records)
        return records

    @staticmethod
    def _drain(
        state: AssignedPartition, fetch: CompletedFetch, limit: int, *, first: bool
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
        state.position = fetch.next_offset
        if len(records) < limit and not fetch.is_damaged:
            state.buffered = None
        return records

    async def fetch_raw(self, timeout_ms: float = 0) -> list[RawFetch]:
        """The record batches that arrived, as bytes, one piece a partition; waits up to the time for the
        first. Positions move behind the last whole batch. Raises as `poll`.
        """
        deadline = Deadline(timeout_ms)
        while True:
            await self._prepare()
            pieces = []
            while (raw := self._fetcher.take()) is not None:
                self._partitions[raw.tp].position = _end_of(raw)
                pieces.append(raw)
            self._fetcher.send_fetches()
            if pieces or deadline.is_over:
                return pieces
            await self._fetcher.wait(deadline.left_s)

    async def poll_arrow(
        self, timeout_ms: float = 0, *, include_headers: bool = False
    ) -> "list[pa.RecordBatch]":
        """The next records as pyarrow batches with the columns of Spark's Kafka source, one a partition.

        Needs ``barnabas[arrow]``. Raises as `poll`, and ColumnarError for damaged batches.
        """
        from barnabas.records import columnar  # noqa: PLC0415 - numba and pyarrow only where they are wanted

        deadline = Deadline(timeout_ms)
        while True:
            batches = [
                columnar.decode_to_arrow(
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

    async def _prepare(self) -> None:
        if self._closed:
            raise ClientClosedError("The consumer was closed")
        if self._fetcher.failures:
            tp, failure = self._fetcher.failures.popitem()
            if tp in self._partitions:
                raise failure
        if self._fetcher.out_of_range:
            self._reset_out_of_range()
        self._cluster.refresh_if_old()
        await self._find_positions()
        self._fetcher.send_fetches()

    def _reset_out_of_range(self) -> None:
        lost, self._fetcher.out_of_range = self._fetcher.out_of_range, {}
        lost = {tp: offset for tp, offset in lost.items() if self._stands_at(tp, offset)}
        if self._config["auto.offset.reset"] == "none" and lost:
            raise NoOffsetError(lost)
        for tp in lost:
            self._partitions[tp].reset(None)

    def _stands_at(self, tp: TopicPartition, offset: int) -> bool:
        return tp in self._partitions and self._partitions[tp].position == offset

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Every record, for ever: ``async for record in consumer``."""
        while True:
            for record in await self.poll(timeout_ms=1000):
                yield record

    # Looking around.

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic; raises `KafkaError` or `ClientTimeoutError` when it is not there."""
        known = await self._cluster.topic(topic, Deadline(self._timeout_ms))
        return list(known.partitions)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]]
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._special_offsets(partitions, EARLIEST_TIMESTAMP)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]]
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition (that this isolation level sees)."""
        return await self._special_offsets(partitions, LATEST_TIMESTAMP)

    async def _special_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], timestamp: int
    ) -> dict[TopicPartition, int]:
        found = await self._offsets(dict.fromkeys((TopicPartition(*tp) for tp in partitions), timestamp))
        return {tp: one.offset for tp, one in found.items()}

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset of each partition whose record is not older than the time; None without one."""
        found = await self._offsets({TopicPartition(*tp): time_ms for tp, time_ms in times_ms.items()})
        return {tp: one if one.offset >= 0 else None for tp, one in found.items()}

    async def _offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        results = await list_offsets(
            self._cluster, wanted, isolation_level=self._isolation_level, timeout_ms=self._timeout_ms
        )
        return offsets_or_raise(results)

    def lag(self, tp: TopicPartition | tuple[str, int]) -> int | None:
        """Records between the position and the end that the last fetch saw; None before there was one."""
        state = self._assigned(tp)
        end = state.last_stable_offset if self._isolation_level else state.high_watermark
        return max(0, end - state.position) if end >= 0 and state.position is not None else None

    async def close(self) -> None:
        """Closes the connections; harmless when repeated."""
        if not self._closed:
            self._closed = True
            await self._fetcher.close()
            await self._cluster.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncConsumer {self._cluster.bootstrap} {len(self._partitions)} partitions>"


def _end_of(raw: RawFetch) -> int:
    """The position behind the last whole batch."""
    end = raw.position
    for header in batch_headers(raw.records):
        end = max(end, header.next_offset)
    return end
