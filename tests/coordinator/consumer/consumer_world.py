"""A shard of consumer groups over a journal that keeps bytes, topics that a test creates, and members.

What is written goes through the codecs, so that `reloaded` reads back what Kafka would read.
"""

import itertools
from dataclasses import replace

from barnabas.coordinator.classic.groups import (
    ClassicGroups,
    classic_group_heartbeat,
    classic_group_leave,
)
from barnabas.coordinator.classic.join_group import classic_group_join
from barnabas.coordinator.classic.sync_group import classic_group_sync
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.groups import ConsumerGroups
from barnabas.coordinator.consumer.topics import TopicDescription
from barnabas.coordinator.group import Client
from barnabas.coordinator.group_configs import GroupConfigManager
from barnabas.coordinator.runtime.journal import NO_PRODUCER
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.shard import Shard
from barnabas.core.broker_config import broker_config
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.consumer_protocol import TopicPartition as NamedPartitions
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey
from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from handled import handled
from standing_clock import Clock

GROUP = "orders"
CLIENT = Client("test", "/127.0.0.1")
SESSION_MS = 45_000
REBALANCE_MS = 30_000


class FakeJournal:
    """Keeps records as bytes; acknowledges them at once or when a test says so."""

    def __init__(self):
        self.batches = []
        self.log = []
        self.waiting = []
        self.holds = False
        self.refusal = None

    def append(self, records, *, acks=None, producer=NO_PRODUCER):
        if self.refusal is not None:
            raise KafkaError(self.refusal)
        self.batches.append(list(records))
        self.log += [record.encode() for record in records]
        if not self.holds:
            return Pending.of(len(self.log))
        self.waiting.append(Pending())
        return self.waiting[-1]

    def compacted(self):
        """The log as Kafka's cleaner leaves it: the last record of each key, tombstones too."""
        last = {key: place for place, (key, _) in enumerate(self.log)}
        return [record for place, record in enumerate(self.log) if last[record[0]] == place]


class Topics:
    """A `TopicsImage` of topics that the test makes."""

    def __init__(self):
        self.known = {}
        self._ids = itertools.count(1)

    def create(self, name, partitions, racks=None):
        topic_id = next(self._ids).to_bytes(16, "big")
        self.known[name] = TopicDescription(topic_id, name, partitions, racks or {})
        return topic_id

    def describe(self, name):
        return self.known.get(name)

    def name_of(self, topic_id):
        return next((topic.name for topic in self.known.values() if topic.id == topic_id), None)

    def names(self):
        return list(self.known)


