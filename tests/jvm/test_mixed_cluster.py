"""One cluster of a genuine Kafka 3.9 broker (1, once 3 too) and ours (2) on one ZooKeeper, either's
controller in office.

Each test is a story: every step does something to the cluster and says, as a line of the transcript (`-s`
shows it), what both brokers, ZooKeeper and the disk then agree on. Both brokers are always asked.
"""

import contextlib
import json
import re
import signal
import time
from pathlib import Path

import kafka_harness
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, TopicPartition
from kazoo.client import KazooClient

from waiting import eventually

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

JVM, OURS, SECOND_JVM = 1, 2, 3
NOBODY = -1
RECORDS = 20
LAG_MS = 3000
SESSION_MS = 6000  # the shortest that ZooKeeper grants


class MixedCluster:
    """The two brokers, and what can be asked of them."""

    def __init__(self, folder: Path, connect: str, serve) -> None:
        self.connect = connect
        self.folders = {JVM: folder / "jvm", OURS: folder / "ours", SECOND_JVM: folder / "jvm-3"}
        self._serve = serve
        self._started_at = time.monotonic()
        self._written: dict[tuple[str, int], list[bytes]] = {}
        self.jvms = {}
        self.ours = None
        self.bootstraps: dict[int, str] = {}

    def tell(self, line: str) -> None:
        print(f"{time.monotonic() - self._started_at:5.1f} s  {line}")  # noqa: T201 - the transcript

    # -------------------------------------------------------------------------------- coming and going

    def start_jvm(self, number: int = JVM) -> None:
        settings = {"replica.lag.time.max.ms": LAG_MS}
        jvm = kafka_harness.start_broker(self.folders[number], self.connect, number, settings)
        self.jvms[number] = jvm
        self.bootstraps[number] = jvm.wait_until_listening().bootstrap

    def start_ours(self) -> None:
        settings = {
            "broker.id": OURS,
            "zookeeper.connect": self.connect,
            "zookeeper.session.timeout.ms": SESSION_MS,
            "replica.lag.time.max.ms": LAG_MS,
        }
        path = self.folders[OURS].with_suffix(".properties")
        options = ("--config", kafka_harness.write_properties(path, settings), "--log-level", "info")
        self.ours = self._serve(self.folders[OURS], *options)
        self.bootstraps[OURS] = self.ours.wait_until_ready().bootstrap

    def stop_jvm(self) -> None:
        del self.bootstraps[JVM]
        assert self.jvms[JVM].stop() == 143  # a JVM's exit code on SIGTERM
        self.tell("broker 1 (JVM) stopped by SIGTERM")

    def stop_ours(self) -> None:
        del self.bootstraps[OURS]
        assert self.ours.stop() == 0, self.ours.tail()
        assert "not_handed_over" not in self.ours.tail()
        self.tell("broker 2 (ours) handed over its leaderships and stopped with exit code 0")

    @contextlib.contextmanager
    def frozen(self, number: int):
        """A broker that does not run for a while, and is not asked."""
        process = self.ours.process if number == OURS else self.jvms[number].process
        bootstrap = self.bootstraps.pop(number)
        process.send_signal(signal.SIGSTOP)
        self.tell(f"broker {number} froze (SIGSTOP)")
        yield
        process.send_signal(signal.SIGCONT)
        self.bootstraps[number] = bootstrap
        self.tell(f"broker {number} goes on (SIGCONT)")

    def end(self) -> None:
        for server in (*self.jvms.values(), self.ours):
            if server is not None and server.process.poll() is None:
                server.kill()

    # --------------------------------------------------------------------------------- what is agreed on

    def znode(self, path: str):
        """The object in a znode, and its stat, as ZooKeeper has them."""
        client = KazooClient(self.connect)
        client.start(10)
        try:
            data, stat = client.get(path)
        finally:
            client.stop()
            client.close()
        return json.loads(data), stat

    def agree(self, *, brokers, controller) -> None:
        """Both brokers know these brokers, and ZooKeeper this controller."""
        for bootstrap in self.bootstraps.values():
            eventually(lambda at=bootstrap: sorted(_metadata(at).brokers), sorted(brokers))
            eventually(lambda at=bootstrap: _metadata(at).controller_id, controller)
        assert self.znode("/controller")[0]["brokerid"] == controller
        self.tell(
            f"brokers {sorted(brokers)}, controller {controller}: so say {self._witnesses()} and /controller"
        )

    def agree_on_leaders(self, topic: str, *leaders: tuple[int, set[int]]) -> None:
        """Both brokers name this leader and this ISR for each partition."""
        for bootstrap in self.bootstraps.values():
            eventually(lambda at=bootstrap: _leaders(at, topic), list(leaders))
        listed = ", ".join(
            f"{topic}-{p} leader {at} isr {sorted(isr)}" for p, (at, isr) in enumerate(leaders)
        )
        self.tell(f"{listed}: so say {self._witnesses()}")

    def _witnesses(self) -> str:
        return " and ".join(f"broker {number}" for number in sorted(self.bootstraps))

    # ---------------------------------------------------------------------------------- topics, records

    def create(self, topic: str, assignment: str, *, by: int) -> None:
        self._topics(by, "--create", "--topic", topic, "--replica-assignment", assignment)
        self.tell(f"kafka-topics at broker {by} created {topic} with replicas {assignment}")

    def delete(self, topic: str, *, by: int) -> None:
        self._topics(by, "--delete", "--topic", topic)
        for bootstrap in self.bootstraps.values():
            eventually(lambda at=bootstrap: topic in _metadata(at).topics, False)
        for folder in (self.folders[JVM] / "data", self.folders[OURS]):
            eventually(lambda at=folder: [name for name in _partitions(at) if name.startswith(topic)], [])
        self.tell(f"kafka-topics at broker {by} deleted {topic}: gone from both brokers and both disks")

    def _topics(self, by: int, *arguments: str) -> None:
        done = kafka_harness.run_tool("kafka-topics", "--bootstrap-server", self.bootstraps[by], *arguments)
        assert done.returncode == 0, done.stdout + done.stderr

    def write(self, topic: str, partitions: int = 1, *, by: int) -> None:
        """Records that all replicas in the ISR must have, by a client that knows one broker."""
        producer = Producer({"bootstrap.servers": self.bootstraps[by], "acks": "all"})
        failures = []
        for partition in range(partitions):
            values = self._written.setdefault((topic, partition), [])
            for _ in range(RECORDS):
                values.append(b"record %d by way of broker %d" % (len(values), by))
                producer.produce(
                    topic,
                    values[-1],
                    partition=partition,
                    on_delivery=lambda error, _: failures.append(error) if error else None,
                )
        assert (producer.flush(20), failures) == (0, [])
        self.tell(f"{RECORDS} records to each partition of {topic}, bootstrap broker {by}: all acknowledged")

    def read(self, topic: str, partitions: int = 1, *, by: int) -> None:
        """Everything that was ever written, and in its order."""
        for partition in range(partitions):
            assert _records(self.bootstraps[by], topic, partition) == self._written[topic, partition]
        count = sum(len(self._written[topic, partition]) for partition in range(partitions))
        self.tell(f"{topic} read, bootstrap broker {by}: the {count} records written so far, in order")


