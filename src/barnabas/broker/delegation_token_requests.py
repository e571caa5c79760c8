"""What the four requests about delegation tokens have in common (KIP-48, KIP-373)."""

from typing import Final, Protocol

from barnabas.broker.context import RequestContext
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.network.peer import ANONYMOUS

NO_TIME: Final = -1
REQUESTERS_SINCE: Final = 3
"""From this version on a token may be for another owner than who asks."""


class PrincipalFields(Protocol):
    """A principal as these messages have it."""

    principal_type: str
    principal_name: str


def principal_of(fields: PrincipalFields) -> str:
    return f"{fields.principal_type}:{fields.principal_name}"


def type_and_name(principal: str) -> tuple[str, str]:
    """The fields of a principal."""
    kind, _, name = principal.partition(":")
    return kind, name


def require_own_credentials(context: RequestContext) -> None:
    """``allowTokenRequests``: raises DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for a client that has not shown who
    it is, or has done so with a token.
    """
    protocol = context.peer.listener.security_protocol
    if (
        context.token_authenticated
        or protocol == "PLAINTEXT"
        or (protocol == "SSL" and context.principal == ANONYMOUS)
    ):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
