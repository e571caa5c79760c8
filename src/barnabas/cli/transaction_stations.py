"""What ``barnabas explain transaction`` finds: where a transaction stands, what it holds back, and who has to
do what next.

The coordinator counts partitions to a transaction. While it is open these are the partitions that its
producer writes to; once its end is decided, those whose leaders have not written the marker yet. The
partitions themselves know which producer has a transaction open from which offset: the lowest of these
offsets is the last stable offset, past which no reader of committed records gets.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import click

from barnabas.admin import (
    Admin,
    ConfigResource,
    ProducerState,
    TransactionDescription,
    TransactionState,
)
from barnabas.cli.hanging_transactions import OpenTransaction, hanging_among, transactional_ids
from barnabas.cli.throughput_throttler import now_ms
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

Line = tuple[str, str]
"""A station and what is there."""

_PREPARED: Final = {TransactionState.PREPARE_COMMIT: "commit", TransactionState.PREPARE_ABORT: "abort"}
_OVERDUE_MS: Final = 20_000
"""A coordinator looks every 10 s for transactions that have timed out
(``transaction.abort.timed.out.transaction.cleanup.interval.ms``).
"""


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

    @property
    def takes_markers(self) -> bool:
        """Whether a marker can be written: there is a leader, and enough replicas are in sync."""
        one = self.metadata
        return one is not None and one.leader >= 0 and len(one.isr) >= self.minimum


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
    admin: Admin, transactional_id: str, topic: str | None, timeout_ms: int
) -> TransactionStations:
    """Asks the coordinator, and the leaders of the transaction's partitions and of those of a topic. Raises
    ClickException for an id that no coordinator knows.
    """
    count = await _partition_count(admin, timeout_ms)
    answers = await admin.transactions.try_describe([transactional_id], timeout_ms=timeout_ms)
    described = answers[transactional_id]
    if isinstance(described, KafkaError) and described.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise click.ClickException(
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


async def _partition_count(admin: Admin, timeout_ms: int) -> int:
    """Looked for first: a broker that is asked for a coordinator makes the topic where there is none."""
    found = await admin.topics.try_describe([TRANSACTION_STATE_TOPIC], timeout_ms=timeout_ms)
    topic = found[TRANSACTION_STATE_TOPIC]
    if isinstance(topic, KafkaError) and topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise click.ClickException(
            f"{TRANSACTION_STATE_TOPIC} does not exist yet: no producer has ever had a transactional id here"
        )
    if isinstance(topic, BarnabasError):
        raise topic
    return len(topic.partitions)


async def _held(
    admin: Admin, counted: Sequence[TopicPartition], topic: str | None, timeout_ms: int
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
    wanted = sorted(set(counted) | {tp for tp in known if tp.topic == topic})
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
            tp in set(counted),
            known.get(tp),
            minimum(tp.topic),
            producers.get(tp),
            offset(stable.get(tp)),
            offset(high.get(tp)),
        )
        for tp in wanted
    ]


async def _groups(
    admin: Admin, counted: Iterable[TopicPartition], timeout_ms: int
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
    admin: Admin, candidates: Sequence[OpenTransaction], timeout_ms: int
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


def lines(found: TransactionStations) -> list[Line]:
    """The stations, from the coordinator to the partitions, and what to do."""
    one = found.description
    return [
        ("transactional id", found.transactional_id),
        (
            "coordinator",
            f"broker {one.coordinator_id}, which leads {TRANSACTION_STATE_TOPIC}-{found.log_partition}",
        ),
        ("producer", f"id {one.producer_id}, epoch {one.producer_epoch}"),
        ("state", _state(found)),
        *[(str(each.tp), _partition(found, each)) for each in found.partitions],
        *[
            ("groups", f"{GROUP_METADATA_TOPIC}-{place} keeps {', '.join(names) or 'none that is listed'}")
            for place, names in found.groups.items()
        ],
        ("verdict", _verdict(found)),
    ]


def _state(found: TransactionStations) -> str:
    one = found.description
    if one.start_time_ms is None:
        return f"{one.state}, no transaction has begun; time-out {one.timeout_ms} ms"
    at = datetime.fromtimestamp(one.start_time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    age = found.now_ms - one.start_time_ms
    return f"{one.state}, begun at {at}, {age} ms ago; time-out {one.timeout_ms} ms"


def _partition(found: TransactionStations, one: PartitionHeld) -> str:
    metadata = one.metadata
    if metadata is None:
        return "the cluster does not have it any more: no marker is due"
    parts = []
    if metadata.leader < 0:
        parts.append(f"no leader (replicas {_numbers(metadata.replicas)}, in sync {_numbers(metadata.isr)})")
    else:
        parts.append(f"leader broker {metadata.leader}")
    if one.counted and found.description.state in _PREPARED:
        parts.append(_marker(one, metadata))
    elif not one.counted:
        parts.append("the coordinator does not count it to the transaction")
    parts.append(_offsets(found, one))
    return "; ".join(part for part in parts if part)


def _marker(one: PartitionHeld, metadata: PartitionMetadata) -> str:
    if metadata.leader < 0:
        return "its marker waits for a leader"
    if not one.takes_markers:
        return (
            f"its marker waits for broker {metadata.leader}, which has {len(metadata.isr)} replicas in sync"
            f" of min.insync.replicas={one.minimum}"
        )
    return f"its marker waits for broker {metadata.leader}"


def _offsets(found: TransactionStations, one: PartitionHeld) -> str:
    """The last stable offset, and who holds it back."""
    stable, high = one.last_stable_offset, one.high_watermark
    if isinstance(stable, BarnabasError):
        return f"its leader does not answer: {stable}"
    if not isinstance(stable, int) or not isinstance(high, int):
        return ""
    text = f"last stable offset {stable} of {high}"
    if not one.open:
        return f"{text}, nothing is open"
    first = one.open[0]
    start = first.current_transaction_start_offset
    if first.producer_id == found.description.producer_id and one.counted:
        return f"{text}, this transaction is open from {start}"
    if first.producer_id in found.owners:
        who = f"producer {first.producer_id} of {found.owners[first.producer_id]}"
    else:
        who = f"producer {first.producer_id}, which no coordinator knows,"
    return f"{text}, {who} is open from {start}"


def _verdict(found: TransactionStations) -> str:
    one = found.description
    if found.hanging:
        return "; ".join(map(_way_out, found.hanging))
    if one.state in _PREPARED:
        return _prepared(found)
    if one.state is not TransactionState.ONGOING or one.start_time_ms is None:
        return "nothing of it is open: no reader waits for it"
    left = one.start_time_ms + one.timeout_ms - found.now_ms
    if left < -_OVERDUE_MS:
        return (
            f"open, and past its time-out for {-left} ms: the coordinator, broker {one.coordinator_id},"
            " aborts such transactions every 10 s; if it stays so, its log says why"
        )
    return (
        f"open: its producer ends it, or the coordinator aborts it in {max(0, left)} ms. A producer that"
        " begins with this transactional id (init_transactions) aborts it now"
    )


def _way_out(one: OpenTransaction) -> str:
    tp, start = one
    return (
        f"{tp} has a transaction of producer {start.producer_id} open from"
        f" {start.current_transaction_start_offset} that no coordinator will end: it hangs. End it:"
        f" barnabas transactions --bootstrap-server ... abort --topic {tp.topic} --partition {tp.partition}"
        f" --start-offset {start.current_transaction_start_offset}"
    )


def _prepared(found: TransactionStations) -> str:
    one = found.description
    decided = f"decided ({_PREPARED[one.state]})"
    stuck = [each for each in found.partitions if each.counted and each.metadata and not each.takes_markers]
    if stuck:
        waits = []
        for each in stuck:
            assert each.metadata
            missing = [
                broker
                for broker in each.metadata.replicas
                if broker not in each.metadata.isr or each.metadata.leader < 0
            ]
            waits.append(f"{each.tp}: start broker {_numbers(missing)}")
        return f"{decided}: it ends when these can take markers again: {'; '.join(waits)}"
    left = sum(each.counted for each in found.partitions)
    if not left:
        return f"{decided}: all markers are written, its last record is on its way"
    return (
        f"{decided}: {left} markers are on their way. If it stays so, see the log of the coordinator, broker"
        f" {one.coordinator_id}, for what the leaders above answer"
    )


def _numbers(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "none"
