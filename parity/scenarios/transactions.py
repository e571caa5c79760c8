"""Transactional ids: each request in each state, each refusal, at each version where the codes change."""

import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from barnabas.core.errors import ErrorCode
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from parity.scenarios.batches import START_MS
from parity.scenarios.coordinators import coordinator_is_ready, transactions_are_ready
from parity.scenarios.produce import read_back
from parity.world import World

PATIENCE_S: Final = 20
NOT_YET: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
"""An earlier transaction is being aborted; the broker has no producer ids yet."""

Producer = tuple[int, int]
Partitions = dict[str, Iterable[int]]


def begin(world: World, name: str, had: Producer = (-1, -1), timeout_ms: int = 60_000) -> Producer:
    """A producer of the id, when what an earlier one left open is aborted."""
    deadline = time.monotonic() + PATIENCE_S
    while (made := world.prepare(init(name, had, timeout_ms), 4)).error_code in NOT_YET:
        assert time.monotonic() < deadline, made
        time.sleep(0.02)
    assert made.error_code == 0, made
    return made.producer_id, made.producer_epoch


def init(name: str | None, had: Producer = (-1, -1), timeout_ms: int = 60_000) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=name,
        transaction_timeout_ms=timeout_ms,
        producer_id=had[0],
        producer_epoch=had[1],
    )


def _topics(partitions: Partitions) -> list[AddPartitionsToTxnTopic]:
    return [
        AddPartitionsToTxnTopic(name=name, partitions=list(indexes)) for name, indexes in partitions.items()
    ]


def add_partitions(name: str, producer: Producer, partitions: Partitions) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=_topics(partitions),
    )


def by_broker(*wanted: tuple[str, Producer, bool, Partitions]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=name,
                producer_id=producer[0],
                producer_epoch=producer[1],
                verify_only=verify,
                topics=_topics(partitions),
            )
            for name, producer, verify, partitions in wanted
        ]
    )


def end(name: str, producer: Producer, *, commit: bool = True) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=commit
    )


def described(*names: str) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(transactional_ids=list(names))


