"""``admin.quotas``: quotas of users, clients and addresses, and SCRAM credentials of users; read only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from barnabas.admin.context import AdminContext, error_of
from barnabas.client import named
from barnabas.core.errors import BarnabasError, ErrorCode
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
            for one in filters
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
