"""What a client hears of work that failed (``ApiError.fromThrowable``)."""

from typing import Any

from barnabas.cluster.store.contract import StoreError
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog


def api_error(log: EventLog, event: str, error: BaseException, **fields: Any) -> KafkaError:
    """The error as clients know it:
    one that has no code of its own is UNKNOWN_SERVER_ERROR, and is logged.
    """
    if isinstance(error, KafkaError):
        return error
    if isinstance(error, StoreError):
        # A session that ends, or a store that does not answer, is no mistake of this program.
        log.error(event, **fields, reason=error)
    else:
        log.error(event, **fields, exc_info=error)
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
