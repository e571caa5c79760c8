"""A ZooKeeper that wants to know who connects: Kafka's brokers and ours leave the same ACLs, and serve what
the others made.
"""

import contextlib
import os
import signal
import subprocess

import kafka_harness
import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism
from confluent_kafka.admin import UserScramCredentialUpsertion as OfLibrdKafka
from kafka_tools import Run, ours
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from secure_zookeeper import SecureZookeeper, acls, differences, login_file
from test_same_znodes import BROKERS, SETTINGS, administer

from barnabas.admin import Admin
from barnabas.admin.quotas import UserScramCredentialUpsertion
from barnabas.admin.types import NewTopic
from barnabas.client import Consumer, Producer
from barnabas.core.acl import (
    AccessControlEntry,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourcePattern,
)
from serving import free_port
from waiting import until
from wrong_logins import login, secured, while_a_store_stalls

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

SECURED = {
    **SETTINGS,
    "zookeeper.set.acl": "true",
    "zookeeper.session.timeout.ms": 6000,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
SHORT_SESSION = {"zookeeper.session.timeout.ms": 3000}


@pytest.fixture(scope="module")
def secure_zookeeper(judge, tmp_path_factory):
    judge("Apache Kafka 3.9", lambda: kafka_harness.artifacts(kafka_harness.ZOOKEEPER_ERA))
    zookeeper = SecureZookeeper(tmp_path_factory.mktemp("secure-zookeeper"))
    yield zookeeper
    zookeeper.server.kill()


@pytest.fixture
def start(secure_zookeeper, serve, tmp_path, monkeypatch):
    """Starts a broker of either kind: `start("jvm", 0, chroot)`."""
    monkeypatch.setenv("KAFKA_OPTS", secure_zookeeper.kafka_opts)
    running = []

    def start(kind, broker, chroot, **settings):
        values = {**SECURED, **secure_zookeeper.settings, **settings}
        connect = f"{secure_zookeeper.address}/{chroot}"
        folder = tmp_path / f"{chroot}-{broker}"
        if kind == "jvm":
            options = [*kafka_harness.JUDGE_OPTIONS, secure_zookeeper.kafka_opts]
            server = kafka_harness.start_broker(folder, connect, broker, values, options=options)
            running.append(server)
            return server.wait_until_listening()
        values |= {"zookeeper.connect": connect}
        given = [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
        server = serve(folder, "--id", str(broker), *given)
        server.wait_until_ready()
        return server

    yield start
    for server in running:
        server.kill()


@pytest.fixture
def looking(secure_zookeeper):
    """A client of ZooKeeper's that is who the brokers are."""
    client = secure_zookeeper.client()
    client.start(10)
    yield client
    client.stop()
    client.close()


def work(bootstraps):
    """What leaves znodes of each kind, those with credentials too."""
    administer(bootstraps)
    with Admin(bootstraps[0]) as admin:
        for kind in (PatternType.LITERAL, PatternType.PREFIXED):
            pattern = ResourcePattern(Resource.TOPIC, "pair", kind)
            entry = AccessControlEntry("User:alice", "*", Operation.READ, Permission.ALLOW)
            admin.acls.create([AclBinding(pattern, entry)])
    password = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    wanted = [OfLibrdKafka("alice", password, b"alice-secret")]
    client = AdminClient({"bootstrap.servers": bootstraps[0]})
    for done in client.alter_user_scram_credentials(wanted).values():
        done.result(30)


def test_the_same_work_leaves_the_same_acls(start, looking):
    found = {}
    for kind in ("jvm", "ours"):
        servers = [start(kind, broker, f"acls-{kind}") for broker in BROKERS]
        work([server.bootstrap for server in servers])
        below = f"/acls-{kind}"
        until(lambda below=below: not looking.exists(f"{below}/brokers/topics/gone"))
        found[kind] = {path.removeprefix(below): acl for path, acl in acls(looking, below).items()}
        for server in servers:
            server.kill()

    assert differences(found["jvm"], found["ours"]) == {}
    # Brokers are two users at once, and nobody else reads what has credentials.
    mine = {(31, "sasl", "kafka"), (31, "x509", "CN=broker")}
    assert set(found["ours"]["/config/users/alice"]) == mine
    assert set(found["ours"]["/brokers/topics/pair"]) == {*mine, (1, "world", "anyone")}
    assert found["ours"]["/consumers"] == [(31, "world", "anyone")]


def test_each_serves_what_the_other_made_also_after_zookeeper_was_away(
    start, looking, secure_zookeeper, tmp_path
):
    servers = [start("jvm", 0, "mixed"), start("ours", 1, "mixed")]
    everyone = ",".join(server.bootstrap for server in servers)

    def make(topic, at):
        with Admin(servers[at].bootstrap) as admin:
            admin.topics.create(NewTopic(topic, assignment={0: [0, 1], 1: [1, 0]}))
        with Producer(everyone, acks="all") as producer:
            for partition in (0, 1):
                producer.send(topic, b"record", partition=partition).result()
        with Consumer(everyone, group_id=topic, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([topic])
            read = []
            until(lambda: read.extend(consumer.poll(timeout_ms=500)) or len(read) == 2)

    make("by-kafka", 0)
    make("by-ours", 1)
    before = looking.client_id
    # Another certificate for everybody, and a server that has forgotten its connections.
    secure_zookeeper.certificates()
    secure_zookeeper.restart()
    make("later", 1)

    assert looking.client_id[0] == before[0]
    found = acls(looking, "/mixed")
    topics = ("by-kafka", "by-ours", "later")
    assert len({tuple(found[f"/mixed/brokers/topics/{each}"]) for each in topics}) == 1
    assert found["/mixed/brokers/topics/later"] != [(31, "world", "anyone")]


def test_a_stranger_sees_no_credentials_and_changes_nothing(start, secure_zookeeper):
    start("ours", 1, "strange")
    stranger = KazooClient(f"127.0.0.1:{secure_zookeeper.server.port}/strange")
    stranger.start(10)
    try:
        assert stranger.get_children("/brokers/ids") == ["1"]
        with pytest.raises(NoAuthError):
            stranger.get_children("/config/users")
        with pytest.raises(NoAuthError):
            stranger.delete("/controller")
        with pytest.raises(NoAuthError):
            stranger.set("/brokers/topics", b"x")
    finally:
        stranger.stop()
        stranger.close()


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        ("password", "refuses the log-in of this broker: the server does not take user and password"),
        ("certificate", "certificate"),
        ("nobody", "this client is nobody to ZooKeeper"),
    ],
)
def test_who_is_not_let_in_says_so_in_one_line(broken, line, secure_zookeeper, serve, tmp_path, monkeypatch):
    settings = {**secure_zookeeper.settings, "zookeeper.connect": secure_zookeeper.address}
    settings |= {"zookeeper.set.acl": "true", "zookeeper.connection.timeout.ms": 3000}
    login = secure_zookeeper.login
    if broken == "password":
        login = login_file(tmp_path / "wrong.jaas", "wrong-secret")
    elif broken == "certificate":
        del settings["zookeeper.ssl.keystore.location"]
    else:
        login = ""
        settings = {key: value for key, value in settings.items() if "ssl" not in key}
    monkeypatch.setenv("KAFKA_OPTS", login)
    server = serve(
        tmp_path / "data", *[x for each in settings.items() for x in ("--set", "=".join(map(str, each)))]
    )

    code = server.process.wait(30)
    server.kill()

    assert code == 1
    said = server.log.read_text().strip().splitlines()
    assert line in said[-1]
    assert "Traceback" not in server.log.read_text()
    assert "secret" not in server.log.read_text()


def test_while_zookeeper_stalls_nobody_new_gets_in_and_nobody_else_waits(start, secure_zookeeper, run):
    """The server is frozen until the broker has lost it, which it has after two thirds of a session."""
    port = free_port()
    server = start("ours", 1, "stalled", **secured(port), **SHORT_SESSION)
    with Admin(login(port, "admin")) as admin:
        admin.topics.create(NewTopic("orders", 1, 1))
        admin.quotas.alter_scram_credentials(
            [UserScramCredentialUpsertion("alice", "SCRAM-SHA-256", "other")]
        )

    def losses():
        return server.log.read_bytes().count(b"connection_lost")

    before = []

    @contextlib.contextmanager
    def frozen():
        before.append(losses())
        os.kill(secure_zookeeper.server.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(secure_zookeeper.server.pid, signal.SIGCONT)

    run(while_a_store_stalls(server, port, frozen, until=lambda: losses() > before[0]), 100)


def test_old_znodes_are_closed_and_opened_as_kafkas_tool_does_it(
    secure_zookeeper, looking, tmp_path, monkeypatch
):
    tls = kafka_harness.write_properties(tmp_path / "tls.properties", secure_zookeeper.settings)
    flags = ("--zk-tls-config-file", tls, "--zookeeper.connect")
    made = ["/config/users/alice", "/brokers/topics/t/partitions/0/state", "/consumers/old", "/other"]

    def kafka(chroot, *more):
        options = [*kafka_harness.TOOL_OPTIONS, secure_zookeeper.kafka_opts]
        main = "kafka.admin.ZkSecurityMigrator"
        command = kafka_harness.java_command(kafka_harness.ZOOKEEPER_ERA, main, options)
        done = subprocess.run([*command, *flags, chroot, *more], capture_output=True, text=True, check=False)
        return Run(done.returncode, done.stdout, done.stderr)

    def barnabas(chroot, *more):
        return ours("zookeeper-security-migration", *flags, chroot, *more)

    monkeypatch.setenv("KAFKA_OPTS", secure_zookeeper.kafka_opts)
    for chroot in ("/moved-kafka", "/moved-ours"):
        for path in made:
            looking.create(chroot + path, b"", makepath=True)
    for acl in ("secure", "unsecure"):
        found = []
        for run, chroot in ((kafka, "/moved-kafka"), (barnabas, "/moved-ours")):
            done = run(f"{secure_zookeeper.address}{chroot}", "--zookeeper.acl", acl)
            assert done.code == 0, done.err
            below = {path.removeprefix(chroot): rights for path, rights in acls(looking, chroot).items()}
            found.append((below, done.out))
        assert differences(found[0][0], found[1][0]) == {}, acl
        assert found[0][1] == found[1][1]
        closed = found[1][0]["/config/users/alice"] != [(31, "world", "anyone")]
        assert closed == (acl == "secure")
        assert found[1][0]["/other"] == [(31, "world", "anyone")]

    for run in (kafka, barnabas):
        done = run(f"{secure_zookeeper.address}/wrong", "--zookeeper.acl", "secure", "--enable.path.check")
        assert "The following secure root paths do not exist in ZooKeeper: /admin,/brokers" in done.out


def test_tools_are_somebody_where_brokers_are(secure_zookeeper, looking, tmp_path, monkeypatch):
    tls = kafka_harness.write_properties(tmp_path / "tls.properties", secure_zookeeper.settings)
    monkeypatch.setenv("KAFKA_OPTS", secure_zookeeper.kafka_opts)
    looking.create("/tools", b"")
    place = f"{secure_zookeeper.address}/tools"
    rules = ("--authorizer-properties", f"zookeeper.connect={place}", "--zk-tls-config-file", tls)
    user = ("--entity-type", "users", "--entity-name", "alice", "--zookeeper", place)
    user = (*user, "--zk-tls-config-file", tls)
    done = [
        ours("acls", "--add", "--allow-principal", "User:alice", "--topic", "t", *rules),
        ours("configs", "--alter", "--add-config", "SCRAM-SHA-256=[password=alice-secret]", *user),
        ours("store", "get", "/kafka-acl/Topic/t", "--zookeeper", place, "--zk-tls-config-file", tls),
        ours("zookeeper-shell", place, "-zk-tls-config-file", tls, "ls", "/config/users"),
    ]

    assert [each.code for each in done] == [0] * 4, [each.err for each in done]
    assert "User:alice" in done[2].out
    assert "[alice]" in done[3].out
    found = acls(looking, "/tools")
    mine = {(31, "sasl", "kafka"), (31, "x509", "CN=broker")}
    assert set(found["/tools/kafka-acl/Topic/t"]) == {*mine, (1, "world", "anyone")}
    assert set(found["/tools/config/users/alice"]) == mine
