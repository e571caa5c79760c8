"""Records at the end of a log are cut off: a follower had what its leader does not have
(``UnifiedLog.truncateTo``).

Theory of operation
-------------------
Everything that says how far something of the log reaches is brought back to where the log ends now: its
segments and indexes, the leader epochs, the recovery point, the high watermark, what is clean, and the
producers, which are read again from the newest snapshot below the cut. The listener hears of it first,
because a cleaner may be at what goes.

A disk error in the middle leaves half of it done. Then the log goes offline even where only descriptors or
room were wanting, which is no reason anywhere else: a start puts it right.
"""

from barnabas.log.replay import replay
from barnabas.log.state import LogState


def truncate_to(log: LogState, offset: int) -> bool:
    """``truncateTo``: cuts everything at and above the offset; False when there was nothing to cut."""
    log.check_online()
    assert offset >= 0, f"cannot truncate to {offset}"
    # There is nothing to cut but the names of epochs.
    if offset >= log.log_end_offset:
        _forget_epochs_without_records(log)
        return False
    # The cut lies before the first record: no segment would be left to append to.
    if offset < log.segments[0].base_offset:
        truncate_fully_and_start_at(log, offset)
        return True
    try:
        # What a scan finds now may be cut off in a moment, and an index must not lead to it.
        log.rebuilding.clear()
        _begin_cut(log, offset)
        # Whole segments first: a death in between leaves a log that ends later, and no hole.
        log.segments.discard(log.segments.cut_after(offset))
        log.active.activate()
        log.active.truncate_to(offset)
        _shorten(log, offset)
        log.leader_epochs.truncate_from_end(offset)
        reload_producers(log)
    except OSError as error:
        raise log.storage_failed(error) from error
    return True


def truncate_fully_and_start_at(log: LogState, offset: int, log_start_offset: int | None = None) -> None:
    """``truncateFullyAndStartAt``: drops all records; the next append goes to the offset.

    For a follower that fell off its leader.
    """
    log.check_online()
    try:
        _begin_cut(log, 0)
        log.segments.discard(list(log.segments))
        log.segments.replace(
            log.segments.create(offset, log.config.segment_index_bytes, log.active.created_ms)
        )
        log.leader_epochs.clear()
        for snapshot in log.snapshots.offsets:
            log.snapshots.remove(snapshot)
        log.producers.clear(offset)
    except OSError as error:
        raise log.storage_failed(error) from error
    log.log_start_offset = offset if log_start_offset is None else log_start_offset
    # The new end may lie above the old one: only what is new below it can be taken for synced.
    log.log_end_offset = offset
    log.recovery_point = min(log.recovery_point, offset)
    log.flush_bound = min(log.flush_bound, offset)
    log.high_watermark = offset


def _forget_epochs_without_records(log: LogState) -> None:
    # An epoch in which this broker led and appended nothing: its leader does not know it, and would ask for a
    # cut again and again.
    try:
        log.leader_epochs.truncate_from_end(log.log_end_offset)
    except OSError as error:
        raise log.refused(error) from error


def _begin_cut(log: LogState, offset: int) -> None:
    """What is cleaned of the log, or is being cleaned, ends where a segment begins that stays whole."""
    log.lowest_cut = min(log.lowest_cut, offset)
    # A clean stop has to sync again, although the log ends where it did when it was loaded.
    log.loaded_end_offset = -1
    clean = min(log.first_dirty_offset, log.segments.reaching(offset)[0].base_offset)
    is_dirtier, log.first_dirty_offset = clean < log.first_dirty_offset, clean
    log.resources.listener.cut(log.directory, log.lowest_cut, is_dirtier)


def _shorten(log: LogState, end_offset: int) -> None:
    log.log_end_offset = end_offset
    log.recovery_point = min(log.recovery_point, end_offset)
    # A sync that runs has promised what it found; what is appended from here on is not among that.
    log.flush_bound = min(log.flush_bound, end_offset)
    log.log_start_offset = min(log.log_start_offset, end_offset)
    log.high_watermark = min(log.high_watermark, end_offset)


def reload_producers(log: LogState) -> None:
    """``rebuildProducerState``: from the newest snapshot and the batches after it."""
    # Kafka forgets producers whose records lie below the start of the log. They may still send those
    # again, as they may while a broker runs, so what the first segment has of them counts.
    start_offset = log.segments[0].base_offset
    # Snapshots beyond the end know batches that are cut off.
    log.snapshots.remove_outside(start_offset, log.log_end_offset)
    producers = log.producers
    log.snapshots.load_into(producers, start_offset)
    replay(producers, log.segments.reaching(producers.map_end_offset))
    producers.map_end_offset = log.log_end_offset
    producers.on_log_start(log.log_start_offset)
    producers.on_high_watermark(log.high_watermark)