def until(world: World, name: str, state: str) -> None:
    """Returns once all markers of the id's transaction are written."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := world.prepare(described(name), 0).transaction_states[0]).transaction_state != state:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def transactional_producers(world: World) -> None:
    """InitProducerId: the next epoch, what a producer had before (KIP-360), who is fenced."""
    transactions_are_ready(world)
    begin(world, "producers")
    for version in range(6):
        world.ask("the next epoch", init("producers"), version)
    known = begin(world, "producers")
    world.ask("knows its epoch", init("producers", known), 3)
    world.ask("has not had the answer", init("producers", known), 3, 4, 5)
    for what, had in {
        "too old": (known[0], known[1] - 1),
        "to come": (known[0], known[1] + 7),
        "another id": (known[0] + 100_000, known[1]),
        "another id with no epochs left": (known[0] + 100_000, 32_766),
    }.items():
        world.ask(what, init("producers", had), 3, 4, 5)
    world.ask("an id that is not known", init("producers-unknown", (known[0], 5)), 3)
    for what, timeout_ms in {"no time": 0, "less than none": -1, "too long": 900_001}.items():
        world.ask(what, init("producers", timeout_ms=timeout_ms), 0, 5)
    world.ask("the longest time", init("producers", timeout_ms=900_000), 5)
    world.ask("without a name", init(""), 0, 5)
    world.ask("a long name", init("x" * 30_000), 5)
    world.ask("an odd name", init("ключ \0 \U0001f511"), 5)


def transactions(world: World) -> None:
    """AddPartitionsToTxn and EndTxn, in each state."""
    transactions_are_ready(world)
    world.create("txn", 3)
    name = "states"
    producer = begin(world, name)
    world.ask("describe empty", described(name, "states-unknown", "", name))
    world.ask("end an empty one", end(name, producer), 0, 4)
    for what, who, given in (
        ("unknown id", "states-unknown", producer),
        ("no name", "", producer),
        ("another producer", name, (producer[0] + 9, producer[1])),
        ("epoch too old", name, (producer[0], producer[1] - 1)),
        ("epoch to come", name, (producer[0], producer[1] + 1)),
    ):
        world.ask(f"add: {what}", add_partitions(who, given, {"txn": [0]}), 0, 1, 2, 3)
        world.ask(f"end: {what}", end(who, given), 0, 1, 2, 3, 4)
        world.ask(f"add by a broker: {what}", by_broker((who, given, False, {"txn": [0]})), 4, 5)
        world.ask(f"verify: {what}", by_broker((who, given, True, {"txn": [0]})), 4, 5)
    refused: dict[str, Partitions] = {
        "unknown partition": {"txn": [0, 9]},
        "unknown topic": {"txn": [1], "txn-nowhere": [0]},
        "internal topic": {"txn": [2], "__consumer_offsets": [0]},
        "odd topic": {"a b": [0], "": [0], "txn": [-1]},
    }
    for what, partitions in refused.items():
        world.ask(f"all or nothing: {what}", add_partitions(name, producer, partitions), 0, 3)
        world.ask(f"by a broker: {what}", by_broker((name, producer, True, partitions)), 4)
    world.ask("describe still empty", described(name))
    world.ask("verify what is not added", by_broker((name, producer, True, {"txn": [0]})), 4)
    for version in range(4):
        world.ask("add", add_partitions(name, producer, {"txn": [version % 3]}), version)
    world.ask("add again", add_partitions(name, producer, {"txn": [0, 0, 1]}), 3)
    world.ask("add nothing", add_partitions(name, producer, {}), 3)
    world.ask("verify", by_broker((name, producer, True, {"txn": [0, 1]})), 4, 5)
    world.ask(
        "several",
        by_broker(
            (name, producer, True, {"txn": [0]}),
            ("states-unknown", producer, True, {"txn": [0]}),
            ("states-other", producer, False, {"txn": [9]}),
        ),
        4,
    )
    world.ask("none", by_broker(), 4)
    _describe_open(world, name, producer)
    world.ask("commit", end(name, producer), 3)
    until(world, name, "CompleteCommit")
    world.ask("commit again", end(name, producer), 0, 4)
    world.ask("abort what is committed", end(name, producer, commit=False), 0, 4)
    world.ask("verify what is ended", by_broker((name, producer, True, {"txn": [0]})), 4)
    world.ask("begin the next", add_partitions(name, producer, {"txn": [2]}), 3)
    world.ask("abort", end(name, producer, commit=False), 4)
    until(world, name, "CompleteAbort")
    world.ask("abort again", end(name, producer, commit=False), 0, 4)
    world.ask("commit what is aborted", end(name, producer), 0, 4)
    world.ask("begin with nothing", add_partitions(name, producer, {}), 3)
    world.ask("commit nothing", end(name, producer), 4)
    until(world, name, "CompleteCommit")


def _describe_open(world: World, name: str, producer: Producer) -> None:
    found = world.prepare(described(name), 0).transaction_states[0]
    assert found.transaction_state == "Ongoing", found
    for what, filters in {
        "by state": {"state_filters": ["Ongoing"]},
        "by another state": {"state_filters": ["CompleteCommit", "PrepareEpochFence", "Dead"]},
        "by states that there are not": {"state_filters": ["ongoing", "Odd", "Ongoing", "Odd"]},
        "by producer": {"producer_id_filters": [producer[0], -1]},
        "by both": {"producer_id_filters": [-1], "state_filters": ["Ongoing"]},
    }.items():
        world.ask(f"list {what}", ListTransactionsRequest(**filters), 0, 1)
    for duration_ms in (3_600_000, -1, -5):
        request = ListTransactionsRequest(duration_filter=duration_ms, state_filters=["Ongoing"])
        world.ask(f"list since {duration_ms}", request, 1)


def fenced_transactions(world: World) -> None:
    """A new producer comes while a transaction is open."""
    transactions_are_ready(world)
    world.create("fenced-txn")
    name = "fenced"
    zombie = begin(world, name)
    world.prepare(add_partitions(name, zombie, {"fenced-txn": [0]}), 3)
    world.ask("a new producer", init(name), 5)
    until(world, name, "CompleteAbort")
    for version in range(5):
        world.ask("the zombie commits", end(name, zombie), version)
    for version in range(4):
        world.ask("the zombie adds", add_partitions(name, zombie, {"fenced-txn": [0]}), version)
        world.ask(
            "the zombie adds a group",
            AddOffsetsToTxnRequest(
                transactional_id=name, producer_id=zombie[0], producer_epoch=zombie[1], group_id="g"
            ),
            version,
        )
    world.ask("the zombie begins again", init(name, zombie), 3, 4)
    world.ask("the epoch that fenced", init(name, (zombie[0], zombie[1] + 1)), 4)
    later = begin(world, name)
    assert later[0] == zombie[0], later
    world.prepare(add_partitions(name, later, {"fenced-txn": [0]}), 3)
    world.ask("the same producer begins again", init(name, later), 5)
    until(world, name, "CompleteAbort")


def transactional_offsets(world: World) -> None:
    """AddOffsetsToTxn and TxnOffsetCommit: offsets that are valid with their transaction."""
    coordinator_is_ready(world)
    transactions_are_ready(world)
    world.create("txn-source", 2)
    name, group = "offsets", "txn-group"
    producer = begin(world, name)

    def add(who: Producer) -> AddOffsetsToTxnRequest:
        return AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=who[0], producer_epoch=who[1], group_id=group
        )

    def commit(offset: int, topic: str = "txn-source", **fields: Any) -> TxnOffsetCommitRequest:
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata="note"
        )
        return TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=fields.pop("group_id", group),
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
            **fields,
        )

    def fetched(what: str) -> None:
        asked = OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestTopics(name="txn-source", partition_indexes=[0, 1])]
        )
        for stable in (True, False):
            request = OffsetFetchRequest(groups=[asked], require_stable=stable)
            world.ask(f"{what}, stable {stable}", request, 8)

    for version in range(5):
        world.ask("add the group", add(producer), version)
    fetched("before")
    for version in range(5):
        world.ask("commit in the transaction", commit(version), version)
    fetched("open")
    world.ask("unknown topic", commit(1, "txn-nowhere"), 0, 4)
    world.ask("a member that is not known", commit(1, member_id="m", generation_id=3), 3, 4)
    world.ask("without a group", commit(1, group_id=""), 3)
    world.ask("end", end(name, producer), 4)
    until(world, name, "CompleteCommit")
    fetched("committed")
    world.prepare(add(producer), 3)
    world.ask("commit in the next", commit(99), 3)
    world.ask("abort", end(name, producer, commit=False), 4)
    until(world, name, "CompleteAbort")
    fetched("aborted")


def verified_transactions(world: World) -> None:
    """First batches and commits of transactions that the coordinator knows of, or not (KIP-890)."""
    coordinator_is_ready(world)
    transactions_are_ready(world)
    world.create("verified", 3)
    name = "verified"
    producer = begin(world, name)
    stranger = (producer[0] + 100_000, producer[1])
    world.ask("not added", _written(name, (0, producer, 0)), 3, 9, 10, 11)
    world.prepare(add_partitions(name, producer, {"verified": [0, 2]}), 3)
    world.ask("another producer", _written(name, (0, stranger, 0)), 10, 11)
    world.ask("epoch to come", _written(name, (0, (producer[0], producer[1] + 1), 0)), 10, 11)
    three = _written(name, *((partition, producer, 0) for partition in range(3)))
    world.ask("one of three is not added", three, 10, 11)
    world.ask("the next one", _written(name, (0, producer, 1)), 11)
    world.ask("two producers", _written(name, (0, producer, 2), (2, stranger, 0)), 9, 11)
    world.ask("commit", end(name, producer), 3)
    until(world, name, "CompleteCommit")
    world.ask("late", _written(name, (0, producer, 2)), 10, 11)
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata="note"
    )
    offsets = TxnOffsetCommitRequest(
        transactional_id=name,
        group_id="verified-group",
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[TxnOffsetCommitRequestTopic(name="verified", partitions=[partition])],
    )
    world.ask("offsets of no transaction", offsets, 0, 3, 4)
    read_back(world, "verified")


def _written(name: str, *entries: tuple[int, Producer, int]) -> Callable[[int], ProduceRequest]:
    """A Produce of one transactional record for each (partition, producer, sequence)."""
    data = [
        PartitionProduceData(
            index=partition,
            records=build_batch(
                [Record(0, START_MS, None, b"x", [])],
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=sequence,
                transactional=True,
            ),
        )
        for partition, producer, sequence in entries
    ]
    topic = TopicProduceData(name="verified", partition_data=data)
    return lambda _: ProduceRequest(transactional_id=name, acks=-1, timeout_ms=10_000, topic_data=[topic])


def late_messages(world: World) -> None:
    """What was given up with its connection, and is carried out in the next transaction of the same epoch."""
    transactions_are_ready(world)
    world.create("late", 3)
    name = "late"
    producer = begin(world, name)

    def add(partition: int) -> None:
        request = add_partitions(name, producer, {"late": [partition]})
        deadline = time.monotonic() + PATIENCE_S
        while _first_code(world.prepare(request, 3)) in NOT_YET:
            assert time.monotonic() < deadline, f"{world.side!r} does not end the transaction before"
            time.sleep(0.02)

    add(0)
    world.ask("a batch", _written(name, (0, producer, 0)), 11)
    world.ask("an end", end(name, producer), 4)
    until(world, name, "CompleteCommit")
    world.ask("the end doubled", end(name, producer), 4)
    world.ask("the other end", end(name, producer, commit=False), 4)
    add(0)
    world.ask("a batch of the next transaction", _written(name, (0, producer, 1)), 11)
    world.ask("the end of the one before, late", end(name, producer), 4)
    until(world, name, "CompleteCommit")
    world.ask("the next batch", _written(name, (0, producer, 2)), 10, 11)
    world.ask("its end", end(name, producer), 4)
    world.ask("its other end", end(name, producer, commit=False), 4)
    add(1)
    found = world.prepare(described(name), 0).transaction_states[0]
    assert found.transaction_state == "Ongoing", "an addition that comes late opens a transaction"
    world.ask("which is aborted", end(name, producer, commit=False), 4)
    until(world, name, "CompleteAbort")
    add(2)
    world.ask("a batch before a marker", _written(name, (2, producer, 0)), 11)
    marker = WritableTxnMarker(
        producer_id=producer[0],
        producer_epoch=producer[1],
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name="late", partition_indexes=[2])],
        coordinator_epoch=0,
    )
    world.ask("the marker of the one before, late", WriteTxnMarkersRequest(markers=[marker]), 1)
    world.ask("the batch behind it", _written(name, (2, producer, 1)), 11)
    world.ask("the end of all", end(name, producer), 4)
    until(world, name, "CompleteCommit")


def _first_code(answer: AddPartitionsToTxnResponse) -> ErrorCode:
    return ErrorCode.of(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def transaction_markers(world: World) -> None:
    """WriteTxnMarkers, as another broker's coordinator asks for them."""
    world.create("markers", 2)

    def marker(producer: Producer, coordinator: int, *, commit: bool = True, **partitions: Iterable[int]):
        return WritableTxnMarker(
            producer_id=producer[0],
            producer_epoch=producer[1],
            transaction_result=commit,
            coordinator_epoch=coordinator,
            topics=[
                WritableTxnMarkerTopic(name=topic.replace("_", "-"), partition_indexes=list(indexes))
                for topic, indexes in partitions.items()
            ],
        )

    first, second = (4_000_000, 3), (4_000_001, 0)
    for what, markers in {
        "of a producer that is not known": [marker(first, 5, markers=[0, 1])],
        "of several": [marker(second, 5, commit=False, markers=[0]), marker(first, 5, markers=[1])],
        "of one twice": [marker(second, 5, markers=[0]), marker(second, 5, markers=[1])],
        "where they cannot be": [marker(first, 5, markers=[0, 9], markers_nowhere=[0])],
        "of an earlier coordinator": [marker(first, 4, markers=[0])],
        "of an earlier producer": [marker((first[0], 2), 5, markers=[0])],
        "of a later producer": [marker((first[0], 4), 5, markers=[0])],
        "of no partition": [marker(first, 5)],
        "of nobody": [],
        "of no producer": [marker((-1, -1), 5, markers=[0])],
    }.items():
        world.ask(what, WriteTxnMarkersRequest(markers=markers), 0, 1)
