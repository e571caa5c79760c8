"""Who may scrape: with a password, over TLS, and where a broker that asks who comes serves its metrics."""

import asyncio
import base64
import re
import ssl
import urllib.error
import urllib.request

import pytest

from barnabas.core.broker_config import broker_config
from barnabas.core.errors import ConfigError
from barnabas.network.endpoints import Endpoint
from barnabas.node.machine.broker_processes import BrokerLife
from barnabas.node.machine.machine_metrics import MachineMetrics, token_of
from barnabas.node.metrics_access import MACHINE_TOKEN, metrics_access, metrics_host
from barnabas.node.metrics_endpoint import MetricsAccess
from tls_certificates import Authority

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
PASSWORD = "hunter2:é"


@pytest.fixture(scope="module")
def authority():
    return Authority()


def basic(user, password, scheme="Basic"):
    return f"{scheme} {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def scrape(url, authorization=None, context=None):
    """The status and the figures of a scrape."""
    request = urllib.request.Request(url, headers={"Authorization": authorization} if authorization else {})
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def trusting(authority, mine=None):
    context = ssl.create_default_context(cadata=authority.certificate.public_bytes(ssl_pem()).decode())
    if mine is not None:
        context.load_cert_chain(mine)
    return context


def ssl_pem():
    from cryptography.hazmat.primitives.serialization import Encoding

    return Encoding.PEM


@pytest.fixture
def url_of(serve, tmp_path):
    """Starts a broker with these settings; the address of its metrics."""

    def start(**settings):
        given = {"metrics.port": "0", **{key.replace("_", "."): value for key, value in settings.items()}}
        options = [part for key, value in given.items() for part in ("--set", f"{key}={value}")]
        server = serve(tmp_path / "data", *options)
        server.wait_until_ready()
        assert "hunter2" not in server.ready_line + server.tail()
        return re.search(r"metrics=(\S+)", server.ready_line)[1]

    return start


def test_a_password_is_asked_for(url_of):
    url = url_of(metrics_password=PASSWORD, metrics_user="ada")
    assert url.startswith("http://")
    for refused in (
        None,
        basic("ada", "wrong"),
        basic("metrics", PASSWORD),
        basic("ada", PASSWORD, "Bearer"),
    ):
        assert scrape(url, refused) == (401, "")
    for allowed in (basic("ada", PASSWORD), basic("ada", PASSWORD, "bAsIc")):
        status, figures = scrape(url, allowed)
        assert status == 200
        assert "kafka_server_replicamanager_leadercount" in figures
    # Who has no password does not learn which pages there are either.
    assert scrape(url.replace("/metrics", "/else")) == (401, "")


def test_a_machine_asks_its_brokers_without_the_password():
    """Somebody else may have the port of a broker that has just ended."""
    asked = []

    async def main():
        async def answer(reader, writer):
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as hijacked:
            port = hijacked.sockets[0].getsockname()[1]
            state = BrokerLife(7, f"http://127.0.0.1:{port}/metrics", 0)
            metrics = MachineMetrics(lambda: [state], MetricsAccess(None, "ada", "hunter2"), b"secret")
            assert b'barnabas_machine_broker_up{broker="7"} 0' in await metrics()

    asyncio.run(main())
    (head,) = asked
    assert base64.b64encode(b"ada:hunter2") not in head
    environment = {MACHINE_TOKEN: token_of(b"secret", 7)}
    config = broker_config({"metrics.user": "ada", "metrics.password": "hunter2"})
    access = metrics_access(lambda: config, environment)
    assert (access.allows(head), environment) == (True, {})
    assert not metrics_access(lambda: config, {MACHINE_TOKEN: token_of(b"secret", 8)}).allows(head)
    assert not metrics_access(lambda: config, {}).allows(head)
    nothing = b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer \r\n"
    assert not metrics_access(lambda: config, {MACHINE_TOKEN: ""}).allows(nothing)


@pytest.mark.parametrize("missing", [0, 3])
def test_a_broker_whose_answer_breaks_off_counts_as_missing_on_the_page_of_its_machine(missing):
    """Of 12345 there may be 12 where it ends early."""
    text = b"# HELP x\nx 12345\n"

    async def main():
        async def answer(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text)
            writer.write(head + text[: len(text) - missing])
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
            metrics = MachineMetrics(lambda: [BrokerLife(7, url, 0)], MetricsAccess(), b"secret")
            return await metrics()

    found = asyncio.run(main())
    assert b'barnabas_machine_broker_up{broker="7"} %d' % (not missing) in found
    assert (b'x{broker="7"} 12345\n' in found, b"x{" in found) == (not missing, not missing)


