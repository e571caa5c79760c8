"""SCRAM at both ends, with the example of RFC 7677, and what each refuses."""

import base64
import re

import pytest
from sasl_harness import CREDENTIALS, find

from barnabas.core.delegation_token import TokenCredential
from barnabas.core.scram import SALT_BITS, ScramCredential, ScramMechanism, parse_credential, salt_of
from barnabas.network.sasl import scram
from barnabas.network.sasl.mechanism import SaslAuthenticationError, SaslExchangeError
from barnabas.network.sasl.scram import ScramClient, ScramServer

SHA_256 = ScramMechanism.SHA_256


def exchange(client, server):
    challenge = b""
    while (token := client.evaluate(challenge)) is not None:
        challenge = server.evaluate(token)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_user_logs_in(mechanism):
    client, server = ScramClient(mechanism, "alice", "alice-secret"), ScramServer(mechanism, find)
    exchange(client, server)
    assert (client.complete, server.user) == (True, "alice")


def test_the_example_of_rfc_7677(monkeypatch):
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = ScramCredential.of_password(SHA_256, "pencil", salt, 4096)
    nonces = iter(["rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"])
    monkeypatch.setattr(scram.secrets, "token_urlsafe", lambda _size: next(nonces))
    client = ScramClient(SHA_256, "user", "pencil")
    server = ScramServer(SHA_256, lambda _mechanism, _user: credential)

    first = client.evaluate(b"")
    assert first == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = server.evaluate(first)
    final = client.evaluate(challenge)
    assert final.endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert server.evaluate(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_a_wrong_password_and_an_unknown_user_are_refused_at_the_same_step():
    for user, password in (("alice", "wrong"), ("mallory", "alice-secret")):
        client, server = ScramClient(SHA_256, user, password), ScramServer(SHA_256, find)
        final = client.evaluate(server.evaluate(client.evaluate(b"")))
        with pytest.raises(SaslExchangeError, match="Invalid client credentials"):
            server.evaluate(final)
        assert server.user is None


def test_a_delegation_token_lets_nobody_in_after_its_end():
    """Kafka 3.9 takes it until the controller has removed it, and closes at the first request."""
    scram_credential = ScramCredential.of_password(SHA_256, "secret", bytes(16), 4096)
    token = TokenCredential(scram_credential, "alice", expires_ms=5000)

    def server_at(now_ms):
        return ScramServer(SHA_256, find, lambda _mechanism, _id: token, lambda: now_ms)

    server = server_at(4000.0)
    exchange(ScramClient(SHA_256, "id", "secret", token_auth=True), server)
    assert (server.user, server.lifetime_ms) == ("alice", 1000)
    server = server_at(5001.0)
    with pytest.raises(SaslExchangeError, match="has expired"):
        exchange(ScramClient(SHA_256, "id", "secret", token_auth=True), server)
    assert server.user is None


def test_an_unknown_user_has_the_same_salt_each_time():
    answers = {ScramServer(SHA_256, find).evaluate(b"n,,n=mallory,r=abc").split(b",s=")[1] for _ in range(3)}
    assert len(answers) == 1
    assert answers != {ScramServer(SHA_256, find).evaluate(b"n,,n=trudy,r=abc").split(b",s=")[1]}


def test_the_salt_of_an_unknown_user_looks_like_any_other():
    """Kafka's tools and ours make salts of 130 random bits to the base of 36, and 4,096 iterations."""
    for number in range(200):
        first = ScramServer(SHA_256, find).evaluate(b"n,,n=user-%d,r=abc" % number).decode()
        salt, iterations = re.fullmatch(r"r=[^,]+,s=([^,]+),i=(\d+)", first).groups()
        assert re.fullmatch(rb"[0-9a-z]{20,26}", base64.b64decode(salt))
        assert iterations == "4096"
    assert salt_of(0) == b"0"
    assert salt_of(36**3 + 35) == b"100z"
    assert len(salt_of((1 << SALT_BITS) - 1)) == 26


def test_a_proof_of_one_exchange_is_none_of_another():
    client, first, second = (
        ScramClient(SHA_256, "alice", "alice-secret"),
        *(ScramServer(SHA_256, find) for _ in range(2)),
    )
    opening = client.evaluate(b"")
    final = client.evaluate(first.evaluate(opening))
    second.evaluate(opening)
    with pytest.raises(SaslExchangeError, match="nonce"):
        second.evaluate(final)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=,r=x",
        b"n,,n=alice",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,m=ext,n=alice,r=x",
        b"n,,n=a=lice,r=x",
        b"\xff",
        b"n,,n=alice,r=" + b"x" * 10 + b"\n",
    ],
)
def test_what_is_no_first_message(message):
    with pytest.raises(SaslExchangeError):
        ScramServer(SHA_256, find).evaluate(message)


