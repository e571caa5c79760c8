"""``admin.delegation_tokens``: tokens by which others act as one (KIP-48, KIP-373)."""

from typing import Protocol

from barnabas.admin.context import AdminContext, error_of
from barnabas.client import named
from barnabas.core.acl import is_principal
from barnabas.core.delegation_token import DelegationToken, TokenInformation
from barnabas.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from barnabas.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from barnabas.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


class DelegationTokens:
    """Tokens of this client's user and of others. Principals are texts, ``User:alice``.

    Each call raises ClientTimeoutError, and KafkaError: DELEGATION_TOKEN_AUTH_DISABLED where brokers have no
    ``delegation.token.secret.key``, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for a client that has not logged in,
    or did so with a token.
    """

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    async def create(
        self,
        *,
        owner: str | None = None,
        renewers: named.Names = (),
        max_lifetime_ms: int = -1,
        timeout_ms: float | None = None,
    ) -> DelegationToken:
        """A new token, for this client's user or for another owner; renewers may let it live on, too.

        A broker before Kafka 3.3 makes none for another owner: UnsupportedVersionError or ProtocolError.
        It ends after `max_lifetime_ms` at the latest, or when the broker says with -1.
        """
        request = CreateDelegationTokenRequest(max_lifetime_ms=max_lifetime_ms)
        renewing = named.names(renewers, "renewers")
        for renewer in renewing:
            kind, name = _fields(renewer)
            request.renewers.append(CreatableRenewers(principal_type=kind, principal_name=name))
        if owner is not None:
            request.owner_principal_type, request.owner_principal_name = _fields(owner)
        made = await self._context.cluster.send_to_any(
            request, CreateDelegationTokenResponse, self._context.deadline(timeout_ms)
        )
        _raise(made.error_code)
        information = TokenInformation(
            made.token_id,
            _principal(made),
            _requester(made),
            tuple(renewing),
            made.issue_timestamp_ms,
            made.expiry_timestamp_ms,
            made.max_timestamp_ms,
        )
        return DelegationToken(information, bytes(made.hmac))

    async def renew(self, hmac: bytes, period_ms: int = -1, *, timeout_ms: float | None = None) -> int:
        """Lets a token live for this time from now on, or as the broker says with -1; when it ends then."""
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        response = await self._context.cluster.send_to_any(
            request, RenewDelegationTokenResponse, self._context.deadline(timeout_ms)
        )
        _raise(response.error_code)
        return response.expiry_timestamp_ms

    async def expire(self, hmac: bytes, period_ms: int = -1, *, timeout_ms: float | None = None) -> int:
        """Ends a token after this time, or at once with -1; when it ends."""
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        response = await self._context.cluster.send_to_any(
            request, ExpireDelegationTokenResponse, self._context.deadline(timeout_ms)
        )
        _raise(response.error_code)
        return response.expiry_timestamp_ms

    async def describe(
        self, owners: named.Names | None = None, *, timeout_ms: float | None = None
    ) -> list[DelegationToken]:
        """Of the tokens of these owners, or of all, those that this client may see."""
        wanted = None
        if owners is not None:
            wanted = []
            for owner in named.names(owners, "owners"):
                kind, name = _fields(owner)
                wanted.append(DescribeDelegationTokenOwner(principal_type=kind, principal_name=name))
        request = DescribeDelegationTokenRequest(owners=wanted)
        response = await self._context.cluster.send_to_any(
            request, DescribeDelegationTokenResponse, self._context.deadline(timeout_ms)
        )
        _raise(response.error_code)
        return [
            DelegationToken(
                TokenInformation(
                    each.token_id,
                    _principal(each),
                    _requester(each),
                    tuple(map(_principal, each.renewers)),
                    each.issue_timestamp,
                    each.expiry_timestamp,
                    each.max_timestamp,
                ),
                bytes(each.hmac),
            )
            for each in response.tokens
        ]


class _Principal(Protocol):
    principal_type: str
    principal_name: str


class _Requested(_Principal, Protocol):
    token_requester_principal_type: str
    token_requester_principal_name: str


def _principal(fields: _Principal) -> str:
    return f"{fields.principal_type}:{fields.principal_name}"


def _requester(fields: _Requested) -> str:
    """Who asked for a token; before version 3 everybody asked for themselves."""
    if not fields.token_requester_principal_type:
        return _principal(fields)
    return f"{fields.token_requester_principal_type}:{fields.token_requester_principal_name}"


def _fields(principal: str) -> tuple[str, str]:
    if not isinstance(principal, str) or not is_principal(principal):
        raise ValueError(f"a principal is written as type:name, such as User:alice, not {principal!r}")
    kind, _, name = principal.partition(":")
    return kind, name


def _raise(code: int) -> None:
    error = error_of(code)
    if error is not None:
        raise error
