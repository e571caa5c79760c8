"""What is left after an unclean stop."""

import dataclasses
import struct
import zlib

import pytest
from cleaner_world import CompactedWorld
from log_world import NOW_MS, TP, World, batch, fill, values_of

from barnabas.core.ids import TopicPartition
from barnabas.log import gapless
from barnabas.log.filesystem import OsFilesystem
from barnabas.log.producers import AppendOrigin
from barnabas.log.recovery import recover_log
from barnabas.records.batch import build_batch, parse_header, stamp
from barnabas.records.control import ControlType, EndTransactionMarker, build_marker
from barnabas.records.record import Record

ROOT = "/data/orders-0"


def damaged(world, name, position, data=b"\xff"):
    """Overwrites bytes of a file without the log knowing of it."""
    world.disk.open(f"{ROOT}/{name}").pwrite(data, position)


def segments_of(world, count=30, **config):
    """A log of several segments that was left without a clean shutdown; its values and file names."""
    world.config = type(world.config)(segment_bytes=500, index_interval_bytes=150, **config)
    manager = world.started()
    log = fill(manager.get_or_create(TP), count)
    expected = values_of(log)
    bases = [segment.base_offset for segment in log.segments]
    manager.shutdown(clean=False)
    return expected, bases


def files_of(world, *suffixes):
    return {
        name: world.disk.read(f"{ROOT}/{name}")
        for name in world.disk.listdir(ROOT)
        if name.endswith(suffixes or (".log", ".index", ".timeindex", ".txnindex"))
    }


def test_everything_is_there_after_the_process_died(world):
    expected, bases = segments_of(world)
    log = world.started().get(TP)

    assert values_of(log) == expected
    assert [segment.base_offset for segment in log.segments] == bases
    assert log.recovery_point == log.log_end_offset == 30


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"garbage" * 30, bytes(batch())[:-1], bytes(batch())])
def test_a_tail_that_is_no_batch_is_cut(world, tail):
    expected, bases = segments_of(world)
    name = f"{bases[-1]:020d}.log"
    damaged(world, name, world.disk.size(f"{ROOT}/{name}"), tail)
    log = world.started().get(TP)

    # The last tail is a valid batch with base offset 0: out of place, so it does not count.
    assert values_of(log) == expected
    fill(log, 1)
    assert values_of(log)[-1][0] == 30


def test_the_first_bad_batch_ends_the_log(world):
    expected, bases = segments_of(world)
    size = len(batch())
    damaged(world, f"{bases[2]:020d}.log", size + 30)
    log = world.started().get(TP)
    end = bases[2] + 1

    assert log.log_end_offset == end
    assert values_of(log) == expected[:end]
    assert [segment.base_offset for segment in log.segments] == bases[:3]
    assert not [name for name in files_of(world) if int(name.split(".")[0]) > bases[2]]
    fill(log, 3)
    assert [offset for offset, _ in values_of(log)] == list(range(end + 3))


def lost_end(world, *, last_records=0, synced=False, **config):
    """A log that was rolled after 10 records and lost the last of them; the new segment has so many."""
    world.config = type(world.config)(**config)
    manager = world.started()
    log = fill(manager.get_or_create(TP), 10)
    end = log.segments[0].size
    log.roll(NOW_MS)
    if synced:
        log.flush()
        manager.checkpoint_recovery_points()
    fill(log, last_records)
    values = values_of(log)
    manager.shutdown(clean=False)
    world.disk.open(f"{ROOT}/{0:020d}.log").truncate(end - len(batch()))
    return values


@pytest.mark.parametrize("last_records", [0, 3], ids=["nothing-follows", "records-follow"])
def test_the_end_of_a_segment_that_was_lost_leaves_no_hole(world, last_records):
    values = lost_end(world, last_records=last_records)

    log = world.started().get(TP)

    assert (log.log_end_offset, values_of(log)) == (9, values[:9])
    assert [segment.base_offset for segment in log.segments] == [0]
    fill(log, 1)
    assert [offset for offset, _ in values_of(log)] == list(range(10))


@pytest.mark.parametrize("last_records", [0, 1])
@pytest.mark.parametrize("gap", ["was synced", "another broker's"])
def test_no_offset_is_given_twice_where_a_gap_may_be_another_s(world, last_records, gap):
    values = lost_end(world, last_records=last_records, synced=gap == "was synced")
    if gap == "another broker's":
        # What Kafka does to such a file before it loads a log.
        world.disk.remove(f"{ROOT}/{gapless.FILE_NAME}")

    log = world.started().get(TP)

    assert log.log_end_offset == 10 + last_records
    assert values_of(log) == values[:9] + values[10:]


