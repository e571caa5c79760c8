"""All brokers killed at once, while a follower stands still and each producer has five batches on their way.

    python tests/chaos/all_killed.py --rounds 100 --seed 1 [--store embedded or zookeeper] [--producers
                                     librdkafka,java,own] [--brokers ours,ours,ours] [--keep FOLDER]

A cluster of three brokers, with three replicas of everything. Idempotent producers send all the time, with
acks=all and up to five requests in flight. In a round one broker gets SIGSTOP, so that nothing is
acknowledged any more; as soon as no producer has heard anything for a while, the logs of the others hold what
is on its way. Then all are killed with -9 and started again, in an order that the seed chooses, and the same
producers have to go on. In the end each producer's records are there: none that was acknowledged is lost,
none is there twice, all are in order, and no producer has given up. `jvm` in the place of `ours` has a
genuine Apache Kafka as that broker (with ZooKeeper only).
"""

import argparse
import contextlib
import itertools
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "jvm"))

import kafka_harness
import rounds_report
from confluent_kafka.admin import AdminClient, NewTopic
from java_stream import JavaStream
from kill_load import PARTITIONS, Reader, Stream
from three_brokers import OURS, ThreeBrokers

from barnabas.client import Producer
from waiting import until

LIMIT_S = 120
RATE = 200
"""Records a second of each producer in each partition, most of them a batch of their own."""
QUIET_S = 0.4
"""So long nobody has heard anything when all that can be on its way is on its way."""
SETTINGS = {
    "replica.lag.time.max.ms": 120_000,  # the follower that stands still stays in the ISR
    "min.insync.replicas": 1,
    "controlled.shutdown.enable": "false",
    "offsets.topic.num.partitions": 1,
}
EMBEDDED = {"zookeeper.session.timeout.ms": 10_000}


class Librdkafka(Stream):
    """librdkafka's idempotent producer, with five requests in flight."""

    def __init__(self, folder, bootstrap):
        super().__init__(bootstrap, "librdkafka", idempotent=True, in_flight=5, rate=RATE)

    def close(self):
        pass


class Own:
    """Our own producer; the same judgement as for librdkafka's."""

    topic = "own"

    def __init__(self, folder, bootstrap):
        self.acknowledged = [{} for _ in range(PARTITIONS)]
        self.problems = []
        self._stop = threading.Event()
        self._producer = Producer(bootstrap, linger_ms=1, batch_size=500, delivery_timeout_ms=300_000)
        self._room = threading.Semaphore(300)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def count(self):
        return sum(map(len, self.acknowledged))

    def _run(self):
        number = 0
        while not self._stop.is_set():
            for partition in range(PARTITIONS):
                while not self._room.acquire(timeout=0.1):
                    if self._stop.is_set():
                        return
                value = b"%d:%s" % (number, b"." * (number % 300))
                delivery = self._producer.send(self.topic, value, partition=partition)
                delivery.tell(
                    lambda error, record, partition=partition, number=number: self._done(
                        record, error, partition, number
                    )
                )
            number += 1
            self._stop.wait(1 / RATE)

    def _done(self, record, error, partition, number):
        self._room.release()
        if error is not None:
            self.problems.append(f"own-{partition}: {number} was refused: {error!r}")
        else:
            self.acknowledged[partition][number] = record.offset

    def end(self):
        self._stop.set()
        self._thread.join()
        self._producer.flush()

    def check(self, found):
        yield from self.problems
        for partition, records in enumerate(found):
            held, taken = dict(records), self.acknowledged[partition]
            lost = [number for number, offset in taken.items() if held.get(offset) != number]
            if lost:
                yield (
                    f"own-{partition}: {len(lost)} of {len(taken)} acknowledged records are lost, "
                    f"{lost[0]} the first"
                )

    def close(self):
        with contextlib.suppress(Exception):
            self._producer.close()


class Java(JavaStream):
    """Java's, with batches as small as the others'."""

    def __init__(self, folder, bootstrap):
        super().__init__(folder, bootstrap, RATE * PARTITIONS, {"batch.size": 500})


PRODUCERS = {"librdkafka": Librdkafka, "own": Own, "java": Java}


def order(topic, found):
    """Records that are there twice or out of order."""
    for partition, records in enumerate(found):
        numbers = [number for _, number in records]
        twice = len(numbers) - len(set(numbers))
        falls = sum(after <= one for one, after in itertools.pairwise(numbers))
        if twice or falls:
            yield f"{topic}-{partition}: {twice} records are there twice, {falls} are out of order"


