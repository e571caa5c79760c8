"""A disk that refuses one call, once: whichever it is, nothing that was acknowledged is lost.

A story of appends, cleanings, retention, truncation, and topics that come and go is recorded once. Then it is
played again for each call that it made to the disk, which refuses this one; in the end the broker stops or is
killed, and starts again.
"""

import copy
import errno
import itertools
import os

import pytest
from cleaner_world import CompactedWorld
from log_world import NOW_MS, TP, batch, values_of
from mortal_disk import DiedError

from barnabas.core.errors import ConfigError, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.log.config import LogConfig
from barnabas.testing.disk import SimulatedFilesystem

PLAIN = TopicPartition("plain", 0)
FOLLOWER = TopicPartition("follower", 0)
OTHER = TopicPartition("other", 0)
EVERY = 1 if os.environ.get("BARNABAS_TEST_ALL") else 4
"""Of the calls each test takes one in four, all four together each of them; BARNABAS_TEST_ALL=1 has all taken
by all.
"""
FULL = (errno.ENOSPC, errno.EDQUOT)
BROKEN = (errno.EIO, errno.EROFS)
SMALL = {"segment_bytes": 400, "index_interval_bytes": 100, "segment_index_bytes": 1200}
PLAIN_CONFIG = LogConfig(file_delete_delay_ms=0, **SMALL)


class RefusingDisk(SimulatedFilesystem):
    """Counts the calls that change or read it, and refuses one."""

    def __init__(self, **options):
        super().__init__(**options)
        self.calls = []
        self.counts = False
        self.refused = self.dies_at = None
        self.code = errno.EIO

    def check(self, path, operation):
        if self.counts:
            self.calls.append((operation, path))
            if len(self.calls) - 1 == self.dies_at:
                raise DiedError
            if len(self.calls) - 1 == self.refused:
                raise OSError(self.code, "refused once", path)
        super().check(path, operation)


