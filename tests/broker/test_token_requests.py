"""Create-, Renew-, Expire- and DescribeDelegationToken: who may, and what each version answers."""

import pytest

from barnabas.broker.authorizer import Operation, Resource
from barnabas.cluster.metadata.delegation_tokens import DelegationTokenManager, TokenSettings
from barnabas.cluster.store.memory import MemoryEnsemble, MemoryStore
from barnabas.core.errors import ErrorCode
from barnabas.network.peer import ListenerId
from barnabas.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from barnabas.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from standing_clock import Clock


class Some:
    """Allows what is in the set, and keeps what was asked."""

    def __init__(self, *allowed):
        self.allowed = set(allowed)
        self.asked = []

    def authorize(self, request, operation, resource, name, count=None, **_logs):
        self.asked.append((operation, resource, name))
        return (operation, resource, name) in self.allowed


CREATE_FOR_GROUP = (Operation.CREATE_TOKENS, Resource.USER, "Group:bob")
CREATE_FOR_BOB = (Operation.CREATE_TOKENS, Resource.USER, "User:bob")
DESCRIBE_BOBS = (Operation.DESCRIBE_TOKENS, Resource.USER, "User:bob")


class Asking:
    """A broker with tokens, asked by one principal or another."""

    def __init__(self, make_world, key="sesame", *allowed):
        self.authorizer = Some(*allowed)
        self.world = make_world(authorizer=self.authorizer)
        store = MemoryStore(MemoryEnsemble(lambda: 0), lambda call: call())
        store.start().result()
        ids = iter(f"id-{number}" for number in range(9))
        tokens = DelegationTokenManager(store, Clock(), TokenSettings(key), lambda: next(ids))
        tokens.start().result()
        self.world.services.delegation_tokens = tokens
        self.by("alice")
        self.authorizer.asked.clear()

    def by(self, name, protocol="SASL_PLAINTEXT", *, token=False):
        peer = self.world.peer
        peer.principal, peer.listener = f"User:{name}", ListenerId("L", protocol)
        peer.token_authenticated = token
        return self

    def create(self, version=3, renewers=(), **more):
        wanted = [CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers]
        return self.world.send(
            CreateDelegationTokenRequest(renewers=wanted, max_lifetime_ms=-1, **more), version
        )

    def renew(self, hmac):
        return self.world.send(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=-1), 2)

    def expire(self, hmac):
        return self.world.send(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1), 2)

    def describe(self, *owners, version=3, everybody=False):
        wanted = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
        return self.world.send(DescribeDelegationTokenRequest(owners=None if everybody else wanted), version)

    def codes(self):
        answers = (self.create(), self.renew(b"x"), self.expire(b"x"), self.describe(everybody=True))
        return [ErrorCode.of(answer.error_code).name for answer in answers]


@pytest.fixture
def asking(make_world):
    return Asking(make_world)


@pytest.mark.parametrize("version", range(4))
def test_a_token_of_ones_own(asking, version):
    made = asking.create(version, [("User", "carol")])
    assert (made.error_code, made.principal_type, made.principal_name) == (0, "User", "alice")
    assert (made.token_id, len(made.hmac)) == ("id-0", 64)
    assert made.max_timestamp_ms - made.issue_timestamp_ms == 604_800_000
    assert made.expiry_timestamp_ms - made.issue_timestamp_ms == 86_400_000
    (found,) = asking.describe("alice", version=version).tokens
    assert (found.token_id, bytes(found.hmac), found.renewers[0].principal_name) == (
        "id-0",
        bytes(made.hmac),
        "carol",
    )
    requester = "alice" if version == 3 else ""
    assert made.token_requester_principal_name == found.token_requester_principal_name == requester
    assert asking.authorizer.asked == []


def test_a_token_for_another_owner(make_world):
    asking = Asking(make_world, "sesame", CREATE_FOR_BOB, CREATE_FOR_GROUP)
    made = asking.create(owner_principal_type="User", owner_principal_name="bob")
    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (0, "bob", "alice")
    refused = asking.create(owner_principal_type="User", owner_principal_name="carol")
    assert ErrorCode.of(refused.error_code) is ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.principal_name, refused.issue_timestamp_ms, refused.hmac) == ("carol", -1, b"")
    assert asking.create(owner_principal_type="User", owner_principal_name="alice").error_code == 0
    # Whoever logs in is a user: a token of a group would be one of the user with its name.
    made_for_group = asking.create(owner_principal_type="Group", owner_principal_name="bob")
    assert ErrorCode.of(made_for_group.error_code) is ErrorCode.INVALID_PRINCIPAL_TYPE
    assert made_for_group.hmac == b""
    assert asking.renew(bytes(made.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert asking.by("bob").renew(bytes(made.hmac)).error_code == 0


def test_renewers_are_users(asking):
    refused = asking.create(renewers=[("User", "bob"), ("Group", "x")])
    assert ErrorCode.of(refused.error_code) is ErrorCode.INVALID_PRINCIPAL_TYPE


@pytest.mark.parametrize(
    ("name", "protocol", "token", "allowed"),
    [
        ("alice", "PLAINTEXT", False, False),
        ("ANONYMOUS", "SSL", False, False),
        ("CN=alice", "SSL", False, True),
        ("alice", "SASL_PLAINTEXT", False, True),
        ("alice", "SASL_SSL", False, True),
        ("alice", "SASL_SSL", True, False),
    ],
)
def test_who_may_ask(asking, name, protocol, token, allowed):
    codes = asking.by(name, protocol, token=token).codes()
    refused = ["DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"] * 4
    assert codes == (
        ["NONE", "DELEGATION_TOKEN_NOT_FOUND", "DELEGATION_TOKEN_NOT_FOUND", "NONE"] if allowed else refused
    )


def test_a_broker_without_tokens(make_world):
    assert Asking(make_world, None).codes() == ["DELEGATION_TOKEN_AUTH_DISABLED"] * 4


def test_who_sees_which_tokens(make_world):
    everyone = (CREATE_FOR_BOB, (Operation.DESCRIBE, Resource.DELEGATION_TOKEN, "id-2"))
    asking = Asking(make_world, "sesame", *everyone)

    def seen(*owners, **more):
        return [each.token_id for each in asking.describe(*owners, **more).tokens]

    asking.create(renewers=[("User", "carol")])
    asking.create(owner_principal_type="User", owner_principal_name="bob")
    asking.by("dave").create()
    assert asking.by("alice") and seen(everybody=True) == ["id-0", "id-1", "id-2"]  # noqa: PT018
    assert seen("bob") == ["id-1"]
    assert seen("carol") == ["id-0"]
    assert seen() == []
    assert asking.by("carol") and seen(everybody=True) == ["id-0", "id-2"]  # noqa: PT018
    assert asking.by("eve") and seen(everybody=True) == ["id-2"]  # noqa: PT018
    asking.authorizer.allowed.add(DESCRIBE_BOBS)
    assert seen(everybody=True) == ["id-1", "id-2"]


def test_a_token_that_ends_now_is_gone(asking):
    secret = bytes(asking.create().hmac)
    assert asking.expire(secret).error_code == 0
    assert asking.describe(everybody=True).tokens == []
    refused = asking.renew(secret)
    assert (refused.error_code, refused.expiry_timestamp_ms) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1)