class World:
    """One shard and everything around it."""

    def __init__(self, *, config=(), clock=None, **settings):
        """`config` are further keys of the broker, as texts."""
        self.clock = clock or Clock()
        self.topics = Topics()
        broker = broker_config(
            {
                "barnabas.api.profile": "3.9",
                "group.consumer.session.timeout.ms": str(SESSION_MS),
                "group.consumer.min.session.timeout.ms": "1",
                **dict(config),
            }
        )
        self.settings = replace(
            GroupSettings.of(broker), rebalance_protocols=frozenset({"classic", "consumer"}), **settings
        )
        self.configured = {}
        self.group_configs = GroupConfigManager(broker, self.configured)
        self._uuids = itertools.count(1)
        self.classic = ClassicGroups(self.settings, self.clock, self._new_uuid)
        self.groups = self._groups()
        self.journal = FakeJournal()
        self.shard = Shard(0, 1, self.journal)

    def _groups(self):
        return ConsumerGroups(self.classic, self.group_configs, self.clock, self.topics)

    def _new_uuid(self):
        return f"uuid-{next(self._uuids)}"

    @property
    def group(self):
        return self.shard.groups.get(GROUP)

    def reloaded(self, log=None):
        """Another coordinator that has read what this one wrote."""
        other = World()
        other.settings, other.clock, other.topics = self.settings, self.clock, self.topics
        other.classic = ClassicGroups(other.settings, other.clock, other._new_uuid)
        other.group_configs = self.group_configs
        other.groups = other._groups()
        for key_bytes, value_bytes in self.journal.log if log is None else log:
            key, value = CONSUMER_OFFSETS.decode(key_bytes, value_bytes)
            if isinstance(key, GroupMetadataKey):
                other.classic.replay(other.shard, key, value)
            else:
                other.groups.replay(other.shard, key, value)
        return other

    # The consumer protocol

    def beat(self, member_id, epoch, *, version=1, **fields):
        """The answer to one heartbeat."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields
        )
        return settled(handled(self, request, version, client_id=CLIENT.id))

    def consumer_group_heartbeat(self, heartbeat):
        return self.groups.consumer_heartbeat(self.shard, heartbeat)

    def consumer_group_describe(self, group_id):
        return self.groups.describe(self.shard.groups[group_id])

    def described(self):
        """The group in a response."""
        (group,) = handled(self, ConsumerGroupDescribeRequest(group_ids=[GROUP])).groups
        return group

    def join(self, member_id, *topics, **fields):
        full = {
            "rebalance_timeout_ms": REBALANCE_MS,
            "topic_partitions": [],
            "subscribed_topic_names": list(topics),
        }
        return self.beat(member_id, 0, **{**full, **fields})

    def owning(self, **by_topic):
        """What a member says it owns."""
        return [
            TopicPartitions(topic_id=self.topics.known[name].id, partitions=list(partitions))
            for name, partitions in by_topic.items()
        ]

    def told(self, response):
        """The assignment in an answer by topic name; None if it has none."""
        if response.assignment is None:
            return None
        return {
            self.topics.name_of(topic.topic_id): sorted(topic.partitions)
            for topic in response.assignment.topic_partitions
        }

    def assigned(self, member_id):
        return {
            self.topics.name_of(topic_id): sorted(partitions)
            for topic_id, partitions in self.group.members[member_id].assigned.items()
        }

    def member(self, member_id, *topics, **fields):
        return Member(self, member_id, topics, **fields)

    # The classic protocol, for consumer groups and for classic ones

    def join_group(self, request):
        if isinstance(self.group, ConsumerGroup):
            return self.groups.join(self.shard, request)
        return classic_group_join(self.classic, self.shard, request)

    def sync_group(self, request):
        if isinstance(self.group, ConsumerGroup):
            return self.groups.sync(self.shard, request)
        return classic_group_sync(self.shard, request)

    def heartbeat(self, group_id, *member):
        if isinstance(self.group, ConsumerGroup):
            return self.groups.heartbeat(self.shard, group_id, *member)
        return classic_group_heartbeat(self.group, *member)

    def leave_group(self, group_id, leaving):
        if isinstance(self.group, ConsumerGroup):
            return self.groups.leave(self.shard, group_id, leaving)
        return classic_group_leave(self.shard, group_id, leaving)

    def classic_join(
        self,
        member_id,
        *topics,
        version=9,
        instance_id=None,
        owned=None,
        protocols=("range",),
        protocol_type="consumer",
    ):
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=subscription(topics, owned))
                for name in protocols
            ],
        )
        return settled(handled(self, request, version))

    def classic_sync(self, member_id, generation, *, instance_id=None, assignments=(), version=5, **fields):
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            **{"protocol_type": "consumer", "protocol_name": "range", **fields},
            assignments=[
                SyncGroupRequestAssignment(member_id=to, assignment=assignment)
                for to, assignment in assignments
            ],
        )
        return settled(handled(self, request, version))

    def classic_beat(self, member_id, generation, instance_id=None):
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        return ErrorCode(handled(self, request).error_code)

    def classic_leave(self, *members, version=5):
        request = LeaveGroupRequest(
            group_id=GROUP,
            members=[MemberIdentity(member_id=one, group_instance_id=instance) for one, instance in members],
        )
        response = settled(handled(self, request, version))
        return [ErrorCode(one.error_code) for one in response.members]


class Member:
    """A consumer that does as the coordinator says, one heartbeat at a time."""

    def __init__(self, world, member_id, topics, **fields):
        self.world = world
        self.member_id = member_id
        self.topics = list(topics)
        self.fields = fields
        self.epoch = 0
        self.owned = {}
        self.join()

    def join(self):
        self.owned = {}
        self._hear(self.world.join(self.member_id, *self.topics, **self.fields))

    def beat(self):
        """Says what it owns and takes over what it is told."""
        owned = [TopicPartitions(topic_id=one, partitions=sorted(parts)) for one, parts in self.owned.items()]
        self._hear(self.world.beat(self.member_id, self.epoch, topic_partitions=owned))

    def _hear(self, response):
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = {one.topic_id: set(one.partitions) for one in response.assignment.topic_partitions}

    def leave(self, epoch=-1):
        self.world.beat(self.member_id, epoch, **{k: v for k, v in self.fields.items() if k == "instance_id"})


def settled(answer):
    """The value of an answer that is there."""
    return answer.result() if isinstance(answer, Pending) and answer.done else answer


def subscription(topics, owned=None):
    return ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[
            NamedPartitions(topic=name, partitions=list(parts)) for name, parts in (owned or {}).items()
        ],
    ).to_bytes(1)


def assignment(**by_topic):
    """An assignment as a classic leader hands it out."""
    return ConsumerProtocolAssignment(
        assigned_partitions=[
            NamedPartitions(topic=name, partitions=list(parts)) for name, parts in by_topic.items()
        ]
    ).to_bytes(1)


def assignment_read(data):
    """What a classic member reads out of its assignment."""
    return {
        one.topic: list(one.partitions)
        for one in ConsumerProtocolAssignment.from_bytes(data).assigned_partitions
    }
