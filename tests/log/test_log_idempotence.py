"""However a log was left, the last five batches of each producer are known after its start: sent again, each
is answered with the offset that it has, and nothing is stored twice.
"""

import dataclasses
from typing import NamedTuple

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from log_world import NOW_MS, TP, World, batch
from mortal_disk import DiedError, MortalDisk

from barnabas.log.producers import AppendOrigin
from barnabas.log.retention import delete_old_segments
from barnabas.records.control import ControlType, EndTransactionMarker, build_marker

PRODUCERS = st.integers(1, 4)
TRANSACTIONAL = {3, 4}
STEP = st.integers(0, 40)
"""Before which change of the disk a process dies."""
HOW = st.sampled_from(["kill", "power"])


class Sent(NamedTuple):
    """A batch as its producer sent it, and where it went."""

    producer: int
    epoch: int
    sequence: int
    count: int
    offset: int

    @property
    def next_offset(self):
        return self.offset + self.count

    def build(self):
        return batch(
            self.count,
            producer_id=self.producer,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=self.producer in TRANSACTIONAL,
        )


def last_five(sent):
    """By producer: the last batches of its last epoch."""
    found = {}
    for each in sent:
        known = found.setdefault(each.producer, [])
        if known and known[-1].epoch != each.epoch:
            known.clear()
        known.append(each)
    return [each for known in found.values() for each in known[-5:]]


