"""``barnabas serve --secure``: who comes in, what is kept from start to start, and what is refused."""

import re
import socket
import stat
import threading

import pytest
from confluent_kafka.admin import AdminClient
from cryptography import x509

from barnabas.admin import Admin, NewTopic
from barnabas.cli.secure_start import SecureFolder
from barnabas.client import NoBrokerError
from barnabas.core.broker_config import broker_config, read_properties
from barnabas.core.errors import BarnabasError
from barnabas.node.certificates import Authority
from serving import free_port
from waiting import until

FILES = ("broker.pem", "broker.properties", "ca.key", "ca.pem", "client.properties")


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def secure(serve, data):
    """Starts a broker with --secure on the same data, at a port of its own, and waits until it is ready."""

    def start(*options):
        server = serve(data, "--secure", *options)
        server.wait_until_ready()
        return server

    return start


def settings(data):
    return read_properties((data / "client.properties").read_text())


def admin(server, given, **more):
    return Admin(server.bootstrap, **{key.replace(".", "_"): value for key, value in given.items()}, **more)


def comes_in(server, given, **more):
    """Whether a client with these settings is let in."""
    try:
        with admin(server, given, **more) as client:
            client.topics.list()
    except BarnabasError:
        return False
    return True


def with_password(given, password):
    line = re.sub('password="[^"]*"', f'password="{password}"', given["sasl.jaas.config"])
    return {**given, "sasl.jaas.config": line}


def test_the_first_user_comes_in_and_nobody_else(secure, data):
    server = secure("--user", "ada")
    given = settings(data)
    with admin(server, given) as client:
        client.topics.create([NewTopic("orders", 1)])
        assert [topic.name for topic in client.topics.list()] == ["orders"]
    assert not comes_in(server, with_password(given, "wrong"))
    # Neither is told why, so each goes on to try for as long as it may.
    assert not comes_in(server, {}, default_api_timeout_ms=5000)
    without_authority = {key: value for key, value in given.items() if not key.startswith("ssl.")}
    assert not comes_in(server, without_authority, default_api_timeout_ms=5000)
    over_tls = {"security.protocol": "SSL", "ssl.truststore.location": str(data / "ca.pem")}
    with pytest.raises(NoBrokerError, match=r"asks for a log-in \(SASL\)"), admin(server, over_tls):
        pass


def test_every_secret_is_for_its_owner_alone(secure, data):
    server = secure()
    for path in (data, *data.rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    secrets = re.findall(r'password="([^"]+)"', "".join((data / name).read_text() for name in FILES[1::3]))
    assert len(set(secrets)) == 2
    shown = server.ready_line + server.tail()
    assert not any(secret in shown for secret in secrets)


def test_another_client_takes_the_authority_as_a_file(secure, data):
    server = secure()
    user, password = re.findall('="([^"]*)"', settings(data)["sasl.jaas.config"])
    found = AdminClient(
        {
            "bootstrap.servers": f"localhost:{server.port}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(data / "ca.pem"),
        }
    ).list_topics(timeout=20)
    assert [broker.port for broker in found.brokers.values()] == [server.port]


def test_the_next_start_changes_nothing(secure, data):
    secure().stop()
    before = {name: (data / name).read_bytes() for name in FILES}
    server = secure()
    assert {name: (data / name).read_bytes() for name in FILES} == before
    assert comes_in(server, settings(data))


def test_a_first_user_who_was_removed_stays_so(secure, data, barnabas):
    secure().stop()
    removed = barnabas(
        "configs", "--alter", "--entity-type", "users", "--entity-name", "admin",
        "--delete-config", "SCRAM-SHA-512", "--store", str(data),
    )  # fmt: skip
    assert removed.stdout == "Completed updating config for entity: user-principal 'admin'.\n"
    server = secure()
    assert not comes_in(server, settings(data))


def test_without_its_settings_the_first_user_is_made_anew(secure, data):
    """As when the start was killed before the file was written, or the password is to be another one."""
    secure().stop()
    old = settings(data)
    (data / "client.properties").unlink()
    server = secure()
    assert comes_in(server, settings(data))
    assert not comes_in(server, old)


def test_brokers_know_each_other_after_their_credential_was_lost(secure, data, barnabas):
    secure().stop()
    barnabas(
        "configs", "--alter", "--entity-type", "users", "--entity-name", "broker",
        "--delete-config", "SCRAM-SHA-512", "--store", str(data),
    )  # fmt: skip
    server = secure()
    shown = barnabas("configs", "--describe", "--entity-type", "users", "--store", str(data)).stdout
    assert "user-principal 'broker'" in shown
    assert comes_in(server, settings(data))


def test_a_new_name_is_added_to_the_certificate(secure, data):
    secure("--advertise", "first.example").stop()
    before, authority = (data / "broker.pem").read_bytes(), (data / "ca.pem").read_bytes()
    secure("--host", "0.0.0.0", "--advertise", "broker.example").stop()
    after = (data / "broker.pem").read_bytes()
    assert after != before
    assert (data / "ca.pem").read_bytes() == authority
    names = x509.load_pem_x509_certificate(after).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    found = {str(name.value) for name in names.value}
    assert found >= {"first.example", "broker.example", "localhost", "127.0.0.1", socket.gethostname()}
    secure().stop()
    assert (data / "broker.pem").read_bytes() == after  # a name that was there stays


@pytest.mark.timeout(120)
def test_several_brokers_share_it_and_copy_each_others_partitions(serve, data):
    shared = free_port()
    server = serve(data, "--secure", "--brokers", "2", "--bootstrap", str(shared), port=None)
    server.wait_until_ready()
    assert "brokers=2" in server.ready_line
    assert f" bootstrap=SASL_SSL://127.0.0.1:{shared}" in server.ready_line
    server.port = shared  # the one address is as closed as each of theirs
    assert not comes_in(server, with_password(settings(data), "wrong"))
    with admin(server, settings(data)) as client:
        client.topics.create([NewTopic("copied", 1, 2)])

        def in_sync():
            (partition,) = client.topics.describe(["copied"])["copied"].partitions
            return len(partition.isr) == 2

        until(in_sync)
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--secure", "--user", "broker"), "--user broker: a name has letters"),
        (("--secure", "--user", "a;b"), "--user a;b: a name has letters"),
        (("--secure", "--zookeeper", "127.0.0.1:1"), "--secure is for brokers on one machine"),
        (("--user", "ada"), "--user is for --secure"),
    ],
)
def test_what_cannot_be_secured_is_refused(barnabas, data, options, said):
    refused = barnabas("serve", "--data", str(data), *options)
    assert refused.exit_code != 0
    assert said in refused.stderr
    assert not data.exists()


