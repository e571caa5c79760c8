"""Transactions on three brokers that are killed: `python tests/chaos/transactions.py --seconds 60 --seed 1`.

Producers (librdkafka) write the same value to a partition of each broker, and commit or abort. Meanwhile one
broker after the other is killed with -9 and started again. In the end a reader of committed records must find
in each partition: every transaction whose commit was answered, once and in the order of its producer; none
that was aborted; and of those whose end is not known all parts or none. Every transaction ends: the reader
comes to the end of the log.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

sys.path.insert(0, str(Path(__file__).parents[1]))

from barnabas.admin.admin import Admin
from barnabas.admin.types import NewTopic
from serving import ServeProcess

TOPIC, BROKERS = "ledger", (1, 2, 3)
SETTINGS = {
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    "zookeeper.session.timeout.ms": 1500,
    "replica.fetch.backoff.ms": 50,
}
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"
TIMEOUT_MS = 8000
CALL_S = 30


class Cluster:
    """Three brokers on one store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.servers: dict[int, ServeProcess] = {}
        for number in BROKERS:
            self.start(number)
        self.bootstrap = ",".join(server.bootstrap for server in self.servers.values())

    def start(self, number: int) -> None:
        before = self.servers.get(number)
        options = {**SETTINGS, "barnabas.metadata.path": self._folder / "metadata.sqlite"}
        self.servers[number] = ServeProcess(
            self._folder / str(number),
            "--id",
            str(number),
            *(f"--set={key}={value}" for key, value in options.items()),
            port=before and before.port,
        )
        self.servers[number].wait_until_ready(60)

    def kill(self, number: int) -> None:
        self.servers[number].kill()


def produce(cluster: Cluster, name: str, rng: random.Random, stop: threading.Event, told: list) -> None:
    """One transaction after the other;
    a producer that has an error is followed by another one of its name.
    """
    number = 0
    while not stop.is_set():
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "transactional.id": name,
                "transaction.timeout.ms": TIMEOUT_MS,
                "log_level": 0,
            }
        )
        value, asked = None, ABORTED
        try:
            producer.init_transactions(CALL_S)
            while not stop.is_set():
                value, asked = f"{name} {number}", ABORTED
                number += 1
                producer.begin_transaction()
                for partition in range(len(BROKERS)):
                    producer.produce(TOPIC, value, partition=partition)
                if rng.random() < 0.3:
                    producer.flush(CALL_S)
                if rng.random() < 0.7:
                    asked = UNKNOWN
                    producer.commit_transaction(CALL_S)
                    told.append((value, COMMITTED))
                else:
                    producer.abort_transaction(CALL_S)
                    told.append((value, ABORTED))
                value = None
        except KafkaException as error:
            print(f"{name}: {error.args[0].name()} where it may be {asked}", flush=True)  # noqa: T201
            # Never asked to commit: it can only be aborted. Asked, and no answer: it may be either.
            if value is not None:
                told.append((value, asked))


def committed(
    bootstrap: str, name: str = TOPIC, partitions: int = len(BROKERS), seconds: float = 60
) -> list[list[str]]:
    """The values in each partition of a topic, up to the end of the log."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "judge",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    found = []
    for partition in range(partitions):
        end = consumer.get_watermark_offsets(TopicPartition(name, partition), CALL_S)[1]
        deadline = time.monotonic() + seconds
        values: list[str] = []
        position = 0
        while position < end:
            assert time.monotonic() < deadline, f"partition {partition} stays open at {position} of {end}"
            consumer.assign([TopicPartition(name, partition, OFFSET_BEGINNING)])
            values = []
            while (message := consumer.poll(CALL_S)) is not None:
                if message.error():
                    position = message.offset()
                    break
                values.append(message.value().decode())
            if position < end:
                time.sleep(0.5)
        found.append(values)
    consumer.close()
    return found


def judge(told: list[tuple[str, str]], found: list[list[str]]) -> list[str]:
    """What is wrong, in words."""
    wrong = []
    outcomes = dict(told)
    seen = [Counter(values) for values in found]
    for value, outcome in told:
        counts = [each[value] for each in seen]
        if outcome == COMMITTED and counts != [1] * len(found):
            wrong.append(f"{value} is committed, and is there {counts} times")
        if outcome == ABORTED and any(counts):
            wrong.append(f"{value} is aborted, and is there {counts} times")
        if outcome == UNKNOWN and counts not in ([0] * len(found), [1] * len(found)):
            wrong.append(f"{value} is torn: {counts}")
    for partition, values in enumerate(found):
        wrong += [f"{value} was never told of" for value in values if value not in outcomes]
        for name in {value.split()[0] for value in values}:
            numbers = [int(value.split()[1]) for value in values if value.split()[0] == name]
            if numbers != sorted(numbers):
                wrong.append(f"{name} is out of order in partition {partition}")
    return wrong


def run(folder: Path, seconds: float, seed: int) -> int:
    rng = random.Random(seed)
    cluster = Cluster(folder)
    with Admin(cluster.servers[1].bootstrap) as admin:
        assignment = {place: [*BROKERS[place:], *BROKERS[:place]] for place in range(len(BROKERS))}
        topic = NewTopic(TOPIC, assignment=assignment, configs={"min.insync.replicas": "2"})
        admin.topics.create(topic)
    stop, told = threading.Event(), []
    threads = [
        threading.Thread(target=produce, args=(cluster, f"p{place}", random.Random(seed + place), stop, told))
        for place in range(3)
    ]
    for thread in threads:
        thread.start()
    kills = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(rng.uniform(2, 5))
        number = rng.choice(BROKERS)
        cluster.kill(number)
        kills += 1
        time.sleep(rng.uniform(0, 3))
        cluster.start(number)
        print(f"killed {number}: {Counter(outcome for _, outcome in told)}", flush=True)  # noqa: T201
    stop.set()
    for thread in threads:
        thread.join(4 * CALL_S)
    found = committed(cluster.bootstrap)
    wrong = judge(told, found)
    print(  # noqa: T201
        f"seed {seed}: {kills} kills, {Counter(outcome for _, outcome in told)}, "
        f"{[len(values) for values in found]} read, {len(wrong)} wrong"
    )
    for line in wrong[:20]:
        print(line)  # noqa: T201
    for server in cluster.servers.values():
        server.stop()
    return bool(wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    sys.exit(run(asked.folder or Path(tempfile.mkdtemp()), asked.seconds, asked.seed))
