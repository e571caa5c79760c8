"""ListOffsets for many partitions: one request to each leader, an error for each partition.

A partition whose leader has moved is looked up again by itself, in fresh metadata; the others keep their
answers (``KafkaAdminClient.listOffsets`` with ``PartitionLeaderStrategy``).
"""

import operator
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientTimeoutError
from barnabas.client.keyed_call import KeyedCall
from barnabas.client.partition_leaders import LEADER_MOVED, PartitionLeaders
from barnabas.client.retries import Deadline
from barnabas.client.types import (
    EARLIEST_LOCAL_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    MAX_TIMESTAMP,
    OffsetAndTimestamp,
)
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
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

Results: TypeAlias = dict[TopicPartition, OffsetAndTimestamp | BarnabasError]


def time_ms(when: datetime | int) -> int:
    """A time as milliseconds since 1970, never below: those numbers have other meanings in Kafka."""
    if isinstance(when, datetime):
        return max(0, int(when.timestamp() * 1000))
    try:
        return operator.index(when)
    except TypeError:
        raise TypeError(
            f"a time is a datetime, or milliseconds since 1970 as int, not {when!r:.80}"
        ) from None


def whole_offset(given: Any) -> int:
    """An offset as a plain int; raises TypeError."""
    try:
        return int(operator.index(given))
    except TypeError:
        raise TypeError(f"an offset is an int, or a time as a datetime, not {given!r:.80}") from None


async def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, isolation_level: int, timeout_ms: float
) -> Results:
    """The offsets for timestamps (or special timestamps), by partition: -1 where no record is that late, or
    an error.
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

    leaders = PartitionLeaders(cluster)
    call = KeyedCall(cluster, leaders.look_up, ask, deadline, moved=LEADER_MOVED, expired=expired)
    results = await call.run(sorted(wanted))
    return {tp: results[tp] for tp in wanted}


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
