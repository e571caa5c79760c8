"""An authority, and what it signs: keys and certificates in the forms that brokers and clients read."""

import datetime as dt
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

PASSWORD = "store-secret"
PEM = serialization.Encoding.PEM


class Signed:
    """A private key and its certificate."""

    def __init__(self, key: Any, certificate: x509.Certificate, authority: x509.Certificate) -> None:
        self.key = key
        self.certificate = certificate
        self.authority = authority

    @property
    def chain_pem(self) -> str:
        return self.certificate.public_bytes(PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        how: Any = serialization.NoEncryption()
        if password is not None:
            how = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, how).decode()

    def pem(self, path: Path) -> str:
        """A file with both."""
        path.write_text(self.key_pem() + self.chain_pem)
        return str(path)

    def p12(self, path: Path) -> str:
        how = serialization.BestAvailableEncryption(PASSWORD.encode())
        data = pkcs12.serialize_key_and_certificates(b"me", self.key, self.certificate, [self.authority], how)
        path.write_bytes(data)
        return str(path)


class Authority:
    """Signs."""

    def __init__(self, name: str = "Authority") -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self.subject, self.key.public_key(), authority=True)

    def _sign(
        self,
        subject: x509.Name,
        public_key: Any,
        *,
        authority: bool,
        names: Sequence[str] = (),
        valid: tuple[dt.datetime, dt.datetime] | None = None,
    ) -> Any:
        now = dt.datetime.now(dt.UTC)
        begins, ends = valid or (now - dt.timedelta(days=1), now + dt.timedelta(days=2))
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            # Python 3.13 wants what follows, in contexts that are made by default.
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
            )
        )
        if authority:
            usage = dict.fromkeys(
                ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
                 "key_agreement", "encipher_only", "decipher_only"), False,
            ) | {"key_cert_sign": True, "crl_sign": True}  # fmt: skip
            builder = builder.add_extension(x509.KeyUsage(**usage), critical=True)
        if names:
            alternatives: list[Any] = [
                x509.IPAddress(ip_address(each)) if each[0].isdigit() else x509.DNSName(each)
                for each in names
            ]
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def sign(
        self,
        *names: str,
        subject: Sequence[tuple[Any, str]] | x509.Name = (),
        valid: tuple[dt.datetime, dt.datetime] | None = None,
    ) -> Signed:
        """A certificate for these hosts, or for a client with this subject; `valid` between two times."""
        key = ec.generate_private_key(ec.SECP256R1())
        if isinstance(subject, x509.Name):
            named = subject
        else:
            parts = subject or [(NameOID.COMMON_NAME, names[0])]
            named = x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])
        return Signed(
            key,
            self._sign(named, key.public_key(), authority=False, names=names, valid=valid),
            self.certificate,
        )

    @property
    def pem_text(self) -> str:
        return self.certificate.public_bytes(PEM).decode()

    def pem(self, path: Path) -> str:
        path.write_text(self.pem_text)
        return str(path)

    def p12(self, path: Path) -> str:
        """A trust store as Java's keytool makes it."""
        entry = pkcs12.PKCS12Certificate(self.certificate, b"authority")
        how = serialization.BestAvailableEncryption(PASSWORD.encode())
        path.write_bytes(pkcs12.serialize_java_truststore([entry], how))
        return str(path)
