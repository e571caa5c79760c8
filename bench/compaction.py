"""The log cleaners of Apache Kafka 3.9 and of Barnabas on a gigabyte, and a producer beside them.

python -m bench.compaction [--quick] [--sides kafka,pure,compiled] [--compiled PATH]

Records of 100 B, a million keys drawn at random. They lie still until the topic's `min.compaction.lag.ms` is
taken away; from then on the time counts, to the moment at which `cleaner-offset-checkpoint` says that all is
clean. Meanwhile a producer sends small records to another topic, one in flight. `--quick` writes an eighth.
"""

import contextlib
import itertools
import random
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bench import command, options, wire
from bench.figures import Measure
from bench.raw import produce_p99_ms
from bench.rounds import FULL, Effort, Row, Turn
from bench.sides import DELETE_SOON, ONE_RECORD, Side, running_sides

RECORDS: Final = 8_000_000
KEYS: Final = 1_000_000
SECONDS: Final = 300
ALONE_S: Final = 5
SETTINGS: Final = {**DELETE_SOON, "log.cleaner.backoff.ms": 100, "log.initial.task.delay.ms": 0}
NEVER: Final = str(2**62)
_numbers = itertools.count(1)


def _fill(side: Side, topic: str, records: int) -> None:
    """A compacted topic of one partition, nothing of it cleanable yet;
    its last record in a segment of its own.
    """
    settings = {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": NEVER,
        "min.cleanable.dirty.ratio": "0.01",
        "segment.bytes": str(1 << 25),
    }
    admin = AdminClient({"bootstrap.servers": side.running.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(60)
    producer = Producer({"bootstrap.servers": side.running.bootstrap, "linger.ms": 20})
    rng, value = random.Random(1), bytes(range(100))
    for _ in range(records):
        key = b"%010d" % rng.randrange(KEYS * records // RECORDS)
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def _let_clean(side: Side, topic: str) -> None:
    """All but the active segment may be cleaned from now on."""
    admin = AdminClient({"bootstrap.servers": side.running.bootstrap})
    entry = ConfigEntry("min.compaction.lag.ms", "0", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(60)


def _cleaned_to(side: Side, topic: str) -> int:
    """Up to which offset the log is clean, as the checkpoint has it."""
    checkpoint = side.running.data / "cleaner-offset-checkpoint"
    with contextlib.suppress(FileNotFoundError):
        for line in checkpoint.read_text().splitlines()[2:]:
            name, _, offset = line.split()
            if name == topic:
                return int(offset)
    return 0


@contextlib.contextmanager
def _compaction(side: Side, effort: Effort) -> Iterator[Turn]:
    """Seconds for each GiB, processor time too, and the producer's p99 alone and beside."""
    records = RECORDS if effort is FULL else RECORDS // 8

    def turn() -> Sequence[float]:
        topic = f"compaction-{next(_numbers)}"
        _fill(side, topic, records)
        size = sum(each.stat().st_size for each in (side.running.data / f"{topic}-0").glob("*.log"))
        active = max(int(each.stem) for each in (side.running.data / f"{topic}-0").glob("*.log"))
        with side.connect() as client:
            alone_until = time.perf_counter() + ALONE_S
            alone_ms = produce_p99_ms(client, ONE_RECORD, lambda: time.perf_counter() > alone_until)
        _let_clean(side, topic)
        used, began = side.processor_time().total_s, time.perf_counter()

        def done() -> bool:
            if time.perf_counter() > began + SECONDS:
                raise RuntimeError(f"{side.name} is at offset {_cleaned_to(side, topic)} of {active}")
            return _cleaned_to(side, topic) >= active

        with side.connect() as client:
            beside_ms = produce_p99_ms(client, ONE_RECORD, done)
        gib = size / (1 << 30)
        took, used = time.perf_counter() - began, side.processor_time().total_s - used
        with side.connect() as client:
            client.ask(wire.delete_topic(topic))
        return [took / gib, used / gib, alone_ms, beside_ms]

    yield turn


ROWS: Final = {
    "compaction": Row(
        "100 B values, each key eight times",
        [
            Measure("to clean it all", "s/GiB", 3.0, any_mood=True),
            Measure("processor time", "s/GiB"),
            Measure("p99 of a produce, one in flight, alone", "ms"),
            Measure("p99 of a produce, one in flight, beside", "ms", 1.0),
        ],
        _compaction,
        length="longest",
        without=("kfake",),
    )
}


def main() -> int:
    """Runs it; 0 when the budgets are met, 1 otherwise, 2 when there is nothing to compare with."""
    summary = __doc__.partition("\n")[0]
    asked = options.parser_of("python -m bench.compaction", summary, ROWS, "kafka,pure,compiled").parse_args()
    return command.run(asked, ROWS, partial(running_sides, settings=SETTINGS))


if __name__ == "__main__":
    sys.exit(main())
