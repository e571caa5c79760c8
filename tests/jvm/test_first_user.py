"""The first user of a cluster: Kafka's tools take the file of `barnabas serve --secure` as it is, and what we
write to ZooKeeper before there is a broker is what a genuine broker and kafka-configs.sh read.
"""

import contextlib
import re
import subprocess
import sys

import kafka_harness
import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.core.errors import BarnabasError
from serving import free_port

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
ADD, USER = ("--alter", "--entity-type", "users", "--add-config"), ("--entity-name", "alice")
LINES = [
    (*ADD, "SCRAM-SHA-256=[iterations=100,password=x]", *USER),
    (*ADD, "SCRAM-SHA-256=[password=]", *USER),
    (*ADD, "SCRAM-SHA-256=[password=x]", "--entity-default"),
    (*ADD, "SCRAM-SHA-256=[password=x]"),
    (*ADD, "SCRAM-SHA-512=[iterations=8192,password=x]", *USER),
    ("--describe", "--entity-type", "users"),
    ("--describe", "--entity-type", "users", "--entity-default"),
    ("--describe", "--entity-type", "topics", "--entity-name", "t"),
    ("--alter", "--entity-type", "users", "--delete-config", "SCRAM-SHA-256", *USER),
    ("--alter", "--entity-type", "users", "--delete-config", "SCRAM-SHA-512", *USER),
]
"""One after the other; each side has a ZooKeeper path of its own."""


def ours(*arguments):
    command = [sys.executable, "-m", "barnabas", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def own_zookeeper(tmp_path_factory):
    """A ZooKeeper without a chroot: kafka-configs.sh makes none."""
    servers = []

    def start():
        server = kafka_harness.start_zookeeper(tmp_path_factory.mktemp("zookeeper"))
        servers.append(server)
        return kafka_harness.wait_until_serving(server).bootstrap

    yield start
    for server in servers:
        server.kill()


def as_compared(done):
    """What a tool printed, without the warnings of its logger, and what chance makes of a credential."""
    lines = [
        line
        for line in (done.stdout + done.stderr).splitlines()
        if not line.startswith(("[main] WARN", "Warning: --zookeeper", "Use --bootstrap-server"))
        and "--help" not in line
    ]
    return done.returncode, [re.sub(r"(salt|stored_key|server_key)=[^,]+", r"\1=...", line) for line in lines]


@pytest.mark.parametrize("version", [kafka_harness.ZOOKEEPER_ERA, kafka_harness.NEWEST_TOOLS])
def test_kafkas_tools_take_the_file_as_it_is(serve, tmp_path, kafka_tool, version):
    server = serve(tmp_path / "data", "--secure")
    server.wait_until_ready()
    config = str(tmp_path / "data" / "client.properties")
    at = ("--bootstrap-server", server.bootstrap, "--command-config")
    made = kafka_tool("kafka-topics", *at, config, "--create", "--topic", "t", version=version)
    assert made.returncode == 0, made.stderr
    listed = kafka_tool("kafka-topics", *at, config, "--list", version=version)
    assert listed.stdout.split() == ["t"]


def test_the_same_lines_without_a_broker(own_zookeeper, kafka_tool):
    theirs_at, ours_at = own_zookeeper(), own_zookeeper()
    for flags in LINES:
        genuine = as_compared(kafka_tool("kafka-configs", "--zookeeper", theirs_at, *flags))
        assert as_compared(ours("configs", "--zookeeper", ours_at, *flags)) == genuine, flags
    # What the one has written the other shows.
    assert ours("configs", "--zookeeper", theirs_at, *LINES[4]).returncode == 0
    shown = as_compared(kafka_tool("kafka-configs", "--zookeeper", theirs_at, *LINES[5]))
    assert shown == as_compared(ours("configs", "--zookeeper", theirs_at, *LINES[5]))
    assert "user-principal 'alice' are SCRAM-SHA-512=salt=" in shown[1][0]


def test_users_and_rules_of_ours_are_those_of_a_genuine_broker(own_zookeeper, tmp_path):
    zookeeper = own_zookeeper()
    for user in ("broker", "alice"):
        added = (*ADD, f"SCRAM-SHA-512=[password={user}-secret]", "--entity-name", user)
        assert ours("configs", "--zookeeper", zookeeper, *added).returncode == 0
    rule = ("--add", "--allow-principal", "User:alice", "--operation", "Create", "--cluster")
    assert ours("acls", "--authorizer-properties", f"zookeeper.connect={zookeeper}", *rule).returncode == 0

    def login(user, password):
        return f'{SCRAM} required username="{user}" password="{password}";'

    (tmp_path / "kafka").mkdir()
    port = free_port()
    server = kafka_harness.start_broker(
        tmp_path / "kafka",
        zookeeper,
        settings={
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": login("broker", "broker-secret"),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:broker",
        },
        port=port,
    )
    with contextlib.ExitStack() as stack:
        stack.callback(server.kill)
        server.wait_until_listening()

        def client(user, password):
            return {
                "bootstrap.servers": server.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": login(user, password),
            }

        with Admin(client("alice", "alice-secret")) as admin:
            admin.topics.create(NewTopic("t", 1, 1))
            assert [topic.name for topic in admin.topics.list()] == []  # she may not describe it
        with pytest.raises(BarnabasError, match="invalid credentials"), Admin(client("alice", "x")) as admin:
            admin.topics.list()
