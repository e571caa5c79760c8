"""A cluster of three brokers, each Apache Kafka 3.9's or ours, on ZooKeeper or on our embedded store.

A broker keeps its number, its port and its log directory for as long as the cluster lives, whichever of the
two runs it: `replace` is a stop of the one and a start of the other. What the JVM brokers warn about is kept
as shapes, without numbers and names, so that two clusters can be compared.
"""

import contextlib
import json
import re
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import kafka_harness
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka_tools import KafkaTools
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from serving import ServeProcess, free_port
from waiting import until

JVM, OURS = "jvm", "ours"
LIMIT_S = 120
SESSION_MS = 6000
"""The shortest that a ZooKeeper server grants with its defaults."""
SETTINGS = {
    "zookeeper.session.timeout.ms": SESSION_MS,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 200,
    "group.min.session.timeout.ms": 1000,
    # The default waits for five minutes before it gives leaderships back; here `elect_preferred` does it.
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.retry.backoff.ms": 500,
}
JVM_SETTINGS = {"log.cleaner.dedupe.buffer.size": 4_000_000, "num.io.threads": 4}
JVM_STOPPED = 143
"""A JVM's exit code on SIGTERM."""
_WARNING = re.compile(r"^\[[^\n]*?\] (WARN|ERROR|FATAL) (\S+) - (.*)$", re.MULTILINE)
_NAMES = (
    (re.compile(r"(\(type(?:: |=)\w+Request\b).*"), r"\1 ...)"),
    (re.compile(r"\b[\w.]+-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b"), "MEMBER"),
    (re.compile(r"0x[0-9a-f]+"), "HEX"),
    # TLS has Java look up the name of an address.
    (re.compile(r"\(localhost/"), "(/"),
    (re.compile(r"/\S*/data\b\S*"), "PATH"),
    (
        re.compile(r"\b(once|often|java|storm|source|copy|__consumer_offsets|__transaction_state)(-\d+)?\b"),
        "TOPIC",
    ),
    (re.compile(r"[A-Za-z0-9_-]{22}(?=[,)\]])"), "UUID"),
    (re.compile(r"-?\d+"), "#"),
    (re.compile(r"((?:TOPIC|#)(?:, ?(?:TOPIC|#))+)"), "LIST"),
)


def shapes_of_warnings(log: str) -> Iterator[str]:
    """What a JVM broker logged at WARN and above, without what differs from run to run."""
    for level, logger, message in _WARNING.findall(log):
        for pattern, word in _NAMES:
            message = pattern.sub(word, message)
        yield f"{level} {logger} {message}"


