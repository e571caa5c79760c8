"""ListOffsets for many partitions: one request to each leader, an error for each partition.

A partition whose leader has moved is looked up again by itself, in fresh metadata; the others keep their answers
(``KafkaAdminClient.listOffsets`` with ``PartitionLeaderStrategy``).
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientTimeoutError
from barnabas.client.keyed_call import KeyedCall
from barnabas.client.retries import Deadline
from barnabas.client.types import (
    EARLIEST_LOCAL_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    MAX_TIMESTAMP,
    OffsetAndTimestamp,
)
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition, by_topic
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
_LEADER_MOVED: Final = frozenset(code for code in ErrorCode if code.retriable)

_log = EventLog("client.offsets")

Results: TypeAlias = dict[TopicPartition, OffsetAndTimestamp | BarnabasError]


async def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, isolation_level: int, timeout_ms: float
) -> Results:
    """The offsets for timestamps (or special timestamps), by partition: -1 where no record is that late, or an
    error.
    """
    cluster.need({tp.topic for tp in wanted})
    deadline = Deadline(timeout_ms)

    async def ask(node: int, partitions: Sequence[TopicPartition]) -> Results:
        # An older broker would take a special timestamp that it does not know for a time.
        lowest = max(_KNOWN_FROM.get(wanted[tp], 1) for tp in partitions)
        response = await cluster.send(
            node,
            _request(cluster, partitions, wanted, isolation_level),
            ListOffsetsResponse,
            versions=(lowest, ListOffsetsRequest.max_version) if lowest > 1 else None,
        )
        answers = [(topic.name, one) for topic in response.topics for one in topic.partitions]
        return {
            tp: _answer(tp, one)
            for name, one in answers
            if (tp := TopicPartition(name, one.partition_index)) in wanted
        }

    def expired(tp: TopicPartition, last: Exception | None) -> BarnabasError:
        if isinstance(last, KafkaError):
            return last
        reason = f": {last}" if last is not None and str(last) else ""
        return ClientTimeoutError(
            f"No offset of {tp} in {deadline.total_ms:.0f} ms from the brokers at {cluster.bootstrap}{reason}"
        )

    leaders = _Leaders(cluster)
    call = KeyedCall(cluster, leaders.look_up, ask, deadline, moved=_LEADER_MOVED, expired=expired)
    results = await call.run(sorted(wanted))
    return {tp: results[tp] for tp in wanted}


class _Leaders:
    """Leaders of partitions: at first those that are known, then those of fresh metadata."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._outdated = False

    async def look_up(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | Exception]:
        failure: Exception | None = None
        if self._outdated or any(self._cluster.metadata.leader(tp) < 0 for tp in partitions):
            try:
                await self._cluster.refresh()
            except (BarnabasError, OSError) as error:
                _log.debug("metadata.failed", error=error)
                failure = error
        self._outdated = True
        return {tp: self._leader(tp, failure) for tp in partitions}

    def _leader(self, tp: TopicPartition, failure: Exception | None) -> int | Exception:
        metadata = self._cluster.metadata
        leader = metadata.leader(tp)
        if leader >= 0:
            return leader
        if failure is not None and not metadata.brokers:
            return failure
        code = metadata.errors.get(tp.topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if metadata.partition(tp) is not None:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        elif tp.topic in metadata.topics:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return KafkaError(code, f"{code.message} ({tp})")


def _request(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    wanted: Mapping[TopicPartition, int],
    isolation_level: int,
) -> ListOffsetsRequest:
    def asked(tp: TopicPartition) -> ListOffsetsPartition:
        known = cluster.metadata.partition(tp)
        return ListOffsetsPartition(
            partition_index=tp.partition,
            current_leader_epoch=known.leader_epoch if known else -1,
            timestamp=wanted[tp],
        )

    topics = [
        ListOffsetsTopic(name=name, partitions=[asked(tp) for tp in members])
        for name, members in by_topic(partitions).items()
    ]
    return ListOffsetsRequest(replica_id=_CONSUMER, isolation_level=isolation_level, topics=topics)


def _answer(tp: TopicPartition, one: ListOffsetsPartitionResponse) -> OffsetAndTimestamp | BarnabasError:
    code = ErrorCode.of(one.error_code)
    if code is ErrorCode.NONE:
        return OffsetAndTimestamp(one.offset, one.timestamp, one.leader_epoch)
    return KafkaError(code, f"{code.message} ({tp})")
