"""Whether a listener's new certificate may follow its old one (``SslFactory.CertificateEntries``).

Clients verify the names of a broker, and other brokers may know it by its subject. So a certificate that is
replaced while the broker runs has the subject of the one before it and all of its names, unless
``ssl.allow.dn.changes`` and ``ssl.allow.san.changes`` say that they may be others.

Kafka compares all entries of a store; here it is the one that is shown, the certificate of the private key.
"""

from dataclasses import dataclass
from typing import Any

from barnabas.core.errors import ConfigError
from barnabas.network.tls_principal import relative_names

_FAILED = "Validation of dynamic config update of SSLFactory failed: "


@dataclass(frozen=True, slots=True)
class CertificateEntry:
    """What stays the same over the certificates of one listener."""

    subject: tuple[str, ...]
    """The parts of the subject's name, the last one first, as Java writes them."""
    alternatives: tuple[tuple[int, str], ...]
    """The names of hosts and addresses, each with its number in RFC 5280: 2 is DNS, 7 an address."""

    @classmethod
    def of_chain(cls, chain: bytes) -> "CertificateEntry":
        """Of the first certificate of a chain in PEM. Raises ConfigError for what is none."""
        # Only brokers that speak TLS load the library.
        from cryptography import x509  # noqa: PLC0415

        try:
            certificate = x509.load_pem_x509_certificates(chain)[0]
            return cls(tuple(relative_names(certificate.subject)), tuple(_alternatives(certificate)))
        except ValueError:
            raise ConfigError(f"{_FAILED}its certificate cannot be read") from None

    def ensure_followed_by(
        self, new: "CertificateEntry", *, dn_may_change: bool, san_may_change: bool
    ) -> None:
        """Raises ConfigError, in Kafka's words, for a certificate that may not follow this one."""
        # Java compares names without regard to case and to how many spaces are between words.
        if not dn_may_change and _canonical(self.subject) != _canonical(new.subject):
            raise ConfigError(
                f"{_FAILED}Keystore DistinguishedName does not match:  "
                f"existing={{DN={', '.join(self.subject)}}}, new={{DN={', '.join(new.subject)}}}"
            )
        # More names are no loss to anybody.
        if not san_may_change and not set(self.alternatives) <= set(new.alternatives):
            raise ConfigError(
                f"{_FAILED}Keystore SubjectAltNames do not match:  "
                f"existing={{SAN={_shown(self.alternatives)}}}, new={{SAN={_shown(new.alternatives)}}}"
            )


def _shown(alternatives: tuple[tuple[int, str], ...]) -> str:
    return f"[{', '.join(f'[{kind}, {name}]' for kind, name in alternatives)}]"


def _canonical(subject: tuple[str, ...]) -> list[str]:
    return [" ".join(part.split()).casefold() for part in subject]


def _alternatives(certificate: Any) -> list[tuple[int, str]]:
    from cryptography import x509  # noqa: PLC0415

    kinds = {
        x509.RFC822Name: 1,
        x509.DNSName: 2,
        x509.DirectoryName: 4,
        x509.UniformResourceIdentifier: 6,
        x509.IPAddress: 7,
        x509.RegisteredID: 8,
    }
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [(kinds.get(type(each), 0), _text(each.value)) for each in found]


def _text(value: Any) -> str:
    """What one name says: text, an address, a subject, a number."""
    for plain in ("dotted_string", "rfc4514_string"):
        if hasattr(value, plain):
            found = getattr(value, plain)
            return str(found() if callable(found) else found)
    return value.hex() if isinstance(value, bytes) else str(value)
