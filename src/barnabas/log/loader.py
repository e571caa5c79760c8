"""Building a `Log` from its directory (``LogLoader``), or a new directory with an empty one.

Loading trusts what it finds: a segment that needs a scan was put right by `barnabas.log.recovery` before.
"""

from typing import Final

from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.log import gapless
from barnabas.log.checkpoint import LEADER_EPOCHS
from barnabas.log.config import LogConfig
from barnabas.log.leader_epochs import LeaderEpochCache
from barnabas.log.log import Log
from barnabas.log.partition_metadata import read_topic_id
from barnabas.log.recovery import base_offsets
from barnabas.log.resources import LogResources
from barnabas.log.segment import LogSegment
from barnabas.log.snapshots import SnapshotStore
from barnabas.log.truncation import reload_producers

_events: Final = EventLog("log.loader")


def create_log(
    tp: TopicPartition, directory: str, config: LogConfig, resources: LogResources, now_ms: int
) -> Log:
    """An empty log in a new directory. Raises OSError."""
    resources.filesystem.mkdir(directory)
    return load_log(tp, directory, config, resources, now_ms=now_ms)


def load_log(
    tp: TopicPartition,
    directory: str,
    config: LogConfig,
    resources: LogResources,
    *,
    now_ms: int,
    log_start_offset: int | None = None,
) -> Log:
    """The log in a directory that needs no recovery, so that everything in it is synced.

    `log_start_offset` is the checkpoint's. Raises OSError, CheckpointError, or CORRUPT_MESSAGE for damage.
    """
    filesystem = resources.filesystem
    segments = _load_segments(directory, config, resources)
    if not segments:
        segments = [_new_segment(directory, config, resources, log_start_offset or 0, now_ms)]
        gapless.note(filesystem, directory)
    else:
        segments[-1].activate()
    end_offset = segments[-1].next_offset()
    epochs_path = f"{directory}/{LEADER_EPOCHS}"
    if not filesystem.exists(epochs_path):
        filesystem.open(epochs_path, create=True)
    epochs = LeaderEpochCache(filesystem, directory)
    start_offset = min(_start_of(segments[0].base_offset, epochs, log_start_offset), end_offset)
    log = Log(
        tp,
        directory,
        config,
        resources,
        segments=segments,
        leader_epochs=epochs,
        snapshots=SnapshotStore(filesystem, directory),
        topic_id=read_topic_id(filesystem, directory),
        log_start_offset=start_offset,
        log_end_offset=end_offset,
        is_gapless=gapless.is_noted(filesystem, directory),
    )
    if log.lacks_front:
        first_left = segments[0].base_offset
        _events.warning(
            "log.lost_front",
            partition=tp,
            log_start_offset=start_offset,
            first_offset_left=first_left,
            lost_offsets=first_left - start_offset,
            meaning="the log starts where it did, so that no follower deletes what is missing here",
        )
    if log_start_offset is not None and end_offset < log_start_offset:
        # DeleteRecords reached beyond what survived: no record that is here is visible.
        _events.warning(
            "log.emptied",
            partition=tp,
            log_end_offset=end_offset,
            log_start_offset=log_start_offset,
            reason="log-start-offset-checkpoint says that the log starts beyond its end",
        )
        log.truncate_fully_and_start_at(log_start_offset)
        log.flush()
    log.leader_epochs.fit(log.log_start_offset, log.log_end_offset)
    _restore_producers(log)
    return log


def _start_of(base_offset: int, epochs: LeaderEpochCache, checkpoint: int | None) -> int:
    """Where the log starts: below its first segment where the front of the log was lost.

    Before a segment is removed, the start of the first leader epoch is moved and written to its file at once.
    The checkpoint may be a minute older. So the checkpoint alone is believed only where there are no epochs.
    """
    earliest = epochs.earliest
    written = checkpoint if earliest is None else earliest.start_offset
    first = base_offset if written is None else min(base_offset, written)
    return first if checkpoint is None else max(first, checkpoint)


def _load_segments(directory: str, config: LogConfig, resources: LogResources) -> list[LogSegment]:
    return [
        LogSegment.load(
            resources.filesystem,
            resources.files,
            directory,
            base,
            index_bytes_max=config.segment_index_bytes,
        )
        for base in base_offsets(resources.filesystem, directory)
    ]


def _new_segment(
    directory: str, config: LogConfig, resources: LogResources, base_offset: int, now_ms: int
) -> LogSegment:
    return LogSegment.create(
        resources.filesystem,
        resources.files,
        directory,
        base_offset,
        index_bytes_max=config.segment_index_bytes,
        now_ms=now_ms,
    )


def _restore_producers(log: Log) -> None:
    log.snapshots.remove_strays({segment.base_offset for segment in log.segments})
    if log.snapshots.offsets:
        reload_producers(log)
    else:
        # No snapshot and nothing to recover: there were no producers to remember (UnifiedLog).
        log.producers.clear(log.log_end_offset)
