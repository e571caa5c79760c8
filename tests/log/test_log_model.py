"""A log against the simplest model of one: a list. Random steps, crashes included."""

import dataclasses

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from log_world import NOW_MS, TP, World, batch, values_of

from barnabas.log.retention import delete_old_segments
from barnabas.records.batch import decode_batch


class LogMachine(RuleBasedStateMachine):
    """The model is `batches`: (first offset, values) in order; everything below `durable` was synced."""

    def __init__(self):
        super().__init__()
        self.batches = []
        self.end = self.start = self.durable = 0
        self.time = NOW_MS

    @initialize(seed=st.integers(0, 2**32), interval=st.sampled_from([0, 100, 4096]))
    def begin(self, seed, interval):
        self.world = World(segment_bytes=700, index_interval_bytes=interval, segment_index_bytes=200)
        self.world.disk.rng.seed(seed)
        self.manager = self.world.started()
        self.log = self.manager.get_or_create(TP)

    def settle(self):
        """Syncs that rolling asked for happen now."""
        self.world.clock.advance()
        self.durable = max(self.durable, self.log.recovery_point)

    @rule(count=st.integers(1, 5), size=st.integers(0, 60), epoch=st.integers(0, 1), late=st.integers(0, 3))
    def append(self, count, size, epoch, late):
        self.time += late
        records = batch(count, size=size, timestamp=self.time)
        values = [record.value for record in decode_batch(records)]
        epoch += self.log.leader_epochs.latest_epoch or 0
        info = self.log.append(records, epoch, NOW_MS)
        assert info.first_offset == self.end
        self.batches.append((self.end, values))
        self.end += count

    @rule()
    def sync(self):
        self.log.flush()
        self.durable = self.end

    @rule(back=st.integers(1, 6))
    def truncate(self, back):
        kept = self.batches[:-back]
        offset = max(self.start, kept[-1][0] + len(kept[-1][1]) if kept else 0)
        self.batches = [(first, values) for first, values in self.batches if first + len(values) <= offset]
        boundary = self.batches[-1][0] + len(self.batches[-1][1]) if self.batches else self.start
        self.end = min(self.end, boundary)
        self.log.truncate_to(self.end)
        self.start = min(self.start, self.end)
        # A truncation that is not synced may be undone by a loss of power, as in Kafka: epochs settle that.
        self.log.flush()
        # Whoever cuts a log has the recovery points written: the one on the disk may lie beyond the new end.
        self.manager.checkpoint_recovery_points()
        self.durable = self.end

    @rule(ahead=st.integers(0, 10))
    def delete_records(self, ahead):
        self.log.high_watermark = self.end
        self.start = max(self.start, min(self.end, self.start + ahead))
        self.log.maybe_increment_log_start_offset(self.start)

    @rule(keep=st.sampled_from([0, 1000, 3000]))
    def retain(self, keep):
        self.log.high_watermark = self.end
        self.log.config = dataclasses.replace(self.world.config, retention_bytes=keep, retention_ms=-1)
        delete_old_segments(self.log, NOW_MS)
        # Likewise a deleted segment may come back; retention then takes it again.
        self.world.disk.sync_directory(self.log.directory)
        self.start = self.log.log_start_offset

    @rule(clean=st.booleans())
    def restart(self, clean):
        self.manager.checkpoint_log_start_offsets()
        self.manager.shutdown(clean=clean)
        self.load()
        assert self.log.log_end_offset == self.end
        self.durable = self.end

    @rule(checkpoint=st.booleans())
    @precondition(lambda self: self.end)
    def lose_power(self, checkpoint):
        self.settle()
        self.manager.checkpoint_log_start_offsets()
        if checkpoint:
            self.manager.checkpoint_recovery_points()
        self.world.disk.crash()
        self.load()
        assert self.durable <= self.log.log_end_offset <= self.end, "no synced record may go"
        self.end = self.durable = self.log.log_end_offset
        self.batches = [(first, values) for first, values in self.batches if first + len(values) <= self.end]

    def load(self):
        self.world.clock._timers.clear()
        self.manager = self.world.started()
        self.log = self.manager.get(TP) or self.manager.get_or_create(TP)

    @invariant()
    def the_log_is_the_model(self):
        if not hasattr(self, "log"):
            return
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        expected = [
            (first + place, value)
            for first, values in self.batches
            for place, value in enumerate(values)
            if first + place >= self.start
        ]
        assert values_of(self.log) == expected
        for offset, value in expected[:: max(1, len(expected) // 4)]:
            assert values_of(self.log, offset)[0] == (offset, value)


TestLogModel = LogMachine.TestCase
TestLogModel.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    database=None,
    phases=[Phase.generate, Phase.shrink],
)