def test_the_policy_of_now_does_not_say_whether_a_gap_is_a_loss(world):
    """The end of a segment of a compacted topic was never looked for, even where no cleaner had been."""
    values = lost_end(world, last_records=3, cleanup_policy=("compact",))

    assert values_of(world.started().get(TP)) == values[:9]


def cleaned(**config):
    """A log that a cleaner has been at, with gaps inside and between its segments."""
    world = CompactedWorld(segment_bytes=1000, **config)
    for number in range(200):
        world.put((b"%d" % (number % 7), b"%d" % number))
    world.roll()
    for number in range(20):
        world.put((b"last-%d" % number, b"x" * 50))
    world.clean()
    ends = [segment.next_offset() for segment in world.the_log.segments]
    bases = [segment.base_offset for segment in world.the_log.segments]
    assert any(end < base for end, base in zip(ends, bases[1:], strict=False)), "no gap to be judged"
    return world


def test_what_a_cleaner_has_left_is_kept_whatever_the_topic_is_now():
    """Recovery took the first gap for a loss of power, and dropped all that lay behind it."""
    world = cleaned()
    world.manager_.checkpoint_cleaner_offsets(world.the_log)
    kept, end = world.records(), world.the_log.log_end_offset
    world.config = dataclasses.replace(world.config, cleanup_policy=("delete",))
    for checkpoint in ("cleaner-offset-checkpoint", "recovery-point-offset-checkpoint"):
        world.disk.remove(f"{world.root}/{checkpoint}")
        world.restart()

        assert (world.records(), world.the_log.log_end_offset) == (kept, end)


def test_the_copy_of_a_cleaned_log_is_kept_too(world):
    """A follower has its leader's gaps without a cleaner, and no checkpoint that says so."""
    source = cleaned()
    world.config = type(world.config)(segment_bytes=1)
    manager = world.started()
    copy = manager.get_or_create(TP)
    for header in source.headers():
        segment = source.the_log.segments.locate(header.base_offset)[0]
        copy.append_as_follower(segment.read_batch(header))
    expected = values_of(copy)
    manager.shutdown(clean=False)

    assert values_of(world.started().get(TP)) == expected == values_of(source.the_log)


def test_a_log_whose_last_records_a_cleaner_removed_ends_where_it_did(world):
    """A move to another directory begins an empty segment there."""
    manager = world.started()
    log = fill(manager.get_or_create(TP), 3)
    log.roll(NOW_MS, 10)
    manager.shutdown(clean=False)

    assert world.started().get(TP).log_end_offset == 10


def test_a_note_that_comes_back_beside_a_finished_compaction_is_not_believed():
    world = cleaned()
    kept = world.records()
    first = world.the_log.segments[0].path
    world.manager_.shutdown(clean=False)
    # A loss of power undid the removal, which was not synced, and kept the rename after it.
    world.disk.open(f"{ROOT}/{gapless.FILE_NAME}", create=True)
    world.disk.rename(first, f"{first}.swap")
    world.start()

    assert world.records() == kept


def test_what_damage_behind_a_clean_shutdown_has_cost_is_no_later_loss(world):
    """The gap that it leaves made the next unclean start without recovery points drop the segments
    behind it.
    """
    world.config = type(world.config)(segment_bytes=1000, index_interval_bytes=0)
    manager = world.started()
    log = fill(manager.get_or_create(TP), 60)
    expected, bases = values_of(log), [segment.base_offset for segment in log.segments]
    manager.shutdown()
    world.disk.open(f"{ROOT}/{bases[1]:020d}.log").truncate(2 * len(batch()) + 20)
    world.started().shutdown(clean=False)
    world.disk.remove("/data/recovery-point-offset-checkpoint")
    gone = set(range(bases[1] + 2, bases[2]))

    left = values_of(world.started().get(TP))
    assert left == [(offset, value) for offset, value in expected if offset not in gone]


def message_of_format_1(offset, value):
    behind = struct.pack(">bbqii", 1, 0, NOW_MS, -1, len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(behind), zlib.crc32(behind)) + behind