class Story(CompactedWorld):
    """A broker with a compacted log and two plain ones, and what it has acknowledged."""

    def __init__(self):
        disk = RefusingDisk(now_ms=lambda: NOW_MS)
        self.model = {}
        self.maybe = {}
        self.plain = []
        self.sequence = 0
        super().__init__(disk, delete_retention_ms=1000, **SMALL)
        self.disk.mkdir(self.root)
        for number in range(20):
            self.put_keys({b"%d" % (number % 5): b"%d" % number if number % 7 else None})
            if number % 6 == 2:
                self.transaction({b"%d" % (number % 4): b"aborted %d" % number}, committed=number > 10)
        for _ in range(10):
            self.append_plain(PLAIN)
            self.append_plain(FOLLOWER)
        self.the_log.roll(NOW_MS)
        self.checkpoint()
        self.cleaner.startup()
        self.disk.sync_directory(self.root)

    def manager(self, directories=None, *, offload=None, **options):
        own = {PLAIN.topic: PLAIN_CONFIG, FOLLOWER.topic: PLAIN_CONFIG, OTHER.topic: PLAIN_CONFIG}
        options["log_config"] = lambda topic: own.get(topic, self.config)
        return super().manager(directories, offload=offload, **options)

    # -- what clients and followers do ---------------------------------------------------------------

    def put_keys(self, pairs):
        """A produce to the compacted log."""
        self.maybe.update({key: {value, *self.maybe.get(key, ())} for key, value in pairs.items()})
        self.put(*pairs.items())
        self.acknowledge(pairs)

    def transaction(self, pairs, *, committed):
        """One that writes these and ends."""
        if committed:
            self.maybe.update({key: {value, *self.maybe.get(key, ())} for key, value in pairs.items()})
        self.put(
            *pairs.items(), producer_id=7, producer_epoch=0, base_sequence=self.sequence, transactional=True
        )
        self.sequence += len(pairs)
        self.end_transaction(7, committed=committed)
        if committed:
            self.acknowledge(pairs)

    def acknowledge(self, pairs):
        self.model |= pairs
        for key in pairs:
            del self.maybe[key]

    def append_plain(self, tp):
        log = self.manager_.get_or_create(tp)
        info = log.append(batch(1, size=60, key=b"%d" % log.log_end_offset), 0, NOW_MS)
        log.high_watermark = log.log_end_offset
        if tp == PLAIN:
            self.plain.append(info.first_offset)

    def cut_follower(self):
        """A new leader has fewer records: they were never acknowledged."""
        self.manager_.get_or_create(FOLLOWER).truncate_to(4)

    def delete_records(self):
        log = self.manager_.get_or_create(PLAIN)
        if log.maybe_increment_log_start_offset(5):
            self.plain = [offset for offset in self.plain if offset >= 5]

    def checkpoint(self):
        self.manager_.checkpoint_recovery_points()
        self.manager_.checkpoint_high_watermarks()
        self.manager_.checkpoint_log_start_offsets()

    def flush_and_roll(self):
        if not self.the_log.offline:
            self.the_log.flush()
            self.roll()

    def clean_by_itself(self):
        """The cleaner looks twice."""
        for _ in range(2):
            self.clock.advance(15_000)

    def come_and_go(self):
        self.append_plain(OTHER)
        self.manager_.delete(OTHER)

    def chapters(self):
        """The steps of the story, each of which may be refused."""
        yield self.clean_by_itself
        for number in range(3):
            yield lambda number=number: self.put_keys({b"%d" % number: b"new %d" % number, b"gone": None})
            yield lambda: self.append_plain(PLAIN)
            yield lambda: self.append_plain(FOLLOWER)
        yield lambda: self.transaction({b"1": b"aborted", b"gone": b"aborted"}, committed=False)
        yield lambda: self.transaction({b"2": None, b"3": b"committed"}, committed=True)
        yield self.flush_and_roll
        yield self.cut_follower
        yield self.delete_records
        yield self.manager_.clean_up
        yield self.come_and_go
        yield self.checkpoint
        yield self.clean_by_itself
        yield lambda: self.put_keys({b"last": b"1"})
        yield lambda: self.append_plain(PLAIN)

    def play(self):
        """All of it; a step that is refused is over, the next one comes all the same."""
        self.disk.counts = True
        for chapter in self.chapters():
            try:
                chapter()
            except (KafkaError, OSError) as error:
                # As `KafkaApis.handleError`: the client is told, and the broker goes on.
                # `Log.roll` raises what its callers take care of.
                if not isinstance(error, KafkaError) and chapter != self.flush_and_roll:
                    raise
            self.disk.counts = False
            self.look()
            self.disk.counts = True
        return self.disk.calls

    # -- the end, and the judge ----------------------------------------------------------------------

    def end(self, *, clean):
        """Stops, or is killed; and starts on a disk that works."""
        self.disk.counts = clean
        if clean:
            self.cleaner.shutdown().result()
            self.manager_.shutdown()
        self.disk.counts = False
        self.disk.release_locks()
        self.start_again()

    def start_again(self):
        """The next start: it waits for nothing of the old process."""
        self.clock = type(self.clock)()
        self.start()

    def killed_here(self):
        """The same, of which only the disk is left."""
        twin = copy.copy(self)
        twin.disk = copy.deepcopy(self.disk)
        twin.disk.calls, twin.disk.dies_at, twin.disk.counts = [], None, False
        twin.disk.release_locks()
        twin.maybe = dict(self.maybe)
        return twin

    def look(self):
        """What is online serves all that was acknowledged; of a write that was refused nobody knows."""
        if (log := self.manager_.get(TP)) is not None and not log.offline:
            self.the_log = log
            log.high_watermark = log.log_end_offset
            if log.last_stable_offset < log.log_end_offset:
                # Its coordinator gets to it later.
                self.end_transaction(7, committed=False)
            found = self.values()
            for key in {*found, *self.model}:
                allowed = {self.model.get(key), *self.maybe.get(key, ())}
                assert found.get(key) in allowed, (key, found.get(key), allowed)
        if (log := self.manager_.get(PLAIN)) is not None and not log.offline:
            held = {offset for offset, _ in values_of(log)}
            assert {offset for offset in self.plain if offset >= log.log_start_offset} <= held
            assert log.log_start_offset <= 5
        if (log := self.manager_.get(FOLLOWER)) is not None and not log.offline:
            held = [offset for offset, _ in values_of(log)]
            assert held == list(range(log.log_start_offset, log.log_start_offset + len(held)))


