"""SCRAM (RFC 5802, RFC 7677) as values: mechanisms, credentials, and the keys behind both ends' proofs.

    SaltedPassword  = PBKDF2(password, salt, iterations)
    ClientKey       = HMAC(SaltedPassword, "Client Key")         StoredKey = H(ClientKey)
    ServerKey       = HMAC(SaltedPassword, "Server Key")
    ClientProof     = ClientKey XOR HMAC(StoredKey, AuthMessage)
    ServerSignature = HMAC(ServerKey, AuthMessage)

A server keeps StoredKey and ServerKey, from which no client's proof can be made (``ScramCredential``,
``ScramFormatter``). Nothing here shows a key in its `repr`.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from barnabas.core.eventlog import EventLog

_log: Final = EventLog("core.scram")

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
"""What a broker lets be stored (``ZkAdminManager``)."""


class ScramMechanism(Enum):
    """A mechanism by its SASL name."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def number(self) -> int:
        """What it is called on the wire (``ScramMechanism.type``)."""
        return 1 if self is ScramMechanism.SHA_256 else 2

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def name_of_kafka(self) -> str:
        """As Kafka's errors write it: its constant in Java."""
        return self.value.replace("-", "_")

    @property
    def key_bytes(self) -> int:
        return 32 if self is ScramMechanism.SHA_256 else 64

    def hmac(self, key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, self.hash_name)

    def hash(self, data: bytes) -> bytes:
        return hashlib.new(self.hash_name, data).digest()

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)

    def client_key(self, salted: bytes) -> bytes:
        return self.hmac(salted, b"Client Key")

    def server_key(self, salted: bytes) -> bytes:
        return self.hmac(salted, b"Server Key")


SALT_BITS: Final = 130
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"


def salt_of(number: int) -> bytes:
    """A salt of a random number of `SALT_BITS` bits: its digits to the base of 36, as Kafka's tools make
    salts (``ScramFormatter.secureRandomString``). Salts of one form do not tell what has made a user, nor
    users that are known from others.
    """
    digits = bytearray()
    while number or not digits:
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return bytes(reversed(digits))


MECHANISMS: Final = frozenset(each.value for each in ScramMechanism)
NUMBERS: Final = {each.number: each for each in ScramMechanism}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server knows of a user's password."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of_password(
        cls, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int = ITERATIONS_MIN
    ) -> "ScramCredential":
        """What to keep of a password."""
        return cls.of_salted(
            mechanism, mechanism.salted_password(password, salt, iterations), salt, iterations
        )

    @classmethod
    def of_salted(
        cls, mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
    ) -> "ScramCredential":
        """What to keep of a password that was salted already, as AlterUserScramCredentials brings it."""
        stored_key = mechanism.hash(mechanism.client_key(salted))
        return cls(salt, stored_key, mechanism.server_key(salted), iterations)

    def text(self) -> str:
        """As it is stored (``ScramCredentialUtils.credentialToString``)."""
        salt, stored, server = (
            base64.b64encode(each).decode() for each in (self.salt, self.stored_key, self.server_key)
        )
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"


def parse_credential(mechanism: ScramMechanism, text: str) -> ScramCredential:
    """A stored credential (``credentialFromString``).
    Raises ValueError, which shows nothing of the text, for one that no user can log in with.
    """
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    if set(fields) != {"salt", "stored_key", "server_key", "iterations"}:
        raise ValueError("a SCRAM credential has salt, stored_key, server_key and iterations")
    digits = fields.pop("iterations")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10 and int(digits) >= ITERATIONS_MIN):
        raise ValueError(f"a SCRAM credential has at least {ITERATIONS_MIN} iterations")
    try:
        parts = {name: base64.b64decode(value, validate=True) for name, value in fields.items()}
    except (binascii.Error, ValueError):
        raise ValueError("a SCRAM credential is not base64") from None
    size = mechanism.key_bytes
    if not parts["salt"] or len(parts["stored_key"]) != size or len(parts["server_key"]) != size:
        raise ValueError(f"the keys of a {mechanism.value} credential have {size} bytes")
    return ScramCredential(**parts, iterations=int(digits))


def credentials_of(
    user: str, settings: Mapping[str, str]
) -> Iterator[tuple[ScramMechanism, ScramCredential]]:
    """The credentials among the settings of a user. One that nobody can log in with is left out, and named in
    the log.
    """
    for mechanism in ScramMechanism:
        if mechanism.value in settings:
            try:
                yield mechanism, parse_credential(mechanism, settings[mechanism.value])
            except ValueError as error:
                _log.error("scram.unreadable_credential", user=user, mechanism=mechanism.value, reason=error)
