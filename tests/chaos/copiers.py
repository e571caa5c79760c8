"""Four clients copy a topic in transactions while brokers are killed.

    python tests/chaos/copiers.py --records 1000000 --seed 1 [--clients java,barnabas,confluent,aiokafka]

Each client copies a partition of its own, with the flags of Kafka's ``TransactionalMessageCopier``. Brokers
are killed with -9 one after the other until all copiers are at their end; a copier that ends early, as one
whose producer is fenced or times out does, is followed by the next of its id. A reader of committed records
(librdkafka) must then find each partition of the copy equal to the original: nothing lost, nothing twice, in
order.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Producer

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "jvm"))

from transactions import BROKERS, CALL_S, Cluster, committed

from barnabas.admin import Admin, NewTopic
from serving import die_with_parent

SOURCE, COPY = "source", "copy"
CLIENTS = ("java", "barnabas", "confluent", "aiokafka")
PROCESS = Path(__file__).with_name("copier_process.py")
TRANSACTION_SIZE, TIMEOUT_MS = 500, 20_000
SECONDS_MAX = 1800


def command(client: str) -> list[str]:
    if client == "java":
        from kafka_harness import ZOOKEEPER_ERA, java_command

        return java_command(ZOOKEEPER_ERA, "org.apache.kafka.tools.TransactionalMessageCopier", [])
    if client == "barnabas":
        return [sys.executable, "-m", "barnabas", "transactional-message-copier"]
    return [sys.executable, str(PROCESS), client]


class Copier:
    """One client and its partition: processes of it one after the other, until one comes to its end."""

    def __init__(self, client: str, partition: int, bootstrap: str, log: Path) -> None:
        self.client = client
        self.starts = 0
        self.done = False
        self._log = log
        self._command = [
            *command(client),
            *("--broker-list", bootstrap, "--input-topic", SOURCE, "--output-topic", COPY),
            *("--input-partition", str(partition), "--consumer-group", f"copiers-{client}"),
            *("--transactional-id", f"copier-{client}", "--transaction-size", str(TRANSACTION_SIZE)),
            *("--transaction-timeout", str(TIMEOUT_MS)),
        ]
        self._process: subprocess.Popen | None = None

    def look(self) -> None:
        """Starts the next process where the last one has ended early."""
        if self.done or (self._process is not None and self._process.poll() is None):
            return
        self.done = self._process is not None and self._process.returncode == 0
        if not self.done:
            self.starts += 1
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command,
                    stdout=log,
                    stderr=log,
                    preexec_fn=die_with_parent,  # noqa: PLW1509 - it takes no lock
                )

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __str__(self) -> str:
        return f"{self.client} in {self.starts}"


def fill(bootstrap: str, partitions: int, records: int) -> None:
    """Writes the same number of records into each partition of the source."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True})
    for number in range(records // partitions):
        for partition in range(partitions):
            while True:
                try:
                    producer.produce(SOURCE, f"{partition}-{number}".ljust(100), partition=partition)
                    break
                except BufferError:
                    producer.poll(0.1)
    if producer.flush(4 * CALL_S):
        raise SystemExit("the source could not be written")


def run(folder: Path, records: int, seed: int, clients: list[str]) -> int:
    """0 when the copy is the original; what is wrong is printed."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    cluster = Cluster(folder)
    with Admin(cluster.bootstrap) as admin:
        places = range(len(clients))
        assignment = {place: [BROKERS[(place + step) % 3] for step in range(3)] for place in places}
        configs = {"min.insync.replicas": "2"}
        for name in (SOURCE, COPY):
            admin.topics.create(NewTopic(name, assignment=assignment, configs=configs))
    fill(cluster.bootstrap, len(clients), records)
    copiers = [
        Copier(client, place, cluster.bootstrap, folder / f"{client}.log")
        for place, client in enumerate(clients)
    ]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            for copier in copiers:
                copier.look()

    watching = threading.Thread(target=watch)
    begun = time.monotonic()
    watching.start()
    kills = 0
    while not all(copier.done for copier in copiers) and time.monotonic() - begun < SECONDS_MAX:
        time.sleep(rng.uniform(2, 6))
        number = rng.choice(BROKERS)
        cluster.kill(number)
        kills += 1
        time.sleep(rng.uniform(0, 3))
        cluster.start(number)
        done = ", ".join(f"{copier}{' done' if copier.done else ''}" for copier in copiers)
        print(f"{time.monotonic() - begun:.0f} s, killed {number}; starts: {done}", flush=True)  # noqa: T201
    seconds = time.monotonic() - begun
    over.set()
    watching.join()
    for copier in copiers:
        copier.end()
    wrong = [f"{copier} starts did not come to its end" for copier in copiers if not copier.done]
    wanted = records // len(clients)
    for place, values in enumerate(committed(cluster, COPY, len(clients))):
        numbers = [int(value.split("-")[1]) for value in values]
        if numbers != list(range(wanted)):
            lost = len(set(range(wanted)).difference(numbers))
            twice = len(numbers) - len(set(numbers))
            wrong.append(f"{clients[place]}: {len(numbers)} of {wanted}, {lost} lost, {twice} twice")
    starts = ", ".join(map(str, copiers))
    print(  # noqa: T201
        f"seed {seed}: {records} records in {seconds:.0f} s, {kills} kills, "
        f"starts: {starts}, {len(wrong)} wrong"
    )
    for line in wrong:
        print(line)  # noqa: T201
    for server in cluster.servers.values():
        server.stop()
    return bool(wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", default=",".join(CLIENTS))
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    where = asked.folder or Path(tempfile.mkdtemp(prefix="barnabas-copiers-"))
    sys.exit(run(where, asked.records, asked.seed, asked.clients.split(",")))
