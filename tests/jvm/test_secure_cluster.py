"""A mixed cluster in which nothing is in clear and nobody is anonymous: SASL_SSL between brokers and for
clients, access rules, a ZooKeeper with passwords, certificates and ACLs.

Users and rules are made by Kafka's tools on the one kind of broker and hold on the other, and the reverse.
Under load each broker is killed and is replaced by the other kind, ZooKeeper goes away, and every certificate
is another one in the end.
"""

import hashlib
import socket
import ssl
import threading

import kafka_harness
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_tools import ours as our_tool
from secure_zookeeper import SecureZookeeper, acls
from three_brokers import JVM, JVM_SETTINGS, OURS

from serving import ServeProcess, free_port
from tls_certificates import PASSWORD, Authority
from waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(540)]

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
BROKER = f'{SCRAM} required username="broker" password="inner-secret";'
LIMIT_S = 120


class SecureCluster:
    """Three brokers; which kind each is may change, their ids, ports and directories stay."""

    def __init__(self, folder, zookeeper, kinds) -> None:
        self.folder = folder
        self.zookeeper = zookeeper
        self.kinds = dict(enumerate(kinds, start=1))
        self.ports = {number: (free_port(), free_port()) for number in self.kinds}
        self.running = {}
        self.authority = Authority("brokers")
        self.trusted = folder / "trust.pem"
        self.authority.pem(self.trusted)
        self.authority.p12(folder / "trust.p12")
        for number in self.kinds:
            self.new_certificate(number)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port, _ in self.ports.values())

    def new_certificate(self, number) -> None:
        self.authority.sign("127.0.0.1", "localhost").p12(self.folder / f"broker-{number}.p12")

    def shown(self, number) -> str:
        """The certificate that a broker shows to clients, as a hash."""
        context = ssl.create_default_context(cafile=self.trusted)
        with (
            socket.create_connection(("127.0.0.1", self.ports[number][0]), 10) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as encrypted,
        ):
            return hashlib.sha256(encrypted.getpeercert(binary_form=True)).hexdigest()

    def settings(self, number):
        client, inner = self.ports[number]
        return {
            "broker.id": number,
            "zookeeper.connect": f"{self.zookeeper.address}/secure",
            **self.zookeeper.settings,
            "zookeeper.set.acl": "true",
            "zookeeper.session.timeout.ms": 6000,
            # The first connection, with TLS, of a JVM that has just begun on a busy machine.
            "zookeeper.connection.timeout.ms": 60_000,
            "listeners": f"INNER://127.0.0.1:{inner},CLIENTS://127.0.0.1:{client}",
            "listener.security.protocol.map": "INNER:SASL_SSL,CLIENTS:SASL_SSL",
            "inter.broker.listener.name": "INNER",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "listener.name.inner.scram-sha-512.sasl.jaas.config": BROKER,
            "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
            "ssl.keystore.location": self.folder / f"broker-{number}.p12",
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.location": self.folder / "trust.p12",
            "ssl.truststore.password": PASSWORD,
            # Of the listener itself, so that it can change while the broker runs.
            **{
                f"listener.name.{each}.ssl.keystore.{key}": value
                for each in ("clients", "inner")
                for key, value in (
                    ("location", self.folder / f"broker-{number}.p12"),
                    ("password", PASSWORD),
                )
            },
            "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:broker",
            "min.insync.replicas": 2,
            "offsets.topic.replication.factor": 3,
            "offsets.topic.num.partitions": 2,
            "group.initial.rebalance.delay.ms": 200,
            "auto.leader.rebalance.enable": "false",
        }

    def start(self, number, kind=None) -> None:
        kind = self.kinds[number] = kind or self.kinds[number]
        folder = self.folder / f"broker-{number}"
        settings = self.settings(number)
        if kind == JVM:
            server = kafka_harness.start_broker(
                folder,
                settings["zookeeper.connect"],
                number,
                settings | JVM_SETTINGS,
                port=self.ports[number][0],
                options=[*kafka_harness.JUDGE_OPTIONS, self.zookeeper.kafka_opts],
            )
            self.running[number] = server
            server.wait_until_listening(LIMIT_S)
        else:
            path = kafka_harness.write_properties(folder / "ours.properties", settings)
            # A port of the command line is a listener in plaintext.
            options = ("--config", path, "--set", f"listeners={settings['listeners']}")
            server = ServeProcess(folder / "data", *options, port=self.ports[number][0])
            self.running[number] = server
            server.wait_until_ready(LIMIT_S)

    def replace(self, number, kind) -> None:
        """A clean stop, and a broker of this kind on the same directory."""
        self.running.pop(number).stop()
        self.start(number, kind)

    def kill(self, number) -> None:
        self.running.pop(number).kill()

    def client(self, user, password, number=None):
        """Options of librdkafka."""
        return {
            "bootstrap.servers": self.bootstrap if number is None else f"127.0.0.1:{self.ports[number][0]}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.trusted),
            "log_level": 0,
        }

    def command_config(self) -> str:
        """Of the super user, for tools of both kinds."""
        return kafka_harness.write_properties(
            self.folder / "admin.properties",
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": BROKER,
                "ssl.truststore.location": self.folder / "trust.p12",
                "ssl.truststore.password": PASSWORD,
            },
        )

    def tool(self, run, name, number, *flags):
        """Runs a tool against one broker; its output."""
        given = ("--bootstrap-server", f"127.0.0.1:{self.ports[number][0]}")
        done = run(name, *given, "--command-config", self.command_config(), *flags)
        code, out, err = done if isinstance(done, tuple) else (done.returncode, done.stdout, done.stderr)
        assert code == 0, out + err
        return out

    def until_in_sync(self, topic) -> None:
        def whole():
            admin = AdminClient(self.client("broker", "inner-secret"))
            parts = admin.list_topics(topic, timeout=20).topics[topic].partitions.values()
            return all(part.leader > 0 and len(part.isrs) == 3 for part in parts)

        def look():
            try:
                return whole()
            except KafkaException:
                return False

        until(look, f"all replicas of {topic} are in sync", LIMIT_S)

    def close(self) -> None:
        for number in list(self.running):
            self.kill(number)


