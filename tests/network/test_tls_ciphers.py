"""Java's names of suites, in handshakes between our own contexts."""

import contextlib
import ssl

import pytest

from barnabas.core.errors import ConfigError
from barnabas.network.tls_ciphers import OF_TLS_1_3, openssl_name
from barnabas.network.tls_context import client_context, server_context
from barnabas.network.tls_keys import CONTEXT_KEYS
from tls_certificates import Authority

GCM = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
CHACHA = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"


def contexts(server_suites, client_suites, protocols=("TLSv1.2", "TLSv1.3")):
    authority = Authority()
    signed = authority.sign("localhost")
    values = dict.fromkeys(CONTEXT_KEYS) | {
        "ssl.enabled.protocols": list(protocols),
        "ssl.endpoint.identification.algorithm": "https",
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.pem_text,
    }
    of_server = values | {"ssl.cipher.suites": server_suites, "ssl.keystore.key": signed.key_pem()}
    of_server["ssl.keystore.certificate.chain"] = signed.chain_pem
    return server_context(of_server, "none"), client_context(values | {"ssl.cipher.suites": client_suites})


def shaken(server, client):
    """Version and suite that both agree on."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ends[0].version(), ends[0].cipher()[0]


@pytest.mark.parametrize(
    ("server", "client", "agreed"),
    [
        ([GCM], [], ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")),
        ([], [CHACHA], ("TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305")),
        ([GCM, CHACHA], [CHACHA, *OF_TLS_1_3], ("TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305")),
        ([*OF_TLS_1_3], [], ("TLSv1.3", "TLS_AES_256_GCM_SHA384")),
        ([GCM, *OF_TLS_1_3], [GCM], ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")),
        (["TLS_EMPTY_RENEGOTIATION_INFO_SCSV", GCM], [], ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")),
    ],
)
def test_only_suites_of_the_list_are_spoken(server, client, agreed):
    assert shaken(*contexts(server, client)) == agreed


@pytest.mark.parametrize(("server", "client"), [([GCM], [CHACHA]), ([GCM], [*OF_TLS_1_3])])
def test_without_a_common_suite_there_is_no_connection(server, client):
    with pytest.raises(ssl.SSLError):
        shaken(*contexts(server, client))


@pytest.mark.parametrize(
    ("suites", "protocols", "problem"),
    [
        (["TLS_NULL_WITH_NULL_NULL"], ["TLSv1.2"], "OpenSSL has no such suite"),
        (["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA"], ["TLSv1.2"], "OpenSSL has no such suite"),
        ([f"{GCM}:ALL"], ["TLSv1.2"], "OpenSSL has no such suite"),
        (["TLS_AES_128_GCM_SHA256"], ["TLSv1.3"], "add TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256"),
        ([GCM], ["TLSv1.3"], "the versions of TLS that are enabled have none of them"),
        ([*OF_TLS_1_3], ["TLSv1.2"], "the versions of TLS that are enabled have none of them"),
        (["TLS_EMPTY_RENEGOTIATION_INFO_SCSV"], ["TLSv1.2"], "have none of them"),
    ],
)
def test_a_list_that_cannot_be_obeyed_is_refused(suites, protocols, problem):
    with pytest.raises(ConfigError, match=r"configuration ssl\.cipher\.suites") as refused:
        contexts(suites, [], protocols)
    assert problem in str(refused.value)


def test_names():
    assert openssl_name("TLS_RSA_WITH_AES_128_CBC_SHA") == "AES128-SHA"
    assert openssl_name("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256") == "DHE-RSA-AES256-SHA256"
    assert openssl_name("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256") == "ECDHE-RSA-AES128-GCM-SHA256"
