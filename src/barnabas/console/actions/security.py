"""Plans about users, access rules, quotas and tokens."""

from dataclasses import asdict, dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from barnabas.admin import AsyncAdmin
from barnabas.admin.quotas import (
    ClientQuota,
    ClientQuotaAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from barnabas.console.actions.plans import Effect, Planned, Undo
from barnabas.console.actions.topics import TIMEOUT_MS
from barnabas.console.views.security import MECHANISMS, all_quotas, entity_text, named_acl
from barnabas.core.acl import (
    CLUSTER_NAME,
    SUPPORTED,
    AccessControlEntry,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourcePattern,
    is_principal,
)
from barnabas.core.errors import BarnabasError
from barnabas.operations.errors import OperationError

UserName = Annotated[str, Field(min_length=1, max_length=500)]
Mechanism = Literal["SCRAM-SHA-512", "SCRAM-SHA-256"]
Text = Annotated[str, Field(max_length=500, description="<default>: all that have none of their own")]
_DEFAULT = "<default>"
"""As Kafka's tools write the default of all entities of a type."""


@dataclass(frozen=True, slots=True)
class SetUser:
    """A user's SCRAM credential; the cluster sees the salted password alone."""

    user: UserName
    mechanism: Mechanism = "SCRAM-SHA-512"
    password: Annotated[str, Field(min_length=1, max_length=1024)] = field(default="", repr=False)
    iterations: Annotated[int, Field(ge=4096, le=16384)] = 8192


@dataclass(frozen=True, slots=True)
class DeleteUser:
    """A user's SCRAM credential."""

    user: UserName
    mechanism: Mechanism = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True)
class Acl:
    """An access rule: who, from which host, may or may not do what to which resources."""

    resource: Literal["topic", "group", "cluster", "transactional_id", "delegation_token", "user"]
    name: Annotated[str, Field(min_length=1, max_length=32_000)]
    principal: Annotated[str, Field(min_length=1, max_length=500, description="such as User:alice")]
    pattern: Annotated[
        Literal["literal", "prefixed"], Field(description="prefixed: what begins with the name")
    ] = "literal"
    host: Annotated[str, Field(min_length=1, max_length=250, description="*: every")] = "*"
    operation: Literal[
        "all", "read", "write", "create", "delete", "alter", "describe", "cluster_action",
        "describe_configs", "alter_configs", "idempotent_write", "create_tokens", "describe_tokens",
    ] = "read"  # fmt: skip
    permission: Literal["allow", "deny"] = "allow"


@dataclass(frozen=True, slots=True)
class SetQuota:
    """A quota of a user, a client id, both, or an address; <default> is all others. No value: none."""

    key: Literal[
        "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate",
        "connection_creation_rate",
    ]  # fmt: skip
    user: Text = ""
    client_id: Text = ""
    ip: Text = ""
    value: Annotated[
        str,
        Field(
            max_length=30,
            description="bytes a second, percent of a thread, or how many a second; empty: no quota",
        ),
    ] = ""


@dataclass(frozen=True, slots=True)
class ExpireToken:
    """A delegation token, by its id."""

    token_id: Annotated[str, Field(min_length=1, max_length=500)]


async def set_user(admin: AsyncAdmin, wanted: SetUser) -> Planned:
    """The password stands in no preview and in no log."""
    if not wanted.password:
        raise OperationError("a password is not empty")
    before = await _iterations(admin, wanted.user, wanted.mechanism)
    change = UserScramCredentialUpsertion(wanted.user, wanted.mechanism, wanted.password, wanted.iterations)

    async def carry_out(later: AsyncAdmin) -> None:
        if await _iterations(later, wanted.user, wanted.mechanism) != before:
            raise OperationError(f"user {wanted.user} is not as in the preview: nothing was done")
        await later.quotas.alter_scram_credentials([change], timeout_ms=TIMEOUT_MS)

    effect = Effect(
        f"{wanted.mechanism} of {wanted.user}",
        _shown(before),
        f"a new password, {wanted.iterations} iterations",
    )
    warnings = ["the old password is of no use for the next login"] if before is not None else []
    return Planned(wanted.user, [effect], carry_out, warnings)


async def delete_user(admin: AsyncAdmin, wanted: DeleteUser) -> Planned:
    """A credential that is there."""
    before = await _iterations(admin, wanted.user, wanted.mechanism)
    if before is None:
        raise OperationError(f"user {wanted.user} has no {wanted.mechanism}")

    async def carry_out(later: AsyncAdmin) -> None:
        if await _iterations(later, wanted.user, wanted.mechanism) != before:
            raise OperationError(f"user {wanted.user} is not as in the preview: nothing was done")
        change = UserScramCredentialDeletion(wanted.user, wanted.mechanism)
        await later.quotas.alter_scram_credentials([change], timeout_ms=TIMEOUT_MS)

    effect = Effect(f"{wanted.mechanism} of {wanted.user}", _shown(before), "not there")
    return Planned(wanted.user, [effect], carry_out)


async def _iterations(admin: AsyncAdmin, user: str, mechanism: str) -> int | None:
    found = (await admin.quotas.scram_credentials([user], timeout_ms=TIMEOUT_MS)).get(user, {})
    if isinstance(found, BarnabasError):
        raise found
    return next((count for number, count in found.items() if MECHANISMS.get(number) == mechanism), None)


def _shown(iterations: int | None) -> str:
    return "not there" if iterations is None else f"a password, {iterations} iterations"


