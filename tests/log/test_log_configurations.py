"""A log that was written under one configuration and is started under any other serves what was acknowledged.

What the bytes of then mean is for the directory to say: a configuration of now that judged them has cost all
records behind the first gap of a compacted log. Hypothesis draws what is written under A, how the broker
ends, what is missing or damaged of the files that can be made again, and the configurations that the next
starts have.
"""

import dataclasses

import pytest
from cleaner_world import CompactedWorld
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from log_world import NOW_MS, TP, values_of

from barnabas.core.slices import in_one_piece
from barnabas.log.config import LogConfig
from barnabas.records.batch import build_batch, parse_header, stamp
from barnabas.records.compression import Codec
from barnabas.records.record import Record
from seeds import examples

ROOT = f"/data/{TP}"
FOREVER = 1 << 62
CHECKPOINTS = ("recovery-point-offset", "cleaner-offset", "replication-offset")

policies = st.sampled_from([("delete",), ("compact",), ("compact", "delete")])
configurations = st.builds(
    LogConfig,
    segment_bytes=st.sampled_from([400, 1000, 1 << 20]),
    segment_ms=st.sampled_from([1, FOREVER]),
    segment_index_bytes=st.sampled_from([24, 200, 1 << 16]),
    index_interval_bytes=st.sampled_from([0, 150, 4096]),
    flush_messages=st.sampled_from([1, FOREVER]),
    retention_ms=st.just(-1),
    max_message_bytes=st.sampled_from([150, 1 << 20]),
    cleanup_policy=policies,
    delete_retention_ms=st.sampled_from([0, FOREVER]),
    min_cleanable_dirty_ratio=st.sampled_from([0.0, 1.0]),
    min_compaction_lag_ms=st.sampled_from([0, FOREVER]),
    compression_type=st.sampled_from(["producer", "uncompressed", "gzip", "zstd"]),
    message_timestamp_type=st.sampled_from(["CreateTime", "LogAppendTime"]),
    message_timestamp_before_max_ms=st.sampled_from([1, FOREVER]),
    message_timestamp_after_max_ms=st.sampled_from([1, FOREVER]),
    file_delete_delay_ms=st.sampled_from([0, 60_000]),
    validate_records=st.booleans(),
)

sent = st.tuples(
    st.just("append"),
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.sampled_from([Codec.NONE, Codec.GZIP, Codec.ZSTD]),
    st.integers(-3, 5),
)
steps = st.lists(
    st.one_of(
        sent,
        sent,
        st.tuples(st.just("copy"), st.integers(0, 3)),
        st.tuples(st.just("epoch")),
        st.tuples(st.just("roll")),
        st.tuples(st.just("churn"), st.integers(5, 40), st.integers(1, 5)),
        st.tuples(st.just("sync")),
        st.tuples(st.just("checkpoint"), st.booleans()),
        st.tuples(st.just("delete"), st.integers(0, 3)),
        st.tuples(st.just("restart"), st.booleans()),
    ),
    min_size=1,
    max_size=15,
)
harm = st.tuples(
    st.sampled_from([".index", ".timeindex"]),
    st.integers(0, 5),
    st.sampled_from(["missing", "half", "no entries", "odd", "zeros"]),
)


