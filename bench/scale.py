"""One broker with much of something: partitions, idle connections, idempotent producers; Apache Kafka 3.9
beside Barnabas.

python -m bench.scale [--quick] [--rows idempotent,connections,partitions] [--sides kafka,pure,compiled]
[--compiled PATH]
"""

import contextlib
import itertools
import resource
import statistics
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic
from crc32c import crc32c

from bench import command, options, wire
from bench.figures import Measure
from bench.raw import RawClient, produce_in_turn
from bench.rounds import Effort, Row, Turn
from bench.sides import ONE_RECORD, Side, running_sides

TOPICS, PARTITIONS_EACH = 1000, 5
CONNECTIONS: Final = 10_000
API_VERSIONS, METADATA, INIT_PRODUCER_ID = 18, 3, 22
COORDINATOR_LOAD_IN_PROGRESS: Final = 14
_numbers = itertools.count(1)

# --- an idempotent producer beside a plain one --------------------------------------------------------------


class _Batches:
    """One-record batches for a topic, each with its own checksum;
    of an idempotent producer if one is given.
    """

    _CRC_AT, _CRC_FROM, _SEQUENCE_AT = 17, 21, 53

    def __init__(self, topic: str, producer_id: int | None) -> None:
        self.shape = wire.ProduceResponse(topic)
        self._frame = bytearray(wire.produce(topic, ONE_RECORD))
        self._batch = memoryview(self._frame)[-len(ONE_RECORD) :]
        self._numbered = producer_id is not None
        self._sequence = 0
        if producer_id is not None:
            struct.pack_into(">qh", self._batch, 43, producer_id, 0)

    def next_frame(self) -> bytearray:
        """The next request; the same bytes changed."""
        if self._numbered:
            struct.pack_into(">i", self._batch, self._SEQUENCE_AT, self._sequence)
            self._sequence += 1
        struct.pack_into(">I", self._batch, self._CRC_AT, crc32c(self._batch[self._CRC_FROM :]))
        return self._frame


def _new_producer_id(client: RawClient) -> int:
    """Asked for again while the broker has none to give yet."""
    error, until = COORDINATOR_LOAD_IN_PROGRESS, time.monotonic() + 30
    while error == COORDINATOR_LOAD_IN_PROGRESS and time.monotonic() < until:
        answer = client.ask(wire.request(INIT_PRODUCER_ID, 0, struct.pack(">hi", -1, 60_000)))
        error, producer_id = struct.unpack_from(">hq", answer, 8)
    if error:
        raise RuntimeError(f"InitProducerId was answered with error code {error}")
    return int(producer_id)


@contextlib.contextmanager
def _idempotent(side: Side, effort: Effort) -> Iterator[Turn]:
    """Processor time of the broker for a plain one-record produce, for an idempotent one in us, and how much
    more in %.
    """
    topics = [f"{kind}-{next(_numbers)}" for kind in ("plain", "idempotent")]
    with side.connect() as client:
        for topic in topics:
            client.create_topic(topic)
        loads = [_Batches(topics[0], None), _Batches(topics[1], _new_producer_id(client))]

        def cost_us(batches: _Batches) -> float:
            used, requests = side.processor_time().total_s, 0
            until = time.perf_counter() + effort.seconds
            while time.perf_counter() < until:
                client.socket.sendall(batches.next_frame())
                batches.shape.base_offset(client.receive(batches.shape.size))
                requests += 1
            return (side.processor_time().total_s - used) / requests * 1e6

        def turn() -> Sequence[float]:
            plain, idempotent = (cost_us(batches) for batches in loads)
            return [plain, idempotent, (idempotent / plain - 1) * 100]

        for _ in range(effort.windows_max if side.compiles_as_it_runs else 1):
            turn()
        yield turn


# --- connections that say nothing ---------------------------------------------------------------------------


def _produce_p50_us(side: Side, topic: str, effort: Effort) -> float:
    frame, shape = wire.produce(topic, ONE_RECORD), wire.ProduceResponse(topic)
    taken, until = [], time.perf_counter() + effort.seconds
    with side.connect() as client:
        while (started := time.perf_counter()) < until:
            client.socket.sendall(frame)
            shape.base_offset(client.receive(shape.size))
            taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1e6


