"""Moving the start of logs up, and waiting until every live replica has moved its own
(``DelayedDeleteRecords``).
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Final, TypeAlias

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import INTERNAL_TOPICS, TopicPartition
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced
from barnabas.replica.hosted import HostedPartitions
from barnabas.replica.purgatory import DelayedOperation, Purgatory

INVALID_LOW_WATERMARK: Final = -1
"""What stands beside an error."""

_log = EventLog("replica.delete_records")


class Deletion:
    """What became of one partition."""

    __slots__ = ("error", "low_watermark", "offset")

    def __init__(self, offset: int, low_watermark: int, error: ErrorCode = ErrorCode.NONE) -> None:
        self.offset = offset
        """Where the log is to begin."""
        self.low_watermark = low_watermark
        """The smallest log start among the live replicas."""
        self.error = error

    def __repr__(self) -> str:
        return f"<Deletion to {self.offset} low_watermark={self.low_watermark} {self.error.name}>"


Deletions: TypeAlias = dict[TopicPartition, Deletion]


def delete_records(
    hosted: HostedPartitions,
    purgatory: Purgatory,
    offsets: Mapping[TopicPartition, int],
    timeout_ms: int,
    keep_log_starts: Callable[[], object],
) -> Sliced[Deletions]:
    """``ReplicaManager.deleteRecords``: moves the log starts to these offsets (-1: the high watermark).

    Writes them down with `keep_log_starts`, and waits, at most `timeout_ms`, until every live replica has
    moved its own.
    """
    deletions: Deletions = {}
    for tp, offset in offsets.items():
        deletions[tp] = _delete_locally(hosted, tp, offset)
        yield
    waiting = {tp: each for tp, each in deletions.items() if not each.error}
    # Before the answer: a kill must not bring back what a client was told is deleted.
    if waiting:
        keep_log_starts()
    if all(each.low_watermark >= each.offset for each in waiting.values()):
        return deletions
    operation = DelayedDeleteRecords(hosted, waiting)
    purgatory.try_complete_else_watch(operation, list(waiting), max(0, timeout_ms))
    yield operation.over
    return deletions


def _delete_locally(hosted: HostedPartitions, tp: TopicPartition, offset: int) -> Deletion:
    """``deleteRecordsOnLocalLog``."""
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    # As in Kafka: coordinators would lose what they have not loaded.
    if tp.topic in INTERNAL_TOPICS:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    else:
        try:
            return Deletion(*hosted.serve(tp).delete_records(offset))
        except KafkaError as refused:
            error = refused.code
        except Exception:
            _log.error("delete_records.failed", partition=tp, exc_info=True)
    return Deletion(offset, INVALID_LOW_WATERMARK, error)


class DelayedDeleteRecords(DelayedOperation):
    """Log starts that not all live replicas have moved yet."""

    __slots__ = ("_hosted", "_waiting", "over")

    def __init__(self, hosted: HostedPartitions, waiting: Deletions) -> None:
        super().__init__()
        self.over: Pending[None] = Pending()
        self._hosted = hosted
        self._waiting: dict[Hashable, Deletion] = {}
        for tp, deletion in waiting.items():
            self._waiting[tp] = deletion
            deletion.error = ErrorCode.REQUEST_TIMED_OUT  # what holds if nothing else comes

    def try_complete(self, key: Hashable = None) -> bool:
        """Completes when every partition has the low watermark, or can no longer get it."""
        for tp in list(self._waiting) if key is None else (key,):
            deletion = self._waiting.get(tp)
            if deletion is not None and self._settled(tp, deletion):
                del self._waiting[tp]
        return not self._waiting and self.force_complete()

    def _settled(self, tp: Hashable, deletion: Deletion) -> bool:
        assert isinstance(tp, TopicPartition), "it is watched under partitions"
        try:
            low_watermark = self._hosted.serve(tp).low_watermark
        except KafkaError as gone:
            deletion.error = gone.code
            deletion.low_watermark = INVALID_LOW_WATERMARK
            return True
        # A live follower has not moved its log start yet; its next fetch says when it has.
        if low_watermark < deletion.offset:
            return False
        deletion.error = ErrorCode.NONE
        deletion.low_watermark = low_watermark
        return True

    def on_complete(self) -> None:
        self.over.complete(None)

    def __repr__(self) -> str:
        return f"<DelayedDeleteRecords waits for {[str(tp) for tp in self._waiting]}>"
