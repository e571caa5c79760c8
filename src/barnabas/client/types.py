"""What goes into a producer and what comes out of a consumer."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from barnabas.client.habits import OF_POLLED, OF_RECORDS
from barnabas.core.ids import TopicPartition
from barnabas.core.instead import knows
from barnabas.records.batch import TimestampType

Header: TypeAlias = tuple[str, bytes | None]
Headers: TypeAlias = Sequence[Header]
HeadersLike: TypeAlias = Headers | Mapping[str, bytes | None]
"""Headers as `send` takes them."""

EARLIEST_TIMESTAMP: Final = -2
LATEST_TIMESTAMP: Final = -1
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
"""The special timestamps of ListOffsets (``OffsetSpec``)."""


@knows(OF_RECORDS)
class ConsumerRecord(NamedTuple):
    """One record as it was read. The timestamp is in milliseconds since 1970. Key and value are bytes or
    None, or what the consumer's deserializers made of them.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: Any
    value: Any
    headers: Headers
    leader_epoch: int


@knows(OF_POLLED)
class ConsumerRecords(list[ConsumerRecord]):
    """What a poll gives: a list of records, in order within each partition."""

    __slots__ = ()


class RecordMetadata(NamedTuple):
    """Where a record was stored. The offset is -1 where the broker did not say (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class OffsetAndTimestamp(NamedTuple):
    """An offset, with the timestamp of its record (-1 where there is none) and the epoch of its leader."""

    offset: int
    timestamp: int
    leader_epoch: int


class AbortedTransaction(NamedTuple):
    """From this offset on, records of this producer are of a transaction that was aborted."""

    producer_id: int
    first_offset: int


class RawFetch(NamedTuple):
    """Record batches of one partition as the broker sent them, not decoded.

    The first batch may begin before `position` and the last may be cut off, as in Kafka's own protocol.
    """

    tp: TopicPartition
    position: int
    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[AbortedTransaction]


class OffsetAndMetadata(NamedTuple):
    """A committed position: the offset of the next record to read, a note, the epoch of the last one's
    leader.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class ConsumerGroupMetadata(NamedTuple):
    """Who a consumer is in its group, as a transactional producer has to know it (KIP-447)."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
