"""A shard with a journal that answers when the test says so, and groups that allow what the test wants.

A module beside `conftest`, so that tests can import from it by a name of its own.
"""

from dataclasses import replace

from barnabas.coordinator.group import GroupType, OffsetExpiry
from barnabas.coordinator.group_configs import GroupConfigManager
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.offsets import removal
from barnabas.coordinator.offsets.group_offsets import NO_TIMESTAMP, CommittedOffset
from barnabas.coordinator.runtime.journal import NO_PRODUCER, CoordinatorRecord
from barnabas.coordinator.runtime.loading import Load
from barnabas.coordinator.settings import GroupSettings
from barnabas.core.broker_config import broker_config
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.core.slices import in_one_piece
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey
from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS
from standing_clock import Clock

MINUTE_MS = 60_000


class FakeJournal:
    """Takes batches, gives them the next offset, and acknowledges at once or when a test says so."""

    def __init__(self):
        self.batches = []
        self.acks = []
        self.producers = []
        self.waiting = []
        self.holds = False
        self.refusal = None
        self._next_offset = 0

    def append(self, records, *, acks=None, producer=NO_PRODUCER, base_sequence=-1):
        if self.refusal is not None:
            raise self.refusal
        self.batches.append(list(records))
        self.acks.append(acks)
        self.producers.append(producer)
        base_offset, self._next_offset = self._next_offset, self._next_offset + len(records)
        if not self.holds or acks == 0:
            return Pending.of(base_offset)
        written = Pending()
        self.waiting.append((written, base_offset))
        return written

    def end_offset(self):
        return self._next_offset

    def marker(self):
        """A marker is appended; its offset."""
        place, self._next_offset = self._next_offset, self._next_offset + 1
        return place

    def acknowledge(self, place=0):
        """The replicas have a batch that was held back."""
        written, base_offset = self.waiting.pop(place)
        written.complete(base_offset)

    def fail(self, error, place=0):
        self.waiting.pop(place)[0].fail(error)

    @property
    def records(self):
        """Everything written, as bytes read back: (key, value) with the types of the topic."""
        return [
            CONSUMER_OFFSETS.decode(
                record.key.to_bytes(),
                None if record.value is None else record.value.to_bytes(record.value_version),
            )
            for batch in self.batches
            for record in batch
        ]


class FakeGroup:
    """A group whose every answer is an attribute."""

    type = GroupType.CLASSIC
    state_name = "Empty"
    protocol_type = ""

    def __init__(self, group_id):
        self.group_id = group_id
        self.is_empty = True
        self.refusal = None
        self.expiry = OffsetExpiry(None, frozenset())
        self.subscribed = frozenset()
        self.generation = 0
        self.closed = False
        self.checks = []

    def validate_offset_commit(self, **asked):
        self.checks.append(asked)
        if self.refusal:
            raise self.refusal

    def validate_offset_fetch(self, **asked):
        self.checks.append(asked)
        if self.refusal:
            raise self.refusal

    def end_overdue_sessions(self, now_ms):
        pass

    def validate_delete(self):
        if self.refusal:
            raise self.refusal

    def validate_offset_delete(self):
        if self.refusal:
            raise self.refusal

    def is_subscribed_to(self, topic):
        return topic in self.subscribed

    def offset_expiry(self):
        return self.expiry

    def tombstones(self):
        return [CoordinatorRecord(GroupMetadataKey(group=self.group_id))] if self.generation else []

    def close(self):
        self.closed = True


class FakeClassic:
    """Makes such groups, and knows which shard was loaded."""

    def __init__(self):
        self.shard = None

    def create_simple(self, shard, group_id):
        shard.groups[group_id] = FakeGroup(group_id)
        return shard.groups[group_id]

    def loaded(self, shard):
        self.shard = shard
        return Pending.of(None)

    def close(self):
        self.shard = None


class AtOnce:
    """A loader of partitions in which nothing is."""

    def load(self, replay, log):
        load = Load(replay, log)
        load.done.complete(None)
        return load


