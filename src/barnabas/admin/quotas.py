"""``admin.quotas``: quotas of users, clients and addresses, and SCRAM credentials of users."""

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

from barnabas.admin.context import AdminContext, error_of
from barnabas.client import named
from barnabas.client.keyed_call import raise_first
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.scram import ITERATIONS_MAX, ITERATIONS_MIN, NUMBERS, SALT_BITS, ScramMechanism, salt_of
from barnabas.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from barnabas.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)


class Match(IntEnum):
    """Which entities of a type a filter takes, numbered as on the wire."""

    NAME = 0
    DEFAULT = 1
    ANY = 2


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """A condition on the entities of one type: ``user``, ``client-id`` or ``ip``."""

    entity_type: str
    match: Match = Match.ANY
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ClientQuota:
    """For whom a quota is, by type of entity (None: the default of all), and its values."""

    entity: Mapping[str, str | None]
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ClientQuotaAlteration:
    """Quotas of one entity to set, by key, or to remove where the value is None."""

    entity: Mapping[str, str | None]
    """Names by type: ``user``, ``client-id`` (or both), ``ip``; None is the default of all."""
    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class UserScramCredentialUpsertion:
    """A credential to set, of which the cluster sees the salted password only."""

    user: str
    mechanism: str
    """``SCRAM-SHA-256`` or ``SCRAM-SHA-512``."""
    password: str = field(repr=False)
    iterations: int = ITERATIONS_MIN


@dataclass(frozen=True, slots=True)
class UserScramCredentialDeletion:
    """A credential to remove."""

    user: str
    mechanism: str


_ScramAlteration: TypeAlias = UserScramCredentialUpsertion | UserScramCredentialDeletion
_MECHANISMS: Final = {mechanism.value: number for number, mechanism in NUMBERS.items()}


