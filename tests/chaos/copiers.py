"""Five clients copy a topic in transactions while brokers are killed.

    python tests/chaos/copiers.py --records 1000000 --seed 1 [--clients java,java4,barnabas,confluent]

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
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "jvm"))

from barnabas.admin import Admin, NewTopic
from serving import die_with_parent
from transactions import BROKERS, CALL_S, Cluster, committed

SOURCE, COPY = "source", "copy"
CLIENTS = ("java", "java4", "barnabas", "confluent", "aiokafka")
"""Those of Java are of 3.9, and of 4.x, whose transactions are of version 2."""
PROCESS = Path(__file__).with_name("copier_process.py")
TRANSACTION_SIZE, TIMEOUT_MS = 500, 20_000
SECONDS_MAX = 1800
VALUE_BYTES = 100


def command(client: str) -> list[str]:
    if client in {"java", "java4"}:
        from kafka_harness import NEWEST_TOOLS, TOOL_OPTIONS, ZOOKEEPER_ERA, tool_command

        version = ZOOKEEPER_ERA if client == "java" else NEWEST_TOOLS
        return tool_command("kafka-transactional-message-copier", version=version, options=TOOL_OPTIONS)
    if client == "barnabas":
        return [sys.executable, "-m", "barnabas", "transactional-message-copier"]
    return [sys.executable, str(PROCESS), client]


class Copier:
    """One client and its partition: processes of it one after the other."""

    def __init__(self, client: str, partition: int, bootstrap: str, log: Path) -> None:
        self.client = client
        self.starts = 0
        self.done = False
        """Whether one that began when the source was complete has come to its end."""
        self._log = log
        self._command = [
            *command(client),
            *("--broker-list", bootstrap, "--input-topic", SOURCE, "--output-topic", COPY),
            *("--input-partition", str(partition), "--consumer-group", f"copiers-{client}"),
            *("--transactional-id", f"copier-{client}", "--transaction-size", str(TRANSACTION_SIZE)),
            *("--transaction-timeout", str(TIMEOUT_MS)),
        ]
        self._process: subprocess.Popen | None = None
        self._is_last = False

    def look(self, *, source_is_complete: bool) -> None:
        """Starts the next process where the last one has ended, until all is copied."""
        process = self._process
        if self.done or (process is not None and process.poll() is None):
            return
        if process is not None and process.returncode == 0 and self._is_last:
            self.done = True
            return
        self.starts += 1
        self._is_last = source_is_complete
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
        return f"{self.client} {self.starts}{' done' if self.done else ''}"


class Copying:
    """The topics, what writes into the source, and the copiers."""

    def __init__(self, bootstrap: str, folder: Path, clients: Sequence[str]) -> None:
        self._bootstrap = bootstrap
        self._written = [0] * len(clients)
        places = range(len(clients))
        with Admin(bootstrap) as admin:
            assignment = {place: [BROKERS[(place + step) % 3] for step in range(3)] for place in places}
            configs = {"min.insync.replicas": "2"}
            for name in (SOURCE, COPY):
                admin.topics.create(NewTopic(name, assignment=assignment, configs=configs))
        self.copiers = [
            Copier(client, place, bootstrap, folder / f"copier-{client}.log")
            for place, client in enumerate(clients)
        ]
        self._source = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True, "log_level": 0}
        )
        self._complete = False
        self._over = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)

    def write(self, records: int) -> None:
        """As many more records into each partition of the source."""
        for _ in range(records):
            for place, number in enumerate(self._written):
                value = f"{place}-{number}".ljust(VALUE_BYTES)
                while True:
                    try:
                        self._source.produce(SOURCE, value, partition=place)
                        break
                    except BufferError:
                        self._source.poll(0.1)
                self._written[place] += 1
        if self._source.flush(4 * CALL_S):
            raise SystemExit("the source could not be written")

    def start(self) -> None:
        self._watching.start()

    def complete(self) -> None:
        """Nothing more is written: copiers that begin from now on come to the end of all."""
        self._complete = True

    @property
    def done(self) -> bool:
        return all(copier.done for copier in self.copiers)

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            for copier in self.copiers:
                copier.look(source_is_complete=self._complete)

    def end(self) -> list[str]:
        """Ends the copiers; what is wrong with the copy, in words."""
        self._over.set()
        self._watching.join()
        for copier in self.copiers:
            copier.end()
        wrong = [f"{copier.client} did not come to its end" for copier in self.copiers if not copier.done]
        for place, values in enumerate(committed(self._bootstrap, COPY, len(self.copiers))):
            numbers = [int(value.split("-")[1]) for value in values]
            wanted = range(self._written[place])
            if numbers != list(wanted):
                lost, twice = len(set(wanted).difference(numbers)), len(numbers) - len(set(numbers))
                wrong.append(f"{self.copiers[place]}: {len(numbers)} of {wanted}, {lost} lost, {twice} twice")
        return wrong

    def __str__(self) -> str:
        return f"starts: {', '.join(map(str, self.copiers))}"


def run(folder: Path, records: int, seed: int, clients: Sequence[str]) -> int:
    """0 when the copy is the original; what is wrong is printed."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    cluster = Cluster(folder)
    copying = Copying(cluster.bootstrap, folder, clients)
    copying.write(records // len(clients))
    copying.complete()
    begun = time.monotonic()
    copying.start()
    kills = 0
    while not copying.done and time.monotonic() - begun < SECONDS_MAX:
        time.sleep(rng.uniform(2, 6))
        number = rng.choice(BROKERS)
        cluster.kill(number)
        kills += 1
        time.sleep(rng.uniform(0, 3))
        cluster.start(number)
        print(f"{time.monotonic() - begun:.0f} s, killed {number}; {copying}", flush=True)  # noqa: T201
    seconds = time.monotonic() - begun
    wrong = copying.end()
    told = f"{records} records in {seconds:.0f} s, {kills} kills, {copying}, {len(wrong)} wrong"
    print("\n".join([f"seed {seed}: {told}", *wrong]))  # noqa: T201
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