async def add_acl(admin: AsyncAdmin, wanted: Acl) -> Planned:
    """A rule that is not there yet."""
    binding = _binding(wanted)
    if binding in await admin.acls.describe(timeout_ms=TIMEOUT_MS):
        raise OperationError("nothing would change")

    async def carry_out(later: AsyncAdmin) -> None:
        await later.acls.create([binding], timeout_ms=TIMEOUT_MS)

    warnings = []
    if wanted.permission == "deny":
        warnings.append("a rule that denies is stronger than all that allow")
    elif not await _has_rules(admin, binding.pattern):
        warnings.append(
            "it is the first rule of this resource: with allow.everyone.if.no.acl.found everybody else is"
            " locked out"
        )
    effect = Effect(named_acl(binding), "not there", "there")
    return Planned(wanted.name, [effect], carry_out, warnings, undo=Undo("delete-acl", asdict(wanted)))


async def _has_rules(admin: AsyncAdmin, pattern: ResourcePattern) -> bool:
    wanted = AclFilter(pattern.resource, pattern.name, pattern.pattern_type)
    return bool(await admin.acls.describe(wanted, timeout_ms=TIMEOUT_MS))


async def delete_acl(admin: AsyncAdmin, wanted: Acl) -> Planned:
    """Just this rule."""
    binding = _binding(wanted)
    if binding not in await admin.acls.describe(timeout_ms=TIMEOUT_MS):
        raise OperationError(f"there is no such rule: {named_acl(binding)}")

    async def carry_out(later: AsyncAdmin) -> None:
        pattern, entry = binding
        exact = AclFilter(
            pattern.resource, pattern.name, pattern.pattern_type,
            entry.principal, entry.host, entry.operation, entry.permission,
        )  # fmt: skip
        if not await later.acls.delete([exact], timeout_ms=TIMEOUT_MS):
            raise OperationError("the rule was gone: nothing was done")

    effect = Effect(named_acl(binding), "there", "not there")
    return Planned(wanted.name, [effect], carry_out, undo=Undo("add-acl", asdict(wanted)))


def _binding(wanted: Acl) -> AclBinding:
    resource, operation = Resource[wanted.resource.upper()], Operation[wanted.operation.upper()]
    if not is_principal(wanted.principal):
        raise OperationError(f"a principal is TYPE:NAME, such as User:alice, not {wanted.principal!r}")
    if resource is Resource.CLUSTER and wanted.name != CLUSTER_NAME:
        raise OperationError(f"the cluster's name in rules is {CLUSTER_NAME}")
    if operation not in (Operation.ALL, *SUPPORTED[resource]):
        raise OperationError(f"a {wanted.resource} has no operation {wanted.operation}")
    return AclBinding(
        ResourcePattern(resource, wanted.name, PatternType[wanted.pattern.upper()]),
        AccessControlEntry(wanted.principal, wanted.host, operation, Permission[wanted.permission.upper()]),
    )


async def set_quota(admin: AsyncAdmin, wanted: SetQuota) -> Planned:
    """The cluster says beforehand whether it takes it, where it can."""
    entity = {
        kind: None if name == _DEFAULT else name
        for kind, name in (("user", wanted.user), ("client-id", wanted.client_id), ("ip", wanted.ip))
        if name
    }
    if not entity or ("ip" in entity and len(entity) > 1):
        raise OperationError("a quota is of a user, a client id, both, or an address")
    value = _number(wanted.value)
    before = _value(await all_quotas(admin, TIMEOUT_MS), entity, wanted.key)
    change = ClientQuotaAlteration(entity, {wanted.key: value})
    await admin.quotas.alter(change, validate_only=True, timeout_ms=TIMEOUT_MS)

    async def carry_out(later: AsyncAdmin) -> None:
        if _value(await all_quotas(later, TIMEOUT_MS), entity, wanted.key) != before:
            raise OperationError("the quota is not as it was in the preview: nothing was done")
        await later.quotas.alter(change, timeout_ms=TIMEOUT_MS)

    named = entity_text(entity)
    effects = [] if value == before else [Effect(f"{wanted.key} of {named}", _limit(before), _limit(value))]
    undo = Undo("set-quota", {**asdict(wanted), "value": "" if before is None else repr(before)})
    return Planned(named, effects, carry_out, undo=undo)


def _number(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        raise OperationError(f"{text!r} is no number") from None
    if not 0 < value < float("inf"):
        raise OperationError("a quota is a number above 0")
    return value


def _value(quotas: list[ClientQuota], entity: dict[str, str | None], key: str) -> float | None:
    return next((one.values.get(key) for one in quotas if dict(one.entity) == entity), None)


def _limit(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"


async def expire_token(admin: AsyncAdmin, wanted: ExpireToken) -> Planned:
    """Ends a token at once."""
    found = await admin.delegation_tokens.describe(timeout_ms=TIMEOUT_MS)
    token = next((one for one in found if one.information.token_id == wanted.token_id), None)
    if token is None:
        raise OperationError(f"there is no token {wanted.token_id} that this client may see")

    async def carry_out(later: AsyncAdmin) -> None:
        await later.delegation_tokens.expire(token.hmac, timeout_ms=TIMEOUT_MS)

    effect = Effect(f"token {wanted.token_id} of {token.information.owner}", "valid", "ended")
    return Planned(wanted.token_id, [effect], carry_out, ["who uses it is refused at the next login"])