class Quotas:
    """Quotas of clients and SCRAM credentials. Raises `UnsupportedVersionError` where brokers keep none."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    async def describe(
        self, filters: Iterable[QuotaFilter], *, timeout_ms: float | None = None
    ) -> list[ClientQuota]:
        """The quotas of entities that have just the types of these filters, and match all of them."""
        components = [
            ComponentData(entity_type=one.entity_type, match_type=one.match, match=one.name)
            for one in named.several(filters, QuotaFilter, "a filter is a QuotaFilter")
        ]
        response = await self._context.cluster.send_to_any(
            DescribeClientQuotasRequest(components=components, strict=True),
            DescribeClientQuotasResponse,
            self._context.deadline(timeout_ms),
        )
        if error := error_of(response.error_code, response.error_message):
            raise error
        return [
            ClientQuota(
                {one.entity_type: one.entity_name for one in entry.entity},
                {one.key: one.value for one in entry.values},
            )
            for entry in response.entries or []
        ]

    async def alter(
        self,
        alterations: Iterable[ClientQuotaAlteration] | ClientQuotaAlteration,
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> None:
        """Sets and removes quotas (KIP-546).

        Raises `KafkaError` for the first entity that is refused; others may have been changed all the same.
        """
        results = await self.try_alter(alterations, validate_only=validate_only, timeout_ms=timeout_ms)
        raise_first(dict(enumerate(results)))

    async def try_alter(
        self,
        alterations: Iterable[ClientQuotaAlteration] | ClientQuotaAlteration,
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> list[BarnabasError | None]:
        """As `alter`, with the error of each alteration, in their order."""
        wanted = named.several(
            alterations, ClientQuotaAlteration, "a change of quotas is a ClientQuotaAlteration"
        )
        entries = [
            AlterClientQuotasRequestEntryData(
                entity=[
                    EntityData(entity_type=kind, entity_name=name)
                    for kind, name in named.by_name(one.entity, "entities of quotas").items()
                ],
                ops=[
                    OpData(key=key, value=0.0 if value is None else _rate(key, value), remove=value is None)
                    for key, value in named.by_name(one.values, "values of quotas").items()
                ],
            )
            for one in wanted
        ]
        response = await self._context.cluster.send_to_any(
            AlterClientQuotasRequest(entries=entries, validate_only=validate_only),
            AlterClientQuotasResponse,
            self._context.deadline(timeout_ms),
        )
        errors = {
            frozenset((each.entity_type, each.entity_name) for each in entry.entity): error_of(
                entry.error_code, entry.error_message
            )
            for entry in response.entries
        }
        return [errors.get(frozenset(one.entity.items())) for one in wanted]

    async def alter_scram_credentials(
        self,
        alterations: Iterable[_ScramAlteration],
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Sets and removes credentials (KIP-554); they hold for the next log-in.

        Raises `KafkaError` for the first user that is refused; others may have been changed all the same.
        """
        raise_first(await self.try_alter_scram_credentials(alterations, timeout_ms=timeout_ms))

    async def try_alter_scram_credentials(
        self,
        alterations: Iterable[_ScramAlteration],
        *,
        timeout_ms: float | None = None,
    ) -> dict[str, BarnabasError | None]:
        """As `alter_scram_credentials`, with an error per user."""
        request = AlterUserScramCredentialsRequest()
        wanted = _alterations(alterations)
        refused: dict[str, BarnabasError | None] = {
            one.user: KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, why)
            for one in wanted
            if isinstance(one, UserScramCredentialUpsertion) and (why := _unacceptable(one))
        }
        for one in wanted:
            if one.user in refused:
                continue
            number = _MECHANISMS[one.mechanism]
            if isinstance(one, UserScramCredentialDeletion):
                request.deletions.append(ScramCredentialDeletion(name=one.user, mechanism=number))
                continue
            salt = salt_of(secrets.randbits(SALT_BITS))
            # Thousands of hashes: not on the loop.
            salted = await asyncio.to_thread(
                ScramMechanism(one.mechanism).salted_password, one.password, salt, one.iterations
            )
            request.upsertions.append(
                ScramCredentialUpsertion(
                    name=one.user,
                    mechanism=number,
                    iterations=one.iterations,
                    salt=salt,
                    salted_password=salted,
                )
            )
        if not (request.deletions or request.upsertions):
            return refused
        response = await self._context.send_to_controller(
            request,
            AlterUserScramCredentialsResponse,
            self._context.deadline(timeout_ms),
            lambda answer: (one.error_code for one in answer.results),
        )
        return refused | {one.user: error_of(one.error_code, one.error_message) for one in response.results}

    async def scram_credentials(
        self, users: named.Names = (), *, timeout_ms: float | None = None
    ) -> dict[str, dict[int, int] | BarnabasError]:
        """The iterations by mechanism (1: SCRAM-SHA-256, 2: SCRAM-SHA-512) of these users, or of all.

        Users without credentials are left out.
        """
        response = await self._context.cluster.send_to_any(
            DescribeUserScramCredentialsRequest(
                users=[UserName(name=user) for user in named.names(users, "users")]
            ),
            DescribeUserScramCredentialsResponse,
            self._context.deadline(timeout_ms),
        )
        if error := error_of(response.error_code, response.error_message):
            raise error
        return {
            one.user: error_of(one.error_code, one.error_message)
            or {info.mechanism: info.iterations for info in one.credential_infos}
            for one in response.results
            if one.error_code != ErrorCode.RESOURCE_NOT_FOUND
        }


def _rate(key: str, given: float) -> float:
    return float(named.one(given, (int, float), f"the value of the quota {key} is a number"))


def _alterations(given: Iterable[_ScramAlteration]) -> list[_ScramAlteration]:
    """The changes, checked as far as their hashes need it; raises TypeError, ValueError."""
    kinds: tuple[type[_ScramAlteration], ...] = (UserScramCredentialUpsertion, UserScramCredentialDeletion)
    wanted = named.several(
        given, kinds, "a change is a UserScramCredentialUpsertion or UserScramCredentialDeletion"
    )
    for one in wanted:
        named.names([one.user], "users")
        if named.one(one.mechanism, str, "a mechanism is a str") not in _MECHANISMS:
            raise ValueError(f"a mechanism is one of {', '.join(_MECHANISMS)}, not {one.mechanism!r:.80}")
        if isinstance(one, UserScramCredentialUpsertion):
            named.one(one.iterations, int, "iterations are an int")
            if not isinstance(one.password, str):
                raise TypeError(f"a password is a str, not {type(one.password).__name__}")
            try:
                one.password.encode()
            except UnicodeEncodeError as error:
                raise ValueError(f"a password cannot be encoded in UTF-8: {error.reason}") from None
    return wanted


def _unacceptable(one: UserScramCredentialUpsertion) -> str:
    """Why a broker would not take it, in its words; empty where it would. Said here, as the password would
    have to be hashed so many times before a broker is asked.
    """
    if not one.password:
        return "Password must not be empty"
    if one.iterations > ITERATIONS_MAX:
        return "Too many iterations"
    if one.iterations < ITERATIONS_MIN:
        return "Too few iterations"
    return ""