class IdempotentProducers(RuleBasedStateMachine):
    """The model is `sent`: what was appended and has not been cut off since."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed):
        self.world = World(MortalDisk(seed=seed, now_ms=lambda: NOW_MS), segment_bytes=500)
        self.manager = self.world.started()
        self.log = self.manager.get_or_create(TP)
        self.world.disk.sync_directory(self.world.root)
        self.sent = []
        self.places = {}
        """By producer: its epoch, and the sequence number that comes next."""

    # -- what happens to a log -----------------------------------------------------------------------

    @rule(producer=PRODUCERS, count=st.integers(1, 3), batches=st.integers(1, 5))
    def send(self, producer, count, batches):
        for _ in range(batches):
            epoch, sequence = self.places.get(producer, (0, 0))
            self.places[producer] = epoch, sequence + count
            each = Sent(producer, epoch, sequence, count, self.log.log_end_offset)
            self.sent.append(each)
            info = self.log.append(each.build(), 0, NOW_MS)
            assert (info.first_offset, info.duplicate) == (each.offset, False)

    @rule(producer=PRODUCERS)
    def bump_the_epoch(self, producer):
        epoch, _ = self.places.get(producer, (0, 0))
        self.end_transaction(producer)
        self.places[producer] = epoch + 1, 0

    @rule(producer=st.sampled_from(sorted(TRANSACTIONAL)))
    def end_transaction(self, producer):
        if producer in self.log.producers.ongoing:
            epoch = self.log.producers.producers[producer].epoch
            marker = build_marker(
                EndTransactionMarker(ControlType.COMMIT, 0),
                timestamp=NOW_MS,
                producer_id=producer,
                producer_epoch=epoch,
            )
            self.log.append(bytearray(marker), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)

    @rule()
    def roll(self):
        self.log.roll(NOW_MS)

    @rule()
    def flush(self):
        self.world.clock.advance()
        self.log.flush()
        self.manager.checkpoint_recovery_points()

    @rule(back=st.integers(1, 8))
    @precondition(lambda self: self.sent)
    def truncate(self, back):
        boundaries = [each.offset for each in self.sent[-back:]] + [self.log.log_end_offset]
        self.log.truncate_to(next(each for each in boundaries if each >= self.log.log_start_offset))
        # What is not synced of a truncation may be undone by a loss of power: epochs settle that, as in
        # Kafka.
        self.log.flush()
        self.world.disk.sync_directory(self.log.directory)
        self.look()

    @rule(ahead=st.integers(0, 20))
    def delete_records(self, ahead):
        self.log.high_watermark = self.log.log_end_offset
        self.log.maybe_increment_log_start_offset(
            min(self.log.log_end_offset, self.log.log_start_offset + ahead)
        )

    @rule(keep=st.sampled_from([0, 600, 2000]))
    def retain(self, keep):
        self.log.high_watermark = self.log.log_end_offset
        self.log.config = dataclasses.replace(self.world.config, retention_bytes=keep, retention_ms=-1)
        delete_old_segments(self.log, NOW_MS)

    # -- ends and starts -----------------------------------------------------------------------------

    @rule()
    def stop_and_start(self):
        self.manager.checkpoint_log_start_offsets()
        self.manager.shutdown()
        self.start()

    @rule(how=HOW, step=STEP, torn=st.integers(0, 200), at_start=st.one_of(st.none(), STEP), data=st.data())
    def die(self, how, step, torn, at_start, data):
        """In the middle of something, and perhaps once more while the broker starts again."""
        what = data.draw(st.sampled_from(["send", "roll", "flush", "truncate", "retain", "stop"]))
        actions = {
            "send": lambda: self.send(data.draw(PRODUCERS), data.draw(st.integers(1, 3)), 5),
            "roll": self.roll,
            "flush": self.flush,
            "truncate": lambda: self.sent and self.truncate(data.draw(st.integers(1, 8))),
            "retain": lambda: self.retain(data.draw(st.sampled_from([0, 600]))),
            # An idle log is not synced again by a clean stop.
            "stop": lambda: (self.send(data.draw(PRODUCERS), 1, 1), self.manager.shutdown()),
        }
        self.manager.checkpoint_log_start_offsets()
        path = self.log.active.path
        size, sent = self.world.disk.size(path), list(self.sent)
        self.dies_at(step, actions[what])
        if what == "truncate":
            self.sent = sent  # as far as it is there
        names = [name for name in self.world.disk.listdir(self.log.directory) if name.endswith(".log")]
        if what == "send" and how == "kill" and path.endswith(max(names)):
            # The last write ends at any byte.
            file = self.world.disk.open(path)
            file.truncate(max(size, file.size() - torn))
        self.lose(how)
        if at_start is not None:
            self.dies_at(at_start, self.world.started)
            self.lose(how)
        self.start()

    def dies_at(self, step, action):
        disk = self.world.disk
        disk.changes_left = step
        try:
            action()
        except DiedError:
            pass
        finally:
            disk.changes_left = None

    def lose(self, how):
        if how == "power":
            self.world.disk.crash()
        else:
            self.world.disk.release_locks()
        self.has_lost_power = how == "power"

    has_lost_power = False

    def start(self):
        self.world.clock._timers.clear()
        self.manager = self.world.started()
        self.log = self.manager.get(TP) or self.manager.get_or_create(TP)
        if self.has_lost_power:
            # Snapshots are not synced. What the log does not have any more may be forgotten with them.
            held = {header.base_offset for segment in self.log.segments for header in segment.headers_from(0)}
            kept = []
            for each in self.sent:
                if each.offset in held:
                    kept.append(each)
                elif each.next_offset <= self.log.log_end_offset:
                    # A deletion that was undone in part has left a hole, and something newer may be known
                    # than what is held.
                    kept = [other for other in kept if other.producer != each.producer]
            self.sent = kept
            self.has_lost_power = False
        self.look()

    def look(self):
        """Sends everything again that its producer may send again."""
        end_offset = self.log.log_end_offset
        self.sent = [each for each in self.sent if each.next_offset <= end_offset]
        # One whose batches are gone begins an epoch: what is known of it may be anything.
        self.places = {producer: (epoch + 1, 0) for producer, (epoch, _) in self.places.items()}
        self.places |= {each.producer: (each.epoch, each.sequence + each.count) for each in self.sent}
        for each in reversed(last_five(self.sent)):
            info = self.log.append(each.build(), 0, NOW_MS)
            assert (info.duplicate, info.first_offset) == (True, each.offset), (each, self.log.snapshots)
        assert self.log.log_end_offset == end_offset


TestIdempotentProducers = IdempotentProducers.TestCase
TestIdempotentProducers.settings = settings(
    max_examples=80, stateful_step_count=20, database=None, phases=[Phase.generate]
)