class Rig:
    """The coordinator of one partition, and the requests of clients in short."""

    def __init__(self, **config):
        self.clock = Clock()
        self.journal = FakeJournal()
        self.classic = FakeClassic()
        given = {"barnabas.api.profile": "3.9", "offsets.topic.num.partitions": "1", **config}
        self.group_configs = GroupConfigManager(broker_config(given), {})
        self._start(GroupSettings.of(broker_config(given)))

    def _start(self, settings):
        self.settings = settings
        self.coordinator = GroupCoordinator(
            settings,
            self.clock,
            self.group_configs,
            classic=self.classic,
            consumer=NoConsumer() if "consumer" in settings.rebalance_protocols else None,
            loader=AtOnce(),
            journal=lambda partition: self.journal,
            log=lambda partition: None,
        )
        self.coordinator.elected(0, 3)

    def set(self, **settings):
        """Another configuration; what was committed is forgotten."""
        self._start(replace(self.settings, **settings))

    @property
    def shard(self):
        return self.classic.shard

    def group(self, group_id="g"):
        return self.shard.groups.get(group_id) or self.classic.create_simple(self.shard, group_id)

    def commit(self, offsets, group_id="g", *, version=8, retention_ms=None, **fields):
        """`offsets`: {(topic, partition): offset, or (offset, leader epoch, metadata)}; the codes."""
        expires = NO_TIMESTAMP if retention_ms is None else self.clock.now_ms + retention_ms
        member = {"member_id": "", "group_instance_id": None, "generation": -1, **fields}
        return in_one_piece(
            self.coordinator.commit_offsets(
                group_id, self._commits(offsets, expires), version=version, **member
            )
        )

    def txn_commit(self, offsets, group_id="g", *, producer_id=9, **fields):
        return self.commit(offsets, group_id, version=3, producer=(producer_id, 2), **fields)

    def _commits(self, offsets, expires=NO_TIMESTAMP):
        commits = {}
        for place, what in offsets.items():
            offset, epoch, metadata = what if isinstance(what, tuple) else (what, -1, "")
            commit = CommittedOffset(offset, epoch, metadata, self.clock.now_ms, expires)
            commits[TopicPartition(*place)] = commit
        return commits

    def fetch(self, partitions=None, group_id="g", *, require_stable=False, member_id=None, member_epoch=-1):
        """{(topic, partition): (offset, leader epoch, metadata, error)} of what the coordinator answers."""
        if partitions is None:
            asked = self.coordinator.committed_partitions(group_id)
        else:
            asked = [TopicPartition(*place) for place in partitions]
        answer = self.coordinator.fetch_offsets(
            group_id, asked, member_id=member_id, member_epoch=member_epoch, require_stable=require_stable
        )
        return {
            tp: (*found[:3], 0) if isinstance(found, CommittedOffset) else (-1, -1, "", found or 0)
            for tp, found in answer.items()
        }

    def committed(self, group_id="g"):
        """What a client sees: {(topic, partition): offset}."""
        return {place: found[0] for place, found in self.fetch(None, group_id).items()}

    def delete(self, partitions, group_id="g"):
        """The codes."""
        return self.coordinator.delete_offsets(group_id, [TopicPartition(*place) for place in partitions])

    def end_transaction(self, producer_id=9, *, committed, marker=None):
        """The replicas have a marker: one that is written now, or the one at an offset."""
        place = self.journal.marker() if marker is None else marker
        self.coordinator.complete_transaction(producer_id, {0: place}, committed=committed)

    def later(self, minutes):
        self.clock.advance(int(minutes * MINUTE_MS))

    def expiring(self):
        """The Pending of one check."""
        return removal.expire_offsets(self.shard, self.clock, self.settings.offsets_retention_ms)

    def expire(self):
        """The number of offsets that one check takes away, once it is through."""
        return self._through(self.expiring())

    def partitions_deleted(self, *partitions):
        deleted = [TopicPartition(*place) for place in partitions]
        keeps = self.group_configs.keeps_empty_groups
        return self._through(removal.delete_partitions(self.shard, self.clock, deleted, keeps_group=keeps))

    def _through(self, done):
        while not done.done:
            self.clock.advance()
        return done.result()


class NoConsumer:
    """Stands for groups of the consumer protocol, of which there are none."""

    def loaded(self, shard):
        return Pending.of(None)
