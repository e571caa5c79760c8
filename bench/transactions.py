"""Transactions on one broker: commits of librdkafka, commits over many partitions, what readers skip.

python -m bench.transactions [--quick] [--rows commit,wide,aborted,ids] [--sides kafka,pure,compiled]

`commit`: 100 records of 100 B a transaction, one transaction after the other. `wide`: a record to each of
1,000 partitions a transaction. `aborted`: a reader of committed records comes to the end of a partition in
which 100,000 transactions were aborted. `ids`: memory of 10,000 open transactions.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from barnabas.core.chunks import materialize
from barnabas.protocol.framing import RequestHeader, encode_request
from barnabas.protocol.message import Request
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from bench import command, options
from bench.figures import Measure
from bench.raw import RawClient
from bench.rounds import FULL, Effort, Row, Turn
from bench.rows import new_topic
from bench.sides import DELETE_SOON, Side, running_sides

RECORDS: Final = 100
VALUE: Final = b"t" * 100
WIDE: Final = 1000
ABORTED: Final = 100_000
PRODUCERS: Final = 1000
OPEN_IDS: Final = 10_000
WINDOW: Final = 100
"""Requests in flight while a row is prepared."""
CALL_S: Final = 60
SETTINGS: Final = {
    **DELETE_SOON,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "offsets.topic.replication.factor": 1,
    # `aborted` writes batches of producers that no coordinator knows.
    "transaction.partition.verification.enable": "false",
}


def _ask_all(client: RawClient, requests: Sequence[tuple[Request, int]]) -> list[memoryview]:
    """The answers to requests, each with its version, of which `WINDOW` are in flight."""
    answers = []
    for start in range(0, len(requests), WINDOW):
        frames = b"".join(
            materialize(encode_request(RequestHeader(request.api, version, 7, "bench"), request))
            for request, version in requests[start : start + WINDOW]
        )
        client.socket.sendall(frames)
        for _ in requests[start : start + WINDOW]:
            size = int.from_bytes(client.receive(4), "big")
            answers.append(memoryview(bytes(client.receive(size))))
    return answers


def producer_of(bootstrap: str, transactional_id: str) -> Producer:
    """librdkafka's, with its id initialized."""
    settings = {
        "bootstrap.servers": bootstrap,
        "transactional.id": transactional_id,
        "linger.ms": 0,
        "enable.metrics.push": False,
    }
    producer = Producer(settings)
    producer.init_transactions(CALL_S)
    return producer


