"""Damage that a reader of a log comes across: what is mended, and what the reader is answered for all else.

Theory of operation
-------------------
An index is only a short way into the batches, so a damaged one is made again from them (`rebuild_index`), and
the reader finds what it looked for. Batches that are damaged stay as they are: the reader gets an error, the
records before and behind them are served, and another replica may have them whole. Either has a line in the
log of events, but not at each request that comes across it.
"""

from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.offload import InPlace
from barnabas.core.pending import Pending
from barnabas.log.index import IndexCorruptError
from barnabas.log.scan import IN_PLACE_SCAN_BYTES, scan_indexes
from barnabas.log.segment import LogSegment
from barnabas.log.state import LogState

P = ParamSpec("P")
T = TypeVar("T")

WARNINGS_MAX: Final = 100
"""The number of damaged places of one partition that get a line each; further ones get none."""

_events: Final = EventLog("log")


def looked_up(log: LogState, look_up: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a look-up finds, after damage that it comes across has been mended where that is possible."""
    try:
        return look_up(*args, **kwargs)
    except (OSError, KafkaError, IndexCorruptError) as error:
        mend(log, error)
    return look_up(*args, **kwargs)


def mend(log: LogState, error: OSError | KafkaError | IndexCorruptError) -> None:
    """Rebuilds an index that turns out to be damaged; for all else raises what the reader is answered."""
    if isinstance(error, IndexCorruptError):
        rebuild_index(log, error)
        return
    if isinstance(error, FileNotFoundError):
        # A segment was removed by hand: the disk works, and the other logs of the directory stay in service.
        if any(segment.path == error.filename for segment in log.segments):
            raise log.storage_failed(error) from error
        # An index was: the next start makes it again, until then its segment cannot be searched.
        warn_once(log, "segment.missing", error.filename, error=error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"A file of {log.tp} is missing: {error}") from error
    # The disk itself fails, or descriptors have run out.
    if isinstance(error, OSError):
        raise log.refused(error) from error
    # CORRUPT_MESSAGE: what is there is no batch, or not the one that was written.
    warn_once(log, "segment.corrupt", str(error), error=error)
    raise error


def rebuild_index(log: LogState, error: IndexCorruptError) -> None:
    """Makes the indexes of a segment again from its batches, a large one's in a child process.

    Raises KAFKA_STORAGE_ERROR, which clients try again, while the child process runs.
    """
    segment = next((each for each in log.segments if each.base_offset == error.base_offset), None)
    if segment is not None and segment not in log.rebuilding:
        _events.warning("index.rebuild", partition=log.tp, segment=segment.path, reason=error)
        resources = log.resources
        run = resources.offload if segment.size > IN_PLACE_SCAN_BYTES else InPlace()
        scan = log.rebuilding[segment] = run.run(
            scan_indexes,
            resources.disk,
            segment.path,
            segment.base_offset,
            log.config.index_interval_bytes,
        )
        scan.when_done(lambda done: _rebuilt(log, segment, done))
    # What was scanned in place is there by now, or the log is offline.
    log.check_online()
    if segment in log.rebuilding:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"An index of {log.tp} is being rebuilt: {error}")


def _rebuilt(log: LogState, segment: LogSegment, scanned: Pending[tuple[bytes, bytes]]) -> None:
    # The log was truncated meanwhile: what was found may be cut off.
    if log.rebuilding.get(segment) is not scanned:
        return
    del log.rebuilding[segment]
    # It was closed or deleted, or the segment was: by retention, or by the cleaner.
    if log.offline or segment not in log.segments:
        return
    index, time_index = b"", b""
    if scanned.error is None:
        index, time_index = scanned.result()
    else:
        # Without entries every look-up reads the segment from its start, which is slow and right.
        _events.error("index.not_rebuilt", partition=log.tp, segment=segment.path, reason=scanned.error)
    try:
        segment.take_indexes(index, time_index)
    except OSError as error:
        log.refused(error)


def warn_once(log: LogState, event: str, place: object, **fields: object) -> None:
    """Says that something is damaged, but not at each request that comes across it."""
    if len(log.warned) < WARNINGS_MAX and (event, place) not in log.warned:
        log.warned.append((event, place))
        _events.warning(event, partition=log.tp, **fields)