@pytest.mark.parametrize("clean", [True, False])
def test_messages_of_an_old_format_are_left_as_they_are(world, clean, caplog):
    """A genuine broker reads them to this day.
    Taken for damage they were cut off, even after a clean stop.
    """
    manager = world.started()
    fill(manager.get_or_create(TP), 1)
    fill(manager.get_or_create(TopicPartition("others", 0)), 3)
    manager.shutdown(clean=clean)
    old = b"".join(message_of_format_1(offset, b"value") for offset in range(50))
    world.disk.open(f"{ROOT}/{0:020d}.log").truncate(0)
    world.disk.open(f"{ROOT}/{0:020d}.log").pwrite(old, 0)
    manager = world.started()

    assert manager.get(TP) is None
    assert world.disk.read(f"{ROOT}/{0:020d}.log") == old
    assert len(values_of(manager.get(TopicPartition("others", 0)))) == 3
    assert [
        each.message for each in caplog.records if "log.unusable" in each.message and "format" in each.message
    ]


def test_what_was_synced_is_not_read_again(world):
    _, bases = segments_of(world)
    world.disk.write_atomic("/data/recovery-point-offset-checkpoint", b"0\n1\norders 0 %d\n" % bases[3])
    world.disk.fail(f"{ROOT}/{bases[0]:020d}.log", "read")
    log = world.started().get(TP)

    assert log.log_end_offset == 30


def test_indexes_are_rebuilt_as_they_were_for_single_batches(world):
    world.config = type(world.config)(segment_bytes=3000, index_interval_bytes=150)
    manager = world.started()
    fill(manager.get_or_create(TP), 60)
    manager.shutdown()
    written = files_of(world)
    for name in written:
        if not name.endswith(".log"):
            world.disk.remove(f"{ROOT}/{name}")
    world.disk.remove("/data/.kafka_cleanshutdown")
    manager = world.started()
    manager.shutdown()

    assert files_of(world).keys() == written.keys()
    assert files_of(world, ".log") == {name: data for name, data in written.items() if name.endswith(".log")}
    assert all(data for name, data in files_of(world, "index").items())


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damage", ["missing", "odd", "negative"])
def test_a_bad_index_is_rebuilt_after_a_clean_shutdown(world, suffix, damage):
    world.config = type(world.config)(segment_bytes=500, index_interval_bytes=1)
    manager = world.started()
    log = manager.get_or_create(TP)
    for number in range(20):
        log.append(batch(timestamp=NOW_MS + number), 0, NOW_MS)
    expected = values_of(log)
    manager.shutdown()
    before = files_of(world)
    name = next(name for name in before if name.endswith(f".{suffix}") and int(name.split(".")[0]) > 3)
    if damage == "missing":
        world.disk.remove(f"{ROOT}/{name}")
    elif damage == "odd":
        damaged(world, name, len(before[name]))
    else:
        damaged(world, name, len(before[name]) - (8 if suffix == "index" else 4), b"\xff" * 4)
    manager = world.started()

    assert values_of(manager.get(TP)) == expected
    manager.shutdown()
    assert {key: data for key, data in files_of(world).items() if data != before.get(key)}.keys() <= {
        name.rpartition(".")[0] + ".index",
        name.rpartition(".")[0] + ".timeindex",
    }
    assert world.disk.size(f"{ROOT}/{name}") > 0


