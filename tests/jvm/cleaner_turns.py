"""Ours and a genuine Kafka 3.9 broker in turn on one directory, each killed while it cleans.

    python tests/jvm/cleaner_turns.py --turns 40 --seed 1

Both are the same broker to ZooKeeper. The load never pauses: keys of a compacted topic are overwritten and
deleted. In the end the last acknowledged value of each key is there and no deleted key, no partition is set
aside by either cleaner, and `kafka-dump-log --deep-iteration` finds nothing wrong in any segment.
"""

import argparse
import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "chaos"))

import kafka_harness
import rounds_report
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kill_load import PARTITIONS, KeyedStream, Reader
from moments import NAMES, Moments

from serving import ServeProcess, free_port

TOPIC = "latest"
LIMIT_S = 60
SETTINGS = {
    "zookeeper.session.timeout.ms": 4000,
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": 20,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "log.initial.task.delay.ms": 100,
    "log.segment.delete.delay.ms": 50,
    "log.index.size.max.bytes": 1024,
    "offsets.topic.num.partitions": 1,
}
TOPIC_CONFIG = {"cleanup.policy": "compact", "segment.bytes": "8192", "delete.retention.ms": "200"}
SUFFIXES = (".cleaned", ".swap", ".deleted", ".log", "cleaner-offset-checkpoint.tmp")
COMPLAINT = re.compile(r"uncleanable|orrupt|Found invalid|UnknownServerError|Traceback")


class Turns:
    """One directory, and whose turn it is."""

    def __init__(self, folder, zookeeper, seed):
        self.problems = []
        self.kills = Counter()
        self._rng = random.Random(seed)
        self._folder = folder
        self._data = folder / "data"
        self._data.mkdir()
        self._zookeeper = zookeeper
        self._port = free_port()
        self._bootstrap = f"127.0.0.1:{self._port}"

    def _start(self, *, genuine):
        self._wait_until_gone()
        if genuine:
            server = kafka_harness.start_broker(
                self._folder, self._zookeeper, 1, settings=SETTINGS, port=self._port
            )
            server.wait_until_listening(LIMIT_S)
        else:
            settings = {"zookeeper.connect": self._zookeeper, **SETTINGS}
            options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
            server = ServeProcess(self._data, "--id", "1", *options, port=self._port)
            server.wait_until_ready(LIMIT_S)
        return server

    def _wait_until_gone(self):
        client = KazooClient(self._zookeeper.partition("/")[0])
        client.start(LIMIT_S)
        deadline = time.monotonic() + LIMIT_S
        while client.exists(f"/{self._zookeeper.partition('/')[2]}/brokers/ids/1"):
            assert time.monotonic() < deadline, "the session of the broker before does not end"
            time.sleep(0.05)
        client.stop()
        client.close()

    def run(self, turns, say=lambda _: None):
        server = self._start(genuine=True)
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        for each in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=TOPIC_CONFIG)]).values():
            each.result(LIMIT_S)
        stream = KeyedStream(self._bootstrap, TOPIC, rate=600)
        try:
            for turn in range(turns):
                genuine = turn % 2 == 0
                count = stream.count
                deadline = time.monotonic() + LIMIT_S
                while stream.count < count + 200:
                    assert time.monotonic() < deadline, f"turn {turn} takes no records"
                    time.sleep(0.02)
                suffix = self._rng.choice(SUFFIXES)
                with Moments(self._data, events=NAMES) as moments:
                    moments.wait(self._rng.randint(1, 12), server.process, 3, suffix)
                server.kill()
                self.kills[f"{'genuine' if genuine else 'ours'} at {suffix}"] += 1
                if said := COMPLAINT.search(server.log.read_text(errors="replace")):
                    self.problems.append(f"turn {turn}: {said[0]!r} in {server.log}")
                say(f"turn {turn}: {stream.count} acknowledged, {len(self.problems)} problems")
                server = self._start(genuine=not genuine)
            self._judge(stream)
        finally:
            server.stop()
        return stream

    def _judge(self, stream):
        stream.end()
        reader = Reader(self._bootstrap)
        self.problems += stream.check(reader.read(TOPIC))
        reader.close()

    def dumped(self):
        """What Kafka's tool has against the segments; how many there are."""
        files = sorted(str(path) for path in self._data.glob(f"{TOPIC}-*/*.log"))
        done = kafka_harness.run_tool(
            "kafka-dump-log", "--deep-iteration", "--files", ",".join(files), seconds=120
        )
        text = done.stdout + done.stderr
        if done.returncode or re.search(r"rror|xception|isvalid: false|Non-consecutive|invalid", text):
            self.problems.append(f"kafka-dump-log: {text[-800:]}")
        return len(files)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "zookeeper").mkdir()
        zookeeper = kafka_harness.start_zookeeper(folder / "zookeeper")
        try:
            kafka_harness.wait_until_serving(zookeeper)
            turns = Turns(folder, f"{zookeeper.bootstrap}/turns", given.seed)
            stream = turns.run(given.turns, rounds_report.say)
            segments = turns.dumped()
        finally:
            zookeeper.stop()
        for problem in turns.problems:
            rounds_report.say(problem)
        rounds_report.say(
            f"{dict(turns.kills)}, {stream.count} acknowledged, {stream.compacted} compacted, {segments} "
            "segments dumped,"
            f" {len(turns.problems)} problems"
        )
    sys.exit(bool(turns.problems))


if __name__ == "__main__":
    main()
