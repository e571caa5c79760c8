"""What ListOffsets asks: an offset by a time, or by one of the special times
(``fetchOffsetForTimestamp``).
"""

from typing import Final

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
from barnabas.log.log import Log
from barnabas.log.results import TimestampAndOffset
from barnabas.replica.log_read import Isolation, visible_end
from barnabas.replica.partition import NO_LEADER_EPOCH, Partition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

NO_TIMESTAMP: Final = -1
NOT_FOUND: Final = TimestampAndOffset()


def offset_for(
    partition: Partition,
    timestamp: int,
    isolation: Isolation,
    current_leader_epoch: int,
    *,
    leader_only: bool,
) -> Sliced[TimestampAndOffset]:
    """The place that a timestamp (milliseconds, or a special one) names, `NOT_FOUND` if there is none.

    Followers and the debugging consumer ask with `Isolation.LOG_END`. Raises what `Partition.log_for`
    does, and OFFSET_NOT_AVAILABLE while a new leader's high watermark has not reached its own epoch:
    a consumer would see offsets go backwards (KIP-207).
    """
    log = partition.log_for(current_leader_epoch, leader_only=leader_only)
    if timestamp == LATEST:
        _refuse_if_lagging(partition, log, isolation, current_leader_epoch)
        return TimestampAndOffset(NO_TIMESTAMP, visible_end(log, isolation), partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _earliest(log)
    found = yield from _search(log, timestamp)
    # The search may have taken a while: the leader may be another one now.
    log = partition.log_for(current_leader_epoch, leader_only=leader_only)
    if found is not None and found.offset < visible_end(log, isolation):
        return found
    _refuse_if_lagging(partition, log, isolation, current_leader_epoch)
    return NOT_FOUND


def _earliest(log: Log) -> TimestampAndOffset:
    start = log.log_start_offset
    # The first epoch is only that of the first record if it begins there; records may have been deleted.
    first = log.leader_epochs.earliest
    epoch = first.epoch if first is not None and first.start_offset <= start else NO_LEADER_EPOCH
    return TimestampAndOffset(NO_TIMESTAMP, start, epoch)


def _search(log: Log, timestamp: int) -> Sliced[TimestampAndOffset | None]:
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None  # nothing is tiered (KIP-405)
    if timestamp == MAX_TIMESTAMP:
        return (yield from log.max_timestamp_offset())
    return (yield from log.offset_for_timestamp(timestamp))


def _refuse_if_lagging(partition: Partition, log: Log, isolation: Isolation, epoch: int) -> None:
    start = partition.leader_epoch_start_offset
    if isolation is Isolation.LOG_END or start is None or start <= log.high_watermark:
        return
    name = "unknown epoch" if epoch == NO_LEADER_EPOCH else f"epoch {epoch}"
    raise KafkaError(
        ErrorCode.OFFSET_NOT_AVAILABLE,
        f"Failed to fetch offsets for partition {partition.tp} with leader {name} as this partition's "
        f"high watermark ({log.high_watermark}) is lagging behind the start offset from the beginning of "
        f"this epoch ({start}).",
    )
