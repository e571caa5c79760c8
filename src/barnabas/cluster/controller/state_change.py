"""`in_one_batch`: the frame of every state change, of partitions and of replicas (``handleStateChanges``)."""

from collections.abc import Callable
from typing import TypeVar

from barnabas.cluster.controller.channel_manager import BatchNotSentError, RequestBatch
from barnabas.cluster.controller.fenced_store import ControllerMovedError
from barnabas.cluster.store.contract import StoreError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending, Steps, steps

T = TypeVar("T")


@steps
def in_one_batch(
    batch: RequestBatch, change: Callable[[], Pending[T]], events: EventLog, **what: object
) -> Steps[T | Exception]:
    """Runs a change, then sends brokers what it collected for them; of one that failed nothing is sent.

    Gives what the change comes to, or the error that it failed with, which is logged with `what`. Raises what
    ends the term: ControllerMovedError, BatchNotSentError.
    """
    try:
        batch.begin()
        outcome: T = yield change()
        batch.send()
    except (ControllerMovedError, BatchNotSentError):
        raise
    except Exception as error:
        batch.clear()
        # A session that ends is no bug.
        events.error("state_change_failed", **what, error=error, exc_info=not isinstance(error, StoreError))
        return error
    return outcome