class Written(CompactedWorld):
    """A log that is written under A, by a leader or by a follower that copies a cleaned log."""

    def __init__(self, config):
        super().__init__()
        self.time = NOW_MS
        self.epoch = 0
        # What A may refuse is no loss: only what was acknowledged is asked for again.
        generous = {"max_message_bytes": 1 << 20, "message_timestamp_before_max_ms": FOREVER}
        self.use(dataclasses.replace(config, **generous, message_timestamp_after_max_ms=FOREVER))

    def use(self, config):
        self.config = config
        self.manager_.reconfigure(TP.topic)

    def append(self, keys, codec, later_ms):
        self.time += later_ms
        records = [
            Record(place, self.time + place, b"%d" % key, b"%d" % (self.the_log.log_end_offset + place) * 8)
            for place, key in enumerate(keys)
        ]
        self.the_log.append(bytearray(build_batch(records, codec=codec)), self.epoch, self.time)

    def churn(self, count, keys):
        """Some keys are written again and again; the cleaner comes, where A is for it."""
        for number in range(count):
            self.append([number % keys], Codec.NONE, 1)
        self.the_log.high_watermark = self.the_log.log_end_offset
        self.roll()
        self.clean()

    def copy(self, gap):
        records = bytearray(build_batch([Record(0, self.time, b"copied", b"x" * 10)]))
        stamp(records, parse_header(records), self.the_log.log_end_offset + gap, self.epoch)
        self.the_log.append_as_follower(records, self.time)

    def delete(self, ahead):
        log = self.the_log
        log.maybe_increment_log_start_offset(min(log.log_start_offset + ahead, log.log_end_offset))
        self.manager_.keep_log_starts()

    def checkpoint(self, everything):
        self.manager_.checkpoint_recovery_points()
        if everything:
            self.manager_.checkpoint_high_watermarks()
            self.manager_.checkpoint_log_start_offsets()
            self.manager_.checkpoint_cleaner_offsets(self.the_log)

    def sync(self):
        self.the_log.flush()

    def next_epoch(self):
        self.epoch += 1

    def do(self, step):
        name, *arguments = step
        by_name = {"restart": lambda clean: self.restart(clean=clean), "epoch": self.next_epoch}
        by_name.get(name, getattr(self, name, None))(*arguments)
        self.the_log.high_watermark = self.the_log.log_end_offset

    def damage(self, suffix, number, how):
        names = [name for name in self.disk.listdir(ROOT) if name.endswith(suffix) and name[0].isdigit()]
        if not names:
            return
        path = f"{ROOT}/{names[number % len(names)]}"
        entry = 8 if suffix == ".index" else 12
        size = self.disk.size(path)
        if how == "missing":
            self.disk.remove(path)
        elif how == "zeros":
            self.disk.open(path).pwrite(bytes(size), 0)
        else:
            left = {"half": size // entry // 2 * entry, "no entries": 0, "odd": size - size // 3}[how]
            self.disk.open(path).truncate(left)

    def seen(self):
        """What a consumer gets, and what it finds by time."""
        log = self.the_log
        values = values_of(log)
        times = {
            offset: timestamp for offset, timestamp, *_ in self.records() if offset >= log.log_start_offset
        }
        assert sorted(times) == [offset for offset, _ in values]
        wanted = sorted(set(times.values()))[:: max(1, len(times) // 5)]
        found = {time: in_one_piece(log.offset_for_timestamp(time)) for time in wanted}
        for time, at in found.items():
            assert at is not None
            assert at.offset == min(offset for offset, each in times.items() if each >= time), time
        return log.log_start_offset, log.log_end_offset, values


@pytest.mark.timeout(600)
@settings(max_examples=examples(200), database=None, phases=[Phase.generate, Phase.shrink])
@given(
    written_under=configurations,
    done=steps,
    clean=st.booleans(),
    missing=st.sets(st.sampled_from(CHECKPOINTS)),
    without_epochs=st.booleans(),
    harms=st.lists(harm, max_size=3),
    started_under=st.lists(configurations, min_size=1, max_size=2),
)
def test_what_was_acknowledged_under_one_configuration_is_served_under_any_other(
    written_under, done, clean, missing, without_epochs, harms, started_under
):
    world = Written(written_under)
    for step in done:
        world.do(step)
    expected = world.seen()
    world.manager_.shutdown(clean=clean)
    for name in missing:
        world.disk.remove(f"/data/{name}-checkpoint")
    if without_epochs:
        world.disk.remove(f"{ROOT}/leader-epoch-checkpoint")
    for suffix, number, how in harms:
        world.damage(suffix, number, how)
    for config in started_under:
        world.clock._timers.clear()
        world.config = config
        world.start()
        assert world.seen() == expected
        world.the_log.high_watermark = world.the_log.log_end_offset
        world.manager_.shutdown(clean=False)
        world.disk.remove("/data/recovery-point-offset-checkpoint")
