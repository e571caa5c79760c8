"""What the handlers of transactions share:
who the producer is, its rights, and the codes of older clients.
"""

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.core.errors import ErrorCode, KafkaError


def require_transactional_id(context: RequestContext, transactional_id: str | None) -> None:
    """Raises TRANSACTIONAL_ID_AUTHORIZATION_FAILED unless the client may use the id."""
    if transactional_id is None or not context.authorize(
        Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id
    ):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def known_to_client(code: ErrorCode, version: int, *, fenced_since: int) -> ErrorCode:
    """The code for a request of this version (KIP-588): clients before it know no PRODUCER_FENCED."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
