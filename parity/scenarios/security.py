"""Security that is not configured: no authorizer, no SASL, no tokens. Passwords can be kept all the same."""

from collections.abc import Iterable

from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from barnabas.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from parity.world import World

TOPIC, READ, ALLOW = 2, 3, 3


def access_rules(world: World) -> None:
    """Rules without an authorizer."""
    matching = {"resource_type_filter": TOPIC, "operation": READ, "permission_type": ALLOW}
    world.ask("describe", DescribeAclsRequest(**matching))
    rule = AclCreation(
        resource_type=TOPIC,
        resource_name="t",
        principal="User:a",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    world.ask("create", CreateAclsRequest(creations=[rule, rule]))
    world.ask("create nothing", CreateAclsRequest())
    world.ask("delete", DeleteAclsRequest(filters=[DeleteAclsFilter(**matching)]))
    world.ask("delete nothing", DeleteAclsRequest())


def delegation_tokens(world: World) -> None:
    """Tokens on a connection that has not shown who it is."""
    renewers = [CreatableRenewers(principal_type="User", principal_name="a")]
    world.ask("create", CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1))
    other = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="b")
    world.ask("create for another", other, 3)
    world.ask("renew", RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1))
    world.ask("expire", ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1))
    owners = [DescribeDelegationTokenOwner(principal_type="User", principal_name="a")]
    world.ask("describe all", DescribeDelegationTokenRequest(owners=None))
    world.ask("describe one", DescribeDelegationTokenRequest(owners=owners))


def sasl(world: World) -> None:
    """SASL on a listener without it."""
    world.ask("handshake", SaslHandshakeRequest(mechanism="PLAIN"))
    world.ask("authenticate", SaslAuthenticateRequest(auth_bytes=b"x"))


SHA_256, SHA_512 = 1, 2


def scram_credentials(world: World) -> None:
    """Passwords for SCRAM: what is kept, told, refused and taken away."""

    def kept(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
        return ScramCredentialUpsertion(
            name=user, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"p" * 32
        )

    def gone(user: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
        return ScramCredentialDeletion(name=user, mechanism=mechanism)

    def describe(what: str, users: Iterable[str] | None) -> None:
        named = None if users is None else [UserName(name=user) for user in users]
        world.ask(what, DescribeUserScramCredentialsRequest(users=named))

    def alter(
        what: str,
        upsertions: Iterable[ScramCredentialUpsertion] = (),
        deletions: Iterable[ScramCredentialDeletion] = (),
    ) -> None:
        request = AlterUserScramCredentialsRequest(upsertions=list(upsertions), deletions=list(deletions))
        world.ask(what, request)

    describe("nobody is known", None)
    describe("of nobody", [])
    describe("one who is not known", ["scram-nobody"])
    alter("nothing")
    alter("one", [kept("scram-a")])
    alter("two of one", [kept("scram-b"), kept("scram-b", SHA_512, 16_384)])
    describe("all", None)
    describe("some", ["scram-b", "scram-nobody", "scram-a"])
    describe("one twice", ["scram-a", "scram-a"])
    describe("without a name", [""])
    for what, upsertion in {
        "too few iterations": kept("scram-c", iterations=4095),
        "too many iterations": kept("scram-c", iterations=16_385),
        "no mechanism": kept("scram-c", 0),
        "an odd mechanism": kept("scram-c", 7),
        "no name": kept(""),
    }.items():
        alter(what, [upsertion])
    alter("one kept twice", [kept("scram-d"), kept("scram-d")])
    alter("kept and gone", [kept("scram-d")], [gone("scram-d")])
    alter("one good and one not", [kept("scram-e"), kept("scram-e", SHA_512, 1)])
    alter("gone that was not there", [], [gone("scram-nobody"), gone("scram-a", SHA_512)])
    alter("gone", [], [gone("scram-a"), gone("scram-b"), gone("scram-b", SHA_512)])
    describe("all in the end", None)