def commits(
    bootstrap: str,
    topic: str,
    partitions: int,
    processor_s: Callable[[], float],
    *,
    warm_s: float,
    seconds: float,
) -> Turn:
    """One transaction after the other: how many a second, their median and p99 in ms, and the brokers'
    processor time for one in us.
    """
    producer = producer_of(bootstrap, topic)

    def transaction() -> float:
        began = time.perf_counter()
        producer.begin_transaction()
        for number in range(max(RECORDS, partitions)):
            producer.produce(topic, VALUE, partition=number % partitions)
        producer.commit_transaction(CALL_S)
        return (time.perf_counter() - began) * 1000

    def turn() -> Sequence[float]:
        transaction()  # it has idled while the others were driven
        used, began = processor_s(), time.perf_counter()
        taken = []
        while time.perf_counter() - began < seconds:
            taken.append(transaction())
        took, used = time.perf_counter() - began, processor_s() - used
        taken.sort()
        cost_us = used / len(taken) * 1e6
        return [len(taken) / took, taken[len(taken) // 2], taken[int(len(taken) * 0.99)], cost_us]

    # A JVM is several times slower cold than warm.
    until = time.perf_counter() + warm_s
    while time.perf_counter() < until:
        transaction()
    return turn


@contextlib.contextmanager
def _commits(side: Side, effort: Effort, *, partitions: int, seconds: float) -> Iterator[Turn]:
    with new_topic(side, "commit", partitions) as topic:
        yield commits(
            side.running.bootstrap,
            topic,
            partitions,
            lambda: side.processor_time().total_s,
            warm_s=effort.window_seconds * 2,
            seconds=seconds * effort.seconds,
        )


def _abort_many(client: RawClient, topic: str, transactions: int) -> None:
    """Transactions of one record, `PRODUCERS` of them open at a time, and the markers that abort them."""
    now_ms = int(time.time() * 1000)
    for sequence in range(transactions // PRODUCERS):
        produced: list[tuple[Request, int]] = []
        for producer_id in range(PRODUCERS):
            batch = build_batch(
                [Record(0, now_ms, None, VALUE)],
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
                transactional=True,
            )
            data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
            request = ProduceRequest(
                transactional_id=f"aborted-{producer_id}", acks=1, timeout_ms=30_000, topic_data=[data]
            )
            produced.append((request, 9))
        _ask_all(client, produced)
        markers = [
            WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=0,
                transaction_result=False,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
                coordinator_epoch=0,
            )
            for producer_id in range(PRODUCERS)
        ]
        _ask_all(client, [(WriteTxnMarkersRequest(markers=markers), 1)])


@contextlib.contextmanager
def _skipped(side: Side, effort: Effort) -> Iterator[Turn]:
    """Seconds from the first record to the end of the partition, and the broker's processor time."""
    with new_topic(side, "aborted") as topic, side.connect() as client:
        _abort_many(client, topic, ABORTED if effort is FULL else ABORTED // 10)
        plain = Producer({"bootstrap.servers": side.running.bootstrap})
        plain.produce(topic, b"last", partition=0)
        plain.flush(CALL_S)
        settings: dict[str, Any] = {
            "bootstrap.servers": side.running.bootstrap,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }

        def turn() -> Sequence[float]:
            consumer = Consumer(settings)
            used, began = side.processor_time().total_s, time.perf_counter()
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            message = consumer.poll(CALL_S)
            if message is None or message.value() != b"last":
                raise RuntimeError(f"{side.name} gave {message and message.value()}, not the last one")
            took, used = time.perf_counter() - began, side.processor_time().total_s - used
            consumer.close()
            return [took, used]

        turn()
        yield turn


@contextlib.contextmanager
def _open_ids(side: Side, effort: Effort) -> Iterator[Turn]:
    """Resident memory that 10,000 open transactions add, in MB."""
    count = OPEN_IDS if effort is FULL else OPEN_IDS // 10

    def turn() -> Sequence[float]:
        with new_topic(side, "ids") as topic, side.connect() as client:
            before = side.memory_mb()
            begun = [
                (InitProducerIdRequest(transactional_id=f"open-{i}", transaction_timeout_ms=600_000), 4)
                for i in range(count)
            ]
            ids = [_decoded(InitProducerIdResponse, answer, 4) for answer in _ask_all(client, begun)]
            # Not every partition of __transaction_state may have been loaded.
            while late := [place for place, each in enumerate(ids) if each.error_code]:
                for place, answer in zip(
                    late, _ask_all(client, [begun[place] for place in late]), strict=True
                ):
                    ids[place] = _decoded(InitProducerIdResponse, answer, 4)
            added = [
                (
                    AddPartitionsToTxnRequest(
                        v3_and_below_transactional_id=f"open-{i}",
                        v3_and_below_producer_id=each.producer_id,
                        v3_and_below_producer_epoch=each.producer_epoch,
                        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
                    ),
                    3,
                )
                for i, each in enumerate(ids)
            ]
            for answer in _ask_all(client, added):
                found = _decoded(AddPartitionsToTxnResponse, answer, 3).results_by_topic_v3_and_below
                code = found[0].results_by_partition[0].partition_error_code
                if code:
                    raise RuntimeError(f"{side.name} refuses a partition with {code}")
            return [side.memory_mb() - before]

    producer_of(side.running.bootstrap, "first")  # the coordinator is there
    yield turn


def _decoded(response: Any, answer: memoryview, version: int) -> Any:
    """What an answer says behind its correlation id and, in flexible versions, its tags."""
    return response.decode(answer[5 if response.is_flexible(version) else 4 :], version)[0]


COMMIT_MEASURES: Final = [
    Measure("transactions", "1/s", 1.0, higher_is_better=True),
    Measure("median", "ms"),
    Measure("p99", "ms", 1.0),
    Measure("broker processor time a transaction", "us", 0.5),
]

ROWS: Final = {
    "commit": Row(
        "librdkafka, 100 records of 100 B a transaction",
        COMMIT_MEASURES,
        partial(_commits, partitions=1, seconds=4),
        length="long",
        without=("kfake",),
    ),
    "wide": Row(
        "librdkafka, a record to each of 1,000 partitions a transaction",
        [
            Measure("transactions", "1/s", 1.0, higher_is_better=True),
            Measure("median", "ms", 1.0),
            Measure("p99", "ms"),
            Measure("broker processor time a transaction", "us"),
        ],
        partial(_commits, partitions=WIDE, seconds=8),
        length="long",
        without=("kfake",),
    ),
    "aborted": Row(
        "read_committed over 100,000 aborted transactions",
        [Measure("to the end", "s", 1.0), Measure("broker processor time", "s")],
        _skipped,
        length="long",
        without=("kfake",),
    ),
    "ids": Row(
        "10,000 open transactional ids",
        [Measure("memory", "MB", 100, is_ratio=False, any_mood=True)],
        _open_ids,
        length="once",
        without=("kfake",),
    ),
}


def main() -> int:
    """Runs it; 0 when the budgets are met, 1 otherwise, 2 when there is nothing to compare with."""
    summary = __doc__.partition("\n")[0]
    asked = options.parser_of(
        "python -m bench.transactions", summary, ROWS, "kafka,pure,compiled"
    ).parse_args()
    return command.run(asked, ROWS, partial(running_sides, settings=SETTINGS))


if __name__ == "__main__":
    sys.exit(main())
