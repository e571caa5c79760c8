"""An `ssl.SSLContext` of Kafka's keys (``DefaultSslEngineFactory``, ``SslFactory``).

OpenSSL reads keys of files only. A key that is not in a file of PEM goes through a file in memory, where the
system has such, else through one that only this user reads and that is gone at once.
"""

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, Final

from barnabas.core.errors import ConfigError
from barnabas.network.tls_ciphers import restrict
from barnabas.network.tls_socket import handshake_words
from barnabas.network.tls_stores import KeyPair, key_pair, trusted_certificates

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_HANDSHAKE_TURNS_MAX: Final = 10
"""Each side says something three times at most."""


def server_context(values: Mapping[str, Any], client_auth: str) -> ssl.SSLContext:
    """For connections that are accepted. Raises ConfigError."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, values)
    pair = key_pair(values)
    if pair is None:
        raise ConfigError("Missing required configuration ssl.keystore.location: a TLS listener has a key")
    _load(context, pair)
    trusted = trusted_certificates(values)
    if client_auth != "none":
        if trusted is None:
            raise ConfigError(
                f"Missing required configuration ssl.truststore.location: ssl.client.auth is {client_auth}"
            )
        _trust(context, trusted)
        context.verify_mode = CLIENT_AUTH[client_auth]
    # Sessions are not resumed: a client that is trusted no longer could come in by an old ticket.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    return context


def client_context(values: Mapping[str, Any]) -> ssl.SSLContext:
    """For connections that are made: the server's certificate is verified always, its name unless
    ``ssl.endpoint.identification.algorithm`` is empty. Raises ConfigError.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT, values)
    algorithm = values["ssl.endpoint.identification.algorithm"]
    if algorithm not in (None, "") and algorithm.lower() != "https":
        raise ConfigError(
            f"Invalid value {algorithm} for configuration ssl.endpoint.identification.algorithm: it is "
            "https, or empty"
        )
    context.check_hostname = bool(algorithm)
    context.verify_mode = ssl.CERT_REQUIRED
    trusted = trusted_certificates(values)
    if trusted is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _trust(context, trusted)
    pair = key_pair(values)
    if pair is not None:
        _load(context, pair)
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


def https_context(authorities: str) -> ssl.SSLContext:
    """For requests to servers of https that these authorities (PEM) have signed, and no others: a text
    without one does not stand for the authorities of the system. Raises ValueError, whose text goes behind
    the name of what gave the authorities.
    """
    if not authorities.strip():
        raise ValueError("is empty: leave it out for the authorities of the system")
    try:
        context = ssl.create_default_context(cadata=_ascii(authorities))
    except ssl.SSLError:
        raise ValueError("has no certificate in PEM") from None
    # Python 3.13 refuses what Java takes: a certificate that does not name its authority's key.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def failed_handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> str | None:
    """Why a client with one context cannot connect to a server with the other, tried in memory; None where it
    can (``SslFactory.SslEngineValidator``).
    """
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(_HANDSHAKE_TURNS_MAX):
        for end in tuple(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except (ssl.SSLError, ssl.CertificateError) as error:
                return handshake_words(error)
            ends.remove(end)
        if not ends:
            return None
    return "it has no end"


def _context(protocol: Any, values: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    enabled = values["ssl.enabled.protocols"]
    unknown = [each for each in enabled if each not in VERSIONS]
    if unknown or not enabled:
        raise ConfigError(
            f"Invalid value {','.join(enabled)} for configuration ssl.enabled.protocols: this version has "
            f"{', '.join(VERSIONS)}"
        )
    versions = [VERSIONS[each] for each in enabled]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if values["ssl.cipher.suites"]:
        restrict(context, values["ssl.cipher.suites"])
    return context


def _trust(context: ssl.SSLContext, trusted: str) -> None:
    try:
        context.load_verify_locations(cadata=_ascii(trusted))
    except (ssl.SSLError, ValueError):
        raise ConfigError(
            "The trust store (ssl.truststore.location, ssl.truststore.certificates) has no certificate in PEM"
        ) from None


def _ascii(pem: str) -> str:
    """Bundles have names in other letters between their certificates, which OpenSSL refuses."""
    return pem.encode("ascii", "replace").decode()


def _load(context: ssl.SSLContext, pair: KeyPair) -> None:
    password = (pair.password or "").encode()
    try:
        with _as_file(pair.key) as key, _as_file(pair.chain) as chain:
            # The function keeps OpenSSL from asking at the terminal.
            context.load_cert_chain(chain, key, lambda: password)
    except (ssl.SSLError, OSError, ValueError):
        raise ConfigError(
            "The key store (ssl.keystore.location, ssl.keystore.key) has no private key in PEM with its "
            "certificate, or ssl.key.password is not its password"
        ) from None


@contextlib.contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """The path of a file with these bytes, while the block runs."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
        with open(descriptor, "wb", closefd=True) as file:  # noqa: PTH123 - it has no name
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.NamedTemporaryFile(prefix="barnabas-tls-") as named:
        named.write(data)
        named.flush()
        yield named.name
