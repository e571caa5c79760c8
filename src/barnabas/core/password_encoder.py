"""`PasswordEncoder`: passwords among the settings of brokers, encrypted as Kafka keeps them in
``/config/brokers`` (``EncryptingPasswordEncoder``): brokers of both kinds read what either has written.

    ENCODED  => NAME:VALUE, ...     in any order; what is binary is in base64
    NAME     => keyFactoryAlgorithm cipherAlgorithm keyLength salt iterations
                encryptedPassword passwordLength initializationVector

The key is made of the secret by PBKDF2 with the salt; lengths of keys are in bits.
"""

import base64
import hashlib
from collections.abc import Callable
from typing import Final

from barnabas.core.errors import ConfigError

CIPHER: Final = "AES/CBC/PKCS5Padding"
KEY_FACTORIES: Final = {
    f"PBKDF2WithHmac{java}": hashed
    for java, hashed in (("SHA1", "sha1"), ("SHA256", "sha256"), ("SHA384", "sha384"), ("SHA512", "sha512"))
}
KEY_BITS: Final = (128, 192, 256)
ITERATIONS_MAX: Final = 1_000_000
"""Of what somebody else has written: a million take half a second."""
ENCODED_CHARACTERS_MAX: Final = 1 << 20
_SALT_BYTES: Final = 256
_BLOCK_BITS: Final = 128


class PasswordEncoder:
    """Encrypts and decrypts with one secret."""

    def __init__(
        self,
        secret: str,
        random_bytes: Callable[[int], bytes],
        *,
        key_factory: str | None = None,
        key_bits: int = 128,
        iterations: int = 4096,
    ) -> None:
        """Raises ConfigError for a key factory or a length of keys that there is not here."""
        self._key_factory = key_factory or "PBKDF2WithHmacSHA512"
        if self._key_factory not in KEY_FACTORIES:
            raise ConfigError(
                f"Invalid value {key_factory} for configuration password.encoder.keyfactory.algorithm: this "
                f"version has {', '.join(KEY_FACTORIES)}"
            )
        if key_bits not in KEY_BITS:
            raise ConfigError(
                f"Invalid value {key_bits} for configuration password.encoder.key.length: AES has "
                f"{', '.join(map(str, KEY_BITS))}"
            )
        self._secret = secret
        self._random_bytes = random_bytes
        self._key_bits = key_bits
        self._iterations = iterations

    def encode(self, password: str) -> str:
        """As it lies in the store."""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415
        from cryptography.hazmat.primitives.padding import PKCS7  # noqa: PLC0415

        salt, vector = self._random_bytes(_SALT_BYTES), self._random_bytes(_BLOCK_BITS // 8)
        key = self._key(self._key_factory, salt, self._iterations, self._key_bits)
        padder, cipher = (
            PKCS7(_BLOCK_BITS).padder(),
            Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor(),
        )
        data = cipher.update(padder.update(password.encode()) + padder.finalize()) + cipher.finalize()
        fields = {
            "keyFactoryAlgorithm": self._key_factory,
            "cipherAlgorithm": CIPHER,
            "keyLength": self._key_bits,
            "salt": base64.b64encode(salt).decode(),
            "iterations": self._iterations,
            "encryptedPassword": base64.b64encode(data).decode(),
            "passwordLength": _java_length(password),
            "initializationVector": base64.b64encode(vector).decode(),
        }
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, encoded: str) -> str:
        """The password. Raises ConfigError, which shows nothing of it, for what this secret does not open."""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415
        from cryptography.hazmat.primitives.padding import PKCS7  # noqa: PLC0415

        try:
            if len(encoded) > ENCODED_CHARACTERS_MAX:
                raise ValueError
            fields = dict(part.split(":", 1) for part in encoded.split(","))
            iterations, key_bits = int(fields["iterations"]), int(fields["keyLength"])
            if fields["cipherAlgorithm"] != CIPHER or not 0 < iterations <= ITERATIONS_MAX:
                raise ValueError
            if key_bits not in KEY_BITS:
                raise ValueError
            salt, data, vector = (
                base64.b64decode(fields[name], validate=True)
                for name in ("salt", "encryptedPassword", "initializationVector")
            )
            key = self._key(fields["keyFactoryAlgorithm"], salt, iterations, key_bits)
            cipher, unpadder = (
                Cipher(algorithms.AES(key), modes.CBC(vector)).decryptor(),
                PKCS7(128).unpadder(),
            )
            padded = cipher.update(data) + cipher.finalize()
            password: str = (unpadder.update(padded) + unpadder.finalize()).decode()
            if _java_length(password) != int(fields["passwordLength"]):
                raise ValueError
        except (KeyError, ValueError):
            raise ConfigError("Password could not be decoded") from None
        return password

    def _key(self, key_factory: str, salt: bytes, iterations: int, key_bits: int) -> bytes:
        hashed = KEY_FACTORIES[key_factory]
        return hashlib.pbkdf2_hmac(hashed, self._secret.encode(), salt, iterations, key_bits // 8)

    def __repr__(self) -> str:
        return "<PasswordEncoder>"


def _java_length(text: str) -> int:
    """In units of UTF-16, as Java counts."""
    return len(text.encode("utf-16-be")) // 2