def test_a_message_that_would_hold_the_loop_is_not_read():
    """512 KB of a name took 70 ms, and anybody may send them."""

    def first(size):
        message = b"n,,n=alice,r=nonce,more="
        return message + b"x" * (size - len(message))

    assert ScramServer(SHA_256, find).evaluate(first(scram.MESSAGE_BYTES_MAX)).startswith(b"r=nonce")
    with pytest.raises(SaslExchangeError, match="longer than 16384 bytes"):
        ScramServer(SHA_256, find).evaluate(first(scram.MESSAGE_BYTES_MAX + 1))


@pytest.mark.parametrize("change", [b"c=biws,", b"c=eSws,"])
def test_a_final_message_is_of_the_head_that_came_first(change):
    client, server = ScramClient(SHA_256, "alice", "alice-secret"), ScramServer(SHA_256, find)
    final = client.evaluate(server.evaluate(client.evaluate(b"")))
    if change == b"c=biws,":
        assert server.evaluate(final).startswith(b"v=")
    else:
        with pytest.raises(SaslExchangeError, match="channel binding"):
            server.evaluate(final.replace(b"c=biws,", change))


def test_another_may_not_be_named_beside_the_user():
    with pytest.raises(SaslAuthenticationError, match="authorization id"):
        ScramServer(SHA_256, find).evaluate(b"n,a=bob,n=alice,r=x")


def test_names_with_commas_and_equal_signs():
    credential = ScramCredential.of_password(SHA_256, "p", b"salt")
    server = ScramServer(SHA_256, lambda _mechanism, user: credential if user == "a,b=c" else None)
    exchange(ScramClient(SHA_256, "a,b=c", "p"), server)
    assert server.user == "a,b=c"


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=other,s=c2FsdA==,i=4096",
        b"r=NONCE,s=c2FsdA==,i=4096",
        b"r=NONCEmore,s=c2FsdA==,i=4095",
        b"r=NONCEmore,s=c2FsdA==,i=100001",
        b"r=NONCEmore,s=c2FsdA==,i=999999999",
        b"r=NONCEmore,s=c2FsdA==,i=2147483648",
        b"e=unknown-user",
        b"\xff",
    ],
)
def test_a_client_refuses_a_server_that_breaks_the_rules(challenge):
    client = ScramClient(SHA_256, "alice", "alice-secret")
    nonce = client.evaluate(b"").partition(b",r=")[2]
    with pytest.raises(SaslAuthenticationError):
        client.evaluate(challenge.replace(b"NONCE", nonce))


def test_a_server_that_does_not_know_the_password_is_noticed():
    client = ScramClient(SHA_256, "alice", "alice-secret")
    client.evaluate(ScramServer(SHA_256, find).evaluate(client.evaluate(b"")))
    with pytest.raises(SaslAuthenticationError, match="server signature"):
        client.evaluate(b"v=" + base64.b64encode(bytes(32)))
    assert not client.complete


def test_a_credential_is_stored_as_kafka_stores_it():
    for mechanism in ScramMechanism:
        credential = CREDENTIALS[mechanism, "alice"]
        text = credential.text()
        assert text.startswith("salt=c2FsdCBvZiBhbGljZQ==,stored_key=")
        assert text.endswith(",iterations=4096")
        assert parse_credential(mechanism, text) == credential
        assert base64.b64encode(credential.stored_key).decode() not in repr(credential)


@pytest.mark.parametrize(
    ("find_text", "replacement"),
    [
        (",iterations=4096", ""),
        ("iterations=4096", "iterations=4095"),
        ("iterations=4096", "iterations=x"),
        ("salt=c2FsdCBvZiBhbGljZQ==", "salt="),
        ("salt=", "salt=!"),
        ("stored_key=", "stored_key=AAAA"),
    ],
)
def test_a_stored_credential_that_is_none(find_text, replacement):
    text = CREDENTIALS[SHA_256, "alice"].text().replace(find_text, replacement)
    with pytest.raises(ValueError, match="SCRAM"):
        parse_credential(SHA_256, text)
