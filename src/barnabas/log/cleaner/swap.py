"""A cleaned segment takes the place of its sources (``LocalLog.replaceSegments``).

Theory of operation
-------------------
::

    .cleaned    written and synced by the child      a crash: the sources count, the file is removed
    .swap       renamed, and that is synced          a crash: the start puts it in the place of what it covers
    (sources)   renamed to .deleted, synced          from here on the log reads the .swap
    .log        renamed, and that is synced          the cleaning of this group is done

Each step is durable before the next begins: a loss of power between two of them may undo a rename, but never
leaves the sources and the result side by side without the name that says which of them counts. Renames happen
on the event loop, together with the change of the list of segments, so that no reader sees one without the
other; syncs happen elsewhere, and what has become of the log meanwhile is looked at after each of them.

From the moment that the log reads the .swap, a disk that refuses a step takes the log offline, as a refused
append does: part of the sources is renamed, so nothing may be renamed, cleaned or removed here but by the
next start, which finishes the step as after a crash. Before that moment the result is given up. A .swap that
cannot even be removed takes the log offline too, because the next start would put it in the place of segments
that may have changed by then.
"""

from collections.abc import Sequence

from barnabas.core.pending import Pending, Steps, steps
from barnabas.log.filesystem import Filesystem
from barnabas.log.flush import DirectorySync, Syncer
from barnabas.log.log import Log
from barnabas.log.names import CLEANED_SUFFIX, SEGMENT_SUFFIXES, SWAP_SUFFIX, offset_name, segment_paths
from barnabas.log.segment import LogSegment


def stage(log: Log, base_offset: int, *, disk: Filesystem, syncer: Syncer) -> Pending[None]:
    """Renames the ``.cleaned`` files to ``.swap``; done when that is durable.
    Raises or fails with OSError.
    """
    log.expect_gaps()
    # The log comes last: while it is a .cleaned, none of this counts.
    for suffix in reversed(SEGMENT_SUFFIXES):
        stem = f"{log.directory}/{offset_name(base_offset, suffix)}"
        if disk.exists(stem + CLEANED_SUFFIX):
            disk.rename(stem + CLEANED_SUFFIX, stem + SWAP_SUFFIX)
    return syncer.sync([DirectorySync(disk, log.directory)])


@steps
def replace(
    log: Log, sources: Sequence[LogSegment], cleaned: LogSegment, *, disk: Filesystem, syncer: Syncer
) -> Steps[list[str]]:
    """Puts what was staged in the place of its sources; the renamed files of these, to be removed later.

    Fails with KAFKA_STORAGE_ERROR, and the log is offline then.
    """
    directory = DirectorySync(disk, log.directory)
    try:
        retired = log.segments.replace_sealed(sources, cleaned)
        yield syncer.sync([directory])
        # Meanwhile the log may have failed, or have been cut below the result.
        if not log.offline and cleaned in log.segments:
            cleaned.change_suffix(SWAP_SUFFIX, "")
            yield syncer.sync([directory])
    except OSError as error:
        raise log.storage_failed(error) from error
    return retired


def remove_output(log: Log, base_offset: int) -> None:
    """Removes what a cleaning has written and nothing reads.

    Raises KAFKA_STORAGE_ERROR, and the log is offline then.
    """
    cleaned = segment_paths(log.directory, base_offset, CLEANED_SUFFIX)
    staged = segment_paths(log.directory, base_offset, SWAP_SUFFIX)
    try:
        # The .log comes last: a start would take an index without it for one of the segment that is there.
        log.segments.remove_files([*reversed(staged), *reversed(cleaned)])
    except OSError as error:
        raise log.storage_failed(error) from error
