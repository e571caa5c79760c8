"""Transactions whose epoch is bumped at every end (the second part of KIP-890), asked of brokers that serve
them; Kafka 3.9 does not.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
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
from parity.scenarios.batches import START_MS, batch
from parity.scenarios.coordinators import coordinator_is_ready, transactions_are_ready
from parity.scenarios.transactions import (
    NOT_YET,
    PATIENCE_S,
    Producer,
    add_partitions,
    begin,
    by_broker,
    described,
    end,
    init,
    until,
)
from parity.world import World

END: Final = 5
PRODUCE: Final = 12
BY_BROKER: Final = 5
EPOCH_MAX: Final = 32_767


def _ended(world: World, name: str, producer: Producer, *, commit: bool = True) -> Producer:
    """Ends a transaction that nobody judges; the producer of the next one."""
    answer = world.prepare(end(name, producer, commit=commit), END)
    assert answer.error_code == 0, answer
    until(world, name, "CompleteCommit" if commit else "CompleteAbort")
    return answer.producer_id, answer.producer_epoch


def _created(world: World, topic: str, partitions: int = 1) -> None:
    """Makes a topic, and waits until each partition has a leader, and a record. The first producer id of a
    broker is 0, which is told apart from no other number: it is nobody's.
    """
    world.create(topic, partitions)
    deadline = time.monotonic() + PATIENCE_S
    for partition in range(partitions):
        data = PartitionProduceData(index=partition, records=batch(b"v"))
        request = ProduceRequest(
            acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
        )
        while world.prepare(request, 9).responses[0].partition_responses[0].error_code:
            assert time.monotonic() < deadline, f"{world.side!r} does not lead {topic}"
            time.sleep(0.05)
    while world.prepare(init(None), 5).error_code:
        assert time.monotonic() < deadline, f"{world.side!r} has no producer ids"
        time.sleep(0.05)


def _told(world: World, what: str, name: str) -> None:
    """Records how DescribeTransactions tells an id, but for the times."""
    found = world.prepare(described(name), 0).transaction_states[0]
    started = "started" if found.transaction_start_time_ms > 0 else "not started"
    told = [found.transaction_state, str(found.producer_epoch), started, str(len(found.topics))]
    world.in_order(what, told)


def _opened(world: World, name: str, producer: Producer, topic: str, *partitions: int) -> None:
    """Has a broker add partitions, as the first Produce does."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        request = by_broker((name, producer, False, {topic: partitions}))
        answer = world.prepare(request, BY_BROKER).results_by_transaction[0]
        code = answer.topic_results[0].results_by_partition[0].partition_error_code
        if code not in NOT_YET:
            assert code == 0, answer
            return
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)


def ends(world: World) -> None:
    """EndTxn 5 in each state, of each epoch that a producer may come with."""
    transactions_are_ready(world)
    _created(world, "ends", 3)
    name = "ends"

    def asked(state: str, producer: Producer) -> None:
        for what, given in {
            "the epoch before": (producer[0], producer[1] - 1),
            "two epochs before": (producer[0], producer[1] - 2),
            "the next epoch": (producer[0], producer[1] + 1),
            "another producer": (producer[0] + 100_000, producer[1]),
        }.items():
            for commit in (True, False):
                word = "commit" if commit else "abort"
                world.ask(f"{state}: {word}, {what}", end(name, given, commit=commit), 4, END)

    producer = begin(world, name)
    asked("empty", producer)
    world.ask("empty: commit", end(name, producer), 4, END)
    world.ask("empty: abort of an older client", end(name, producer, commit=False), 4)
    empty = world.ask("empty: abort", end(name, producer, commit=False), END)
    until(world, name, "CompleteAbort")
    _told(world, "describe what was aborted without a partition", name)
    producer = (empty.producer_id, empty.producer_epoch)
    asked("aborted without a partition", producer)
    _opened(world, name, producer, "ends", 0, 1)
    asked("open", producer)
    committed = world.ask("open: commit", end(name, producer), END)
    until(world, name, "CompleteCommit")
    _told(world, "describe the committed one", name)
    producer = (committed.producer_id, committed.producer_epoch)
    asked("committed", producer)
    world.ask("committed: commit with the next epoch", end(name, producer), 4, END)
    world.ask("committed: abort of an older client", end(name, producer, commit=False), 4)
    aborted = world.ask("committed: abort with the next epoch", end(name, producer, commit=False), END)
    until(world, name, "CompleteAbort")
    producer = (aborted.producer_id, aborted.producer_epoch)
    _opened(world, name, producer, "ends", 2)
    aborted = world.ask("open: abort", end(name, producer, commit=False), END)
    until(world, name, "CompleteAbort")
    producer = (aborted.producer_id, aborted.producer_epoch)
    asked("aborted", producer)
    aborted = world.ask("aborted: abort again", end(name, producer, commit=False), END)
    until(world, name, "CompleteAbort")
    for what, who in {"unknown": "ends-unknown", "no name": ""}.items():
        world.ask(f"{what} id", end(who, producer), END)


