"""ListOffsets for many partitions: grouped by leader, an error per partition, asked again where it may help.

One deadline for all of it. A partition whose leader has moved is looked up again alone, after fresh
metadata; the others keep their answers (``KafkaAdminClient.listOffsets`` through ``PartitionLeaderStrategy``).
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from barnabas.client.cluster import Cluster, Deadline
from barnabas.client.errors import ClientTimeoutError
from barnabas.client.fetch_session import by_topic
from barnabas.client.transport import Versions
from barnabas.client.types import (
    EARLIEST_LOCAL_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    MAX_TIMESTAMP,
    OffsetAndTimestamp,
)
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.network.errors import DisconnectedError
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_CONSUMER: Final = -1
_KNOWN_FROM: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL_TIMESTAMP: 8, LATEST_TIERED_TIMESTAMP: 9}
"""The first version of ListOffsets that knows a special timestamp (KIP-734, KIP-405, KIP-1005)."""

_log = EventLog("client.offsets")

Result: TypeAlias = OffsetAndTimestamp | BarnabasError
Results: TypeAlias = dict[TopicPartition, Result]


class OffsetLookup:
    """One look-up of offsets for timestamps (or special timestamps), by partition."""

    def __init__(
        self, cluster: Cluster, wanted: Mapping[TopicPartition, int], isolation_level: int, timeout_ms: float
    ) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._isolation_level = isolation_level
        self._deadline = Deadline(timeout_ms)
        self._left = set(wanted)
        self._last: dict[TopicPartition, Exception] = {}
        self._results: Results = {}

    async def run(self) -> Results:
        """An offset (-1 where no record is that late) or an error for every partition."""
        self._cluster.need({tp.topic for tp in self._wanted})
        attempts = 0
        while self._left:
            await self._round()
            if not self._left:
                break
            pause = self._cluster.pause_s(attempts)
            if pause >= self._deadline.left_s:
                self._give_up()
                break
            attempts += 1
            await asyncio.sleep(pause)
            await self._refresh()
        return self._results

    async def _round(self) -> None:
        grouped = dict(self._cluster.by_leader(sorted(self._left)))
        unled = grouped.pop(-1, [])
        if unled:
            await self._refresh()
            again = self._cluster.by_leader(unled)
            for node_id, partitions in again.items():
                grouped.setdefault(node_id, []).extend(partitions)
            for tp in grouped.pop(-1, []):
                self._without_leader(tp)
        await asyncio.gather(*(self._ask(node_id, partitions) for node_id, partitions in grouped.items()))

    async def _refresh(self) -> None:
        try:
            async with asyncio.timeout(self._deadline.left_s):
                await self._cluster.refresh()
        except (BarnabasError, OSError, TimeoutError) as error:
            _log.debug("metadata.failed", error=error)
            for tp in self._left:
                self._last[tp] = error

    def _without_leader(self, tp: TopicPartition) -> None:
        metadata = self._cluster.metadata
        code = metadata.errors.get(tp.topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if tp.topic in metadata.topics:
            partition = metadata.partition(tp)
            code = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition is None else ErrorCode.LEADER_NOT_AVAILABLE
            )
        if metadata.brokers:
            self._failed(tp, KafkaError(code, f"{code.message} ({tp})"))

    async def _ask(self, node_id: int, partitions: Sequence[TopicPartition]) -> None:
        try:
            async with asyncio.timeout(self._deadline.left_s):
                response = await self._cluster.send(
                    node_id,
                    self._request(partitions),
                    ListOffsetsResponse,
                    versions=self._versions(partitions),
                )
        except (DisconnectedError, OSError, TimeoutError) as error:
            for tp in partitions:
                self._last[tp] = error
        except BarnabasError as error:
            for tp in partitions:
                self._settle(tp, error)
        else:
            for topic in response.topics:
                for answer in topic.partitions:
                    self._answered(TopicPartition(topic.name, answer.partition_index), answer)

    def _versions(self, partitions: Sequence[TopicPartition]) -> Versions | None:
        """An older broker would take a special timestamp that it does not know for a time."""
        lowest = max(_KNOWN_FROM.get(self._wanted[tp], 1) for tp in partitions)
        return (lowest, ListOffsetsRequest.max_version) if lowest > 1 else None

    def _request(self, partitions: Sequence[TopicPartition]) -> ListOffsetsRequest:
        topics = []
        for name, members in by_topic(partitions).items():
            asked = []
            for tp in members:
                known = self._cluster.metadata.partition(tp)
                epoch = known.leader_epoch if known else -1
                asked.append(
                    ListOffsetsPartition(
                        partition_index=tp.partition,
                        current_leader_epoch=epoch,
                        timestamp=self._wanted[tp],
                    )
                )
            topics.append(ListOffsetsTopic(name=name, partitions=asked))
        return ListOffsetsRequest(replica_id=_CONSUMER, isolation_level=self._isolation_level, topics=topics)

    def _answered(self, tp: TopicPartition, answer: ListOffsetsPartitionResponse) -> None:
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            self._settle(tp, OffsetAndTimestamp(answer.offset, answer.timestamp, answer.leader_epoch))
        else:
            self._failed(tp, KafkaError(code, f"{code.message} ({tp})"))

    def _failed(self, tp: TopicPartition, error: KafkaError) -> None:
        if error.retriable:
            self._last[tp] = error
        else:
            self._settle(tp, error)

    def _settle(self, tp: TopicPartition, result: Result) -> None:
        self._left.discard(tp)
        self._results[tp] = result

    def _give_up(self) -> None:
        for tp in sorted(self._left):
            last = self._last.get(tp)
            if not isinstance(last, KafkaError):
                reason = f": {last}" if last is not None and str(last) else ""
                last = ClientTimeoutError(
                    f"No offset of {tp} in {self._deadline.total_ms:.0f} ms"
                    f" from the brokers at {self._cluster.bootstrap}{reason}"
                )
            self._settle(tp, last)


async def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, isolation_level: int, timeout_ms: float
) -> Results:
    """The offsets for these timestamps; see `OffsetLookup`."""
    return await OffsetLookup(cluster, wanted, isolation_level, timeout_ms).run()


def offsets_or_raise(results: Results) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The offsets; raises the first error there is."""
    offsets = {}
    for tp, result in results.items():
        if isinstance(result, BarnabasError):
            raise result
        offsets[tp] = result
    return offsets
