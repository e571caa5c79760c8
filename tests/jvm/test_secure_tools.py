"""Kafka's own tools log in at our broker, over plaintext and over TLS; the words of a refusal are Java's."""

import pytest
from cryptography.x509.oid import NameOID

from serving import free_port
from tls_certificates import PASSWORD, Authority

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]
AS_39 = ("--set", "barnabas.api.profile=3.9")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def secure(serve, tmp_path, authority):
    """A broker with a listener of each kind, and its ports by their names."""
    ports = {name: free_port() for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")}
    key = authority.sign("localhost", "127.0.0.1").p12(tmp_path / "broker.p12")
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "sasl.enabled.mechanisms": "PLAIN",
        "ssl.keystore.location": key,
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": authority.p12(tmp_path / "trust.p12"),
        "ssl.truststore.password": PASSWORD,
        "ssl.client.auth": "required",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} required user_alice="alice-secret";',
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} required user_alice="alice-secret";',
    }
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    server = serve(tmp_path / "data", *AS_39, *options)
    server.wait_until_ready()
    return ports


@pytest.fixture
def list_topics(kafka_tool, secure, tmp_path, authority):
    """Runs kafka-topics --list on a listener, with these options of the client."""

    def run(listener, version, **more):
        given = {"security.protocol": listener}
        if listener.endswith("SSL"):
            given |= {
                "ssl.truststore.location": str(tmp_path / "trust.p12"),
                "ssl.truststore.password": PASSWORD,
            }
        given |= {name.replace("_", "."): value for name, value in more.items()}
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        return kafka_tool(
            "kafka-topics",
            *("--bootstrap-server", f"127.0.0.1:{secure[listener]}", "--command-config", str(file), "--list"),
            version=version,
        )

    return run


def login(password):
    return {
        "sasl_mechanism": "PLAIN",
        "sasl_jaas_config": f'{PLAIN} required username="alice" password="{password}";',
    }


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_tool_of_kafkas_logs_in(list_topics, listener, version):
    done = list_topics(listener, version, **login("alice-secret"))
    assert done.returncode == 0, done.stderr
    refused = list_topics(listener, version, **login("wrong"))
    assert refused.returncode == 1
    assert "Authentication failed: Invalid username or password" in refused.stdout + refused.stderr


def test_a_tool_of_kafkas_shows_its_certificate(list_topics, tmp_path, authority):
    subject = [(NameOID.ORGANIZATION_NAME, "Acme"), (NameOID.COMMON_NAME, "alice")]
    own = {"ssl_keystore_password": PASSWORD, "ssl_key_password": PASSWORD}
    mine = authority.sign(subject=subject).p12(tmp_path / "client.p12")
    done = list_topics("SSL", "3.9.2", ssl_keystore_location=mine, **own)
    assert done.returncode == 0, done.stderr
    theirs = Authority().sign(subject=subject).p12(tmp_path / "other.p12")
    refused = list_topics("SSL", "3.9.2", ssl_keystore_location=theirs, **own)
    assert refused.returncode == 1
    assert "SslAuthenticationException" in refused.stdout + refused.stderr