def calls_of_the_story():
    story = Story()
    calls = len(story.play())
    story.end(clean=True)
    return calls, len(story.disk.calls)


CALLS, CALLS_WITH_STOP = calls_of_the_story()


def test_the_story_comes_to_every_place():
    """Files of segments in each state, their indexes, checkpoints and snapshots."""
    story = Story()
    story.play()
    seen = {(operation, path.rpartition("/")[2].lstrip("0123456789")) for operation, path in story.disk.calls}

    assert {
        ("name", ".log.cleaned"),
        ("write", ".log.cleaned"),
        ("sync", ".log.cleaned"),
        ("name", ".log.swap"),
        ("name", ".index.swap"),
        ("name", ".txnindex.cleaned"),
        ("name", ".log"),
        ("name", ".log.deleted"),
        ("write", ".log"),
        ("write", ".txnindex"),
        ("name", ".snapshot.tmp"),
        ("write", "cleaner-offset-checkpoint.tmp"),
        ("sync", "orders-0"),
    } <= seen


@pytest.mark.timeout(300)
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("codes", [FULL, BROKEN])
def test_whichever_call_is_refused_nothing_is_lost(codes, clean):
    first = ([FULL, BROKEN].index(codes) * 2 + clean) % EVERY
    places = range(first, CALLS_WITH_STOP if clean else CALLS, EVERY)
    for place, code in zip(places, itertools.cycle(codes), strict=False):
        story = Story()
        story.disk.refused, story.disk.code = place, code
        story.play()
        story.end(clean=clean)

        operation, path = story.disk.calls[place]
        said = f"{errno.errorcode[code]} at call {place}, {operation} of {path}"
        assert story.manager_.offline_directories == [], said
        assert {TP, PLAIN, FOLLOWER} <= set(story.manager_.logs), said
        story.look()
        assert [name for name in story.leftovers if not name.endswith(".deleted")] == [], said
        # What is left can be cleaned, and goes on as a log.
        story.put_keys({b"after": b"1"})
        story.roll()
        assert story.clean() is None, said
        story.look()


def moments_of_a_swap():
    """Some calls of the story's first cleaning at which files of segments get other names."""
    story = Story()
    story.play()
    ends = (".swap", f"{0:020d}.log", ".timeindex")
    names = [
        place for place, (kind, path) in enumerate(story.disk.calls) if kind == "name" and path.endswith(ends)
    ]
    return names[4:60:12]


@pytest.mark.timeout(300)
def test_a_start_that_is_refused_a_call_is_made_good_by_the_next():
    """It comes upon files that a kill has left in the middle of a swap."""
    codes = itertools.cycle(FULL + BROKEN)
    refused = 0
    for first, moment in enumerate(moments_of_a_swap()):
        killed = Story()
        killed.disk.dies_at = moment
        with pytest.raises(DiedError):
            killed.play()
        for place in itertools.count(first % EVERY, EVERY):
            story = killed.killed_here()
            story.disk.counts, story.disk.refused, story.disk.code = True, place, next(codes)
            try:
                story.start_again()
            except (ConfigError, KafkaError):
                pass  # the only directory is of no use now, or this partition of it
            else:
                story.disk.counts = False
                story.look()
            calls = len(story.disk.calls)
            again = story.killed_here()
            again.start_again()
            said = f"{errno.errorcode[story.disk.code]} at call {place} of a start after one at {moment}"
            assert {TP, PLAIN, FOLLOWER} <= set(again.manager_.logs), said
            again.look()
            if place >= calls:
                break
            refused += 1
    assert refused > 100