@contextlib.contextmanager
def _connections(side: Side, effort: Effort) -> Iterator[Turn]:
    """KB of memory for each of 10,000 connections that asked once, and the p50 of a produce alone and beside
    them in us.
    """
    hello = wire.request(API_VERSIONS, 0, b"")

    def turn() -> Sequence[float]:
        side.stop()
        side.start()
        with side.connect() as client:
            for _ in range(effort.windows_max if side.compiles_as_it_runs else 1):
                produce_in_turn([client], "first", ONE_RECORD, effort.window_seconds)
        alone_us, before = _produce_p50_us(side, "first", effort), side.memory_mb()
        with contextlib.ExitStack() as stack:
            for _ in range(CONNECTIONS):
                stack.enter_context(side.connect()).ask(hello)
            kilobytes = (side.memory_mb() - before) * 1000 / CONNECTIONS
            beside_us = _produce_p50_us(side, "first", effort)
        return [kilobytes, alone_us, beside_us, beside_us / alone_us]

    yield turn


# --- many partitions ----------------------------------------------------------------------------------------


def _create_topics(side: Side) -> None:
    admin = AdminClient({"bootstrap.servers": side.running.bootstrap})
    names = [f"one-of-many-{number:04}" for number in range(TOPICS)]
    for at in range(0, TOPICS, 50):
        wanted = [NewTopic(name, PARTITIONS_EACH, 1) for name in names[at : at + 50]]
        for created in admin.create_topics(wanted).values():
            created.result(120)


def _metadata_ms(side: Side, times: int) -> float:
    """The median of Metadata v1 for all topics."""
    everything = wire.request(METADATA, 1, struct.pack(">i", -1))
    taken = []
    with side.connect() as client:
        for _ in range(times):
            started = time.perf_counter()
            size = len(client.ask(everything))
            taken.append((time.perf_counter() - started) * 1000)
            if size < TOPICS * PARTITIONS_EACH * 26:
                raise RuntimeError(f"{side.name} does not know all topics: {size} bytes of Metadata")
    return statistics.median(taken)


@contextlib.contextmanager
def _partitions(side: Side, effort: Effort) -> Iterator[Turn]:
    """Metadata of all in ms, memory in MB, an idle broker in % of a core, and a restart until it takes
    records in s.
    """
    _create_topics(side)

    def turn() -> Sequence[float]:
        side.running.stop()
        started = time.perf_counter()
        side.start_again()
        took = time.perf_counter() - started
        _metadata_ms(side, 300 if side.compiles_as_it_runs else 20)
        metadata = _metadata_ms(side, 30)
        time.sleep(2)
        before = side.processor_time().total_s
        time.sleep(effort.crowd_seconds)
        idle = (side.processor_time().total_s - before) / effort.crowd_seconds * 100
        return [metadata, side.memory_mb(), idle, took]

    yield turn


# --- the table ----------------------------------------------------------------------------------------------

ROWS: Final = {
    "idempotent": Row(
        "one-record produce, acks=1, one in flight, each batch with a number",
        [
            Measure("processor time a plain request", "us"),
            Measure("processor time an idempotent request", "us"),
            Measure("more than plain", "%", 10, is_ratio=False),
        ],
        _idempotent,
        without=("kfake",),
    ),
    "connections": Row(
        f"{CONNECTIONS:,} idle connections",
        [
            Measure("memory for each", "KB", 40, is_ratio=False, any_mood=True),
            Measure("p50 of a produce alone", "us"),
            Measure("p50 of a produce beside", "us"),
            Measure("p50 beside to alone", "x", 1.1, is_ratio=False),
        ],
        _connections,
        "longest",
        without=("kfake",),
    ),
    "partitions": Row(
        f"{TOPICS:,} topics of {PARTITIONS_EACH} partitions",
        [
            Measure("Metadata of all", "ms", 1.5),
            Measure("memory", "MB", 250, is_ratio=False, any_mood=True),
            Measure("idle, of one core", "%", 2, is_ratio=False),
            Measure("restart to first produce", "s", 5, is_ratio=False, any_mood=True),
        ],
        _partitions,
        "longest",
        without=("kfake",),
    ),
}


def main() -> int:
    """Runs the rows; 0 when every budget is met, 1 otherwise, 2 when there is nothing to compare with."""
    summary = __doc__.partition("\n")[0]
    asked = options.parser_of("python -m bench.scale", summary, ROWS, "kafka,pure,compiled").parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    return command.run(asked, ROWS, running_sides)


if __name__ == "__main__":
    sys.exit(main())
