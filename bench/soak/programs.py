"""The clients of the soak: a producer, and a member of the group. Each is a process that ends at SIGTERM, and
then prints one line of JSON.

    python -m bench.soak.programs produce BOOTSTRAP RECORDS_PER_SECOND
    python -m bench.soak.programs consume BOOTSTRAP [GROUP_PROTOCOL]

The records of each partition are numbered from 0, so what was read says what is missing and what came twice.
What they remember does not grow with the records: a run of numbers is two of them.
"""

import json
import signal
import sys
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

from barnabas.client import Consumer, Producer

TOPIC: Final = "soak"
GROUP: Final = "soak"
PARTITIONS: Final = 6

Run = list[int]
"""The first and the last of numbers that follow each other."""


class Runs:
    """The numbers that were read, by partition, in the order of reading."""

    def __init__(self) -> None:
        self.by_partition: dict[int, list[Run]] = {}

    def add(self, partition: int, number: int) -> None:
        runs = self.by_partition.setdefault(partition, [])
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])


def lost_and_twice(sent: int, runs: Iterable[Run]) -> tuple[int, int]:
    """How many of the numbers below `sent` are in no run, and how many readings were not the first."""
    read = covered = 0
    behind = 0
    """Behind the last number that is covered so far."""
    for first, last in sorted(runs):
        read += last - first + 1
        covered += max(0, last + 1 - max(first, behind))
        behind = max(behind, last + 1)
    return sent - covered, read - covered


def judged(sent: Mapping[int, int], members: Iterable[Mapping[int, Iterable[Run]]]) -> tuple[int, int]:
    """The same over all partitions, with what all members of the group have read."""
    together: dict[int, list[Run]] = {partition: [] for partition in sent}
    for each in members:
        for partition, runs in each.items():
            together[partition] += runs
    found = [lost_and_twice(sent[partition], runs) for partition, runs in together.items()]
    return sum(lost for lost, _ in found), sum(twice for _, twice in found)


def _stopped() -> threading.Event:
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    return stopped


def produce(bootstrap: str, rate: float) -> dict[str, Any]:
    """Sends one record to each partition in turn, so many a second; what was sent, and how many failed."""
    stopped, sent, failures = _stopped(), [0] * PARTITIONS, [0]

    def told(error: Exception | None, _metadata: object) -> None:
        failures[0] += error is not None

    with Producer(bootstrap, client_id="soak-producer") as producer:
        while not stopped.wait(PARTITIONS / rate):
            for partition in range(PARTITIONS):
                producer.send(TOPIC, b"%d" % sent[partition], partition=partition, on_delivery=told)
                sent[partition] += 1
    return {"sent": sent, "failed": failures[0]}


def consume(bootstrap: str, protocol: str) -> dict[str, Any]:
    """Reads as a member of the group; the runs that it has read."""
    stopped, runs = _stopped(), Runs()
    with Consumer(
        bootstrap,
        client_id="soak-member",
        group_id=GROUP,
        group_protocol=protocol,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=1000,
    ) as consumer:
        consumer.subscribe([TOPIC])
        while not stopped.is_set():
            for record in consumer.poll(timeout_ms=200):
                runs.add(record.partition, int(record.value))
    return {"runs": runs.by_partition}


def main() -> None:
    """Runs one of them."""
    kind, bootstrap, how = sys.argv[1:]
    print(json.dumps(produce(bootstrap, float(how)) if kind == "produce" else consume(bootstrap, how)))


if __name__ == "__main__":
    main()
