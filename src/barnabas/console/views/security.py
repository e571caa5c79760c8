"""Users, access rules, quotas and tokens, as the cluster says them now. No secret is among them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.admin import AsyncAdmin
from barnabas.admin.quotas import ClientQuota, QuotaFilter
from barnabas.console.views.live import LiveView, asked
from barnabas.console.watched import WatchedCluster
from barnabas.core.acl import AclBinding
from barnabas.core.errors import BarnabasError
from barnabas.core.scram import NUMBERS

_TIMEOUT_MS: Final = 3_000
MECHANISMS: Final = {int(number): str(mechanism.value) for number, mechanism in NUMBERS.items()}
_QUOTAS_OF: Final = (("user",), ("client-id",), ("user", "client-id"), ("ip",))


@dataclass(frozen=True, slots=True)
class UserRow:
    """A SCRAM credential of a user; the mechanism is null where why is not."""

    user: str
    mechanism: str | None
    iterations: int
    why: str | None = None


@dataclass(frozen=True, slots=True)
class UsersView(LiveView):
    """Users with credentials in the cluster."""

    users: Sequence[UserRow]


@dataclass(frozen=True, slots=True)
class AclRow:
    """An access rule."""

    resource: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str


@dataclass(frozen=True, slots=True)
class AclsView(LiveView):
    """Access rules by resource."""

    acls: Sequence[AclRow]


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One key of a quota."""

    entity: Mapping[str, str | None]
    """By type; null is the default of all others."""
    named: str
    key: str
    value: float


@dataclass(frozen=True, slots=True)
class QuotasView(LiveView):
    """Quotas of clients."""

    quotas: Sequence[QuotaRow]


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A delegation token without its secret."""

    token_id: str
    owner: str
    requester: str
    renewers: Sequence[str]
    issued_ms: int
    expires_ms: int
    max_ms: int


@dataclass(frozen=True, slots=True)
class TokensView(LiveView):
    """Delegation tokens that the console's client may see."""

    tokens: Sequence[TokenRow]


async def users(watched: WatchedCluster) -> UsersView:
    """Who has a credential."""

    async def ask(admin: AsyncAdmin) -> list[UserRow]:
        rows = []
        found = await admin.quotas.scram_credentials(timeout_ms=_TIMEOUT_MS)
        for user, mechanisms in sorted(found.items()):
            if isinstance(mechanisms, BarnabasError):
                rows.append(UserRow(user, None, 0, str(mechanisms)))
                continue
            rows += [
                UserRow(user, MECHANISMS.get(number, str(number)), count)
                for number, count in sorted(mechanisms.items())
            ]
        return rows

    return UsersView(*await asked(watched, "users", ask))


async def acls(watched: WatchedCluster) -> AclsView:
    """All rules."""

    async def ask(admin: AsyncAdmin) -> list[AclRow]:
        return [
            AclRow(
                pattern.resource.name.lower(), pattern.name, pattern.pattern_type.name.lower(),
                entry.principal, entry.host, entry.operation.name.lower(), entry.permission.name.lower(),
            )
            for pattern, entry in sorted(await admin.acls.describe(timeout_ms=_TIMEOUT_MS))
        ]  # fmt: skip

    return AclsView(*await asked(watched, "acls", ask))


def named_acl(binding: AclBinding) -> str:
    """A rule in one line."""
    pattern, entry = binding
    return (
        f"{entry.principal} from {entry.host}: {entry.permission.name.lower()} {entry.operation.name.lower()}"
        f" of {pattern.resource.name.lower()} {pattern.name} ({pattern.pattern_type.name.lower()})"
    )


async def quotas(watched: WatchedCluster) -> QuotasView:
    """All quotas."""

    async def ask(admin: AsyncAdmin) -> list[QuotaRow]:
        rows = [
            QuotaRow(dict(one.entity), entity_text(one.entity), key, value)
            for one in await all_quotas(admin, _TIMEOUT_MS)
            for key, value in one.values.items()
        ]
        return sorted(rows, key=lambda row: (row.named, row.key))

    return QuotasView(*await asked(watched, "quotas", ask))


async def all_quotas(admin: AsyncAdmin, timeout_ms: int) -> list[ClientQuota]:
    """Of every combination of types that quotas have. Raises KafkaError."""
    answers = await asyncio.gather(
        *(admin.quotas.describe([QuotaFilter(kind) for kind in kinds], timeout_ms=timeout_ms)
          for kinds in _QUOTAS_OF)
    )  # fmt: skip
    return [one for answer in answers for one in answer]


def entity_text(entity: Mapping[str, str | None]) -> str:
    """For whom a quota is, in words."""
    named = ((kind, "<default>" if name is None else name) for kind, name in sorted(entity.items()))
    return ", ".join(f"{kind} {name}" for kind, name in named)


async def tokens(watched: WatchedCluster) -> TokensView:
    """The tokens, without their secrets."""

    async def ask(admin: AsyncAdmin) -> list[TokenRow]:
        found = [one.information for one in await admin.delegation_tokens.describe(timeout_ms=_TIMEOUT_MS)]
        return [
            TokenRow(
                one.token_id, one.owner, one.requester, one.renewers, one.issued_ms, one.expires_ms,
                one.max_ms,
            )
            for one in sorted(found, key=lambda one: one.expires_ms)
        ]  # fmt: skip

    return TokensView(*await asked(watched, "tokens", ask))
