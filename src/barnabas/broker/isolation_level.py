"""How far a consumer may read, by the isolation level that its request names (``IsolationLevel``)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.replica.log_read import Isolation

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

_ISOLATION: Final[Mapping[int, Isolation]] = MappingProxyType(
    {READ_UNCOMMITTED: Isolation.HIGH_WATERMARK, READ_COMMITTED: Isolation.TXN_COMMITTED}
)


def isolation_of(level: int) -> Isolation:
    """Raises UNKNOWN_SERVER_ERROR for a level that there is not: ``IsolationLevel.forId`` fails over it."""
    isolation = _ISOLATION.get(level)
    if isolation is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return isolation
