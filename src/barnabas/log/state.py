"""What a log is: its offsets, segments and producers, whether it serves, which appends wait to be written.

`Log` adds what can be done with it. What has a page of its own (`damage`, `truncation`) works on this state.
"""

from typing import TYPE_CHECKING, Final, NoReturn

from barnabas.core.config import LONG_MAX
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition, Uuid
from barnabas.log.config import LogConfig
from barnabas.log.leader_epochs import LeaderEpochCache
from barnabas.log.producers import ProducerStateManager
from barnabas.log.resources import LogResources
from barnabas.log.segment import LogSegment, Place
from barnabas.log.segments import SegmentList
from barnabas.log.shortage import is_full, is_passing
from barnabas.log.snapshots import SnapshotStore
from barnabas.log.write_turn import UnwrittenAppends

if TYPE_CHECKING:
    from barnabas.core.pending import Pending

_events: Final = EventLog("log")


class LogState:
    """The state of one partition's log."""

    def __init__(
        self,
        tp: TopicPartition,
        directory: str,
        config: LogConfig,
        resources: LogResources,
        *,
        segments: list[LogSegment],
        leader_epochs: LeaderEpochCache,
        snapshots: SnapshotStore,
        topic_id: Uuid | None,
        log_start_offset: int,
        log_end_offset: int,
        is_gapless: bool,
    ) -> None:
        self.tp = tp
        self.directory = directory
        self.config = config
        self.leader_epochs = leader_epochs
        self.producers = ProducerStateManager(tp)
        self.snapshots = snapshots
        self.topic_id = topic_id
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = log_end_offset
        self.first_dirty_offset = 0
        """Below it each key occurs once: the cleaner has been there."""
        self.lowest_cut = LONG_MAX
        """The lowest offset that the log was truncated to since the cleaner began with it."""
        self.watched_end_offset = log_end_offset
        """Where the log ended when its files were last seen to be there."""
        self.is_gapless = is_gapless
        """Whether no offset is missing between two records, unless it was lost."""
        self.offline = False
        self.last_flush_ms = 0
        self._high_watermark = log_start_offset
        self.resources = resources
        self.segments = SegmentList(segments, directory, resources, snapshots)
        self.flush_bound = log_end_offset
        self.loaded_end_offset = log_end_offset
        """Where the log ended when it was loaded; -1 once it was cut."""
        self.unwritten: UnwrittenAppends | None = None
        """What waits for the end of a turn; there is one only where the log has joined a turn."""
        self.rebuilding: dict[LogSegment, Pending[tuple[bytes, bytes]]] = {}
        """Scans for indexes of segments, which may run in a child process."""
        self.warned: list[tuple[str, object]] = []
        """Damage that the log of events has a line for."""

    # -- state ---------------------------------------------------------------------------------------

    @property
    def active(self) -> LogSegment:
        return self.segments.active

    @property
    def parent_dir(self) -> str:
        """The log directory that it is in (``parentDir``)."""
        return self.directory.rpartition("/")[0]

    @property
    def size(self) -> int:
        return self.segments.size

    @property
    def lacks_front(self) -> bool:
        """Whether the first records of the log were lost; it starts where they were: see `loader`."""
        return self.log_start_offset < self.segments[0].base_offset

    @property
    def high_watermark(self) -> int:
        """The offset below which records are on all in-sync replicas."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        # A follower may hear of one beyond what it has copied, a start of one beyond what it has recovered.
        self._high_watermark = offset = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.producers.on_high_watermark(offset)

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction has ended; what read_committed may see."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self._high_watermark
        # The first open transaction may lie below the start of the log, or not yet be on all in-sync
        # replicas.
        return min(max(unstable, self.log_start_offset), self._high_watermark)

    # -- appends that wait ---------------------------------------------------------------------------

    def write_unwritten(self) -> None:
        """Writes the appends that wait. Where the disk refuses, each has failed with
        `UnwrittenAppends.error`, and the log is as it was before them.
        """
        unwritten = self.unwritten
        if unwritten is None:
            return
        self.unwritten = None
        if not unwritten.buffers:
            return
        segments = self.segments
        try:
            if self.offline:
                self._refuse_offline()
            position = segments.active.append_together(
                unwritten.buffers, unwritten.appends, self.config.index_interval_bytes
            )
        except KafkaError as offline:
            # An error of the disk came between, or the partition was deleted.
            self._take_back(unwritten)
            unwritten.error = offline
        except OSError as error:
            # What a part of the write has left in the file lies beyond the segment's size.
            self._take_back(unwritten)
            unwritten.error = self.refused(error)
        except Exception as error:
            # A bug. The log must not end behind what is in the file: the next append would leave a hole.
            _events.error("log.append_failed", partition=self.tp, exc_info=error)
            self._take_back(unwritten)
            unwritten.error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            for append in unwritten.appends:
                segments.remember(Place(position, append.size, append.first_offset))
                position += append.size

    def _take_back(self, unwritten: UnwrittenAppends) -> None:
        self.log_end_offset = self.producers.map_end_offset = unwritten.log_end_offset
        unwritten.put_back_producers(self.producers)
        self.high_watermark = unwritten.high_watermark

    # -- errors --------------------------------------------------------------------------------------

    def refused(self, error: OSError) -> KafkaError:
        """What to raise when an operation failed that left everything as it was.

        Neither descriptors that have run out nor a disk without room is broken: the client tries again, and
        the log stays in service.
        """
        if not is_passing(error):
            return self.storage_failed(error)
        self.resources.listener.refused(self.directory, error)
        missing = "room" if is_full(error) else "file descriptor"
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"No {missing} is left for {self.tp}: {error}")

    def sync_failed(self, error: OSError) -> KafkaError:
        """As `refused`; but a disk that finds only now that it is full may have lost what it had taken."""
        return self.storage_failed(error) if is_full(error) else self.refused(error)

    def storage_failed(self, error: OSError) -> KafkaError:
        """Takes the log out of service with its directory, and returns what to raise."""
        # The first error counts: those of calls that were under way come later.
        if not self.offline:
            self.offline = True
            _events.error("log.offline", partition=self.tp, directory=self.directory, error=error)
            self.resources.listener.failed(self.directory, error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Error on the disk of {self.tp}: {error}")

    def check_online(self) -> None:
        """What every call begins with: what waits is written before anything looks at the log."""
        if self.unwritten is not None:
            self.write_unwritten()
        if self.offline:
            self._refuse_offline()

    def _refuse_offline(self) -> NoReturn:
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"The log dir of {self.tp} is offline due to a previous I/O error"
        )

    def __repr__(self) -> str:
        return (
            f"<Log {self.tp} [{self.log_start_offset}, {self.log_end_offset}) hw={self._high_watermark}"
            f" recovery={self.recovery_point} segments={len(self.segments)}"
            f"{' OFFLINE' if self.offline else ''}>"
        )
