"""Where a follower cuts its log when its leader's is another one (``AbstractFetcherThread.getOffsetTruncationState``)."""

from typing import NamedTuple

from barnabas.core.ids import NO_EPOCH
from barnabas.log.leader_epochs import UNDEFINED_OFFSET, EpochEnd
from barnabas.log.log import Log


class OffsetTruncationState(NamedTuple):
    """To which offset, and whether the logs are known to agree below it (``OffsetTruncationState``)."""

    offset: int
    completed: bool


def truncation_state(log: Log, leader: EpochEnd) -> OffsetTruncationState:
    """For a leader whose last epoch that this log may have too is `leader.epoch`, which ends at `leader.end_offset`."""
    end_offset = log.log_end_offset
    if leader.end_offset == UNDEFINED_OFFSET:
        return OffsetTruncationState(end_offset, completed=True)
    if leader.epoch == NO_EPOCH:
        return OffsetTruncationState(min(leader.end_offset, end_offset), completed=True)
    mine = log.leader_epochs.end_offset_for(leader.epoch, end_offset)
    if not mine.known:
        # This log knows only epochs below the leader's: all of it that the leader has is right.
        return OffsetTruncationState(min(leader.end_offset, end_offset), completed=True)
    if mine.epoch != leader.epoch:
        # The leader's epoch is not known here: cut to the end of the one below it, and compare again.
        return OffsetTruncationState(min(mine.end_offset, end_offset), completed=False)
    return OffsetTruncationState(min(mine.end_offset, leader.end_offset, end_offset), completed=True)
