"""What is left of a compacted log: values, tombstones, transactions, producers."""

import dataclasses

import pytest
from cleaner_world import CompactedWorld
from hypothesis import example, given, settings
from hypothesis import strategies as st
from log_world import NOW_MS

from barnabas.log.cleaner.settings import CleanerSettings
from barnabas.records.batch import build_batch
from barnabas.records.compression import Codec
from barnabas.records.record import Record
from seeds import examples

DAY_MS = 86_400_000


def test_of_each_key_the_last_record_stays():
    world = CompactedWorld()
    for number in range(60):
        world.put((b"a%d" % (number % 3), b"%d" % number), (b"b", b"%d" % number))
    before = world.records()
    world.roll()

    assert world.clean() is None

    assert world.records() == [before[place] for place in (114, 116, 118, 119)]
    assert world.the_log.first_dirty_offset == world.the_log.log_end_offset == 120
    world.clock.advance()
    assert world.leftovers == []


def test_a_reader_finds_the_next_record_behind_one_that_is_gone():
    world = CompactedWorld()
    for number in range(40):
        world.put((b"k%d" % (number % 20), b"%d" % number))
    world.roll()
    world.clean()

    first = world.the_log.read(3, 1000, min_one_message=True)

    assert first.first_offset == 20


def test_what_lies_in_the_active_segment_or_above_the_high_watermark_is_neither_removed_nor_counted():
    world = CompactedWorld()
    for number in range(20):
        world.put((b"k", b"%d" % number))
    world.roll()
    world.put((b"k", b"the active segment is not looked at"))

    assert world.clean() is None

    assert [value for _, _, _, value in world.records()] == [b"19", b"the active segment is not looked at"]


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_that_loses_records_keeps_its_codec_its_offsets_and_the_times_of_the_others(codec):
    world = CompactedWorld(segment_bytes=1 << 20)
    pairs = [(b"k%d" % number, bytes([number]) * 50) for number in range(100)]
    world.put(*pairs, codec=codec)
    world.put(*((key, b"new") for key, _ in pairs[1::2]))
    before = world.records()
    world.roll()

    world.clean()

    rewritten = world.headers()[0]
    assert world.records() == before[0:100:2] + before[100:]
    assert (rewritten.codec, rewritten.base_offset, rewritten.last_offset, rewritten.count) == (
        codec,
        0,
        99,
        50,
    )
    assert rewritten.max_timestamp == NOW_MS + 98


def test_a_batch_of_which_nothing_goes_stays_byte_for_byte():
    world = CompactedWorld(segment_bytes=1 << 20)
    world.put((b"a", b"1"), (b"b", b"2"), codec=Codec.ZSTD)
    before = world.disk.read(world.the_log.active.path)
    world.roll()

    world.clean()

    assert world.disk.read(world.the_log.segments[0].path) == before


def test_a_tombstone_stays_for_delete_retention_after_the_first_cleaning():
    world = CompactedWorld(delete_retention_ms=1000)
    world.put((b"k", b"value"), (b"other", b"1"))
    world.put((b"k", None))
    world.roll()

    world.clean()
    [_, batch] = world.headers()
    assert batch.delete_horizon_ms == world.clock.time_ms() + 1000
    assert world.records()[-1] == (2, NOW_MS, b"k", None)

    def clean_again():
        world.put((b"z", b"z"))
        world.roll()
        world.clean()

    world.clock.advance(999)
    clean_again()
    assert (2, NOW_MS, b"k", None) in world.records()
    assert world.headers()[1].delete_horizon_ms == batch.delete_horizon_ms
    world.clock.advance(1)
    clean_again()
    assert b"k" not in {key for _, _, key, _ in world.records()}


def test_records_without_a_key_from_before_the_topic_was_compacted_go():
    world = CompactedWorld(cleanup_policy=("delete",))
    world.put((None, b"no key"), (b"k", b"1"))
    world.roll()
    world.the_log.config = dataclasses.replace(world.config, cleanup_policy=("compact",))

    assert world.clean() is None

    assert world.records() == [(1, NOW_MS + 1, b"k", b"1")]


def idempotent(world, sequence, value, **options):
    options = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence, **options}
    return world.put((b"k", value), **options)


