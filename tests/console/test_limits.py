"""Limits of checks: changed while the console runs, kept, written down, and of those who may."""

import asyncio
import datetime as dt
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from barnabas.client.config import ADMIN_CONFIG, client_config
from barnabas.client.metadata import Broker
from barnabas.console.health.limits import EditedLimits
from barnabas.operations.certificates import CertificateReader
from barnabas.operations.errors import OperationError


def limit_of(site, key="lag-seconds"):
    return next(one for one in site.get("/health")["checks"] if one["key"] == key)


def put(site, **body):
    return site.request("POST", "/api/v1/clusters/demo/health/limits", json=body)


def test_a_limit_is_changed_kept_and_written_down(site, cluster, open_console):
    assert limit_of(site)["level"] == "good"
    changed = put(site, check="lag-seconds", limit=5)
    assert changed.json() == {"check": "lag-seconds", "before": 300.0, "after": 5.0}
    one = limit_of(site)
    assert (one["limit"], one["level"], "behind 60 s" in one["why"]) == (5.0, "warning", True)
    assert [(each["outcome"], each["effects"]) for each in site.get("/audit")[::-1]] == [
        (outcome, [{"subject": "lag-seconds", "before": "300", "after": "5"}])
        for outcome in ("begun", "done")
    ]
    again = open_console(cluster.bootstrap_servers)
    assert limit_of(again)["limit"] == 5.0
    assert put(again, check="lag-seconds").json()["after"] == 300.0
    assert limit_of(again)["limit"] == 300.0


def test_the_page_changes_it_with_the_token_of_its_form(site):
    path = "/c/demo/health/limits"
    without = site.request("POST", path, data={"check": "disk-used", "limit": "0.5"})
    assert without.status_code == 403
    token = site.page("/health").partition('name="token" value="')[2].partition('"')[0]
    done = site.request("POST", path, data={"check": "disk-used", "limit": "0.5", "token": token})
    assert (done.status_code, done.headers["location"]) == (303, "/c/demo/health")
    assert limit_of(site, "disk-used")["limit"] == 0.5
    wrong = site.request("POST", path, data={"check": "disk-used", "limit": "half", "token": token})
    assert (wrong.status_code, "no number" in wrong.text) == (409, True)


@pytest.mark.parametrize(("key", "limit"), [("nothing", 1), ("disk-used", -1), ("disk-used", float("nan"))])
def test_what_is_no_limit_is_refused(tmp_path, key, limit):
    edited = EditedLimits(tmp_path)
    with pytest.raises(OperationError):
        edited.put(key, limit)
    assert EditedLimits(tmp_path).limits == {}


@pytest.mark.parametrize("damaged", ['{"nothing": 1}', '{"disk-used": "half"}', "[1]", "{"])
def test_a_damaged_file_of_limits_is_said_and_kept(tmp_path, damaged):
    (tmp_path / "limits.json").write_text(damaged)
    edited = EditedLimits(tmp_path)
    assert (edited.limits, "limits.json cannot be read" in edited.problem) == ({}, True)
    edited.put("disk-used", 0.5)
    (aside,) = tmp_path.glob("limits.json.unreadable-*")
    assert (aside.read_text(), aside.name in edited.problem) == (damaged, True)
    again = EditedLimits(tmp_path)
    assert (again.limits, again.problem) == ({"disk-used": 0.5}, None)


def test_limits_that_do_not_count_are_said_with_the_verdict(cluster, open_console, tmp_path):
    folder = tmp_path / "console" / "history" / "demo"
    folder.mkdir(parents=True)
    (folder / "limits.json").write_text("[]")
    site = open_console(cluster.bootstrap_servers)
    site.look()
    shown = site.get("/health")
    assert any("limits.json cannot be read" in one for one in shown["reasons"])
    assert shown["level"] in {"warning", "critical"}
    assert "limits.json cannot be read" in site.page("/health")


@pytest.fixture
def certificate(tmp_path):
    """A certificate that has expired, and when."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "elsewhere")])
    end = dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(end - dt.timedelta(days=9))
        .not_valid_after(end)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + built.public_bytes(serialization.Encoding.PEM))
    return path, end


async def _seen(path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)

    def close(_reader, writer):
        writer.close()

    tls = await asyncio.start_server(close, "127.0.0.1", 0, ssl=context)
    plain = await asyncio.start_server(close, "127.0.0.1", 0)
    ports = [one.sockets[0].getsockname()[1] for one in (tls, plain)]
    options = {"bootstrap_servers": "h:1", "security_protocol": "SSL"}
    reader = CertificateReader(client_config(ADMIN_CONFIG, options), timeout_s=10)
    found = await reader([Broker(number, "127.0.0.1", port) for number, port in enumerate(ports)])
    tls.close()
    plain.close()
    return found


def test_a_certificate_that_nobody_trusts_is_read_all_the_same(certificate):
    path, end = certificate
    found = asyncio.run(_seen(path))
    assert found[0] == end.timestamp() * 1000
    assert "shows no certificate" in str(found[1])