class ThreeBrokers:
    """The brokers 1, 2 and 3: which kind each is, and what can be done to them."""

    def __init__(self, folder: Path, kinds, connect: str | None, settings=None, store=None) -> None:
        """`connect` is ZooKeeper's address with a path, `store` its server where this cluster may stop it;
        None is the embedded store, for brokers of ours.
        """
        self.folder = folder
        self.connect = connect
        self.store = store
        self.kinds = dict(enumerate(kinds, start=1))
        self.ports = {number: free_port() for number in self.kinds}
        self.running = {}
        self.settings = SETTINGS | (settings or {})
        self.began = time.monotonic()
        self._zookeeper = None
        self._tools = None

    def tell(self, line: str) -> None:
        print(f"{time.monotonic() - self.began:6.1f} s  {line}", flush=True)  # noqa: T201 - the transcript

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def settings_of(self, number: int) -> dict[str, object]:
        """What a broker is configured with, beside its number, its port and its directory."""
        return self.settings

    def name(self, number: int) -> str:
        return f"broker {number} ({self.kinds[number]})"

    # -------------------------------------------------------------------------------- coming and going

    def start(self, number: int) -> None:
        """Starts a broker on its log directory; returns when it takes connections."""
        folder = self.folder / f"broker-{number}"
        folder.mkdir(exist_ok=True)
        if self.kinds[number] == JVM:
            server = kafka_harness.start_broker(
                folder,
                self.connect,
                number,
                self.settings_of(number) | JVM_SETTINGS,
                port=self.ports[number],
            )
            self.running[number] = server
            server.wait_until_listening(LIMIT_S)
        else:
            values = {"broker.id": number} | self.settings_of(number)
            if self.connect is None:
                values["barnabas.metadata.path"] = self.folder / "metadata.sqlite"
            else:
                values["zookeeper.connect"] = self.connect
            path = kafka_harness.write_properties(folder / "ours.properties", values)
            options = ("--config", path, "--log-level", "info")
            if "listeners" in values:
                # A port of the command line is a listener in plaintext.
                options += ("--set", f"listeners={values['listeners']}")
            server = ServeProcess(folder / "data", *options, port=self.ports[number])
            self.running[number] = server
            server.wait_until_ready(LIMIT_S)

    def start_all(self, first: int = 1) -> None:
        """Starts all brokers; the first one becomes the controller."""
        for number in sorted(self.kinds, key=lambda each: (each != first, each)):
            self.start(number)
        kinds = ", ".join(map(self.name, self.kinds))
        self.tell(f"started {kinds}; the controller is {self.controller()}")

    def stop(self, number: int) -> None:
        """SIGTERM: the broker hands its leaderships over."""
        server = self.running.pop(number)
        if self.kinds[number] == JVM:
            code = server.stop(LIMIT_S)
            assert code == JVM_STOPPED, f"{self.name(number)} ended with {code}: {server.tail()[-600:]}"
        else:
            code = server.stop()
            assert code == 0, f"{self.name(number)} ended with {code}: {server.tail()[-600:]}"

    def kill(self, number: int) -> None:
        """kill -9."""
        self.running.pop(number).kill()

    @contextlib.contextmanager
    def frozen(self, number: int):
        """SIGSTOP and, at the end, SIGCONT."""
        process = self.running[number].process
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def is_without(self, number: int) -> bool:
        """Whether every other broker says that this one is gone and leads nothing."""
        for each in set(self.running) - {number}:
            found = self._metadata(each)
            leaders = {p.leader for topic in found.topics.values() for p in topic.partitions.values()}
            if number in leaders or number in found.brokers:
                return False
        return True

    def elect_while_frozen(self, number: int, topic: str, partitions: int, seconds: float) -> None:
        """A broker stands still while it is elected: others say that it leads, and it does not yet."""
        other = next(each for each in self.running if each != number)
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.ports[other]}"})
        places = [TopicPartition(topic, p) for p in range(partitions)]
        with self.frozen(number):
            asked = admin.elect_leaders(ElectionType.PREFERRED, places)
            time.sleep(seconds)
        asked.result(LIMIT_S)

    def freeze_store(self, seconds: float) -> None:
        """ZooKeeper's server stands still for so long."""
        self.store.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            self.store.process.send_signal(signal.SIGCONT)

    def replace(self, number: int, kind: str) -> None:
        """A clean stop, and the other kind of broker starts with the same number on the same log
        directory.
        """
        self.stop(number)
        self.kinds[number] = kind
        self.start(number)

    def close(self) -> None:
        """Kills what still runs."""
        if self._zookeeper is not None:
            self._zookeeper.stop()
            self._zookeeper.close()
        if self._tools is not None:
            self._tools.__exit__()
        for number in list(self.running):
            self.kill(number)

    # ------------------------------------------------------------------------------------- who governs

    @property
    def zookeeper(self) -> KazooClient:
        if self._zookeeper is None:
            self._zookeeper = KazooClient(self.connect)
            self._zookeeper.start(20)
        return self._zookeeper

    def controller(self) -> int | None:
        """The number of the controller: what /controller says, or all brokers' metadata without ZooKeeper."""
        if self.connect is not None:
            try:
                return json.loads(self.zookeeper.get("/controller")[0])["brokerid"]
            except NoNodeError:
                return None
        with contextlib.suppress(KafkaException):
            return self._metadata(next(iter(self.running))).controller_id
        return None

    def put_in_office(self, number: int) -> None:
        """Deletes /controller while the other brokers stand still, so that this one is elected."""
        if self.controller() == number:
            return
        others = [server.process for each, server in self.running.items() if each != number]
        for process in others:
            process.send_signal(signal.SIGSTOP)
        try:
            with contextlib.suppress(NoNodeError):
                self.zookeeper.delete("/controller")
            until(
                lambda: self.controller() == number, f"{self.name(number)} is elected", SESSION_MS / 1000 / 2
            )
        finally:
            for process in others:
                process.send_signal(signal.SIGCONT)
        # A tool that asks the controller of yesterday gets NOT_CONTROLLER and ends, with Kafka's brokers too.
        until(
            lambda: {self._metadata(each).controller_id for each in self.running} == {number},
            f"every broker knows {self.name(number)} as the controller",
        )
        self.tell(f"/controller deleted: the office went to {self.name(number)}")

    # ---------------------------------------------------------------------------------------- partitions

    def _metadata(self, number: int):
        return AdminClient({"bootstrap.servers": f"127.0.0.1:{self.ports[number]}"}).list_topics(timeout=20)

    def partitions(self, number: int):
        """(topic, partition): its metadata, as this broker says."""
        topics = self._metadata(number).topics.values()
        return {(each.topic, p): found for each in topics for p, found in each.partitions.items()}

    def behind(self) -> list[str]:
        """The partitions that a running broker says to lack a leader or a replica in the ISR."""
        found = []
        for number in self.running:
            try:
                partitions = self.partitions(number)
            except KafkaException as error:
                found.append(f"broker {number} says {error}")
                continue
            found += [
                f"{topic}-{p} leader {each.leader} isr {each.isrs} of {each.replicas} says broker {number}"
                for (topic, p), each in partitions.items()
                if each.leader < 0 or set(each.isrs) != set(each.replicas)
            ]
        return found

    def until_in_sync(self) -> None:
        """Waits until every running broker says that every partition has a leader and its whole ISR."""
        seen = []

        def look():
            seen[:] = self.behind()
            return not seen

        until(look, lambda: f"all in sync; {len(seen)} are not: {seen[:4]}", LIMIT_S)

    # -------------------------------------------------------------------------------- what scripts do

    def tool(self, name: str, *arguments: str) -> str:
        """Runs one of Kafka's scripts to its end; its output. Fails when it does not end with 0."""
        if self._tools is None:
            self._tools = KafkaTools()
        done = self._tools(name, "--bootstrap-server", self.bootstrap, *arguments)
        assert done.code == 0, f"{name} {' '.join(arguments)}: {done.out[-800:]} {done.err[-800:]}"
        return done.out

    def create(self, topic: str, partitions: int, replicas: int = 3) -> None:
        shape = ("--partitions", str(partitions), "--replication-factor", str(replicas))
        self.tool("kafka-topics", "--create", "--topic", topic, *shape)

    def elect_preferred(self) -> None:
        """``kafka-leader-election``: every leadership goes to the first replica."""
        self.tool("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")
        seen = {}

        def look():
            found = {
                place: (each.leader, each.replicas[0])
                for number in self.running
                for place, each in self.partitions(number).items()
                if each.leader != each.replicas[0]
            }
            seen.clear()
            seen.update(found)
            return not found

        until(look, lambda: f"preferred replicas lead; not {seen}", LIMIT_S)

    def reassign(self, wanted: dict[tuple[str, int], list[int]], *options: str) -> None:
        """``kafka-reassign-partitions``: --execute, then --verify until it is complete."""
        rows = [{"topic": t, "partition": p, "replicas": replicas} for (t, p), replicas in wanted.items()]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as plan:
            json.dump({"version": 1, "partitions": rows}, plan)
            plan.flush()
            given = ("--reassignment-json-file", plan.name)
            self.tool("kafka-reassign-partitions", "--execute", *given, *options)
            seen = []

            def look():
                seen[:] = [self.tool("kafka-reassign-partitions", "--verify", *given)]
                return seen[0].count("is completed.") == len(wanted)

            until(look, lambda: f"the reassignment is complete: {seen}", LIMIT_S)

    # ------------------------------------------------------------------------------- what is left behind

    def warnings(self) -> Counter:
        """What the JVM brokers logged at WARN and above, as shapes, with how often."""
        shapes = Counter()
        for log in self.folder.glob("broker-*/kafka-*.log"):
            shapes.update(shapes_of_warnings(log.read_text(errors="replace")))
        return shapes

    def our_warnings(self) -> Counter:
        """What brokers of ours logged as WARNING or ERROR, by event; a traceback counts as one."""
        events = Counter()
        for log in self.folder.glob("broker-*/data.log"):
            text = log.read_text(errors="replace")
            events.update(
                f"{level} {event}"
                for level, _, event in re.findall(r"^\S+ \S+ (WARNING|ERROR) (\S+) (\S+)", text, re.MULTILINE)
            )
            events["Traceback"] += text.count("Traceback (most recent call last)")
        return +events

    def unequal_logs(self) -> list[str]:
        """Partitions whose copies differ; for brokers that have stopped."""
        copies = {}
        for number in self.kinds:
            for folder in (self.folder / f"broker-{number}" / "data").iterdir():
                if folder.is_dir() and not folder.name.endswith("-delete"):
                    records = b"".join(each.read_bytes() for each in sorted(folder.glob("*.log")))
                    copies.setdefault(folder.name, {})[number] = records
        return [
            (
                f"{name}: the copies differ, their bytes are "
                f"{ {number: len(records) for number, records in found.items()} }"
            )
            for name, found in copies.items()
            if len(set(found.values())) > 1
        ]
