"""Where a follower cuts its log when its leader's is another one
(``AbstractFetcherThread.getOffsetTruncationState``).
"""

from barnabas.core.ids import NO_EPOCH
from barnabas.log.leader_epochs import UNDEFINED_OFFSET, EpochEnd
from barnabas.log.log import Log


def truncation_offset(log: Log, leader: EpochEnd) -> int:
    """The offset to cut to, for a leader in whose log the last epoch that both may have is `leader`.

    Where this log lacks that epoch, it is cut to the end of the one before. The next fetch names that one,
    and its answer says whether more has to go (KIP-279).
    """
    end_offset = log.log_end_offset
    if leader.end_offset == UNDEFINED_OFFSET:
        return end_offset
    agreed = min(leader.end_offset, end_offset)
    mine = (
        EpochEnd() if leader.epoch == NO_EPOCH else log.leader_epochs.end_offset_for(leader.epoch, end_offset)
    )
    return min(agreed, mine.end_offset) if mine.known else agreed