def test_over_tls_and_only_so(url_of, tmp_path, authority):
    key = authority.sign("127.0.0.1").pem(tmp_path / "broker.pem")
    url = url_of(metrics_tls="true", ssl_keystore_location=key, ssl_keystore_type="PEM")
    assert url.startswith("https://")
    assert scrape(url, context=trusting(authority))[0] == 200
    with pytest.raises(urllib.error.URLError):
        scrape(url, context=trusting(Authority()))
    with pytest.raises(OSError, match=r".*"):
        scrape(url.replace("https", "http"))
    assert scrape(url, context=trusting(authority))[0] == 200


def test_a_renewed_certificate_is_shown_without_a_restart(url_of, tmp_path, authority):
    """One that cannot be read is passed over."""
    file, renewed = tmp_path / "broker.pem", Authority()
    authority.sign("127.0.0.1").pem(file)
    url = url_of(metrics_tls="true", ssl_keystore_location=str(file), ssl_keystore_type="PEM")
    assert scrape(url, context=trusting(authority))[0] == 200
    renewed.sign("127.0.0.1").pem(file)
    assert scrape(url, context=trusting(renewed))[0] == 200
    file.write_text("half of a file")
    assert scrape(url, context=trusting(renewed))[0] == 200


def test_a_certificate_instead_of_a_password(url_of, tmp_path, authority):
    mine, theirs = (
        each.sign("scraper").pem(tmp_path / f"{number}.pem")
        for number, each in enumerate((authority, Authority()))
    )
    url = url_of(
        metrics_tls="true",
        ssl_keystore_type="PEM",
        ssl_truststore_type="PEM",
        ssl_truststore_location=authority.pem(tmp_path / "ca.pem"),
        **{
            "listener.name.metrics.ssl.keystore.location": authority.sign("127.0.0.1").pem(
                tmp_path / "broker.pem"
            ),
            "listener.name.metrics.ssl.client.auth": "required",
        },
    )
    assert scrape(url, context=trusting(authority, mine))[0] == 200
    for other in (None, theirs):
        with pytest.raises(OSError, match=r".*"):
            scrape(url, context=trusting(authority, other))


@pytest.mark.parametrize(
    ("protocol", "settings", "host"),
    [
        ("PLAINTEXT", {}, "10.0.0.7"),
        ("SASL_SSL", {}, "127.0.0.1"),
        ("SSL", {"metrics.tls": "false"}, "127.0.0.1"),
        ("SASL_PLAINTEXT", {"metrics.password": "x"}, "10.0.0.7"),
        ("SASL_SSL", {"metrics.host": "0.0.0.0"}, "0.0.0.0"),
    ],
)
def test_where_a_broker_serves_them(protocol, settings, host):
    config = broker_config(settings)
    endpoint = Endpoint(protocol, "10.0.0.7", 9092, protocol)
    assert metrics_host(config, [endpoint], metrics_access(lambda: config)) == host


@pytest.mark.parametrize(
    ("settings", "warns"),
    [
        ({"metrics.host": "10.0.0.7"}, True),
        ({"metrics.host": "10.0.0.7", "metrics.password": "x"}, True),
        ({"metrics.host": "127.0.0.1"}, False),
        ({"metrics.host": "localhost"}, False),
    ],
)
def test_metrics_for_everybody_are_warned_of(caplog, settings, warns):
    config = broker_config(settings)
    metrics_host(config, [Endpoint("SASL_SSL", "h", 9092, "SASL_SSL")], metrics_access(lambda: config))
    assert ("metrics.unguarded" in caplog.text) == warns


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"metrics.password": ""}, "metrics.password must not be empty"),
        ({"metrics.password": "x", "metrics.user": "a:b"}, "metrics.user has no colon"),
        ({"metrics.tls": "true"}, "ssl.keystore.location"),
    ],
)
def test_what_guards_nothing_stops_the_start(settings, said):
    with pytest.raises(ConfigError, match=said):
        metrics_access(lambda: broker_config(settings))


def test_the_password_is_in_no_text():
    assert "hunter2" not in repr(MetricsAccess(None, "ada", "hunter2"))
