"""Files that an interrupted clean-up left in a partition's directory, put right before it is loaded.

``.deleted``   was on its way out: removed.
``.cleaned``   a compaction that did not finish: removed, and so is every ``.swap`` at or above it.
``.swap``      a compaction that did finish: takes the place of the segments that it covers.
The note that the log has no gaps (`barnabas.log.gapless`) stays, unless a compaction did finish.
An index without its log is removed (``LogLoader.removeTempFilesAndCollectSwapFiles``).
"""

from typing import Final

from barnabas.core.eventlog import EventLog
from barnabas.log import gapless
from barnabas.log.filesystem import Filesystem
from barnabas.log.names import (
    BATCHES_SUFFIX,
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of,
)
from barnabas.log.scan import scan_segment

_events: Final = EventLog("log.leftovers")


def tidy(filesystem: Filesystem, directory: str) -> None:
    """Removes or promotes each file that is not a plain segment file. Raises OSError."""
    names = filesystem.listdir(directory)
    kept = (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, BATCHES_SUFFIX)
    if all(name.endswith(kept) or not name[0].isdigit() for name in names):
        _remove_orphans(filesystem, directory, names)
        return
    cleaned = [base for name in names if (base := _segment_base(name, CLEANED_SUFFIX)) is not None]
    for name in names:
        swap = _segment_base(name, SWAP_SUFFIX)
        unfinished = swap is not None and cleaned and swap >= min(cleaned)
        if unfinished or (name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX)) and name != gapless.FILE_NAME):
            filesystem.remove(f"{directory}/{name}")
    _promote_swaps(filesystem, directory)
    _remove_orphans(filesystem, directory, filesystem.listdir(directory))


def _segment_base(name: str, state: str) -> int | None:
    """The base offset in ``<offset>.<kind><state>``."""
    if not name.endswith(state):
        return None
    stem = name[: -len(state)]
    for suffix in SEGMENT_SUFFIXES:
        base = offset_of(stem, suffix)
        if base is not None:
            return base
    return None


def _promote_swaps(filesystem: Filesystem, directory: str) -> None:
    swaps = [name for name in filesystem.listdir(directory) if name.endswith(SWAP_SUFFIX)]
    for low, high in [_covered(filesystem, directory, name) for name in swaps]:
        for name in filesystem.listdir(directory):
            bases = [base for suffix in SEGMENT_SUFFIXES if (base := offset_of(name, suffix)) is not None]
            if bases and low <= bases[0] < high:
                filesystem.remove(f"{directory}/{name}")
    if swaps:
        # A loss of power may have brought the note back that was withdrawn before these came.
        gapless.withdraw(filesystem, directory)
        # The names that say which files count go last, or a loss of power now would bring the others back.
        filesystem.sync_directory(directory)
    for name in swaps:
        filesystem.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")


def _covered(filesystem: Filesystem, directory: str, name: str) -> tuple[int, int]:
    """The offsets [low, high) that a finished ``.log.swap`` replaces; nothing for its indexes."""
    base = offset_of(name, LOG_SUFFIX + SWAP_SUFFIX)
    if base is None:
        return 0, 0
    return base, scan_segment(filesystem.open(f"{directory}/{name}"), base).next_offset


def _remove_orphans(filesystem: Filesystem, directory: str, names: list[str]) -> None:
    logs = {offset_of(name, LOG_SUFFIX) for name in names}
    for name in names:
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            base = offset_of(name, suffix)
            if base is not None and base not in logs:
                if suffix == INDEX_SUFFIX:
                    # A deletion that a kill cut short, or a segment was removed by hand: its records are
                    # lost.
                    _events.warning("segment.missing", directory=directory, base_offset=base, orphan=name)
                filesystem.remove(f"{directory}/{name}")