@pytest.mark.parametrize(
    ("field", "value"),
    [(0, -1), (1, -1), (1, 99), (2, 0), (2, 1), (2, 5), (3, 99), (3, -1)],
    ids=["producer", "first", "late first", "last", "early last", "late last", "late stable", "stable"],
)
def test_a_transaction_index_with_an_entry_that_cannot_be_is_rebuilt(world, field, value):
    """Readers of committed data would see what a damaged entry leaves out."""
    world.config = type(world.config)(segment_bytes=500)
    manager = world.started()
    log = manager.get_or_create(TP)
    marker = EndTransactionMarker(ControlType.ABORT, 0)
    for sequence in range(5):
        data = batch(producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
        log.append(data, 0, NOW_MS)
        end = build_marker(marker, timestamp=NOW_MS, producer_id=7, producer_epoch=0)
        log.append(bytearray(end), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    expected = log.aborted_transactions(0, 10)
    manager.shutdown()
    before = files_of(world, ".txnindex")
    name = f"{0:020d}.txnindex"
    assert (len(expected), len(before[name])) == (5, 3 * 34)
    damaged(world, name, 34 + 2 + field * 8, struct.pack(">q", value))

    log = world.started().get(TP)

    assert log.aborted_transactions(0, 10) == expected
    assert files_of(world, ".txnindex") == before


def test_epochs_are_learnt_from_batches(world):
    log_manager = world.started()
    log = log_manager.get_or_create(TP)
    for epoch in (0, 0, 3, 3, 8):
        fill(log, 1, epoch=epoch)
    log_manager.shutdown(clean=False)
    world.disk.write_atomic(f"{ROOT}/leader-epoch-checkpoint", b"0\n1\n0 0\n")
    log = world.started().get(TP)

    assert log.leader_epochs.entries == ((0, 0), (3, 2), (8, 4))


def test_files_torn_by_a_loss_of_power_do_not_stop_the_start(world):
    segments_of(world)
    world.disk.write_atomic(f"{ROOT}/leader-epoch-checkpoint", b"0\n1")
    world.disk.write_atomic(f"{ROOT}/partition.metadata", b"version: 0\ntopic_")
    log = world.started().get(TP)

    assert log.leader_epochs.entries == ((0, 0),)
    assert (log.topic_id, log.log_end_offset) == (None, 30)


def test_leftovers_are_put_right(world):
    expected, bases = segments_of(world)
    one, two = f"{bases[1]:020d}", f"{bases[2]:020d}"
    disk = world.disk
    disk.write_atomic(f"{ROOT}/{0:020d}.log.deleted", b"x")
    disk.write_atomic(f"{ROOT}/{7:020d}.index", b"an index without its log")
    # A compaction that had written its result for segments one and two, but had not swapped it in yet.
    merged = disk.read(f"{ROOT}/{one}.log") + disk.read(f"{ROOT}/{two}.log")
    disk.write_atomic(f"{ROOT}/{one}.log.swap", merged)
    log = world.started().get(TP)

    assert values_of(log) == expected
    assert [segment.base_offset for segment in log.segments] == [*bases[:2], *bases[3:]]
    assert not [name for name in disk.listdir(ROOT) if name.endswith((".deleted", ".swap", ".cleaned"))]
    assert not disk.exists(f"{ROOT}/{7:020d}.index")


def test_an_index_that_a_compaction_had_not_renamed_yet_takes_no_segment_away(world):
    """Its ``.log.swap`` has its name already: the index follows, and every segment stays."""
    expected, bases = segments_of(world)
    for base in bases[:2]:
        index = world.disk.read(f"{ROOT}/{base:020d}.index")
        world.disk.write_atomic(f"{ROOT}/{base:020d}.index.swap", index)
    log = world.started().get(TP)

    assert values_of(log) == expected
    assert [segment.base_offset for segment in log.segments] == bases


@pytest.mark.parametrize(
    ("suffix", "is_told"), [(".index", True), (".timeindex", False), (".txnindex", False)]
)
def test_an_index_without_its_segment_goes_and_is_told_once(world, caplog, suffix, is_told):
    """Every segment has an offset index, so that one alone tells of records that are gone."""
    expected, _ = segments_of(world)
    orphan = f"{7:020d}{suffix}"
    world.disk.write_atomic(f"{ROOT}/{orphan}", b"an index without its log")
    log = world.started().get(TP)

    assert values_of(log) == expected
    assert not world.disk.exists(f"{ROOT}/{orphan}")
    told = [each.message for each in caplog.records if "segment.missing" in each.message]
    line = f"segment.missing directory={ROOT} base_offset=7 orphan={orphan}"
    assert told == ([line] if is_told else [])


def test_segments_that_nothing_else_is_left_beside_are_served(world):
    expected, _ = segments_of(world)
    for name in world.disk.listdir(ROOT):
        if not name.endswith(".log"):
            world.disk.remove(f"{ROOT}/{name}")

    assert values_of(world.started().get(TP)) == expected


def test_an_unfinished_compaction_is_dropped(world):
    """And with it nothing else: the log is as free of gaps as before."""
    expected, bases = segments_of(world)
    for name in (f"{bases[1]:020d}.log.cleaned", f"{bases[2]:020d}.log.swap", f"{bases[2]:020d}.index.swap"):
        world.disk.write_atomic(f"{ROOT}/{name}", b"half")
    log = world.started().get(TP)

    assert values_of(log) == expected
    assert [segment.base_offset for segment in log.segments] == bases
    assert log.is_gapless


def test_a_log_that_ends_before_its_start_checkpoint(world):
    manager = world.started()
    fill(manager.get_or_create(TP), 5)
    manager.shutdown()
    world.disk.write_atomic("/data/log-start-offset-checkpoint", b"0\n1\norders 0 9\n")
    log = world.started().get(TP)

    assert (log.log_start_offset, log.log_end_offset) == (9, 9)
    fill(log, 1)
    assert [offset for offset, _ in values_of(log)] == [9]


def test_batches_larger_than_a_read_block(world):
    manager = world.started()
    log = manager.get_or_create(TP)
    for size in (900_000, 800_000, 1_040_000, 10):
        log.append(bytearray(build_batch([Record(0, NOW_MS, b"k", bytes(size))])), 0, NOW_MS)
    manager.shutdown(clean=False)
    log = world.started().get(TP)

    assert [len(value) for _, value in values_of(log)] == [900_000, 800_000, 1_040_000, 10]


def test_an_empty_log(world):
    manager = world.started()
    manager.get_or_create(TP)
    manager.shutdown(clean=False)
    log = world.started().get(TP)

    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    fill(log, 1)


def test_power_loss_with_group_commit_keeps_every_acknowledged_record():
    for seed in range(25):
        world = World(flush_messages=1, segment_bytes=700, index_interval_bytes=100)
        world.disk.rng.seed(seed)
        manager = world.started()
        log = manager.get_or_create(TP)
        acknowledged = 0
        for number in range(20):
            fill(log, 1)
            answer = log.flush_soon()
            if number % 3 == 2:
                world.clock.advance()
            if answer.done:
                acknowledged = log.log_end_offset
        everything = values_of(log)
        world.disk.crash()
        log = world.started().get(TP)

        assert log.log_end_offset >= acknowledged > 0
        assert values_of(log) == everything[: log.log_end_offset], "a clean prefix"


@pytest.mark.parametrize("epochs", [(2, 3, 8), (5, 5, 5)])
@pytest.mark.parametrize("left", ["everything", "no epochs", "no indexes"])
def test_what_recovery_rebuilt_survives_a_loss_of_power(left, epochs):
    """A kill, a recovery, a loss of power: recovery says that all is synced, so all has to be."""
    for seed in range(15):
        world = World(segment_bytes=500, index_interval_bytes=100, segment_index_bytes=1000)
        world.disk.rng.seed(seed)
        manager = world.started()
        log = manager.get_or_create(TP)
        for epoch in epochs:
            fill(log, 10, epoch=epoch)
        expected, entries = values_of(log), log.leader_epochs.entries
        manager.shutdown(clean=False)
        for name in world.disk.listdir(ROOT):
            if (left == "no epochs" and "epoch" in name) or (left == "no indexes" and "index" in name):
                world.disk.remove(f"{ROOT}/{name}")
        manager = world.started()
        recovered = manager.get(TP)
        times = [segment.max_timestamp for segment in recovered.segments]
        manager.checkpoint_recovery_points()
        world.disk.crash()
        log = world.started().get(TP)

        assert values_of(log) == expected
        assert log.leader_epochs.entries == entries
        assert [segment.max_timestamp for segment in log.segments] == times
        assert {time for time in times if time >= 0} == {NOW_MS}


@pytest.mark.parametrize("epochs", [(4,), (4, 6, 9)])
def test_epochs_of_segments_below_the_recovery_point_survive_a_loss_of_power(epochs):
    """They are not learnt from their batches again, so the file is synced before the recovery point passes
    them.
    """
    for seed in range(15):
        world = World(segment_bytes=500, index_interval_bytes=100, segment_index_bytes=1000)
        world.disk.rng.seed(seed)
        manager = world.started()
        log = manager.get_or_create(TP)
        for epoch in epochs:
            fill(log, 10, epoch=epoch)
        for _ in range(10):
            fill(log, 1, epoch=epochs[-1])
            world.clock.advance()
        entries = log.leader_epochs.entries
        assert log.recovery_point > 10 * len(epochs)
        manager.checkpoint_recovery_points()
        world.disk.crash()

        assert world.started().get(TP).leader_epochs.entries == entries


def test_a_batch_that_repeats_an_offset_is_cut(world):
    for last in (29, 30):
        world = World(segment_bytes=1 << 20)
        manager = world.started()
        expected = values_of(fill(manager.get_or_create(TP), 30))
        manager.shutdown(clean=False)
        extra = batch()
        stamp(extra, parse_header(extra), last, 0)
        name = f"{0:020d}.log"
        damaged(world, name, world.disk.size(f"{ROOT}/{name}"), bytes(extra))
        log = world.started().get(TP)

        assert log.log_end_offset == max(30, last + 1)
        assert log.size == log.log_end_offset * len(extra)
        assert values_of(log)[:30] == expected
        assert len(values_of(log)) == log.log_end_offset


@pytest.mark.parametrize("appended_after", [0, 1])
def test_power_loss_spares_the_times_of_a_segment_that_was_closed_when_all_of_it_was_synced(appended_after):
    """Its indexes were never synced: as zeros they made retention delete it.
    Found by simulation seed 2769.
    """
    for seed in range(25):
        world = World(flush_messages=1, segment_bytes=700, index_interval_bytes=0, retention_ms=60_000)
        world.disk.rng.seed(seed)
        manager = world.started()
        log = manager.get_or_create(TP)
        while len(log.segments) == 1:
            fill(log, 1).flush_soon()
            world.clock.advance()
            if log.active.size > 600:
                log.roll(world.clock.time_ms())
        for _ in range(appended_after):
            fill(log, 1).flush_soon()
            world.clock.advance()
        manager.checkpoint_recovery_points()
        world.disk.crash()
        manager = world.started()
        log = manager.get(TP)
        log.high_watermark = log.log_end_offset

        assert manager.clean_up() == 0
        assert log.segments[0].max_timestamp == NOW_MS


@pytest.mark.parametrize("damage", ["cut", "longer", "zeros", "no magic"])
def test_damage_behind_a_clean_shutdown_is_found_and_cut(world, damage):
    manager = world.started()
    log = fill(manager.get_or_create(TP), 30)
    expected = values_of(log)
    manager.shutdown()
    name = f"{0:020d}.log"
    size = world.disk.size(f"{ROOT}/{name}")
    if damage == "cut":
        world.disk.open(f"{ROOT}/{name}").truncate(size - 5)
    elif damage == "longer":
        damaged(world, name, size, bytes(batch())[:70])
    elif damage == "zeros":
        damaged(world, name, size - len(batch()), bytes(len(batch())))
    else:
        damaged(world, name, size, b"\0" * 100)
    log = world.started().get(TP)
    end = 30 if damage in {"longer", "no magic"} else 29

    assert values_of(log) == expected[:end]
    assert fill(log, 1).log_end_offset == end + 1


@pytest.mark.parametrize("damaged_segment", ["closed", "last"])
def test_damage_behind_a_clean_shutdown_costs_its_own_segment_only(world, damaged_segment, caplog):
    """A bad batch in one closed segment made a clean start drop all segments after it."""
    world.config = type(world.config)(segment_bytes=1000, index_interval_bytes=0)
    manager = world.started()
    log = fill(manager.get_or_create(TP), 60)
    expected = values_of(log)
    bases = [segment.base_offset for segment in log.segments]
    manager.shutdown()
    size = len(batch())
    base, following = (bases[1], bases[2]) if damaged_segment == "closed" else (bases[-1], 60)
    name = f"{base:020d}.log"
    length = world.disk.size(f"{ROOT}/{name}")
    # What the index leads to is gone: a start that trusts the indexes notices it.
    world.disk.open(f"{ROOT}/{name}").truncate(2 * size + 20)
    log = world.started().get(TP)

    gone = set(range(base + 2, following))
    assert values_of(log) == [(offset, value) for offset, value in expected if offset not in gone]
    assert [segment.base_offset for segment in log.segments] == bases
    assert 2 * size + 20 < length
    cut = [record.message for record in caplog.records if record.message.startswith("segment.truncated")]
    assert cut == [f"segment.truncated segment={ROOT}/{base:020d} position={2 * size} lost_bytes=20"]
    assert fill(log, 1).log_end_offset == (61 if damaged_segment == "closed" else base + 3)


def test_what_goes_to_the_child_process_can_be_sent():
    import pickle

    for value in (OsFilesystem(), recover_log, TP):
        pickle.loads(pickle.dumps(value))
