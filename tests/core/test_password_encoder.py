"""Passwords as Kafka keeps them in the store."""

import random

import pytest

from barnabas.core.errors import ConfigError
from barnabas.core.password_encoder import CIPHER, KEY_FACTORIES, PasswordEncoder

OF_KAFKA = (
    "initializationVector:xTuSRqMlr99Dw+0BpIVXYg==,keyLength:128,salt:EEoPUNZPZk0cV2ssx+CbDlZIS6BP65sbU4cswj+bkfdH"
    "T5y0EC7c9bJEtig8IzUjSHw1duRCUt+W9NWKzXDWoMLG8akkzRDVMb0ctcq0I1V0Amg8M3oLERkqTXqpAX5BLvyA60OI1bDB4koreMNXNcFm"
    "tSJ4u+glFGg+UIImbmkRWJhCWZtZqmliNW0AH0EY6vpJOGb9oU8GIMm+TfSmtVgJAaneQteiEX42pPr5ae5DgMqK+k5L5DPhuuCHGZcJY3TW"
    "d0yLIuMbWAlq9wM60AqNJiYwW+3Xa4SKd000zX1vGnZd/tfTBHC0AReSRCCK2ek+sz9zvs4NL8DRl8aKXg==,"
    "keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:4096,"
    "passwordLength:9,encryptedPassword:VGM3FjF/v2JpjaeZ8XQDWQ=="
)
"""What kafka-configs.sh of 3.9.2 wrote for hunter2-é, with password.encoder.secret=the-secret."""


def encoder(secret="the-secret", **more):
    return PasswordEncoder(secret, random.Random(1).randbytes, **more)


def test_what_kafka_wrote_is_read():
    assert encoder().decode(OF_KAFKA) == "hunter2-é"


@pytest.mark.parametrize("key_bits", [128, 256])
@pytest.mark.parametrize("key_factory", [None, *KEY_FACTORIES])
def test_what_is_written_is_read_whatever_is_configured_by_then(key_factory, key_bits):
    written = encoder(key_factory=key_factory, key_bits=key_bits, iterations=1024).encode("a, b:\U0001f511")
    assert "key" in written
    assert "a, b" not in written
    assert encoder().decode(written) == "a, b:\U0001f511"


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "hunter2",
        OF_KAFKA.replace("passwordLength:9", "passwordLength:8"),
        OF_KAFKA.replace("4096", "2000000000"),
        OF_KAFKA.replace("4096", "many"),
        OF_KAFKA.replace("keyLength:128", "keyLength:8"),
        OF_KAFKA.replace("SHA512", "MD5"),
        OF_KAFKA.replace(CIPHER, "AES/GCM/NoPadding"),
        OF_KAFKA.replace("VGM3FjF", "VGM3FjG"),
        OF_KAFKA.replace("VGM3FjF/v2JpjaeZ8XQDWQ==", "AAAA"),
        OF_KAFKA + "x" * (1 << 20),
    ],
)
def test_what_cannot_be_opened_is_one_line_without_a_secret(wrong):
    with pytest.raises(ConfigError, match=r"^Password could not be decoded$"):
        encoder().decode(wrong)


def test_another_secret_opens_nothing():
    with pytest.raises(ConfigError, match=r"^Password could not be decoded$"):
        encoder("another").decode(OF_KAFKA)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"key_factory": "Rot13"}, "keyfactory.algorithm: this version has"),
        ({"key_bits": 100}, "AES has 128"),
    ],
)
def test_what_there_is_not_is_refused(more, said):
    with pytest.raises(ConfigError, match=said):
        encoder(**more)
