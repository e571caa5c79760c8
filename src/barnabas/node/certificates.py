"""`Authority`: a certificate authority of one's own, and the keys and certificates of brokers that it signs.

All of it is PEM, and keys are of the curve P-256. Certificates carry what strict verifiers ask for: subject
and authority key ids, uses of the key, and the names of hosts as alternatives of the subject. Times are the
machine's.
"""

import datetime as dt
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE: Final = dt.timedelta(days=3650)
RENEWED_BEFORE: Final = dt.timedelta(days=30)
"""How long before its end a certificate is made anew."""
_CLOCKS_DIFFER: Final = dt.timedelta(hours=1)
_PEM: Final = serialization.Encoding.PEM


class Authority:
    """A key that signs, and the certificate that clients trust."""

    def __init__(self, key: Any, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def new(cls, name: str) -> "Authority":
        """One with a new key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name)
        builder = _builder(subject, subject, key.public_key(), key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
        return cls(key, builder.sign(key, hashes.SHA256()))

    @classmethod
    def of_pem(cls, key: bytes, certificate: bytes) -> "Authority":
        """One that was kept. Raises ValueError, which shows nothing of the key."""
        try:
            loaded = serialization.load_pem_private_key(key, None)
        except (ValueError, TypeError):
            raise ValueError("its private key is not one in PEM without a password") from None
        return cls(loaded, x509.load_pem_x509_certificate(certificate))

    @property
    def key_pem(self) -> bytes:
        return _key_pem(self._key)

    @property
    def certificate_pem(self) -> bytes:
        pem: bytes = self._certificate.public_bytes(_PEM)
        return pem

    def broker(self, names: Iterable[str]) -> bytes:
        """A new private key with its certificate, for the brokers of these hosts and addresses, which show it
        to clients and to each other.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(
            _named("broker"), self._certificate.subject, key.public_key(), self._key.public_key()
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        alternatives = [_alternative(name) for name in sorted(names)]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        certificate: bytes = builder.sign(self._key, hashes.SHA256()).public_bytes(_PEM)
        return _key_pem(key) + certificate

    def __repr__(self) -> str:
        return f"<Authority {self._certificate.subject.rfc4514_string()}>"


def names_of(pem: bytes) -> set[str]:
    """The hosts and addresses that a broker's certificate names; none for one that ends soon.
    Raises ValueError for what has no certificate.
    """
    certificate = x509.load_pem_x509_certificate(pem)
    if certificate.not_valid_after_utc - dt.datetime.now(dt.UTC) < RENEWED_BEFORE:
        return set()
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise ValueError("its certificate names no host") from None
    return {str(each.value) for each in found}


def certificate_text(pem: bytes) -> str:
    """A certificate as the text that it is. Raises ValueError for what is none."""
    text: str = x509.load_pem_x509_certificate(pem).public_bytes(_PEM).decode()
    return text


def _named(name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Barnabas"),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(subject: x509.Name, issuer: x509.Name, own: Any, signing: Any) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(own)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(own), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: Any) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    pem: bytes = key.private_bytes(_PEM, form, serialization.NoEncryption())
    return pem
