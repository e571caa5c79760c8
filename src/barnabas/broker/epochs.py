"""Requests that were meant for this broker before it restarted are refused (KIP-380)."""

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog

_log = EventLog("broker.epochs")

UNKNOWN: Final = -1
"""The epoch that requests carry whose version has none."""


def require_current_broker(context: RequestContext, broker_epoch: int) -> None:
    """Raises STALE_BROKER_EPOCH for an epoch below this registration's.

    An epoch ahead of ours is obeyed: the controller may have heard of the registration before us.
    """
    current = context.broker.broker_epoch()
    if broker_epoch != UNKNOWN and broker_epoch < current:
        _log.info("request.stale_broker_epoch", request=context, epoch=broker_epoch, current=current)
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
