"""Keys and certificates as Kafka's keys name them, of any of Java's forms, in PEM
(``DefaultSslEngineFactory``).

PEM, in a file or as the value itself; PKCS12; and JKS, the form before Java 9:

    JKS          => MAGIC VERSION COUNT Entry* DIGEST       integers of 4 bytes, big-endian
      Entry      => 1 ALIAS TIME SIZE KEY COUNT Cert*       a private key with its chain
                  | 2 ALIAS TIME Cert                       a certificate that is trusted
      Cert       => TYPE SIZE X509                          TYPE and ALIAS: INT16 and that many bytes
      DIGEST     => SHA-1 of the password in UTF-16, "Mighty Aphrodite", and all before

What a store says it is counts less than what it begins with: Java's own reader takes PKCS12 for JKS too. All
errors are ConfigError, and show no password and no key.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from barnabas.core.errors import ConfigError

STORE_BYTES_MAX: Final = 16 * 1024 * 1024
ENTRIES_MAX: Final = 10_000

_JKS: Final = b"\xfe\xed\xfe\xed"
_WHITENER: Final = b"Mighty Aphrodite"
_PROTECTED_KEY: Final = bytes.fromhex("060a2b060104012a02110101")
"""The OBJECT IDENTIFIER of JKS's own encryption of keys."""


class KeyPair(NamedTuple):
    """A private key and the certificates that go with it, the key's own first."""

    key: bytes
    """In PEM; encrypted if it was."""
    chain: bytes
    password: str | None = None
    """That of the key, where it is encrypted."""

    def __repr__(self) -> str:
        return "<KeyPair>"


def key_pair(values: Mapping[str, Any]) -> KeyPair | None:
    """What the keys ``ssl.keystore.*`` name; None where nothing. Raises ConfigError."""
    inline_key, inline_chain = values["ssl.keystore.key"], values["ssl.keystore.certificate.chain"]
    location, key_password = values["ssl.keystore.location"], values["ssl.key.password"]
    if inline_key is not None or inline_chain is not None:
        if inline_key is None or inline_chain is None or location is not None:
            raise ConfigError(
                "ssl.keystore.key and ssl.keystore.certificate.chain go together, and without "
                "ssl.keystore.location"
            )
        return KeyPair(inline_key.encode(), inline_chain.encode(), key_password)
    if location is None:
        return None
    data = _read("ssl.keystore.location", location)
    password = values["ssl.keystore.password"]
    if _is_pem(values["ssl.keystore.type"], data):
        return KeyPair(data, data, key_password)
    if password is None:
        raise ConfigError("Missing required configuration ssl.keystore.password: the key store is encrypted")
    try:
        if data.startswith(_JKS):
            return _jks_pair(data, password, key_password or password)
        return _pkcs12_pair(data, password)
    except (ValueError, IndexError) as error:
        raise _unreadable("ssl.keystore.location", location, error) from None


def trusted_certificates(values: Mapping[str, Any]) -> str | None:
    """The certificates in PEM that the keys ``ssl.truststore.*`` name; None where nothing.
    Raises ConfigError.
    """
    inline, location = values["ssl.truststore.certificates"], values["ssl.truststore.location"]
    if inline is not None:
        if location is not None:
            raise ConfigError("Both ssl.truststore.certificates and ssl.truststore.location are set")
        return str(inline)
    if location is None:
        return None
    data = _read("ssl.truststore.location", location)
    if _is_pem(values["ssl.truststore.type"], data):
        return data.decode("ascii", "replace")
    password = values["ssl.truststore.password"]
    try:
        found = _jks_trusted(data, password) if data.startswith(_JKS) else _pkcs12_trusted(data, password)
    except (ValueError, IndexError) as error:
        raise _unreadable("ssl.truststore.location", location, error) from None
    if not found:
        raise _unreadable("ssl.truststore.location", location, "it has no certificate that is trusted")
    return found


def _read(key: str, location: str) -> bytes:
    try:
        with Path(location).open("rb") as file:
            data = file.read(STORE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"Invalid value {location} for configuration {key}: {error.strerror}") from None
    if len(data) > STORE_BYTES_MAX:
        raise _unreadable(key, location, f"it is larger than {STORE_BYTES_MAX} bytes")
    return data


def _is_pem(kind: str, data: bytes) -> bool:
    return kind.upper() == "PEM" or b"-----BEGIN " in data[:4096]


