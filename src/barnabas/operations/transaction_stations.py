"""What ``barnabas explain transaction`` finds: where a transaction stands, and what it holds back.

The coordinator counts partitions to a transaction. While it is open these are the partitions that its
producer writes to; once its end is decided, those whose leaders have not written the marker yet. The
partitions themselves know which producer has a transaction open from which offset: the lowest of these
offsets is the last stable offset, past which no reader of committed records gets.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from barnabas.admin import (
    AsyncAdmin,
    ConfigResource,
    ProducerState,
    TransactionDescription,
)
from barnabas.client.metadata import PartitionMetadata
from barnabas.client.types import LATEST_TIMESTAMP, OffsetAndTimestamp
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import (
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
    java_abs,
    java_hash,
)
from barnabas.operations.clock import now_ms
from barnabas.operations.errors import OperationError
from barnabas.operations.hanging_transactions import OpenTransaction, hanging_among, transactional_ids


@dataclass(frozen=True, slots=True)
class PartitionHeld:
    """A partition that the coordinator counts to the transaction, or that was named."""

    tp: TopicPartition
    counted: bool
    """Whether the coordinator counts it to the transaction."""
    metadata: PartitionMetadata | None
    """None for a partition that the cluster does not have."""
    minimum: int
    """``min.insync.replicas``"""
    producers: Sequence[ProducerState] | BarnabasError | None
    last_stable_offset: int | BarnabasError | None
    high_watermark: int | BarnabasError | None
    """None for these three where there is no leader to ask."""

    @property
    def open(self) -> list[ProducerState]:
        """The producers that have a transaction open here, the one that holds most back first."""
        known = self.producers if isinstance(self.producers, Sequence) else ()
        return sorted((one for one in known if _start(one) >= 0), key=_start)


@dataclass(frozen=True, slots=True)
class TransactionStations:
    """A transaction as its coordinator and the partitions have it."""

    transactional_id: str
    log_partition: int
    """The partition of ``__transaction_state`` that the id belongs to."""
    description: TransactionDescription
    now_ms: int
    partitions: Sequence[PartitionHeld]
    groups: Mapping[int, Sequence[str]]
    """The groups that each of its partitions of ``__consumer_offsets`` keeps."""
    owners: Mapping[int, str]
    """The transactional ids of producers that have something open in these partitions."""
    hanging: Collection[OpenTransaction]


async def look(
    admin: AsyncAdmin, transactional_id: str, topic: str | None, timeout_ms: int
) -> TransactionStations:
    """Asks the coordinator, and the leaders of the transaction's partitions and of those of a topic. Raises
    OperationError for an id that no coordinator knows.
    """
    count = await _partition_count(admin, timeout_ms)
    answers = await admin.transactions.try_describe([transactional_id], timeout_ms=timeout_ms)
    described = answers[transactional_id]
    if isinstance(described, KafkaError) and described.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise OperationError(
            f"No coordinator knows the transactional id {transactional_id}: no producer has begun with it, or"
            " it has expired (transactional.id.expiration.ms)"
        )
    if isinstance(described, BarnabasError):
        raise described
    partitions = await _held(admin, described.partitions, topic, timeout_ms)
    candidates = [OpenTransaction(one.tp, producer) for one in partitions for producer in one.open]
    return TransactionStations(
        transactional_id,
        java_abs(java_hash(transactional_id)) % count,
        described,
        now_ms(),
        partitions,
        await _groups(admin, described.partitions, timeout_ms),
        await transactional_ids(admin, {one.producer.producer_id for one in candidates})
        if candidates
        else {},
        await _still_hanging(admin, candidates, timeout_ms),
    )


async def _partition_count(admin: AsyncAdmin, timeout_ms: int) -> int:
    """Looked for first: a broker that is asked for a coordinator makes the topic where there is none."""
    found = await admin.topics.try_describe([TRANSACTION_STATE_TOPIC], timeout_ms=timeout_ms)
    topic = found[TRANSACTION_STATE_TOPIC]
    if isinstance(topic, KafkaError) and topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise OperationError(
            f"{TRANSACTION_STATE_TOPIC} does not exist yet: no producer has ever had a transactional id here"
        )
    if isinstance(topic, BarnabasError):
        raise topic
    return len(topic.partitions)


async def _held(
    admin: AsyncAdmin, counted: Sequence[TopicPartition], topic: str | None, timeout_ms: int
) -> list[PartitionHeld]:
    """What is known of the partitions of a transaction, and of those of a topic that was named."""
    topics = sorted({tp.topic for tp in counted} | ({topic} if topic is not None else set()))
    if not topics:
        return []
    described = await admin.topics.try_describe(topics, timeout_ms=timeout_ms)
    known: dict[TopicPartition, PartitionMetadata] = {}
    for name, found in described.items():
        if not isinstance(found, BarnabasError):
            known |= {TopicPartition(name, one.partition): one for one in found.partitions}
        elif name == topic:
            raise found
    resources = [ConfigResource.topic(name) for name in topics]
    configs = await admin.configs.try_describe(resources, timeout_ms=timeout_ms)
    counted_ones = frozenset(counted)
    wanted = sorted(counted_ones | {tp for tp in known if tp.topic == topic})
    led = [tp for tp in wanted if tp in known and known[tp].leader >= 0]
    latest = dict.fromkeys(led, LATEST_TIMESTAMP)
    producers, stable, high = await asyncio.gather(
        admin.transactions.try_describe_producers(led, timeout_ms=timeout_ms),
        admin.offsets.try_list(latest, read_committed=True, timeout_ms=timeout_ms),
        admin.offsets.try_list(latest, timeout_ms=timeout_ms),
    )

    def minimum(name: str) -> int:
        entries = configs.get(ConfigResource.topic(name))
        if entries is None or isinstance(entries, BarnabasError):
            return 1
        return int(entries["min.insync.replicas"].value or 1)

    def offset(found: OffsetAndTimestamp | BarnabasError | None) -> int | BarnabasError | None:
        return found.offset if isinstance(found, OffsetAndTimestamp) else found

    return [
        PartitionHeld(
            tp,
            tp in counted_ones,
            known.get(tp),
            minimum(tp.topic),
            producers.get(tp),
            offset(stable.get(tp)),
            offset(high.get(tp)),
        )
        for tp in wanted
    ]


async def _groups(
    admin: AsyncAdmin, counted: Iterable[TopicPartition], timeout_ms: int
) -> dict[int, Sequence[str]]:
    """The groups of each partition of ``__consumer_offsets`` that is counted: one or more of them get offsets
    with the transaction, the coordinator does not say which.
    """
    places = sorted(tp.partition for tp in counted if tp.topic == GROUP_METADATA_TOPIC)
    if not places:
        return {}
    topic = (await admin.topics.describe([GROUP_METADATA_TOPIC], timeout_ms=timeout_ms))[GROUP_METADATA_TOPIC]
    count = len(topic.partitions)
    names = sorted(one.group_id for one in await admin.groups.list(timeout_ms=timeout_ms))
    return {place: [name for name in names if java_abs(java_hash(name)) % count == place] for place in places}


async def _still_hanging(
    admin: AsyncAdmin, candidates: Sequence[OpenTransaction], timeout_ms: int
) -> list[OpenTransaction]:
    """Those that no coordinator will end. A transaction may have ended between the answer of a partition and
    that of its coordinator: the partitions are asked once more.
    """
    found = await hanging_among(admin, candidates)
    partitions = {one.partition for one in found}
    again = await admin.transactions.try_describe_producers(partitions, timeout_ms=timeout_ms)

    def is_open(one: OpenTransaction) -> bool:
        now = again[one.partition]
        return not isinstance(now, BarnabasError) and any(
            (each.producer_id, _start(each)) == (one.producer.producer_id, _start(one.producer))
            for each in now
        )

    return [one for one in found if is_open(one)]


def _start(producer: ProducerState) -> int:
    """Where its transaction begins; -1 where none is open."""
    start = producer.current_transaction_start_offset
    return -1 if start is None else start
