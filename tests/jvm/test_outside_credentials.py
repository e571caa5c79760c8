"""The same clients with the same credentials at Apache Kafka 3.9.2 with SASL_SSL: this is where the table of
`secure_clients` comes from.
"""

import subprocess
import sys

import kafka_harness
import pytest

from barnabas.admin import Admin, NewTopic
from secure_clients import CLIENTS, EXPECTED, USERS, all_outcomes, removed_while_connected
from serving import free_port
from tls_certificates import PEM, Authority

# Clients that were refused leave sockets open.
pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def configs(zookeeper, user, *flags):
    command = [sys.executable, "-m", "barnabas", "configs", "--zookeeper", zookeeper, "--alter"]
    command += ["--entity-type", "users", "--entity-name", user, *flags]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def credentials(zookeeper, user, password):
    values = ",".join(f"{mechanism}=[password={password}]" for mechanism in MECHANISMS)
    configs(zookeeper, user, "--add-config", values)


@pytest.fixture(scope="module")
def genuine(zookeeper, judge, tmp_path_factory):
    """A genuine broker with the users; its address, the authority's file, and where ZooKeeper is."""
    folder = tmp_path_factory.mktemp("genuine")
    authority, port = Authority(), free_port()
    ca = folder / "ca.pem"
    ca.write_bytes(authority.certificate.public_bytes(PEM))
    store = f"{zookeeper}/secure-clients"
    for user, password in {**USERS, "broker": "broker-secret"}.items():
        credentials(store, user, password)
    server = kafka_harness.start_broker(
        folder,
        store,
        settings={
            "listeners": f"SASL_SSL://127.0.0.1:{port}",
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.mechanism.inter.broker.protocol": MECHANISMS[1],
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
                f'{SCRAM} required username="broker" password="broker-secret";'
            ),
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": authority.sign("127.0.0.1", "localhost").pem(folder / "broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": ca,
        },
        port=port,
    )
    try:
        server.wait_until_listening()
        given = {
            "bootstrap.servers": server.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISMS[1],
            "sasl.jaas.config": f'{SCRAM} required username="alice" password="alice-secret";',
            "ssl.truststore.location": str(ca),
        }
        with Admin(given) as admin:
            admin.topics.create(NewTopic("orders", 1, 1))
        yield server.bootstrap, str(ca), store
    finally:
        server.kill()


@pytest.mark.parametrize("kind", CLIENTS)
def test_right_wrong_and_missing_credentials(genuine, tmp_path, kind):
    bootstrap, ca, _ = genuine
    other = tmp_path / "other.pem"
    other.write_bytes(Authority("other").certificate.public_bytes(PEM))
    assert all_outcomes(kind, bootstrap, ca, str(other)) == EXPECTED[kind]


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_user_who_is_removed_stays_until_the_connection_ends(genuine, kind):
    bootstrap, ca, store = genuine

    def remove():
        configs(store, "eve", "--delete-config", ",".join(MECHANISMS))

    try:
        old, new = removed_while_connected(kind, bootstrap, ca, remove)
    finally:
        credentials(store, "eve", USERS["eve"])
    assert (old, new) == ("in", EXPECTED[kind]["wrong password"])