def _unreadable(key: str, location: str, why: object) -> ConfigError:
    return ConfigError(f"Invalid value {location} for configuration {key}: cannot be read: {why}")


def _pkcs12(data: bytes, password: str | None) -> Any:
    # Only stores of this form need the library.
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415

    return pkcs12.load_pkcs12(data, None if password is None else password.encode())


def _pkcs12_pair(data: bytes, password: str) -> KeyPair:
    from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415

    store = _pkcs12(data, password)
    if store.key is None or store.cert is None:
        raise ValueError("it has no private key with a certificate")
    key = store.key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    certificates = [store.cert, *store.additional_certs]
    return KeyPair(key, b"".join(each.certificate.public_bytes(form.Encoding.PEM) for each in certificates))


def _pkcs12_trusted(data: bytes, password: str | None) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    certificates = _pkcs12(data, password).additional_certs
    return "".join(each.certificate.public_bytes(Encoding.PEM).decode() for each in certificates)


class _Jks:
    """Reads a JKS from its beginning. Raises ValueError and IndexError."""

    def __init__(self, data: bytes, password: str | None) -> None:
        if password is not None:
            expected = hashlib.sha1(password.encode("utf-16-be") + _WHITENER + data[:-20]).digest()  # noqa: S324
            if not hmac.compare_digest(expected, data[-20:]):
                raise ValueError("its password is another one, or it is damaged")
        self._data = data[:-20]
        self._position = 4
        self._version = self._integer(4)
        if self._version not in (1, 2):
            raise ValueError(f"its version is {self._version}")
        self.pairs: list[tuple[bytes, list[bytes]]] = []
        self.trusted: list[bytes] = []
        for _ in range(min(self._integer(4), ENTRIES_MAX)):
            tag = self._integer(4)
            self._bytes(2)
            self._integer(8)
            if tag == 1:
                key = self._bytes(4)
                self.pairs.append((key, [self._certificate() for _ in range(min(self._integer(4), 100))]))
            elif tag == 2:
                self.trusted.append(self._certificate())
            else:
                raise ValueError(f"it has an entry of kind {tag}")

    def _integer(self, size: int) -> int:
        return int.from_bytes(self._take(size))

    def _bytes(self, length_size: int) -> bytes:
        return self._take(self._integer(length_size))

    def _take(self, size: int) -> bytes:
        piece = self._data[self._position : self._position + size]
        if len(piece) < size:
            raise ValueError("it ends too early")
        self._position += size
        return piece

    def _certificate(self) -> bytes:
        if self._version == 2:
            self._bytes(2)
        return self._bytes(4)


def _jks_trusted(data: bytes, password: str | None) -> str:
    return "".join(_pem("CERTIFICATE", each).decode() for each in _Jks(data, password).trusted)


def _jks_pair(data: bytes, password: str, key_password: str) -> KeyPair:
    pairs = _Jks(data, password).pairs
    if not pairs:
        raise ValueError("it has no private key")
    protected, chain = pairs[0]
    key = _jks_key(protected, key_password)
    return KeyPair(_pem("PRIVATE KEY", key), b"".join(_pem("CERTIFICATE", each) for each in chain))


def _jks_key(protected: bytes, password: str) -> bytes:
    """A key in PKCS8, out of JKS's own encryption: a chain of SHA-1 over salt and password."""
    at = protected.find(_PROTECTED_KEY)
    if at < 0:
        raise ValueError("its key is protected in a way that is not JKS's own")
    # Behind the OBJECT IDENTIFIER: NULL (2 bytes), and an OCTET STRING with salt, key and check.
    rest = protected[at + len(_PROTECTED_KEY) + 2 :]
    header = 2 if rest[1] < 0x80 else 2 + (rest[1] & 0x7F)
    sealed = rest[header:]
    salt, encrypted, check = sealed[:20], sealed[20:-20], sealed[-20:]
    secret = password.encode("utf-16-be")
    stream, digest = bytearray(), salt
    while len(stream) < len(encrypted):
        digest = hashlib.sha1(secret + digest).digest()  # noqa: S324 - the format's own
        stream += digest
    key = bytes(a ^ b for a, b in zip(encrypted, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):  # noqa: S324
        raise ValueError("the password of its key is another one")
    return key


def _pem(kind: str, data: bytes) -> bytes:
    return b"-----BEGIN %s-----\n%s-----END %s-----\n" % (
        kind.encode(),
        base64.encodebytes(data),
        kind.encode(),
    )
