"""DescribeDelegationToken (41), v0-3.

Behaviour: of the tokens of these owners, or of all, those that the asker owns, asked for or may renew, and
           those on which it may DESCRIBE, or whose owner's tokens it may DESCRIBE_TOKENS. With their secrets.
           Any broker answers from what it knows.
Versions:  v2 flexible · v3 who asked for a token (KIP-373).
"""

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.delegation_token_requests import (
    REQUESTERS_SINCE,
    principal_of,
    require_own_credentials,
    type_and_name,
)
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.delegation_token import DelegationToken, TokenInformation
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


@handles(ApiKey.DESCRIBE_DELEGATION_TOKEN, versions=(0, 3))
@sliced
def describe_delegation_token(
    context: RequestContext, request: DescribeDelegationTokenRequest
) -> Sliced[DescribeDelegationTokenResponse]:
    require_own_credentials(context)
    known = context.broker.delegation_tokens.tokens()
    owners = None
    if request.owners is not None:
        owners = set()
        for owner in request.owners:
            yield
            owners.add(principal_of(owner))
    response = DescribeDelegationTokenResponse()
    for information in known:
        yield
        if _is_wanted(information, owners) and _may_see(context, information):
            token = context.broker.delegation_tokens.with_secret(information)
            response.tokens.append(_described(token, context.version))
    return response


def _is_wanted(token: TokenInformation, owners: set[str] | None) -> bool:
    return owners is None or not owners.isdisjoint((token.owner, token.requester, *token.renewers))


def _may_see(context: RequestContext, token: TokenInformation) -> bool:
    """Whether the client is shown a token (``filterToken``)."""
    return (
        token.concerns(str(context.principal))
        or context.authorize(Operation.DESCRIBE, Resource.DELEGATION_TOKEN, token.token_id)
        or context.authorize(Operation.DESCRIBE_TOKENS, Resource.USER, token.owner)
    )


def _described(token: DelegationToken, version: int) -> DescribedDelegationToken:
    information = token.information
    kind, name = type_and_name(information.owner)
    described = DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        issue_timestamp=information.issued_ms,
        expiry_timestamp=information.expires_ms,
        max_timestamp=information.max_ms,
        token_id=information.token_id,
        hmac=token.hmac,
        renewers=[_renewer(each) for each in information.renewers],
    )
    if version >= REQUESTERS_SINCE:
        kind, name = type_and_name(information.requester)
        described.token_requester_principal_type = kind
        described.token_requester_principal_name = name
    return described


def _renewer(principal: str) -> DescribedDelegationTokenRenewer:
    kind, name = type_and_name(principal)
    return DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