def _metadata(bootstrap: str):
    return AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=15)


def _leaders(bootstrap: str, topic: str) -> list[tuple[int, set[int]]]:
    found = _metadata(bootstrap).topics.get(topic)
    partitions = sorted(found.partitions.items()) if found else []
    return [(partition.leader, set(partition.isrs)) for _, partition in partitions]


def _partitions(folder: Path) -> list[str]:
    """The partitions that a log directory holds, without those that wait to be removed."""
    return [path.name for path in folder.iterdir() if path.is_dir() and not path.name.endswith("-delete")]


def _records(bootstrap: str, topic: str, partition: int) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, consumer_timeout_ms=10_000)
    with contextlib.closing(consumer):
        tp = TopicPartition(topic, partition)
        consumer.assign([tp])
        consumer.seek_to_beginning(tp)
        end = consumer.end_offsets([tp])[tp]
        return [record.value for _, record in zip(range(end), consumer, strict=False)]


@pytest.fixture
def cluster(request, zookeeper, server_folder, serve):
    """A cluster below a path of ZooKeeper that is not there yet."""
    name = request.node.name
    (server_folder / name).mkdir()
    made = MixedCluster(server_folder / name, f"{zookeeper}/{name}", serve)
    yield made
    made.end()


def test_ours_joins_a_cluster_that_the_jvm_runs(cluster):
    cluster.start_jvm()
    cluster.start_ours()
    cluster.agree(brokers={JVM, OURS}, controller=JVM)

    registered = {broker: cluster.znode(f"/brokers/ids/{broker}") for broker in (JVM, OURS)}
    payload, stat = registered[OURS]
    assert payload.keys() == registered[JVM][0].keys()
    assert payload["endpoints"] == [f"PLAINTEXT://{cluster.bootstraps[OURS]}"]
    assert f"broker_registered broker={OURS} epoch={stat.czxid}" in cluster.ours.tail()
    cluster.tell(f"/brokers/ids/2 has the fields of /brokers/ids/1; broker epoch = czxid = {stat.czxid}")

    cluster.create("ours", "2", by=JVM)
    cluster.create("spread", "1,2", by=OURS)
    cluster.create("pair", "2:1", by=JVM)
    cluster.agree_on_leaders("ours", (OURS, {OURS}))
    cluster.agree_on_leaders("spread", (JVM, {JVM}), (OURS, {OURS}))
    cluster.agree_on_leaders("pair", (OURS, {OURS, JVM}))
    for writer, reader in ((JVM, OURS), (OURS, JVM)):
        cluster.write("ours", by=writer)
        cluster.write("spread", 2, by=writer)
        cluster.write("pair", by=writer)
        cluster.read("ours", by=reader)
        cluster.read("spread", 2, by=reader)
        cluster.read("pair", by=reader)

    cluster.stop_ours()
    cluster.agree(brokers={JVM}, controller=JVM)
    cluster.agree_on_leaders("ours", (NOBODY, {OURS}))
    cluster.agree_on_leaders("pair", (JVM, {JVM}))
    cluster.write("pair", by=JVM)
    cluster.read("pair", by=JVM)

    cluster.start_ours()
    cluster.agree(brokers={JVM, OURS}, controller=JVM)
    cluster.agree_on_leaders("ours", (OURS, {OURS}))
    cluster.agree_on_leaders("spread", (JVM, {JVM}), (OURS, {OURS}))
    cluster.write("ours", by=JVM)
    cluster.read("ours", by=OURS)
    cluster.read("spread", 2, by=OURS)

    cluster.delete("spread", by=OURS)
    cluster.delete("ours", by=JVM)
    cluster.delete("pair", by=JVM)


