"""Key stores and trust stores of every form, and what is refused."""

import shutil
import ssl
import subprocess

import pytest

from barnabas.core.errors import ConfigError
from barnabas.network.tls_context import client_context, https_context, server_context
from barnabas.network.tls_keys import CONTEXT_KEYS
from tls_certificates import PASSWORD, Authority

AUTHORITY = Authority()
SERVER = AUTHORITY.sign("localhost", "127.0.0.1")


def values(**given):
    names = {name.replace("_", "."): value for name, value in given.items()}
    defaults = {"ssl.enabled.protocols": ["TLSv1.2", "TLSv1.3"], "ssl.keystore.type": "JKS"}
    defaults |= {"ssl.truststore.type": "JKS", "ssl.endpoint.identification.algorithm": "https"}
    return {**dict.fromkeys(CONTEXT_KEYS), **defaults, **names}


def jks(tmp_path, name, p12, *, password=PASSWORD):
    """The same store in the form before Java 9, made by Java."""
    path = tmp_path / name
    subprocess.run(
        [
            *("keytool", "-importkeystore", "-noprompt", "-srckeystore", p12, "-srcstorepass", PASSWORD),
            *("-destkeystore", str(path), "-deststoretype", "JKS", "-deststorepass", password),
        ],
        check=True,
        capture_output=True,
    )
    assert path.read_bytes()[:4] == b"\xfe\xed\xfe\xed"
    return str(path)


