"""A shard with a journal that answers when told to, and groups that allow what they are told to.

A module beside `conftest`, so that tests can import from it by a name of its own.
"""

from dataclasses import replace

from barnabas.coordinator.group import GroupType, OffsetExpiry
from barnabas.coordinator.offsets.manager import OffsetManager
from barnabas.coordinator.runtime.journal import NO_PRODUCER, CoordinatorRecord
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.shard import Shard
from barnabas.core.broker_config import broker_config
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey
from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
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


class Rig:
    """The manager, one shard, and the requests of clients in short."""

    def __init__(self, **config):
        self.clock = Clock()
        self.journal = FakeJournal()
        self.shard = Shard(7, 3, self.journal)
        self.settings = GroupSettings.of(broker_config(config))
        self.manager = OffsetManager(self.settings, self.clock, self.create)

    def set(self, **settings):
        self.settings = replace(self.settings, **settings)
        self.manager = OffsetManager(self.settings, self.clock, self.create)

    def create(self, shard, group_id):
        shard.groups[group_id] = FakeGroup(group_id)
        return shard.groups[group_id]

    def group(self, group_id="g"):
        return self.shard.groups.get(group_id) or self.create(self.shard, group_id)

    def commit(self, offsets, group_id="g", *, version=8, **fields):
        """`offsets`: {(topic, partition): offset, or (offset, leader epoch, metadata)}."""
        request = OffsetCommitRequest(group_id=group_id, topics=commit_topics(offsets), **fields)
        return self.manager.commit(self.shard, request, version)

    def txn_commit(self, offsets, group_id="g", *, producer_id=9, **fields):
        topics = [
            TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)
            for topic, partitions in by_topic(offsets, TxnOffsetCommitRequestPartition)
        ]
        request = TxnOffsetCommitRequest(
            group_id=group_id,
            transactional_id="t",
            producer_id=producer_id,
            producer_epoch=2,
            topics=topics,
            **fields,
        )
        return self.manager.txn_commit(self.shard, request, 3)

    def fetch(self, partitions=None, group_id="g", *, require_stable=False, **fields):
        """{(topic, partition): (offset, leader epoch, metadata, error)} of what the coordinator answers."""
        topics = None
        if partitions is not None:
            names = dict.fromkeys(topic for topic, _ in partitions)
            topics = [
                OffsetFetchRequestTopics(name=name, partition_indexes=[p for t, p in partitions if t == name])
                for name in names
            ]
        request = OffsetFetchRequestGroup(group_id=group_id, topics=topics, **fields)
        answer = self.manager.fetch(self.shard, request, require_stable=require_stable)
        assert answer.group_id == group_id
        return {
            (topic.name, one.partition_index): (
                one.committed_offset,
                one.committed_leader_epoch,
                one.metadata,
                one.error_code,
            )
            for topic in answer.topics
            for one in topic.partitions
        }

    def committed(self, group_id="g"):
        """What a client sees: {(topic, partition): offset}."""
        return {place: found[0] for place, found in self.fetch(None, group_id).items()}

    def delete(self, partitions, group_id="g"):
        topics = [
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
            )
            for topic, partition in partitions
        ]
        return codes(self.manager.delete(self.shard, OffsetDeleteRequest(group_id=group_id, topics=topics)))

    def later(self, minutes):
        self.clock.advance(int(minutes * MINUTE_MS))

    def expire(self):
        """The number of offsets that one check takes away, once it is through."""
        done = self.manager.expire(self.shard)
        while not done.done:
            self.clock.advance()
        return done.result()

    def partitions_deleted(self, *partitions):
        done = self.manager.partitions_deleted(self.shard, [TopicPartition(*place) for place in partitions])
        while not done.done:
            self.clock.advance()
        return done.result()


def commit_topics(offsets):
    return [
        OffsetCommitRequestTopic(name=topic, partitions=partitions)
        for topic, partitions in by_topic(offsets, OffsetCommitRequestPartition)
    ]


def by_topic(offsets, partition_class):
    topics = {}
    for (topic, partition), what in offsets.items():
        offset, epoch, metadata = what if isinstance(what, tuple) else (what, -1, "")
        topics.setdefault(topic, []).append(
            partition_class(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=epoch,
                committed_metadata=metadata,
            )
        )
    return topics.items()


def codes(response):
    """{(topic, partition): code} of a response to a commit or a deletion."""
    return {
        (topic.name, one.partition_index): one.error_code
        for topic in response.topics
        for one in topic.partitions
    }