def test_the_jvm_joins_a_cluster_that_ours_runs(cluster):
    cluster.start_ours()
    cluster.start_jvm()
    cluster.agree(brokers={JVM, OURS}, controller=OURS)

    cluster.create("spread", "1,2", by=OURS)
    cluster.create("pair", "2:1", by=JVM)
    cluster.agree_on_leaders("spread", (JVM, {JVM}), (OURS, {OURS}))
    cluster.agree_on_leaders("pair", (OURS, {OURS, JVM}))
    cluster.create("follow", "1:2", by=JVM)
    cluster.agree_on_leaders("follow", (JVM, {JVM, OURS}))
    for writer, reader in ((JVM, OURS), (OURS, JVM)):
        cluster.write("spread", 2, by=writer)
        cluster.write("pair", by=writer)
        cluster.write("follow", by=writer)
        cluster.read("spread", 2, by=reader)
        cluster.read("pair", by=reader)
        cluster.read("follow", by=reader)

    cluster.stop_jvm()
    assert f"shutting_down broker={JVM}" in cluster.ours.tail()
    cluster.tell("our controller was asked by ControlledShutdown")
    cluster.agree(brokers={OURS}, controller=OURS)
    cluster.agree_on_leaders("spread", (NOBODY, {JVM}), (OURS, {OURS}))
    cluster.agree_on_leaders("pair", (OURS, {OURS}))
    cluster.write("pair", by=OURS)
    cluster.agree_on_leaders("follow", (OURS, {OURS}))
    cluster.read("follow", by=OURS)
    cluster.write("follow", by=OURS)
    cluster.tell("our replica followed the JVM's leader, and took over from it whole")

    cluster.start_jvm()
    cluster.agree(brokers={JVM, OURS}, controller=OURS)
    cluster.agree_on_leaders("spread", (JVM, {JVM}), (OURS, {OURS}))
    cluster.agree_on_leaders("pair", (OURS, {OURS, JVM}))
    cluster.tell("the JVM's replica caught up with what was written without it: our leader let it in again")
    cluster.agree_on_leaders("follow", (OURS, {OURS, JVM}))

    cluster.stop_ours()
    cluster.agree(brokers={JVM}, controller=JVM)
    cluster.agree_on_leaders("pair", (JVM, {JVM}))
    cluster.read("pair", by=JVM)
    cluster.tell("the JVM took over as leader and as controller; its copies are whole")
    cluster.agree_on_leaders("follow", (JVM, {JVM}))
    cluster.write("follow", by=JVM)

    cluster.start_ours()
    cluster.agree(brokers={JVM, OURS}, controller=JVM)
    cluster.agree_on_leaders("follow", (JVM, {JVM, OURS}))
    cluster.write("follow", by=OURS)
    cluster.stop_jvm()
    cluster.agree_on_leaders("follow", (OURS, {OURS}))
    cluster.read("follow", by=OURS)
    cluster.tell("our replica caught up with the JVM's leader and took over a second time")
    cluster.start_jvm()
    cluster.agree(brokers={JVM, OURS}, controller=OURS)
    cluster.agree_on_leaders("spread", (JVM, {JVM}), (OURS, {OURS}))
    cluster.delete("spread", by=JVM)
    cluster.delete("pair", by=OURS)
    cluster.delete("follow", by=JVM)


