"""GSSAPI between Java and ours, in both directions, with a KDC on this machine."""

import subprocess

import kafka_harness
import pytest

from barnabas.admin import Admin
from barnabas.admin.types import NewTopic
from barnabas.core.errors import BarnabasError
from kerberos_realm import REALM, realm_or_skip
from serving import free_port

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def realm(tmp_path_factory):
    with realm_or_skip(tmp_path_factory.mktemp("kerberos")) as made:
        yield made


@pytest.fixture(scope="module")
def lines(realm):
    return {"broker": realm.line("kafka/localhost", serviceName="kafka"), "alice": realm.line("alice")}


def settings(lines, port):
    return {
        "listeners": f"SASL_PLAINTEXT://localhost:{port}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": lines["broker"],
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:kafka;User:alice",
    }


def client(port, line):
    return {
        "bootstrap.servers": f"localhost:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": line,
    }


def test_kafkas_tool_logs_in_at_our_broker(judge, realm, lines, serve, tmp_path):
    judge("Apache Kafka 3.9", lambda: kafka_harness.artifacts(kafka_harness.ZOOKEEPER_ERA))
    port = free_port()
    given = [part for each in settings(lines, port).items() for part in ("--set", "=".join(each))]
    serve(tmp_path / "data", *given, port=port).wait_until_ready()

    def topics(line):
        file = kafka_harness.write_properties(tmp_path / "client.properties", client(port, line))
        options = [*kafka_harness.TOOL_OPTIONS, f"-Djava.security.krb5.conf={realm.config}"]
        flags = ("--bootstrap-server", f"localhost:{port}", "--command-config", file)
        shape = ("--create", "--topic", "of-java", "--partitions", "1")
        command = kafka_harness.tool_command("kafka-topics", *flags, *shape, options=options)
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    done = topics(lines["alice"])
    assert "Created topic of-java." in done.stdout, done.stderr
    with Admin(client(port, lines["alice"])) as admin:
        assert [each.name for each in admin.topics.list()] == ["of-java"]
    stranger = topics(lines["alice"].replace(f"alice@{REALM}", f"nobody@{REALM}"))
    assert stranger.returncode == 1


def test_our_client_logs_in_at_kafkas_broker(judge, realm, lines, zookeeper, tmp_path):
    judge("Apache Kafka 3.9", lambda: kafka_harness.artifacts(kafka_harness.ZOOKEEPER_ERA))
    port = free_port()
    server = kafka_harness.start_broker(
        tmp_path,
        f"{zookeeper}/kerberos",
        0,
        settings(lines, port),
        port=port,
        options=[*kafka_harness.JUDGE_OPTIONS, f"-Djava.security.krb5.conf={realm.config}"],
    )
    try:
        server.wait_until_listening()
        with Admin(client(port, lines["alice"])) as admin:
            admin.topics.create(NewTopic("of-ours"))
            assert [each.name for each in admin.topics.list()] == ["of-ours"]
        wrong = {**client(port, lines["alice"]), "sasl.kerberos.service.name": "other"}
        with pytest.raises(BarnabasError, match="got no ticket for other/localhost"), Admin(wrong):
            pass
    finally:
        server.kill()
