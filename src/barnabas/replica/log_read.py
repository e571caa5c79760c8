"""What a reader gets from the log of a partition: how far it may see, and whether it has to cut
(``readRecords``).

A consumer sees what is on all in-sync replicas, or only what has been committed. A follower sees everything,
and says with each fetch which epoch its last record has: where that epoch ended earlier here, its records are
not ours (KIP-595).
"""

from enum import Enum
from typing import TYPE_CHECKING, Final

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.log.leader_epochs import EpochEnd
from barnabas.log.log import Log
from barnabas.replica.cached_partition import CachedPartition

if TYPE_CHECKING:
    from barnabas.core.chunks import FileSlice
    from barnabas.log.txn_index import AbortedTxn


class Isolation(Enum):
    """How far a reader may see (``FetchIsolation``)."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "last stable offset"


# Bound once: an enum takes its time to find a member.
_LOG_END: Final = Isolation.LOG_END
_HIGH_WATERMARK: Final = Isolation.HIGH_WATERMARK
_TXN_COMMITTED: Final = Isolation.TXN_COMMITTED


class LogRead:
    """What a read found, with the offsets as they were before it."""

    __slots__ = (
        "aborted",
        "diverging",
        "high_watermark",
        "last_stable_offset",
        "log_end_offset",
        "log_start_offset",
        "on_last_segment",
        "records",
    )

    def __init__(self, log: Log) -> None:
        self.records: FileSlice | bytes = b""
        self.on_last_segment = True
        self.aborted: list[AbortedTxn] | None = None
        self.diverging: EpochEnd | None = None
        """Where the reader must cut its log; then nothing was read."""
        self.high_watermark = log.high_watermark
        self.last_stable_offset = log.last_stable_offset
        self.log_start_offset = log.log_start_offset
        self.log_end_offset = log.log_end_offset


def visible_end(log: Log, isolation: Isolation) -> int:
    """The first offset that a reader may not see."""
    if isolation is _HIGH_WATERMARK:
        return log.high_watermark
    return log.log_end_offset if isolation is _LOG_END else log.last_stable_offset


def read_records(
    log: Log, wanted: CachedPartition, isolation: Isolation, *, max_bytes: int, min_one_message: bool
) -> LogRead:
    """Reads from the offset asked for, at most to the end that the isolation allows. Raises
    OFFSET_OUT_OF_RANGE.
    """
    found = LogRead(log)
    # Consumers and followers of older versions send no epoch: a follower asks OffsetsForLeaderEpoch then.
    if wanted.last_fetched_epoch >= 0:
        found.diverging = _divergence(log, wanted)
        if found.diverging is not None:
            return found
    upper_bound = visible_end(log, isolation)
    read = log.read(
        wanted.fetch_offset, max_bytes, upper_bound_offset=upper_bound, min_one_message=min_one_message
    )
    found.on_last_segment = read.segment_base_offset == log.active.base_offset
    # A part of a batch is of no use; the reader gets all of it once it comes first in a read.
    if not read.first_entry_incomplete:
        found.records = read.records
    if isolation is _TXN_COMMITTED:
        # The reader gets the batches of aborted transactions too, and leaves them out by this list.
        found.aborted = log.aborted_transactions(wanted.fetch_offset, upper_bound)
    return found


def _divergence(log: Log, wanted: CachedPartition) -> EpochEnd | None:
    end = log.leader_epochs.end_offset_for(wanted.last_fetched_epoch, log.log_end_offset)
    # The epoch is older than everything here, or newer than our own.
    if not end.known:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            "Could not determine the end offset of the last fetched epoch "
            f"{wanted.last_fetched_epoch} from the request",
        )
    # Below the start of the log there is nothing to compare: the follower has to begin again.
    if wanted.fetch_offset < log.log_start_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Received request for offset {wanted.fetch_offset} for partition {log.tp}, but we only "
            f"have log segments in the range {log.log_start_offset} to {log.log_end_offset}.",
        )
    diverges = end.epoch < wanted.last_fetched_epoch or end.end_offset < wanted.fetch_offset
    return end if diverges else None