def shake_hands(server, client, host="localhost"):
    """A handshake in memory; raises what either end raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = server.wrap_bio(to_server, to_client, server_side=True)
    other = client.wrap_bio(to_client, to_server, server_hostname=host)
    waiting = [other, one]
    while waiting:
        end = waiting.pop(0)
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(end)
    return one, other


def stores(tmp_path, form):
    if form == "inline":
        return (
            {"ssl_keystore_key": SERVER.key_pem(), "ssl_keystore_certificate_chain": SERVER.chain_pem},
            {"ssl_truststore_certificates": AUTHORITY.pem_text},
        )
    if form == "inline, encrypted":
        return (
            {
                "ssl_keystore_key": SERVER.key_pem("key-secret"),
                "ssl_keystore_certificate_chain": SERVER.chain_pem,
                "ssl_key_password": "key-secret",
            },
            {"ssl_truststore_certificates": AUTHORITY.pem_text},
        )
    if form == "PEM":
        return (
            {"ssl_keystore_location": SERVER.pem(tmp_path / "s"), "ssl_keystore_type": "PEM"},
            {"ssl_truststore_location": AUTHORITY.pem(tmp_path / "a"), "ssl_truststore_type": "PEM"},
        )
    key, trust = SERVER.p12(tmp_path / "s.p12"), AUTHORITY.p12(tmp_path / "a.p12")
    if form == "JKS":
        if not shutil.which("keytool"):
            pytest.skip("a store of this form is made by Java")
        key, trust = jks(tmp_path, "s.jks", key), jks(tmp_path, "a.jks", trust)
    return (
        {"ssl_keystore_location": key, "ssl_keystore_password": PASSWORD},
        {"ssl_truststore_location": trust, "ssl_truststore_password": PASSWORD},
    )


FORMS = ("inline", "inline, encrypted", "PEM", "PKCS12", "JKS")


@pytest.mark.parametrize("form", FORMS)
def test_a_server_and_a_client_of_each_form(tmp_path, form):
    key, trust = stores(tmp_path, form)
    server, client = server_context(values(**key), "none"), client_context(values(**trust))
    _, end = shake_hands(server, client)
    assert end.version() == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(server, client, "elsewhere")
    lax = client_context(values(**trust, ssl_endpoint_identification_algorithm=""))
    shake_hands(server, lax, "elsewhere")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, client_context(values(ssl_truststore_certificates=Authority().pem_text)))


def test_a_bundle_may_have_names_in_any_letters_between_its_certificates(tmp_path):
    bundle = f"# Főtanúsítvány\n{AUTHORITY.pem_text}"
    (tmp_path / "ca.pem").write_bytes(bundle.encode())
    server = server_context(values(**stores(tmp_path, "PKCS12")[0]), "none")
    for client in (
        client_context(values(ssl_truststore_location=str(tmp_path / "ca.pem"))),
        client_context(values(ssl_truststore_certificates=bundle)),
        https_context(bundle),
    ):
        shake_hands(server, client)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty: leave it out"),
        (" \n", "is empty: leave it out"),
        ("# none yet", "has no certificate in PEM"),
    ],
)
def test_authorities_that_are_none_do_not_stand_for_those_of_the_system(text, words):
    with pytest.raises(ValueError, match=words):
        https_context(text)


def test_a_client_shows_a_certificate_of_the_servers_authority(tmp_path):
    key, trust = stores(tmp_path, "PKCS12")
    server = server_context(values(**key, **trust), "required")
    mine, theirs = AUTHORITY.sign("alice"), Authority().sign("alice")

    def client(signed):
        own = {"ssl_keystore_key": signed.key_pem(), "ssl_keystore_certificate_chain": signed.chain_pem}
        return client_context(values(**trust, **own))

    end, _ = shake_hands(server, client(mine))
    assert end.getpeercert()["subject"] == ((("commonName", "alice"),),)
    with pytest.raises(ssl.SSLError):
        shake_hands(server, client_context(values(**trust)))
    with pytest.raises(ssl.SSLError):
        shake_hands(server, client(theirs))


def test_only_the_versions_that_are_enabled(tmp_path):
    key, trust = stores(tmp_path, "PEM")
    server = server_context(values(**key), "none")
    older = client_context(values(**trust, ssl_enabled_protocols=["TLSv1.2"]))
    assert shake_hands(server, older)[1].version() == "TLSv1.2"
    newest = server_context(values(**key, ssl_enabled_protocols=["TLSv1.3"]), "none")
    with pytest.raises(ssl.SSLError):
        shake_hands(newest, older)
    for wrong in (["TLSv1.1"], ["SSLv3"], []):
        with pytest.raises(ConfigError, match=r"ssl\.enabled\.protocols"):
            server_context(values(**key, ssl_enabled_protocols=wrong), "none")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda _path: {}, "a TLS listener has a key"),
        (lambda path: {"ssl_keystore_location": str(path / "none")}, "No such file"),
        (lambda path: {"ssl_keystore_location": SERVER.p12(path / "s")}, "ssl.keystore.password"),
        (
            lambda path: {"ssl_keystore_location": SERVER.p12(path / "s"), "ssl_keystore_password": "s3cret"},
            "cannot be read",
        ),
        (lambda _path: {"ssl_keystore_key": SERVER.key_pem()}, "go together"),
        (
            lambda _path: {
                "ssl_keystore_key": SERVER.key_pem("key-s3cret"),
                "ssl_keystore_certificate_chain": SERVER.chain_pem,
                "ssl_key_password": "s3cret",
            },
            "is not its password",
        ),
        (
            lambda _path: {
                "ssl_keystore_key": SERVER.key_pem("key-s3cret"),
                "ssl_keystore_certificate_chain": SERVER.chain_pem,
            },
            "is not its password",
        ),
        (
            lambda _path: {
                "ssl_keystore_key": AUTHORITY.sign("x").key_pem(),
                "ssl_keystore_certificate_chain": SERVER.chain_pem,
            },
            "no private key in PEM with its certificate",
        ),
    ],
)
def test_a_key_store_that_is_none(tmp_path, make, words):
    with pytest.raises(ConfigError, match=words) as refused:
        server_context(values(**make(tmp_path)), "none")
    assert "s3cret" not in str(refused.value)
    assert "PRIVATE" not in str(refused.value)


def test_a_trust_store_that_is_none(tmp_path):
    (tmp_path / "junk").write_bytes(b"junk")
    key, trust = stores(tmp_path, "PKCS12")
    for given in (
        {"ssl_truststore_location": str(tmp_path / "junk")},
        {"ssl_truststore_certificates": "junk"},
        {**trust, "ssl_truststore_password": "s3cret"},
        {**trust, "ssl_truststore_certificates": AUTHORITY.pem_text},
        {"ssl_truststore_location": key["ssl_keystore_location"], "ssl_truststore_password": "s3cret"},
    ):
        with pytest.raises(ConfigError) as refused:
            client_context(values(**given))
        assert "s3cret" not in str(refused.value)
    with pytest.raises(ConfigError, match=r"ssl\.client\.auth is required"):
        server_context(values(**key), "required")


@pytest.mark.skipif(not shutil.which("keytool"), reason="a store of this form is made by Java")
def test_a_jks_that_is_damaged_anywhere_is_refused(tmp_path):
    path = tmp_path / "s.jks"
    whole = bytearray((tmp_path / jks(tmp_path, "s.jks", SERVER.p12(tmp_path / "s.p12"))).read_bytes())
    given = values(ssl_keystore_location=str(path), ssl_keystore_password=PASSWORD)
    server_context(given, "none")
    for position in range(4, len(whole), 7):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        with pytest.raises(ConfigError, match="its password is another one, or it is damaged"):
            server_context(given, "none")
    for size in range(4, len(whole), 11):
        path.write_bytes(whole[:size])
        with pytest.raises(ConfigError):
            server_context(given, "none")