def test_what_was_secured_does_not_start_without(secure, data, barnabas):
    secure().stop()
    refused = barnabas("serve", "--data", str(data), "--port", "0")
    assert refused.exit_code == 1
    assert f"{data} was made with --secure, and would be open to everybody without it" in refused.stderr
    refused = barnabas("serve", "--data", str(data), "--port", "0", "--secure", "--user", "eve")
    assert f"the first user of {data} is admin already" in refused.stderr


def test_a_file_with_security_of_its_own_is_refused(barnabas, data, tmp_path):
    file = tmp_path / "server.properties"
    for line in ("authorizer.class.name=", "listeners=PLAINTEXT://:9092", "ssl.keystore.type=PKCS12"):
        file.write_text(line + "\n")
        refused = barnabas("serve", "--data", str(data), "--port", "0", "--secure", "--config", str(file))
        assert refused.exit_code == 1
        assert f"--secure sets {line.partition('=')[0]} itself" in refused.stderr


def test_keys_that_are_damaged_are_named_and_not_shown(secure, data, barnabas):
    secure().stop()
    (data / "broker.pem").unlink()
    (data / "ca.key").write_text("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n")
    refused = barnabas("serve", "--data", str(data), "--port", "0", "--secure")
    assert f"The keys in {data} cannot be read" in refused.stderr
    assert "c2VjcmV0" not in refused.stderr + refused.stdout


def test_a_store_that_was_lost_is_not_made_anew(secure, data, barnabas):
    secure().stop()
    for file in data.glob("metadata.sqlite*"):
        if file.is_file():
            file.unlink()
    refused = barnabas("serve", "--data", str(data), "--port", "0", "--secure")
    assert "is missing or empty, but" in refused.stderr
    assert not (data / "metadata.sqlite").exists()


def test_a_start_that_was_killed_goes_on_with_the_user_that_it_was_given(secure, data, barnabas):
    """The super users were written, and the first user was not."""
    secure("--user", "ada").stop()
    (data / "client.properties").unlink()
    refused = barnabas("serve", "--data", str(data), "--port", "0", "--secure", "--user", "eve")
    assert f"the first user of {data} is ada already" in refused.stderr
    server = secure()
    with admin(server, settings(data)) as client:
        client.topics.create([NewTopic("orders", 1)])
    assert 'username="ada"' in settings(data)["sasl.jaas.config"]


def test_a_folder_that_others_can_write_is_refused(barnabas, data):
    data.mkdir()
    data.chmod(0o777)
    refused = barnabas("serve", "--data", str(data), "--port", "0", "--secure")
    assert refused.exit_code == 1
    assert f"{data} can be written by others" in refused.stderr
    assert list(data.iterdir()) == []


@pytest.mark.parametrize(
    "damaged", [b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_an_authority_that_is_damaged_is_named(secure, data, barnabas, damaged):
    secure().stop()
    (data / "ca.pem").write_bytes(damaged)
    (data / "client.properties").unlink()
    refused = barnabas("serve", "--data", str(data), "--port", "0", "--secure")
    assert refused.exit_code == 1
    assert f"The keys in {data} cannot be read" in refused.stderr


def test_a_certificate_that_names_no_host_is_refused(secure, data, barnabas):
    secure().stop()
    (data / "broker.pem").write_bytes((data / "ca.pem").read_bytes())
    refused = barnabas("serve", "--data", str(data), "--port", "0", "--secure")
    assert "its certificate names no host" in refused.stderr


def test_two_starts_at_once_make_one_authority(data, monkeypatch):
    config = broker_config(
        {"log.dirs": str(data), "listeners": "SASL_SSL://127.0.0.1:0", "authorizer.class.name": ""}
    )
    new = Authority.new

    def slowly(name):
        monkeypatch.setattr(Authority, "new", new)
        other.start()
        other.join(1)  # it is through by then, unless it waits
        return new(name)

    other = threading.Thread(target=lambda: SecureFolder(config).make(config, None))
    monkeypatch.setattr(Authority, "new", slowly)
    SecureFolder(config).make(config, None)
    other.join()
    authority = x509.load_pem_x509_certificate((data / "ca.pem").read_bytes())
    x509.load_pem_x509_certificate((data / "broker.pem").read_bytes()).verify_directly_issued_by(authority)
