"""Security that is not configured: no authorizer, no SASL, no delegation tokens."""

from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
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
