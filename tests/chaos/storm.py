"""A rebalance storm: members of every library come, go, stand still and are killed, and so is their broker.

    python tests/chaos/storm.py --seconds 60 --seed 1 [--keep FOLDER]

Three groups read one topic while a producer writes: one of kafka-python, aiokafka and librdkafka together
(range), one of librdkafka with cooperative-sticky, one with the consumer protocol (KIP-848). In the end
everybody runs, and each group has to come to the end of the topic with nothing left out; see `history`.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "jvm"))

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from history import GroupHistory

from serving import ServeProcess, die_with_parent

TOPIC = "storm"
PARTITIONS = 6
SECONDS = 30
SETTINGS = {
    "group.min.session.timeout.ms": 1000,
    "group.initial.rebalance.delay.ms": 200,
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 3000,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 500,
}
JAVA = {"java-3.9": "3.9.2", "java-4.3": "4.3.1", "java-4.3-consumer": "4.3.1"}
GROUPS = {
    "mixed": ("kafka-python", "aiokafka", "confluent-range", "barnabas"),
    "cooperative": ("confluent-cooperative",),
    "consumer": ("confluent-consumer",),
}


class Load:
    """Produces to the topic `storm` until it is ended; knows what was acknowledged."""

    topic = TOPIC

    def __init__(self, bootstrap, rate):
        self.acknowledged = {}
        self._pause_s = 1 / rate
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 5,
                "enable.idempotence": True,
                "max.in.flight.requests.per.connection": 1,
                "reconnect.backoff.max.ms": 500,
                "message.timeout.ms": 120_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        number = 0
        while not self._stop.wait(self._pause_s):
            try:
                self._producer.produce(
                    TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered
                )
            except KafkaException as error:
                # A broker that has just started may not know its topics yet: as with Kafka's, try again.
                if error.args[0].code() != KafkaError._UNKNOWN_TOPIC:
                    raise
                continue
            finally:
                self._producer.poll(0)
            number += 1

    def _delivered(self, error, record):
        if error is None:
            self.acknowledged[record.partition(), record.offset()] = int(record.value())

    def end(self):
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0, "the producer has records that nobody takes"


class Place:
    """A place in a group: one process after the other takes it."""

    def __init__(self, group, library, folder, bootstrap, instance=None):
        self.group = group
        self.library = library
        self.instance = instance
        self.paused = False
        self.process = None
        self._folder = folder
        self._bootstrap = bootstrap
        self._lives = 0

    @property
    def alive(self):
        return self.process is not None and self.process.poll() is None

    def start(self):
        if self.alive:
            return
        self._lives += 1
        self.paused = False
        name = f"{self.instance or self.library}-{id(self) & 0xFFFFFF:x}-{self._lives}"
        path = self._folder / f"{name}.jsonl"
        with path.open("ab") as output:
            self.process = subprocess.Popen(
                self._java(self.library) if self.library in JAVA else self._python(path),
                stdout=output if self.library in JAVA else subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it only asks the kernel for a signal
            )

    def _python(self, path):
        script = str(Path(__file__).with_name("member_process.py"))
        where = [self.library, self._bootstrap, TOPIC, self.group, str(path)]
        return [sys.executable, script, *where, *([self.instance] if self.instance else [])]

    def _java(self, library):
        import kafka_harness

        command = kafka_harness.verifiable_consumer(JAVA[library])
        options = {
            "--bootstrap-server": self._bootstrap,
            "--topic": TOPIC,
            "--group-id": self.group,
            "--reset-policy": "earliest",
        }
        if self.instance:
            options["--group-instance-id"] = self.instance
        if library.endswith("-consumer"):
            options["--group-protocol"] = "consumer"
        else:
            options["--session-timeout"] = "6000"  # above the heartbeat interval, which is not an option
            options["--assignment-strategy"] = "org.apache.kafka.clients.consumer.RangeAssignor"
        return [*command, *(word for option in options.items() for word in option)]

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self):
        """SIGTERM; a process that does not end then is killed."""
        if not self.alive:
            return
        self.resume()
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.kill()

    def pause(self):
        if self.alive and not self.paused:
            self.paused = True
            os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self):
        if self.alive and self.paused:
            self.paused = False
            os.kill(self.process.pid, signal.SIGCONT)


class Storm:
    """The broker, the load, the places, and what befalls them."""

    def __init__(self, folder, seed, *, groups=GROUPS, places=3, rate=300):
        self.groups = groups
        self.rng = random.Random(seed)
        self.folder = folder
        self.struck = []
        self.broker = self._serve()
        self.bootstrap = f"127.0.0.1:{self.broker.port}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(SECONDS)
        self.load = Load(self.bootstrap, rate)
        self.places = [
            self._place(group, libraries[number % len(libraries)], static=number == places - 1)
            for group, libraries in groups.items()
            for number in range(places)
        ]

    def _place(self, group, library, *, static):
        folder = self.folder / group
        folder.mkdir(exist_ok=True)
        # Cooperative members had better not be static; see tests/model/group_model/plan.py.
        instance = f"{group}-static" if static and group != "cooperative" else None
        return Place(group, library, folder, self.bootstrap, instance)

    def _serve(self, port=None):
        options = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
        server = ServeProcess(self.folder / "data", *options, port=port)
        server.wait_until_ready()
        return server

    # --- what befalls them --------------------------------------------------------------------------------

    def blow(self, seconds, *, broker_kills):
        """Lets it storm."""
        for place in self.places:
            place.start()  # of JVMs on a busy machine this takes as long as a storm
        begin = time.monotonic()
        kills = [seconds * (number + 1) / (broker_kills + 1) for number in range(broker_kills)]
        while (passed := time.monotonic() - begin) < seconds:
            if kills and passed >= kills[0]:
                kills.pop(0)
                self.strike("broker")
            else:
                self.strike(self.rng.choice(["kill", "pause", "stop", "start", "start", "resume"]))
            time.sleep(self.rng.expovariate(2))

    def strike(self, kind):
        self.struck.append(kind)
        place = self.rng.choice(self.places)
        if kind == "broker":
            self.broker.kill()
            time.sleep(self.rng.uniform(0, 2))
            self.broker = self._serve(self.broker.port)
        elif kind == "stop":
            threading.Thread(target=place.stop, daemon=True).start()
        else:
            getattr(place, kind)()
        for each in self.places:
            if not each.alive and self.rng.random() < 0.3:
                each.start()

    # --- the end ------------------------------------------------------------------------------------------

    def settle(self, seconds):
        """Ends the storm and waits until every group is where the topic ends; what did not come there."""
        self.load.end()
        ends = {}
        for partition, offset in self.load.acknowledged:
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        deadline = time.monotonic() + seconds
        behind = dict.fromkeys(self.groups)
        while behind and time.monotonic() < deadline:
            for place in self.places:
                place.resume()
                place.start()
            time.sleep(0.5)
            behind = {group: left for group in self.groups if (left := self._behind(group, ends))}
        return behind

    def _behind(self, group, ends):
        committed = self.committed(group)
        return {
            partition: (committed.get(partition, -1), end)
            for partition, end in ends.items()
            if committed.get(partition, -1) < end
        }

    def committed(self, group):
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(TOPIC, p) for p in range(PARTITIONS)])
        found = admin.list_consumer_group_offsets([wanted])[group].result(SECONDS).topic_partitions
        return {each.partition: each.offset for each in found}

    def problems(self, behind):
        """What is wrong, group by group."""
        found = [f"{group} is behind: {left}" for group, left in behind.items()]
        for group in self.groups:
            history = GroupHistory(self.folder / group)
            found += [f"{group}: {problem}" for problem in history.problems(self.load.acknowledged)]
        return found

    def close(self):
        """Ends everything that was started."""
        for place in self.places:
            place.resume()
            place.kill()
        self.broker.stop()


def run(folder, seed, seconds, *, broker_kills, places=3, settle_seconds=90, groups=GROUPS):
    """One storm: its problems, and words about it."""
    storm = Storm(folder, seed, groups=groups, places=places)
    try:
        storm.blow(seconds, broker_kills=broker_kills)
        began = time.monotonic()
        behind = storm.settle(settle_seconds)
        settled_s = time.monotonic() - began
        problems = storm.problems(behind)
    finally:
        storm.close()
    total = (
        f"seed {seed}: {len(storm.load.acknowledged)} records, {len(storm.struck)} strikes, "
        f"{storm.struck.count('broker')} of them at the broker; settled in {settled_s:.1f} s"
    )
    words = [total] + [f"  {group}: {GroupHistory(folder / group).summary()}" for group in groups]
    return problems, "\n".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker-kills", type=int, default=3)
    parser.add_argument("--places", type=int, default=4, help="members in each group, at most")
    parser.add_argument("--keep", type=Path, help="leave histories and the broker's folder here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        problems, words = run(
            folder, given.seed, given.seconds, broker_kills=given.broker_kills, places=given.places
        )
    sys.stdout.write("\n".join([words, *problems[:30], ""]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