def test_a_controller_that_froze_finds_its_session_and_its_office_gone(cluster):
    cluster.start_ours()
    cluster.start_jvm()
    cluster.create("ours", "2", by=JVM)
    cluster.create("pair", "2:1", by=OURS)
    cluster.agree(brokers={JVM, OURS}, controller=OURS)
    cluster.agree_on_leaders("pair", (OURS, {OURS, JVM}))
    cluster.write("pair", by=JVM)

    with cluster.frozen(OURS):
        cluster.agree(brokers={JVM}, controller=JVM)
        cluster.agree_on_leaders("pair", (JVM, {JVM}))
        cluster.write("pair", by=JVM)

    cluster.agree(brokers={JVM, OURS}, controller=JVM)
    cluster.agree_on_leaders("ours", (OURS, {OURS}))
    # The JVM leads until its controller gives the leadership back to the preferred replica, when that has
    # copied all.
    cluster.agree_on_leaders("pair", (OURS, {OURS, JVM}))
    events = re.findall(r"session_expired|resigned|broker_registered broker=2 epoch=\d+", cluster.ours.tail())
    epoch = cluster.znode("/brokers/ids/2")[1].czxid
    assert events[-3:] == ["session_expired", "resigned", f"broker_registered broker=2 epoch={epoch}"]
    cluster.tell(f"its log: session expired, resigned, registered again as epoch {epoch}, the czxid")
    cluster.write("ours", by=JVM)
    cluster.read("ours", by=OURS)
    cluster.read("pair", by=OURS)


def test_our_leader_has_its_isr_changed_by_the_jvm(cluster):
    cluster.start_jvm()
    cluster.start_ours()
    cluster.start_jvm(SECOND_JVM)
    cluster.agree(brokers={JVM, OURS, SECOND_JVM}, controller=JVM)
    cluster.create("pair", "2:3", by=JVM)
    cluster.agree_on_leaders("pair", (OURS, {OURS, SECOND_JVM}))

    with cluster.frozen(SECOND_JVM):
        # A follower that is at the end of an empty log lags behind nobody, however long it is silent.
        cluster.write("pair", by=JVM)
        assert "isr_shrinks partition=pair-0 behind=[3]" in cluster.ours.tail()
        cluster.tell("acknowledged once our leader had the frozen follower taken out of the ISR")
        cluster.agree_on_leaders("pair", (OURS, {OURS}))
    cluster.agree_on_leaders("pair", (OURS, {OURS, SECOND_JVM}))
    cluster.agree(brokers={JVM, OURS, SECOND_JVM}, controller=JVM)
    cluster.stop_ours()
    cluster.agree_on_leaders("pair", (SECOND_JVM, {SECOND_JVM}))
    cluster.read("pair", by=JVM)
