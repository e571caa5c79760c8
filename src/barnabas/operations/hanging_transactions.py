"""``barnabas transactions find-hanging``: open transactions that no coordinator will end
(``FindHangingTransactionsCommand``).

Theory of operation
-------------------
A transaction hangs when a partition has it open and its coordinator does not know that: then nobody will
write its marker, and the last stable offset stays where it is. Every partition that is searched is asked for
the producers that it remembers. Those with a transaction that is open for longer than any may be are
candidates. The coordinators are asked for their transactional ids, and where these stand. A candidate of a
producer that no coordinator knows hangs, and so does one in a partition that the coordinator does not count
to the producer's transaction: what is open, or has no marker yet, it does count.

What is found is in the order of Kafka's script, which walks hash maps.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from barnabas.admin import AbortTransactionSpec, AsyncAdmin, ProducerState, TransactionDescription
from barnabas.client.keyed_call import none_where
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.operations.clock import now_ms
from barnabas.operations.errors import OperationError, failing
from barnabas.operations.java_order import long_order, partition_order, sized, text_order

T = TypeVar("T")

_BATCH: Final = 500
"""How many topics or partitions one call is about."""


class OpenTransaction(NamedTuple):
    """What one partition says of one producer."""

    partition: TopicPartition
    producer: ProducerState


async def hanging_transactions(
    admin: AsyncAdmin, topic: str | None, partition: int | None, broker: int | None, longest_ms: int
) -> list[OpenTransaction]:
    """The hanging transactions of a partition, a topic, or everything that a broker has replicas of. Raises
    FailedStepError.
    """
    searched = await _partitions(admin, topic, partition, broker)
    candidates = await _candidates(admin, searched, broker, longest_ms)
    return await hanging_among(admin, candidates)


class HangingSearch(NamedTuple):
    """What was found where it could be looked for."""

    found: list[OpenTransaction]
    unread: dict[TopicPartition, str]
    """Partitions that were not looked at, and why."""


async def hanging_where_known(admin: AsyncAdmin, longest_ms: int, timeout_ms: float) -> HangingSearch:
    """The hanging transactions of all partitions that can be asked: one without a leader costs no time, and
    one that fails no others, as it does in Kafka's script. `timeout_ms` is that of each call. Raises
    FailedStepError, KafkaError.
    """
    topics = await admin.topics.describe_all(internal=True, timeout_ms=timeout_ms)
    leaders = {
        TopicPartition(name, one.partition): one.leader
        for name, topic in topics.items()
        for one in topic.partitions
    }
    unread = {tp: "the partition has no leader" for tp, leader in leaders.items() if leader < 0}
    candidates: list[OpenTransaction] = []
    for batch in _batches([tp for tp in leaders if tp not in unread]):
        answers = await admin.transactions.try_describe_producers(batch, timeout_ms=timeout_ms)
        unread |= {tp: str(one) for tp, one in answers.items() if isinstance(one, BarnabasError)}
        known = {tp: one for tp, one in answers.items() if not isinstance(one, BarnabasError)}
        candidates += _open_too_long(known, longest_ms)
    return HangingSearch(await hanging_among(admin, candidates), unread)


async def hanging_among(admin: AsyncAdmin, candidates: Sequence[OpenTransaction]) -> list[OpenTransaction]:
    """Those of the open transactions that no coordinator will end. Raises FailedStepError."""
    if not candidates:
        return []
    by_producer: dict[int, list[OpenTransaction]] = {}
    for each in candidates:
        by_producer.setdefault(each.producer.producer_id, []).append(each)
    ids = await transactional_ids(admin, by_producer)
    descriptions = await _descriptions(admin, list(ids.values()))
    found: list[OpenTransaction] = []
    for producer_id in long_order(by_producer):
        # None where no coordinator knows the producer, or the id has expired since: nobody will end it.
        description = descriptions.get(ids[producer_id]) if producer_id in ids else None
        counted = set(description.partitions) if description is not None else set()
        found += [each for each in by_producer[producer_id] if each.partition not in counted]
    return found


async def open_at(
    admin: AsyncAdmin, tp: TopicPartition, start_offset: int, timeout_ms: float | None = None
) -> ProducerState:
    """The producer whose transaction begins at this offset, as the partition's leader knows it. Raises
    OperationError where there is none, KafkaError.
    """
    producers = (await admin.transactions.describe_producers([tp], timeout_ms=timeout_ms))[tp]
    found = next((one for one in producers if one.current_transaction_start_offset == start_offset), None)
    if found is None:
        raise OperationError(
            f"Could not find any open transactions starting at offset {start_offset} on partition {tp}"
        )
    return found


def abort_spec(
    tp: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> AbortTransactionSpec:
    """What aborts the open transaction of a producer in a partition."""
    # A producer that no coordinator has ever written a marker for has the epoch -1. 0 is below every
    # coordinator's epoch, or is it: such a marker fences none of them.
    return AbortTransactionSpec(tp, producer_id, producer_epoch, max(0, coordinator_epoch))


async def _partitions(
    admin: AsyncAdmin, topic: str | None, partition: int | None, broker: int | None
) -> list[TopicPartition]:
    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    if topic is not None:
        topics = [topic]
    else:
        with failing("Failed to list topics"):
            topics = text_order([each.name for each in await admin.topics.list(internal=True)])
    found: list[TopicPartition] = []
    for batch in _batches(topics):
        with failing(f"Failed to describe {len(batch)} topics"):
            try:
                described = await admin.topics.describe(batch)
            except KafkaError as error:
                raise KafkaError(error.code) from error  # the script does not say which topic
        found += [
            TopicPartition(name, each.partition)
            for name in text_order(described, sized(len(described)))
            for each in described[name].partitions
            if broker is None or broker in each.replicas
        ]
    return found


async def _candidates(
    admin: AsyncAdmin, partitions: Sequence[TopicPartition], broker: int | None, longest_ms: int
) -> list[OpenTransaction]:
    """The transactions that are open for longer than any may be."""
    found: list[OpenTransaction] = []
    for batch in _batches(partitions):
        place = "Optional.empty" if broker is None else f"Optional[{broker}]"
        with failing(f"Failed to describe producers for {len(batch)} partitions on broker {place}"):
            states = await admin.transactions.describe_producers(batch, broker=broker)
        found += _open_too_long(states, longest_ms)
    return found


def _open_too_long(
    states: Mapping[TopicPartition, Sequence[ProducerState]], longest_ms: int
) -> list[OpenTransaction]:
    now = now_ms()
    return [
        OpenTransaction(tp, producer)
        for tp in partition_order(states, sized(len(states)))
        for producer in states[tp]
        if producer.current_transaction_start_offset is not None
        and now - producer.last_timestamp > longest_ms
    ]


async def transactional_ids(admin: AsyncAdmin, producer_ids: Iterable[int]) -> Mapping[int, str]:
    """The transactional id of each producer that a coordinator knows. Raises FailedStepError."""
    wanted = set(producer_ids)
    with failing(f"Failed to list transactions for {len(wanted)} producers"):
        listings = await admin.transactions.list(producer_ids=wanted)
    return {each.producer_id: each.transactional_id for each in listings if each.producer_id in wanted}


async def _descriptions(
    admin: AsyncAdmin, transactional_ids: Sequence[str]
) -> Mapping[str, TransactionDescription | None]:
    """Where each id stands; None for one that its coordinator does not know."""
    with failing(f"Failed to describe {len(transactional_ids)} transactions"):
        answers = await admin.transactions.try_describe(transactional_ids)
        return none_where(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, answers)


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]