def ends_of_both_kinds(world: World) -> None:
    """Clients of before, and of today, with one transactional id."""
    transactions_are_ready(world)
    _created(world, "both", 3)
    name = "both"
    producer = begin(world, name)
    world.ask("add, as an older client", add_partitions(name, producer, {"both": [0]}), 3)
    world.ask("end, as an older client", end(name, producer), 4)
    until(world, name, "CompleteCommit")
    _told(world, "describe", name)
    _opened(world, name, producer, "both", 1)
    world.ask("end by an older client of what a broker added", end(name, producer), 4)
    until(world, name, "CompleteCommit")
    world.ask("add again, as an older client", add_partitions(name, producer, {"both": [2]}), 3)
    answer = world.ask("end by a newer one", end(name, producer), END)
    until(world, name, "CompleteCommit")
    world.ask("the older client begins with its epoch", add_partitions(name, producer, {"both": [0]}), 3)
    world.ask("and ends", end(name, producer), 4)
    producer = (answer.producer_id, answer.producer_epoch)
    world.ask("the newer one as an older", add_partitions(name, producer, {"both": [0]}), 3)
    world.ask("its end", end(name, producer, commit=False), 4)
    until(world, name, "CompleteAbort")
    world.ask("the epoch it had, as a newer client", end(name, producer, commit=False), END)


def fences(world: World) -> None:
    """A new producer comes while a transaction with partitions of a broker's is open."""
    transactions_are_ready(world)
    _created(world, "fences", 2)
    name = "fences"
    zombie = begin(world, name)
    _opened(world, name, zombie, "fences", 0)
    world.ask("a new producer", init(name), 5)
    until(world, name, "CompleteAbort")
    _told(world, "describe the fenced one", name)
    for commit in (True, False):
        world.ask(f"the zombie ends, commit {commit}", end(name, zombie, commit=commit), 4, END)
    world.ask("the zombie begins", by_broker((name, zombie, False, {"fences": [0]})), 4, 5)
    world.ask("the zombie asks for an epoch", init(name, zombie), 4)
    world.ask("the new producer", init(name), 5)
    producer = begin(world, name)
    _opened(world, name, producer, "fences", 0)
    world.ask("the producer begins again with its epoch", init(name, producer), 5)
    until(world, name, "CompleteAbort")
    world.ask("and once more", init(name, producer), 5)
    producer = begin(world, name)
    _opened(world, name, producer, "fences", 1)
    committed = _ended(world, name, producer)
    world.ask("asks with the epoch before its end", init(name, producer), 5)
    world.ask("asks with the epoch of its end", init(name, committed), 5)
    world.ask("asks with it again", init(name, committed), 5)


