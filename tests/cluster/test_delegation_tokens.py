"""Delegation tokens in the store, as two brokers see them: made, renewed, ended, damaged, expired."""

import base64
import hashlib
import hmac as hmac_of

import pytest

from barnabas.cluster.metadata.delegation_tokens import DelegationTokenManager, TokenSettings
from barnabas.cluster.metadata.registration import ensure_persistent_paths
from barnabas.cluster.store.memory import MemoryEnsemble, MemoryStore
from barnabas.cluster.store.token_znodes import NOTICE, decode_notice, decode_token, encode_token
from barnabas.core.broker_config import broker_config
from barnabas.core.delegation_token import TokenInformation
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.scram import ScramCredential, ScramMechanism
from standing_clock import Clock

SHA_256 = ScramMechanism.SHA_256
ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"
OF_KAFKA = (
    b'{"issueTimestamp":1795759273311,"renewers":["User%3Abob","User%3Ac"],"tokenRequester":"User%3Aalice",'
    b'"tokenId":"Ca_0JWO6R5KluDnfjt1Uxg","owner":"User%3Aalice","expiryTimestamp":1795845673311,'
    b'"maxTimestamp":1796364073311,"version":3}'
)
"""As a broker of Apache Kafka 3.9.2 wrote it."""


class Cluster:
    """Brokers on one store."""

    def __init__(self, loop):
        self.loop = loop
        self.clock = Clock()
        self.ensemble = MemoryEnsemble(lambda: 0)
        self.store = self.session()
        loop.wait(ensure_persistent_paths(self.store))

    def session(self):
        store = MemoryStore(self.ensemble, self.loop.call_soon)
        self.loop.wait(store.start())
        return store

    def broker(self, key="sesame", store=None, prefix="id", **more):
        ids = iter(f"{prefix}-{number}" for number in range(100))
        settings = TokenSettings(key, **{"max_lifetime_ms": 1000, "expiry_ms": 100, **more})
        tokens = DelegationTokenManager(store or self.session(), self.clock, settings, lambda: next(ids))
        self.loop.wait(tokens.start())
        return tokens

    def wait(self, pending):
        result = self.loop.wait(pending)
        self.loop.run()
        return result

    def code(self, call):
        with pytest.raises(KafkaError) as refused:
            self.wait(call())
        return refused.value.code

    def of(self, tokens, token_id="id-0"):
        return next((each for each in tokens.tokens() if each.token_id == token_id), None)


@pytest.fixture
def cluster(loop):
    return Cluster(loop)


def test_a_token_of_an_owner_that_is_no_user_lets_nobody_in(cluster):
    """A broker of Apache Kafka may have made it: it lets the user of that name in."""
    broker = cluster.broker()
    made = cluster.wait(broker.create("Group:alice", ALICE, [], -1))
    assert cluster.of(broker) == made.information
    assert broker.find(SHA_256, "id-0") is None


def test_a_token_that_one_broker_makes_lets_its_owner_in_at_another(cluster):
    first, second = cluster.broker(), cluster.broker()
    made = cluster.wait(first.create(ALICE, BOB, [CAROL], -1))
    now = cluster.clock.time_ms()
    assert made.information == TokenInformation("id-0", ALICE, BOB, (CAROL,), now, now + 100, now + 1000)
    assert made.hmac == hmac_of.new(b"sesame", b"id-0", hashlib.sha512).digest()
    assert cluster.of(second) == made.information
    assert second.with_secret(made.information).hmac == made.hmac
    found = second.find(SHA_256, "id-0")
    assert (found.owner, found.expires_ms, found.scram.iterations) == ("alice", now + 100, 4096)
    password = base64.b64encode(made.hmac).decode()
    assert found.scram == ScramCredential.of_password(SHA_256, password, found.scram.salt)
    assert second.find(SHA_256, "id-9") is None
    assert made.hmac.hex() not in repr(made)
    assert "sesame" not in repr(first)


@pytest.mark.parametrize(
    ("asked", "most", "first"), [(-1, 1000, 100), (0, 1000, 100), (50, 50, 50), (9999, 1000, 100)]
)
def test_how_long_a_token_lives(cluster, asked, most, first):
    made = cluster.wait(cluster.broker().create(ALICE, ALICE, [], asked)).information
    now = cluster.clock.time_ms()
    assert (made.max_ms - now, made.expires_ms - now) == (most, first)