class Load:
    """Alice writes numbers and remembers which were acknowledged."""

    def __init__(self, options, topic) -> None:
        self.acknowledged = set()
        self.errors = []
        self._topic = topic
        more = {"enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": LIMIT_S * 1000}
        self._producer = Producer(options | more)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._ended.wait(0.01):
            value = b"%d" % number
            self._producer.produce(self._topic, value, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1
        self._producer.flush(LIMIT_S)

    def _delivered(self, error, message) -> None:
        if error is None:
            self.acknowledged.add(message.value())
        else:
            self.errors.append(error)

    def until_moving(self) -> None:
        before = len(self.acknowledged)
        until(lambda: len(self.acknowledged) > before + 20, "records are acknowledged again", LIMIT_S)

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


@pytest.fixture
def cluster(judge, tmp_path, monkeypatch):
    judge("Apache Kafka 3.9", lambda: kafka_harness.artifacts(kafka_harness.ZOOKEEPER_ERA))
    folder = tmp_path / "zookeeper"
    folder.mkdir()
    zookeeper = SecureZookeeper(folder)
    made = SecureCluster(tmp_path, zookeeper, (JVM, OURS, OURS))
    monkeypatch.setenv("KAFKA_OPTS", zookeeper.kafka_opts)
    tls = kafka_harness.write_properties(tmp_path / "zk.properties", zookeeper.settings)
    place = f"{zookeeper.address}/secure"
    # The user that brokers are has to be there before the first of them.
    user = ("--entity-type", "users", "--entity-name", "broker", "--zookeeper", place)
    password = "SCRAM-SHA-512=[iterations=4096,password=inner-secret]"
    first = our_tool("configs", "--alter", "--add-config", password, *user, "--zk-tls-config-file", tls)
    assert first.code == 0, first.err
    for number in made.kinds:
        made.start(number)
    yield made
    made.close()
    zookeeper.server.kill()


def add_user(cluster, run, tool, number, name, password) -> None:
    wanted = f"SCRAM-SHA-512=[iterations=4096,password={password}]"
    user = ("--entity-type", "users", "--entity-name", name)
    cluster.tool(run, tool, number, "--alter", "--add-config", wanted, *user)


def read_all(options, topic, group, wanted) -> set[bytes]:
    """What a group reads of a topic, until it has seen what is wanted."""
    consumer = Consumer(options | {"group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = set()

    def look():
        for record in consumer.consume(500, 0.5):
            if record.error() is None:
                found.add(record.value())
        return wanted <= found

    try:
        until(look, lambda: f"{len(wanted - found)} records are missing", LIMIT_S)
    finally:
        consumer.close()
    return found


def denied(options, topic) -> bool:
    """Whether a broker refuses to tell this user of a topic."""
    found = AdminClient(options).list_topics(topic, timeout=20).topics[topic].error
    return found is not None and found.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_users_rules_and_records_outlive_kills_replacements_and_a_change_of_all_certificates(
    cluster, monkeypatch
):
    controller = 1
    add_user(cluster, kafka_harness.run_tool, "kafka-configs", 1, "alice", "alice-secret")
    add_user(cluster, kafka_harness.run_tool, "kafka-configs", controller, "bob", "bob-secret")
    topic = "app-orders"
    admin = AdminClient(cluster.client("broker", "inner-secret", 2))
    admin.create_topics([NewTopic(topic, 3, 3)])[topic].result(60)

    # Rules of each kind's tools, made on the other kind of broker.
    prefix = ("--topic", "app-", "--resource-pattern-type", "prefixed")
    flags = ("--add", "--allow-principal", "User:alice", "--producer", *prefix)
    cluster.tool(our_tool, "acls", 1, *flags)
    for number in cluster.kinds:
        assert denied(cluster.client("bob", "bob-secret", number), topic), number
        until(lambda n=number: not denied(cluster.client("alice", "alice-secret", n), topic), "alice may", 20)
    load = Load(cluster.client("alice", "alice-secret"), topic)
    load.until_moving()
    readers = ("--group", "readers", "--topic", topic)
    flags = ("--add", "--allow-principal", "User:bob", "--consumer", *readers)
    cluster.tool(kafka_harness.run_tool, "kafka-acls", 2, *flags)
    for number in cluster.kinds:
        until(lambda n=number: not denied(cluster.client("bob", "bob-secret", n), topic), "bob may", 20)

    # New certificates while the brokers run, then a kill and a start with them.
    for number in cluster.kinds:
        before = cluster.shown(number)
        cluster.new_certificate(number)
        key = "listener.name.clients.ssl.keystore.location"
        setting = f"{key}={cluster.folder / f'broker-{number}.p12'}"
        flags = ("--alter", "--entity-type", "brokers", "--entity-name", str(number))
        cluster.tool(kafka_harness.run_tool, "kafka-configs", number, *flags, "--add-config", setting)
        until(lambda n=number, old=before: cluster.shown(n) != old, f"broker {number} shows another", 30)
        cluster.kill(number)
        load.until_moving()
        cluster.start(number)
        cluster.until_in_sync(topic)

    cluster.zookeeper.certificates()
    cluster.zookeeper.restart()
    load.until_moving()
    # Each kind in the place of the other, and back.
    for number, kind in ((1, OURS), (2, JVM), (1, JVM), (2, OURS)):
        cluster.replace(number, kind)
        cluster.until_in_sync(topic)
        load.until_moving()
    load.end()

    assert load.errors == []
    found = read_all(cluster.client("bob", "bob-secret"), topic, "readers", load.acknowledged)
    assert load.acknowledged <= found
    looking = cluster.zookeeper.client()
    looking.start(20)
    try:
        rights = acls(looking, "/secure")
    finally:
        looking.stop()
        looking.close()
    open_to_all = [path for path, each in rights.items() if (31, "world", "anyone") in each]
    assert open_to_all == ["/secure/consumers"]
    logs = [path.read_text(errors="replace") for path in cluster.folder.glob("broker-*/*.log")]
    assert not [log for log in logs if "-secret" in log or PASSWORD in log]
    assert not [log for log in logs if "Traceback" in log]
