"""kafka-python, aiokafka and confluent-kafka at a broker of --secure: what becomes of them is what becomes of
them at Apache Kafka.
"""

import subprocess
import sys

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.admin.quotas import UserScramCredentialDeletion, UserScramCredentialUpsertion
from barnabas.core.broker_config import read_properties
from secure_clients import CLIENTS, EXPECTED, USERS, all_outcomes, removed_while_connected
from tls_certificates import PEM, Authority

# Clients that were refused leave sockets open.
pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def secure(serve, tmp_path_factory):
    """A broker with the users, and how its first user connects."""
    data = tmp_path_factory.mktemp("secure") / "data"
    server = serve(data, "--secure")
    server.wait_until_ready()
    given = {
        **read_properties((data / "client.properties").read_text()),
        "bootstrap.servers": server.bootstrap,
    }
    with Admin(given) as admin:
        admin.topics.create(NewTopic("orders", 1))
        for user, password in USERS.items():
            admin.quotas.alter_scram_credentials(
                UserScramCredentialUpsertion(user, mechanism, password) for mechanism in MECHANISMS
            )
    config = ["--bootstrap-server", server.bootstrap, "--command-config", str(data / "client.properties")]
    rule = ["--add", "--allow-principal", "User:alice", "--allow-principal", "User:eve", "--producer"]
    command = [sys.executable, "-m", "barnabas", "acls", *rule, "--topic", "orders", *config]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    yield server, given
    server.stop()


@pytest.fixture
def other_ca(tmp_path):
    file = tmp_path / "other.pem"
    file.write_bytes(Authority("other").certificate.public_bytes(PEM))
    return str(file)


@pytest.mark.parametrize("kind", CLIENTS)
def test_right_wrong_and_missing_credentials(secure, other_ca, kind):
    server, _ = secure
    ca = str(server.data_dir / "ca.pem")
    assert all_outcomes(kind, server.bootstrap, ca, other_ca) == EXPECTED[kind]


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_user_who_is_removed_stays_until_the_connection_ends(secure, kind):
    server, given = secure
    with Admin(given) as admin:

        def remove():
            admin.quotas.alter_scram_credentials([UserScramCredentialDeletion("eve", MECHANISMS[1])])

        try:
            old, new = removed_while_connected(
                kind, server.bootstrap, str(server.data_dir / "ca.pem"), remove
            )
        finally:
            admin.quotas.alter_scram_credentials(
                [UserScramCredentialUpsertion("eve", MECHANISMS[1], USERS["eve"])]
            )
    assert (old, new) == ("in", EXPECTED[kind]["wrong password"])