def test_owner_and_renewers_renew_a_token_and_nobody_else(cluster):
    first, second = cluster.broker(), cluster.broker()
    secret = cluster.wait(first.create(ALICE, BOB, [CAROL], -1)).hmac
    start = cluster.clock.time_ms()
    assert first.find(SHA_256, "id-0").expires_ms == start + 100
    assert cluster.wait(second.renew(CAROL, secret, 300)) == start + 300
    assert cluster.of(first).expires_ms == start + 300
    assert first.find(SHA_256, "id-0").expires_ms == start + 300
    assert cluster.wait(first.renew(ALICE, secret, -1)) == start + 100
    assert cluster.wait(first.renew(ALICE, secret, 5000)) == start + 1000
    # Who asked for it for another owner may look, and no more.
    assert cluster.code(lambda: first.renew(BOB, secret, 1)) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert cluster.code(lambda: first.expire(BOB, secret, -1)) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert cluster.code(lambda: first.renew(ALICE, b"x", 1)) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    cluster.clock.advance(1001)
    assert cluster.code(lambda: first.renew(ALICE, secret, 1)) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert cluster.code(lambda: first.expire(ALICE, secret, 1)) is ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_a_token_is_ended_now_or_later(cluster):
    first, second = cluster.broker(), cluster.broker()
    secret = cluster.wait(first.create(ALICE, ALICE, [], -1)).hmac
    now = cluster.clock.time_ms()
    assert cluster.wait(first.expire(ALICE, secret, 7)) == now + 7
    assert cluster.of(second).expires_ms == now + 7
    assert cluster.wait(second.expire(ALICE, secret, -1)) == now
    for broker in (first, second):
        assert broker.tokens() == []
        assert broker.find(SHA_256, "id-0") is None
        assert (
            cluster.code(lambda b=broker: b.renew(ALICE, secret, 1)) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        )


def test_a_token_that_another_broker_has_removed_does_not_come_back(cluster):
    first = cluster.broker()
    secret = cluster.wait(first.create(ALICE, ALICE, [], -1)).hmac
    # Its znode goes, and no notice says so.
    cluster.wait(cluster.store.delete("/delegation_token/tokens/id-0"))
    assert cluster.code(lambda: first.renew(ALICE, secret, 1)) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert first.tokens() == []
    assert cluster.wait(cluster.store.children("/delegation_token/tokens")) == []


def test_what_expired_is_removed_for_all_brokers(cluster):
    first, second = cluster.broker(), cluster.broker()
    for lifetime_ms in (50, 500):
        cluster.wait(first.create(ALICE, ALICE, [], lifetime_ms))
    cluster.clock.advance(60)
    second.expire_tokens()
    cluster.loop.run()
    assert [each.token_id for each in first.tokens()] == ["id-1"]
    cluster.clock.advance(41)
    second.expire_tokens()
    cluster.loop.run()
    assert first.tokens() == second.tokens() == []


def test_tokens_are_there_after_a_start_and_damaged_ones_let_nobody_in(cluster):
    first = cluster.broker()
    for _ in range(2):
        cluster.wait(first.create(ALICE, ALICE, [], -1))
    for damage in (encode_token(cluster.of(first, "id-1")), b"", b"{", b"[]", b'{"version":4}'):
        cluster.wait(cluster.store.set("/delegation_token/tokens/id-0", damage))
        cluster.wait(cluster.store.create(NOTICE, b"id-0", sequence=True))
        third = cluster.broker()
        for broker in (first, third):
            assert [each.token_id for each in broker.tokens()] == ["id-1"]
            assert broker.find(SHA_256, "id-0") is None
    for notice in (b"", b"\xff", b"a/b", b"nobody"):
        cluster.wait(cluster.store.create(NOTICE, notice, sequence=True))
    assert len(first.tokens()) == 1


def test_after_a_new_session_what_came_and_went_is_known(cluster):
    session = cluster.session()
    first, second = cluster.broker(store=session), cluster.broker(prefix="other")
    cluster.wait(first.create(ALICE, ALICE, [], -1))
    # Without a notice, as of one that came and went between two sessions.
    cluster.wait(cluster.store.delete("/delegation_token/tokens/id-0"))
    assert first.find(SHA_256, "id-0").owner == "alice"
    cluster.ensemble.expire(session.session_id)
    cluster.wait(second.create(BOB, BOB, [], -1))
    cluster.loop.run()
    assert [each.owner for each in first.tokens()] == [BOB]
    assert first.find(SHA_256, "id-0") is None
    assert first.find(SHA_256, "other-0").owner == "bob"


def test_without_a_key_there_are_no_tokens(cluster):
    tokens = cluster.broker(key=None)
    disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert cluster.code(lambda: tokens.create(ALICE, ALICE, [], -1)) is disabled
    assert cluster.code(lambda: tokens.renew(ALICE, b"x", -1)) is disabled
    assert cluster.code(lambda: tokens.expire(ALICE, b"x", -1)) is disabled
    assert cluster.code(tokens.tokens) is disabled
    assert tokens.find(SHA_256, "id-0") is None
    tokens.expire_tokens()
    assert "delegation_token" not in cluster.wait(cluster.store.children("/"))


def test_the_bytes_of_a_genuine_broker():
    token = decode_token(OF_KAFKA)
    assert (token.owner, token.renewers, token.max_ms) == (ALICE, (BOB, "User:c"), 1796364073311)
    assert encode_token(token) == OF_KAFKA
    old = OF_KAFKA.replace(b'"version":3', b'"version":2').replace(b'"tokenRequester":"User%3Aalice",', b"")
    assert decode_token(old) == token
    assert decode_notice(b"Ca_0JWO6R5KluDnfjt1Uxg") == token.token_id


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({}, None),
        ({"delegation.token.secret.key": ""}, None),
        ({"delegation.token.master.key": "old"}, "old"),
        ({"delegation.token.master.key": "old", "delegation.token.secret.key": "new"}, "new"),
    ],
)
def test_the_key_has_an_old_name(given, key):
    settings = TokenSettings.of(broker_config(given))
    assert (settings.key, settings.max_lifetime_ms, settings.expiry_ms) == (key, 604_800_000, 86_400_000)