def test_the_last_batch_of_a_producer_stays_without_records_so_that_its_next_one_is_in_order():
    world = CompactedWorld()
    idempotent(world, 0, b"0")
    idempotent(world, 1, b"1")
    world.put((b"k", b"of another"))
    world.roll()
    world.clean()

    assert [(header.base_offset, header.count) for header in world.headers()] == [(1, 0), (2, 1)]
    # Without any snapshot, as after a loss of power, the log alone says what the producer has sent.
    for name in world.disk.listdir(f"{world.root}/orders-0"):
        if name.endswith(".snapshot"):
            world.disk.remove(f"{world.root}/orders-0/{name}")
    world.disk.remove(f"{world.root}/recovery-point-offset-checkpoint")
    world.restart()
    assert idempotent(world, 2, b"2").first_offset == 3
    assert idempotent(world, 2, b"2").duplicate


def test_a_tombstone_that_was_the_last_of_its_producer_leaves_the_empty_batch_that_kafka_leaves():
    """Its delete horizon has passed: a time of -1 would not be one."""
    world = CompactedWorld(delete_retention_ms=1000)
    idempotent(world, 0, None)
    world.put((b"z", b"1"))
    world.roll()
    world.clean()
    assert world.headers()[0].delete_horizon_ms is not None

    world.clock.advance(1000)
    world.put((b"z", b"2"))
    world.roll()
    world.clean()

    empty = world.headers()[0]
    assert (empty.count, empty.last_offset, empty.base_timestamp) == (0, 0, -1)
    assert (empty.attributes, empty.delete_horizon_ms) == (0, None)


def test_a_producer_that_has_expired_leaves_nothing_behind():
    world = CompactedWorld()
    idempotent(world, 0, b"0")
    world.put((b"k", b"of another"))
    world.the_log.producers.remove_expired(NOW_MS + 10 * DAY_MS, DAY_MS)
    world.roll()

    world.clean()

    assert [header.base_offset for header in world.headers()] == [1]


def test_aborted_records_go_at_once_and_their_marker_when_nothing_depends_on_it_any_more():
    world = CompactedWorld(delete_retention_ms=1000)
    world.put((b"k", b"committed before"))
    idempotent(world, 0, b"aborted", transactional=True)
    world.end_transaction(7, committed=False)
    world.roll()

    world.clean()
    # The data went in this cleaning, so the marker and the index of aborted transactions stay for readers
    # that saw it.
    assert world.values() == {b"k": b"committed before"}
    assert world.the_log.aborted_transactions(0, 3) != []
    assert [header.count for header in world.headers() if header.is_control] == [1]

    # While its producer is remembered, an empty batch of it keeps the marker, as in Kafka.
    world.the_log.producers.remove_expired(NOW_MS + 10 * DAY_MS, DAY_MS)
    world.put((b"z", b"1"))
    world.roll()
    world.clean()
    [marker] = [header for header in world.headers() if header.is_control]
    assert marker.delete_horizon_ms is None
    world.put((b"z", b"1"))
    world.roll()
    world.clean()
    [marker] = [header for header in world.headers() if header.is_control]
    assert marker.delete_horizon_ms == world.clock.time_ms() + 1000
    assert world.the_log.aborted_transactions(0, 4) == []

    world.clock.advance(1000)
    world.put((b"z", b"2"))
    world.roll()
    world.clean()
    assert [header for header in world.headers() if header.is_control] == []
    assert world.values() == {b"k": b"committed before", b"z": b"2"}


def test_a_commit_marker_stays_as_long_as_records_of_its_transaction_do():
    world = CompactedWorld(delete_retention_ms=0)
    idempotent(world, 0, b"committed", transactional=True)
    world.end_transaction(7, committed=True)
    for round_ in range(3):
        world.put((b"z", b"%d" % round_))
        world.roll()
        world.clean()

    [marker] = [header for header in world.headers() if header.is_control]
    assert marker.delete_horizon_ms is None
    assert world.values()[b"k"] == b"committed"


def test_each_cleaned_segment_has_the_aborted_transactions_of_its_own_markers():
    world = CompactedWorld(segment_bytes=400)
    for sequence in range(6):
        idempotent(world, sequence, b"aborted", transactional=True)
        world.end_transaction(7, committed=False)
        world.put((b"%d" % sequence, b"x" * 100))
    world.roll()
    log = world.the_log
    before = log.aborted_transactions(0, log.log_end_offset)

    world.clean()

    assert len(log.segments) > 3
    assert [txn.first_offset for txn in before] == list(range(0, 18, 3))
    assert log.aborted_transactions(0, log.log_end_offset) == before
    world.restart(clean=True)
    assert world.the_log.aborted_transactions(0, log.log_end_offset) == before


