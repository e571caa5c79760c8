"""A broker that has every kind of secret, with all its logs at their finest: none is in what it writes, says
or shows, whatever clients do.
"""

import base64
import json
import re
import urllib.request
from pathlib import Path

import pytest

from barnabas.admin import Admin, AlterConfigOp, ConfigResource, NewTopic, ResourceType
from barnabas.admin.quotas import UserScramCredentialDeletion, UserScramCredentialUpsertion
from barnabas.client import Producer
from barnabas.core.errors import BarnabasError
from barnabas.core.eventlog import KAFKA_LOGGERS
from barnabas.core.scram import ScramMechanism
from serving import free_port
from tls_certificates import PASSWORD, PEM, Authority

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRETS = {name: f"hunter2-of-{name}" for name in ("alice", "broker", "metrics", "bob", "carol", "wrong")}


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def broker(serve, tmp_path, authority):
    """A broker with an SASL_SSL listener that it itself logs in at, at the finest levels of all its logs."""
    signed = authority.sign("localhost", "127.0.0.1")
    port = free_port()
    settings = {
        "broker.id": "0",
        "listeners": f"SASL_SSL://127.0.0.1:{port}",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{PLAIN} required username="broker" password="{SECRETS["broker"]}"'
            f' user_broker="{SECRETS["broker"]}" user_alice="{SECRETS["alice"]}";'
        ),
        "ssl.keystore.location": signed.p12(tmp_path / "broker.p12"),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.certificates": authority_pem(authority).replace("\n", "\\n"),
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:broker;User:alice",
        "metrics.port": "0",
        "metrics.password": SECRETS["metrics"],
    }
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    finest = [part for name in KAFKA_LOGGERS for part in ("--log", f"{name}=debug")]
    # The port of the options is the one of the file.
    given = ("--set", f"listeners={settings['listeners']}", "--log-level", "debug", *finest)
    server = serve(tmp_path / "data", "--config", str(file), *given, port=port)
    server.wait_until_ready()
    return server


def authority_pem(authority):
    return authority.certificate.public_bytes(PEM).decode()


def client(server, authority, user, password, mechanism="PLAIN"):
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    return {
        "bootstrap.servers": server.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
        "ssl.truststore.certificates": authority_pem(authority),
        "request.timeout.ms": "3000",
        "default.api.timeout.ms": "4000",
    }


def do_all(server, authority):
    """What clients do that has to do with secrets; all that they were told."""
    told = []
    right = client(server, authority, "alice", SECRETS["alice"])
    with Admin(right) as admin:
        admin.topics.create([NewTopic("t", 1)])
        admin.quotas.alter_scram_credentials(
            [UserScramCredentialUpsertion(name, "SCRAM-SHA-512", SECRETS[name]) for name in ("bob", "carol")]
        )
        admin.quotas.alter_scram_credentials([UserScramCredentialDeletion("carol", "SCRAM-SHA-512")])
        resource = ConfigResource(ResourceType.BROKER, "0")
        told.append(admin.configs.describe(resource, synonyms=True))
        for key in (
            "ssl.keystore.password",
            "metrics.password",
            "listener.name.sasl_ssl.plain.sasl.jaas.config",
        ):
            with pytest.raises(BarnabasError) as refused:
                admin.configs.alter({resource: [AlterConfigOp(key, SECRETS["wrong"])]})
            told.append(refused.value)
    for user, password, mechanism in (
        ("alice", SECRETS["wrong"], "PLAIN"),
        ("nobody", SECRETS["wrong"], "PLAIN"),
        ("bob", SECRETS["wrong"], "SCRAM-SHA-512"),
        ("carol", SECRETS["carol"], "SCRAM-SHA-512"),
        ("bob", SECRETS["bob"], "SCRAM-SHA-512"),
    ):
        given = client(server, authority, user, password, mechanism)
        with pytest.raises(BarnabasError) as failed, Producer(given, max_block_ms=4000) as producer:
            producer.send_and_wait("t", b"x")  # bob may log in, and write nowhere
        told += [failed.value, failed.getrepr(style="long")]
    return told


@pytest.mark.timeout(120)
def test_no_secret_is_written_or_shown(broker, tmp_path, authority):
    told = do_all(broker, authority)
    url = re.search(r"metrics=(\S+)", broker.ready_line)[1]
    password = base64.b64encode(f"metrics:{SECRETS['metrics']}".encode()).decode()
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {password}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        told.append(answer.read().decode())
    assert broker.stop() == 0
    log = broker.log.read_text()
    assert "network.authentication_failed" in log
    assert "kafka.request.logger" in log
    assert "kafka.authorizer.logger" in log
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    texts = {
        "log": log,
        "ready": broker.ready_line,
        "told": "\n".join(map(repr, told)) + "\n".join(map(str, told)),
    }
    for path in files:
        texts[str(path)] = path.read_bytes().decode("latin-1")
    salted = salted_password(tmp_path / "data")
    for name, secret in {**SECRETS, "store": PASSWORD, "salted": salted}.items():
        for where, text in texts.items():
            assert secret not in text, f"{name} in {where}"


def salted_password(data):
    """What a broker was told of bob's password, in hexadecimal: it may be kept nowhere."""
    from barnabas.cluster.store.sqlite_table import Database
    from barnabas.core.scram import parse_credential
    from barnabas.node.environment import METADATA_FILE

    database = Database.read_only(Path(data) / METADATA_FILE)
    try:
        text = json.loads(database.find("/config/users/bob").data)["config"]["SCRAM-SHA-512"]
    finally:
        database.close()
    kept = parse_credential(ScramMechanism.SHA_512, text)
    return ScramMechanism.SHA_512.salted_password(SECRETS["bob"], kept.salt, kept.iterations).hex()
