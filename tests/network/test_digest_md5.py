"""DIGEST-MD5, against the example of RFC 2831 and a server that does its part by the letter."""

import hashlib
import re

import pytest

from barnabas.network.sasl.digest_md5 import DigestMd5Client
from barnabas.network.sasl.mechanism import SaslAuthenticationError, SaslExchangeError

CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'


def client(user="chris", password="secret"):
    made = DigestMd5Client(user, password, "imap", "elwood.innosoft.com", nonce=lambda: "OA6MHXh6VqTrRk")
    assert made.evaluate(b"") == b""
    return made


def test_the_example_of_the_rfc():
    exchange = client()
    said = exchange.evaluate(CHALLENGE).decode()

    assert "response=d388dad90d4bbd760a152321f2143af7" in said
    assert not exchange.complete
    assert exchange.evaluate(b"rspauth=ea40f60335c427b5527b84dbabcdfffd") is None
    assert exchange.complete


@pytest.mark.parametrize("proof", [b"rspauth=" + b"0" * 32, b"rspauth=", b"x=y", b""])
def test_a_server_that_does_not_know_the_password_is_not_believed(proof):
    exchange = client()
    exchange.evaluate(CHALLENGE)
    with pytest.raises(SaslAuthenticationError, match="does not prove"):
        exchange.evaluate(proof)
    assert not exchange.complete


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"\xff",
        b"nonce",
        b'nonce="open',
        b'realm="r",algorithm=md5-sess',
        b'nonce="n",algorithm=md5',
        b'nonce="n",algorithm=md5-sess,qop="auth-int,auth-conf"',
        b'nonce="n",algorithm=md5-sess,x="' + b"y" * 3000 + b'"',
    ],
)
def test_a_challenge_that_is_none_is_refused(challenge):
    with pytest.raises(SaslExchangeError):
        client().evaluate(challenge)


@pytest.mark.parametrize(("user", "form"), [("jörg", "latin-1"), ("кафка", "utf-8"), ('a"b\\c', "latin-1")])
def test_names_are_hashed_in_the_smaller_alphabet_and_sent_in_utf_8(user, form):
    said = client(user).evaluate(CHALLENGE).decode()
    quoted = re.search(r'username="((?:[^"\\]|\\.)*)"', said)[1]

    assert re.sub(r"\\(.)", r"\1", quoted) == user
    assert re.search("response=([0-9a-f]+)", said)[1] == expected(user.encode(form), b"secret")


def expected(user, password):
    def md5(data):
        return hashlib.md5(data, usedforsecurity=False)

    first = md5(user + b":elwood.innosoft.com:" + password).digest() + b":OA6MG9tEQGm2hh:OA6MHXh6VqTrRk"
    second = md5(b"AUTHENTICATE:imap/elwood.innosoft.com").hexdigest()
    between = "OA6MG9tEQGm2hh:00000001:OA6MHXh6VqTrRk:auth"
    return md5(f"{md5(first).hexdigest()}:{between}:{second}".encode()).hexdigest()


def test_nobody_is_asked_twice_with_the_same_nonce():
    said = set()
    for _ in range(3):
        exchange = DigestMd5Client("u", "p", "s", "h")
        exchange.evaluate(b"")
        said.add(exchange.evaluate(CHALLENGE))
    assert len(said) == 3
