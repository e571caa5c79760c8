"""CreateDelegationToken (38), v0-3.

Behaviour: the token is in the metadata store when the answer goes, and holds on this broker; on others as
           soon as they hear of it. For another owner one may be created by who may CREATE_TOKENS on that
           user; INVALID_PRINCIPAL_TYPE where the owner or a renewer is no user. Any broker does it.
Versions:  v2 flexible · v3 tokens for another owner (KIP-373).
"""

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.delegation_token_requests import (
    NO_TIME,
    REQUESTERS_SINCE,
    principal_of,
    require_own_credentials,
    type_and_name,
)
from barnabas.broker.registry import handles
from barnabas.broker.sliced import alone, sliced
from barnabas.core.delegation_token import USER, DelegationToken
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
from barnabas.network.peer import ANONYMOUS
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)


def _failed(
    _request: CreateDelegationTokenRequest, error: KafkaError, version: int
) -> CreateDelegationTokenResponse:
    return _answer(ANONYMOUS, ANONYMOUS, version, error_code=error.code)


@handles(ApiKey.CREATE_DELEGATION_TOKEN, versions=(0, 3), failed=_failed)
@sliced
def create_delegation_token(
    context: RequestContext, request: CreateDelegationTokenRequest
) -> Sliced[CreateDelegationTokenResponse]:
    requester = str(context.principal)
    owner = requester
    if request.owner_principal_name:
        if request.owner_principal_type is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    renewers = []
    try:
        require_own_credentials(context)
        if owner != requester and not context.authorize(Operation.CREATE_TOKENS, Resource.USER, owner):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        if type_and_name(owner)[0] != USER:
            raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        for renewer in request.renewers:
            yield
            if renewer.principal_type != USER:
                raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
            renewers.append(principal_of(renewer))
        created = context.broker.delegation_tokens.create(owner, requester, renewers, request.max_lifetime_ms)
        token = yield from alone(context, created)
    except KafkaError as error:
        return _answer(owner, requester, context.version, error_code=error.code)
    return _answer(owner, requester, context.version, token)


def _answer(
    owner: str, requester: str, version: int, token: DelegationToken | None = None, *, error_code: int = 0
) -> CreateDelegationTokenResponse:
    kind, name = type_and_name(owner)
    response = CreateDelegationTokenResponse(
        error_code=error_code,
        principal_type=kind,
        principal_name=name,
        issue_timestamp_ms=NO_TIME if token is None else token.information.issued_ms,
        expiry_timestamp_ms=NO_TIME if token is None else token.information.expires_ms,
        max_timestamp_ms=NO_TIME if token is None else token.information.max_ms,
        token_id="" if token is None else token.information.token_id,
        hmac=b"" if token is None else token.hmac,
    )
    if version >= REQUESTERS_SINCE:
        kind, name = type_and_name(requester)
        response.token_requester_principal_type = kind
        response.token_requester_principal_name = name
    return response