def test_records_of_an_open_transaction_are_not_cleaned():
    world = CompactedWorld()
    world.put((b"k", b"before"))
    world.roll()
    idempotent(world, 0, b"open", transactional=True)
    world.roll()
    world.put((b"k", b"after"))
    world.roll()

    world.clean()

    assert [value for _, _, _, value in world.records()] == [b"before", b"open", b"after"]
    assert world.the_log.first_dirty_offset == 1


def test_segments_are_put_together_while_they_fit():
    world = CompactedWorld(segment_bytes=1000)
    for number in range(100):
        world.put((b"%d" % (number % 4), b"x" * 100))
    world.roll()
    assert len(world.the_log.segments) > 10
    for _ in range(3):
        world.the_log.first_dirty_offset = 0
        world.clean()

    # Four records are left, in two segments at most: a sum of sizes decides, as in Kafka.
    assert len(world.the_log.segments) <= 3
    assert len(world.records()) == 4
    assert all(segment.size <= 1000 for segment in world.the_log.segments)


def test_a_log_with_more_keys_than_the_map_holds_is_cleaned_in_parts():
    world = CompactedWorld(settings=CleanerSettings(dedupe_buffer_bytes=24 * 20, load_factor=0.5))
    for number in range(60):
        world.put((b"%d" % (number % 30), b"%d" % number))
    world.roll()
    before = world.values()

    ends = []
    while world.the_log.first_dirty_offset < 60:
        assert world.clean() is None
        ends.append(world.the_log.first_dirty_offset)
        assert world.values() == before

    assert ends[0] == 10
    assert ends == sorted(set(ends))


def test_a_batch_larger_than_the_blocks_is_cleaned():
    world = CompactedWorld(segment_bytes=1 << 21)
    world.put(*((b"%d" % number, b"v" * 1000) for number in range(300)))
    world.put((b"7", b"new"))
    world.roll()

    assert world.clean() is None

    assert len(world.records()) == 300
    assert world.values()[b"7"] == b"new"


KEYS = st.sampled_from([b"a", b"b", b"a key that is longer than a slot", b""])
VALUES = st.one_of(st.none(), st.binary(max_size=20))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4)),
        st.tuples(st.just("commit"), st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=3)),
        st.tuples(st.just("abort"), st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=3)),
        st.tuples(st.just("clean"), st.integers(0, 2000)),
        st.tuples(st.just("restart"), st.booleans()),
    ),
    max_size=25,
)


# A producer that has aborted once, in a part of the log that is clean since, deletes a key.
TOMBSTONE_OF_ONE_THAT_ABORTED = [
    ("put", [(b"a", None)]),
    ("abort", [(b"a", None)]),
    ("clean", 0),
    ("put", [(b"k", b"v")]),
    ("commit", [(b"k", None)]),
    ("clean", 0),
    ("put", [(b"a", None)]),
    ("clean", 1000),
]


@settings(max_examples=examples(60))
@given(STEPS)
@example(TOMBSTONE_OF_ONE_THAT_ABORTED)
def test_a_reader_has_the_same_values_as_a_dictionary(steps):
    world = CompactedWorld(
        segment_bytes=300, delete_retention_ms=1000, index_interval_bytes=100, segment_index_bytes=1200
    )
    model, sequence = {}, 0
    for kind, given_ in steps:
        if kind == "put":
            world.put(*given_)
            model |= dict(given_)
        elif kind in {"commit", "abort"}:
            world.put(*given_, producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
            sequence += len(given_)
            world.end_transaction(7, committed=kind == "commit")
            if kind == "commit":
                model |= dict(given_)
        elif kind == "clean":
            world.clock.advance(given_)
            world.roll()
            assert world.clean() is None
        else:
            world.restart(clean=given_)
        assert world.values() == {key: value for key, value in model.items() if value is not None}
    offsets = [offset for offset, *_ in world.records()]
    assert offsets == sorted(set(offsets))


def test_a_batch_with_append_time_keeps_it():
    world = CompactedWorld(message_timestamp_type="LogAppendTime", segment_bytes=1 << 20)
    records = [Record(place, 5, b"%d" % place, b"v") for place in range(3)]
    world.the_log.append(bytearray(build_batch(records)), 0, NOW_MS)
    world.put((b"1", None))
    world.roll()
    world.clean()

    assert {timestamp for _, timestamp, _, _ in world.records()} == {NOW_MS}
