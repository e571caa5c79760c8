"""What brokers of ours log while Kafka Streams works and they are killed: warnings and errors, by event.

    python tests/jvm/streams_noise.py --rounds 12 --seed 1 [--store embedded or zookeeper]
                                      [--brokers ours,ours,ours] [--keep FOLDER]

Three brokers with three replicas of everything. An application of Kafka Streams counts words: it makes a
repartition topic and a changelog, commits twice a second, and goes on through every round. In a round one
broker is killed with -9 or stopped; when the application has moved on, it is started again. In the end no
word is missing in the counts, and each kind of line is shown with how often it came and with its first
example. An ERROR that an operator can do nothing about is a fault.
"""

import argparse
import contextlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "chaos"))

import kafka_harness
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kill_load import QUICK
from three_brokers import LIMIT_S, OURS, ThreeBrokers

from serving import die_with_parent
from waiting import until

PARTITIONS = 6
WORDS = [f"word-{number}" for number in range(50)]
RATE = 200
ENOUGH = 50
APPLICATION = {
    "application.id": "streams-noise",
    "replication.factor": 3,
    "num.stream.threads": 2,
    "commit.interval.ms": 500,
    "statestore.cache.max.bytes": 0,
    "metadata.max.age.ms": 2000,
    "producer.delivery.timeout.ms": 300_000,
    "producer.max.block.ms": 300_000,
    "consumer.session.timeout.ms": 10_000,
}
_LINE = re.compile(r"^\S+ \S+ (WARNING|ERROR) \S+ (\S+).*$", re.MULTILINE)


class Words:
    """An idempotent producer of words, and how many of each were acknowledged."""

    def __init__(self, bootstrap, rng):
        self.counts = Counter()
        self.refused = []
        self._rng = rng
        self._stop = threading.Event()
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 300_000}
        self._producer = Producer(settings | QUICK)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(1 / RATE):
            self._producer.produce("words", self._rng.choice(WORDS), on_delivery=self._delivered)
            self._producer.poll(0)

    def _delivered(self, error, record):
        if error is None:
            self.counts[record.value().decode()] += 1
        else:
            self.refused.append(str(error))

    def end(self):
        self._stop.set()
        self._thread.join()
        self._producer.flush(LIMIT_S)


class Counts:
    """What the application has written: the last count of each word."""

    def __init__(self, bootstrap):
        self.last = {}
        self.seen = 0
        settings = {"bootstrap.servers": bootstrap, "group.id": "nobody", "enable.auto.commit": False}
        self._consumer = Consumer(settings | QUICK)
        self._consumer.assign([TopicPartition("counts", p, OFFSET_BEGINNING) for p in range(PARTITIONS)])

    def read(self):
        for record in self._consumer.consume(1000, timeout=0.2):
            if record.error() is None:
                self.last[record.key().decode()] = int(record.value())
                self.seen += 1
        return self.seen

    def close(self):
        self._consumer.close()


class Noise:
    """The cluster, the application, and what came of the rounds."""

    def __init__(self, folder, seed, kinds, connect):
        self._rng = random.Random(seed)
        self._folder = folder
        self.cluster = ThreeBrokers(folder, kinds, connect, {"default.replication.factor": 3})
        self.problems = []

    def run(self, rounds):
        cluster = self.cluster
        with contextlib.ExitStack() as closing:
            closing.callback(cluster.close)
            cluster.start_all()
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
            for each in admin.create_topics(
                [NewTopic(t, PARTITIONS, 3) for t in ("words", "counts")]
            ).values():
                each.result(LIMIT_S)
            words = Words(cluster.bootstrap, self._rng)
            application = self._application()
            closing.callback(application.kill)
            counts = Counts(cluster.bootstrap)
            closing.callback(counts.close)
            for number in range(rounds):
                self._until_moving(counts, application)
                self._round(number, counts, application)
            words.end()
            # At least once: a word may be counted twice when the application begins again.
            until(
                lambda: counts.read() and all(counts.last.get(w, 0) >= n for w, n in words.counts.items()),
                lambda: f"all words are counted: {words.counts - Counter(counts.last)} are missing",
                LIMIT_S,
            )
            self.problems += words.refused
            cluster.tell(f"{words.counts.total()} words, {counts.seen} counts")
        return self

    def _application(self):
        settings = APPLICATION | {
            "bootstrap.servers": self.cluster.bootstrap,
            "state.dir": self._folder / "state",
        }
        path = kafka_harness.write_properties(self._folder / "streams.properties", settings)
        source = Path(__file__).with_name("StreamsCounts.java")
        with (self._folder / "streams.log").open("wb") as output:
            return subprocess.Popen(
                [*kafka_harness.streams_command(source), path],
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it only asks the kernel for a signal
            )

    def _round(self, number, counts, application):
        cluster = self.cluster
        cluster.until_in_sync()
        chosen = self._rng.choice(list(cluster.running))
        how = self._rng.choice([cluster.kill, cluster.kill, cluster.stop])
        cluster.tell(f"round {number}: {how.__name__} {cluster.name(chosen)}")
        how(chosen)
        self._until_moving(counts, application)
        cluster.start(chosen)

    def _until_moving(self, counts, application):
        before = counts.read()
        until(lambda: counts.read() > before + ENOUGH, "the application goes on", LIMIT_S)
        assert application.poll() is None, "the application ended"

    def lines(self):
        """(level, event): how often it came at all brokers of ours, and the first line."""
        found, firsts = Counter(), {}
        for log in sorted(self._folder.glob("broker-*/data.log")):
            for line in _LINE.finditer(log.read_text(errors="replace")):
                kind = line.group(1, 2)
                found[kind] += 1
                firsts.setdefault(kind, line.group()[:300])
        return found, firsts


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=["embedded", "zookeeper"], default="embedded")
    parser.add_argument("--brokers", default=",".join([OURS] * 3))
    parser.add_argument("--keep", type=Path, help="a folder that stays")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        folder = given.keep or temporary
        folder.mkdir(parents=True, exist_ok=True)
        connect = None
        if given.store == "zookeeper":
            zookeeper = kafka_harness.start_zookeeper(temporary)
            stack.callback(zookeeper.kill)
            kafka_harness.wait_until_serving(zookeeper)
            connect = f"127.0.0.1:{zookeeper.port}/streams-noise"
        began = time.monotonic()
        noise = Noise(folder, given.seed, given.brokers.split(","), connect).run(given.rounds)
        found, firsts = noise.lines()
        for kind, count in sorted(found.items()):
            noise.cluster.tell(f"{count:6} {' '.join(kind)}\n           {firsts[kind]}")
        noise.cluster.tell(
            f"{given.rounds} rounds in {time.monotonic() - began:.0f} s, {found.total()} lines"
        )
        noise.cluster.tell(f"problems: {noise.problems}")
        return bool(noise.problems)


if __name__ == "__main__":
    sys.exit(main())