def _written(name: str, topic: str, *entries: tuple[int, Producer, int]) -> Callable[[int], ProduceRequest]:
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
    named = TopicProduceData(name=topic, partition_data=data)
    return lambda _: ProduceRequest(transactional_id=name, acks=-1, timeout_ms=10_000, topic_data=[named])


def _marker(producer: Producer, version: int, topic: str, *, commit: bool = True) -> WriteTxnMarkersRequest:
    marker = WritableTxnMarker(
        producer_id=producer[0],
        producer_epoch=producer[1],
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        coordinator_epoch=0,
        transaction_version=version,
    )
    return WriteTxnMarkersRequest(markers=[marker])


def late_messages_of_4(world: World) -> None:
    """What was given up with its connection, and comes in the next transaction, which has another epoch."""
    transactions_are_ready(world)
    _created(world, "late4", 3)
    name = "late4"
    first = begin(world, name)
    world.ask("a batch", _written(name, "late4", (0, first, 0)), PRODUCE)
    second = _ended(world, name, first)
    world.ask("a batch of the next transaction", _written(name, "late4", (0, second, 0)), PRODUCE)
    for commit in (True, False):
        world.ask(f"the end before, late, commit {commit}", end(name, first, commit=commit), 4, END)
    world.ask("the batch before, late", _written(name, "late4", (0, first, 1)), PRODUCE)
    world.ask("the batch before, late, elsewhere", _written(name, "late4", (1, first, 0)), PRODUCE)
    world.ask("the addition before, late", by_broker((name, first, False, {"late4": [2]})), 4, 5)
    world.ask("the question before, late", by_broker((name, first, True, {"late4": [0]})), 4, 5)
    world.ask("the marker before, late", _marker(second, 2, "late4"), 2)
    world.ask("the marker before that, late", _marker(first, 2, "late4"), 2)
    world.ask("the next batch", _written(name, "late4", (0, second, 1)), PRODUCE)
    found = world.prepare(described(name), 0).transaction_states[0]
    assert found.transaction_state == "Ongoing", found
    third = _ended(world, name, second)
    world.ask("the end doubled", end(name, second), END)
    world.ask("the other end", end(name, second, commit=False), END)
    world.ask("a batch with a gap", _written(name, "late4", (0, third, 2)), PRODUCE)
    world.ask("a batch of before the end", _written(name, "late4", (0, second, 2)), PRODUCE)
    world.ask("a first batch that is not the first", _written(name, "late4", (2, third, 5)), PRODUCE)
    world.ask("its end", end(name, third, commit=False), END)


def markers_of_4(world: World) -> None:
    """WriteTxnMarkers 2: an epoch must be above the producer's, but for a marker that comes twice."""
    transactions_are_ready(world)
    _created(world, "markers4", 1)
    name = "markers4"
    producer = begin(world, name)
    # Its transaction stays open: on a slow machine a minute may be over before transactions are listed.
    producer = (producer[0], begin(world, name, timeout_ms=900_000)[1])
    world.ask("a batch", _written(name, "markers4", (0, producer, 0)), PRODUCE)

    def at(ahead: int) -> Producer:
        return producer[0], producer[1] + ahead

    for version in (2, 3, 127):
        for ahead in (-1, 0):
            world.ask(f"transaction version {version}, {ahead}", _marker(at(ahead), version, "markers4"), 2)
    world.ask("transaction version 2, ahead", _marker(at(1), 2, "markers4"), 2)
    world.ask("the same again", _marker(at(1), 2, "markers4"), 2)
    world.ask("the other end", _marker(at(1), 2, "markers4", commit=False), 2)
    world.ask("the one before", _marker(at(0), 2, "markers4"), 2)
    world.ask("a version that there is not", _marker(at(1), -1, "markers4"), 2)
    for version in (0, 1):
        world.ask(f"transaction version {version}, the same epoch", _marker(at(1), version, "markers4"), 2)
        world.ask(f"transaction version {version}, the one before", _marker(at(0), version, "markers4"), 2)
    world.ask("at version 1", _marker(at(1), 0, "markers4"), 1)
    world.ask("of a producer that is not known", _marker((5_000_000, 0), 2, "markers4"), 2)