class AllKilled:
    """A cluster and its producers, through all rounds."""

    def __init__(self, folder, seed, producers, *, connect=None, kinds=(OURS,) * 3):
        self._rng = random.Random(seed)
        self._folder = folder
        settings = SETTINGS | (EMBEDDED if connect is None else {})
        self._cluster = ThreeBrokers(folder, kinds, connect, settings)
        self._names = producers
        self._producers = []
        self._unanswered = 0
        self.problems = []
        self.rounds = 0

    def run(self, rounds, on_round=lambda _: None):
        """So many rounds, then the judgement. Problems are in `problems`."""
        try:
            self._cluster.start_all()
            admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap, "log_level": 0})
            topics = [NewTopic(name, PARTITIONS, 3) for name in self._names]
            for each in admin.create_topics(topics).values():
                each.result(LIMIT_S)
            self._producers = [PRODUCERS[name](self._folder, self._cluster.bootstrap) for name in self._names]
            for number in range(rounds):
                self._round()
                self.rounds += 1
                on_round(number)
            self._judge()
        except AssertionError as error:
            self.problems.append(f"round {self.rounds}: {str(error)[:1500]}")
        finally:
            for each in self._producers:
                each.close()
            self._cluster.close()
        return self

    @property
    def acknowledged(self):
        return {each.topic: each.count for each in self._producers}

    def _round(self):
        self._until_moving()
        cluster, rng = self._cluster, self._rng
        cluster.until_in_sync()  # else the one that stands still may be one that nobody waits for
        time.sleep(rng.uniform(0, 0.3))
        frozen = rng.choice(list(cluster.running))
        os.kill(cluster.running[frozen].process.pid, signal.SIGSTOP)
        self._until_quiet()
        for server in cluster.running.values():
            os.kill(server.process.pid, signal.SIGKILL)
        for number in list(cluster.running):
            cluster.kill(number)
        self._until_sessions_are_over()
        order_of_start = rng.sample(list(cluster.kinds), len(cluster.kinds))
        for number in order_of_start:
            cluster.start(number)

    def _until_moving(self):
        """Every producer has got answers since, several for each partition."""
        before = [each.count for each in self._producers]
        until(
            lambda: all(each.count > count + 50 for each, count in zip(self._producers, before, strict=True)),
            lambda: f"producers go on: {before} before, {self.acknowledged} now",
            LIMIT_S,
        )

    def _until_quiet(self):
        """Nobody has got an answer for a while:
        what is on its way waits for the follower that stands still.
        """
        seen, since = self.acknowledged, time.monotonic()
        deadline = since + LIMIT_S
        while time.monotonic() < since + QUIET_S:
            assert time.monotonic() < deadline, "answers come although a follower stands still"
            time.sleep(0.02)
            if (now := self.acknowledged) != seen:
                seen, since = now, time.monotonic()

    def _until_sessions_are_over(self):
        """ZooKeeper keeps the brokers' nodes until their sessions end, and a broker does not start beside its
        own.
        """
        if self._cluster.connect is not None:
            zookeeper = self._cluster.zookeeper
            until(lambda: not zookeeper.get_children("/brokers/ids"), "the sessions end", LIMIT_S)

    def _judge(self):
        self._until_moving()
        for each in self._producers:
            each.end()
        reader = Reader(self._cluster.bootstrap)
        for each in self._producers:
            found = reader.read(each.topic)
            self.problems += each.check(found)
            self.problems += order(each.topic, found)
        reader.close()


def run_rounds(
    seed, rounds, producers=("librdkafka", "own"), *, connect=None, kinds=(OURS,) * 3, folder=None, **options
):
    """The rounds on a new cluster; what came of them."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        place = Path(folder or temporary)
        place.mkdir(parents=True, exist_ok=True)
        return AllKilled(place, seed, producers, connect=connect, kinds=kinds).run(rounds, **options)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=["embedded", "zookeeper"], default="embedded")
    parser.add_argument("--producers", default="librdkafka,java,own")
    parser.add_argument("--brokers", default="ours,ours,ours")
    parser.add_argument("--keep", help="a folder that stays")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        connect = None
        if given.store == "zookeeper":
            zookeeper = kafka_harness.start_zookeeper(Path(temporary, "zookeeper"))
            stack.callback(zookeeper.kill)
            kafka_harness.wait_until_serving(zookeeper)
            connect = f"127.0.0.1:{zookeeper.port}/all-killed"
        began = time.monotonic()
        done = run_rounds(
            given.seed,
            given.rounds,
            given.producers.split(","),
            connect=connect,
            kinds=given.brokers.split(","),
            folder=given.keep or Path(temporary, "brokers"),
            on_round=lambda number: rounds_report.say(f"{time.monotonic() - began:7.1f} s  round {number}"),
        )
        rounds_report.say(
            f"{done.rounds} rounds, acknowledged about {done.acknowledged}, {len(done.problems)} problems"
        )
        rounds_report.say("\n".join(done.problems))
    return bool(done.problems)


if __name__ == "__main__":
    sys.exit(main())
