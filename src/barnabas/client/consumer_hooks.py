"""`ConsumerInterceptor`: a program's own view of what polls give and what is committed.

What an interceptor raises is logged and passed over, as in Java's consumer: it is beside the records' way.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from barnabas.client.committed import Offsets
from barnabas.client.types import ConsumerRecord
from barnabas.core.eventlog import EventLog

_log = EventLog("client.consumer")


class ConsumerInterceptor:
    """What may stand in the option `interceptors` of a consumer (``ConsumerInterceptor`` of Kafka). Called on
    the consumer's event loop, so it must be quick.
    """

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Sees what a poll is about to give, and may give something else. Positions stay as they are."""
        return records

    def on_commit(self, offsets: Offsets) -> None:
        """Sees what was committed."""


def intercepted(interceptors: Iterable[Any], records: list[ConsumerRecord]) -> list[ConsumerRecord]:
    """What the interceptors make of records, each of what the one before gave."""
    for one in interceptors:
        if hasattr(one, "on_consume"):
            try:
                records = one.on_consume(records)
            except Exception as error:
                _log.warning("interceptor.failed", interceptor=type(one).__name__, error=repr(error))
    return records


def intercepted_commit(interceptors: Sequence[Any], offsets: Offsets) -> None:
    """Tells the interceptors what was committed."""
    for one in interceptors:
        if hasattr(one, "on_commit"):
            try:
                one.on_commit(offsets)
            except Exception as error:
                _log.warning("interceptor.failed", interceptor=type(one).__name__, error=repr(error))