def offsets_of_4(world: World) -> None:
    """TxnOffsetCommit adds the group's partition, by version 5, and fences members."""
    coordinator_is_ready(world)
    transactions_are_ready(world)
    _created(world, "source4", 2)
    topic_id = world.topic_id("source4")
    name, group = "offsets4", "group4"
    producer = begin(world, name)

    def commit(offset: int, who: Producer, version: int, **fields: Any) -> TxnOffsetCommitRequest:
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata="note"
        )
        named = {"topic_id": topic_id} if version >= 6 else {"name": "source4"}
        return TxnOffsetCommitRequest(
            transactional_id=fields.pop("transactional_id", name),
            group_id=group,
            producer_id=who[0],
            producer_epoch=who[1],
            topics=[TxnOffsetCommitRequestTopic(**named, partitions=[partition])],
            **fields,
        )

    for version in (4, 5, 6):
        world.ask("commits", commit(version, producer, version), version)
    second = _ended(world, name, producer)
    for version in (4, 5, 6):
        world.ask("late", commit(50, producer, version), version)
        world.ask("with an epoch to come", commit(50, (second[0], second[1] + 1), version), version)
        world.ask("unknown id", commit(50, second, version, transactional_id="unknown4"), version)
        world.ask("unknown member", commit(9, second, version, member_id="m", generation_id=3), version)
        world.ask("a generation alone", commit(9, second, version, generation_id=3), version)
    add = AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=second[0], producer_epoch=second[1], group_id=group
    )
    world.ask("the group, as an older client", add, 3, 4)
    world.ask("the next", commit(60, second, 5), 5)
    _ended(world, name, second, commit=False)


def overflow(world: World) -> None:
    """The epochs of a producer id are used up: the next one has another id."""
    transactions_are_ready(world)
    _created(world, "overflow", 2)
    name = "overflow"
    producer = begin(world, name)
    while producer[1] < EPOCH_MAX - 2:
        made = world.prepare(init(name), 5)
        assert made.error_code == 0, made
        producer = (made.producer_id, made.producer_epoch)
    _opened(world, name, producer, "overflow", 0)
    last = _ended(world, name, producer)
    assert last == (producer[0], EPOCH_MAX - 1), last
    _opened(world, name, last, "overflow", 0)
    answer = world.ask("the last end", end(name, last), END)
    until(world, name, "CompleteCommit")
    after = (answer.producer_id, answer.producer_epoch)
    _told(world, "describe", name)
    world.ask("the last end again", end(name, last), 4, END)
    world.ask("the last end, the other way", end(name, last, commit=False), END)
    world.ask("what was the end before", end(name, producer), END)
    world.ask("begin with the last epoch", by_broker((name, last, False, {"overflow": [0]})), 5)
    world.ask("ask with the last epoch", init(name, last), 5)
    until(world, name, "Empty")
    producer = begin(world, name)
    _opened(world, name, producer, "overflow", 1)
    _ended(world, name, producer)
    del after


def fenced_at_the_last_epoch(world: World) -> None:
    """A producer with the last epoch is fenced while its transaction is open."""
    transactions_are_ready(world)
    _created(world, "fenced-last", 1)
    name = "fenced-last"
    producer = begin(world, name)
    while producer[1] < EPOCH_MAX - 1:
        made = world.prepare(init(name), 5)
        assert made.error_code == 0, made
        producer = (made.producer_id, made.producer_epoch)
    _opened(world, name, producer, "fenced-last", 0)
    world.ask("a new producer", init(name), 5)
    until(world, name, "CompleteAbort")
    _told(world, "describe", name)
    for commit in (True, False):
        world.ask(f"its end, commit {commit}", end(name, producer, commit=commit), 4, END)
    world.ask("it asks again", init(name, producer), 5)
    world.ask("the new producer", init(name), 5)
