"""A shard with a journal that answers when the test says so, and clients that send what the test wants."""

import itertools
from dataclasses import replace

from barnabas.coordinator.classic.groups import (
    ClassicGroups,
    classic_group_heartbeat,
    classic_group_leave,
)
from barnabas.coordinator.classic.join_group import classic_group_join
from barnabas.coordinator.classic.sync_group import classic_group_sync
from barnabas.coordinator.runtime.journal import NO_PRODUCER
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.shard import Shard
from barnabas.core.broker_config import broker_config
from barnabas.core.chunks import materialize
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from handled import answered, handled
from standing_clock import Clock

GROUP = "orders"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
INITIAL_DELAY_MS = 3_000


class FakeJournal:
    """Takes records, and acknowledges them at once or when a test says so."""

    def __init__(self):
        self.batches = []
        self.waiting = []
        self.holds = False
        self.refusal = None

    def append(self, records, *, acks=None, producer=NO_PRODUCER):
        if self.refusal is not None:
            raise self.refusal
        self.batches.append(list(records))
        if not self.holds:
            return Pending.of(len(self.batches))
        self.waiting.append(Pending())
        return self.waiting[-1]

    def acknowledge(self):
        """The replicas have the oldest batch that was held back."""
        self.waiting.pop(0).complete(0)

    def fail(self, code):
        self.waiting.pop(0).fail(KafkaError(code))

    def last(self):
        """The last record, as bytes read back."""
        (record,) = self.batches[-1]
        return CONSUMER_OFFSETS.decode(record.key.to_bytes(), record.value.to_bytes(record.value_version))[1]


class Parked:
    """The answer that a client waits for, as it will read it off the wire."""

    def __init__(self, answer, version, parked=None):
        self._answer = answer if isinstance(answer, Pending) else Pending.of(answer)
        self._version = version
        self.parked = parked
        """What the coordinator returned."""

    @property
    def waits(self):
        return not self._answer.done

    @property
    def result(self):
        return on_the_wire(self._answer.result(), self._version)

    @property
    def error(self):
        return ErrorCode.of(self.result.error_code)


def on_the_wire(message, version):
    """The message as it comes out at the other end, which also tells whether it fits its version."""
    return type(message).decode(materialize(message.encode(version)), version)[0]


def subscription(*topics, user_data=b""):
    return ConsumerProtocolSubscription(topics=list(topics), user_data=user_data).to_bytes(1)


RANGE = (("range", subscription("t")),)
"""What a member offers unless the test says otherwise."""


class ClassicCoordinator:
    """A group coordinator of one shard, which has nothing but classic groups."""

    def __init__(self, world):
        self._world = world
        self.answer = None
        """What the last JoinGroup or SyncGroup was answered: a result, or the Pending of one."""

    def join_group(self, request):
        self.answer = classic_group_join(self._world.classic, self._world.shard, request)
        return self.answer

    def sync_group(self, request):
        self.answer = classic_group_sync(self._world.shard, request)
        return self.answer

    def heartbeat(self, group_id, *member):
        if group_id not in self._world.shard.groups:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return classic_group_heartbeat(self._world.shard.groups[group_id], *member)

    def leave_group(self, group_id, leaving):
        return classic_group_leave(self._world.shard, group_id, leaving)

    def classic_group(self, group_id):
        return self._world.shard.groups.get(group_id)


class World:
    """One shard, and the requests that clients send to it."""

    def __init__(self, **settings):
        self.clock = Clock()
        self.journal = FakeJournal()
        self.settings = replace(GroupSettings.of(broker_config({})), **settings)
        self._numbers = itertools.count(1)
        self.classic = ClassicGroups(self.settings, self.clock, lambda: f"uuid{next(self._numbers)}")
        self.shard = Shard(0, 0, self.journal)
        self.coordinator = ClassicCoordinator(self)

    @property
    def group(self):
        return self.shard.groups[GROUP]

    @property
    def state(self):
        return self.group.state_name

    def join(
        self,
        member_id="",
        *,
        version=9,
        instance=None,
        protocols=RANGE,
        protocol_type="consumer",
        session_ms=SESSION_MS,
        rebalance_ms=REBALANCE_MS,
        client="app",
        reason=None,
        group=GROUP,
    ):
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms if version else -1,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
            reason=reason,
        )
        request = on_the_wire(request, version)
        answer = answered(self.coordinator, request, version, client_id=client)
        return Parked(answer, version, self.coordinator.answer)

    def sync(
        self,
        member_id,
        generation,
        assignments=None,
        *,
        version=5,
        instance=None,
        protocol_type="consumer",
        protocol_name="range",
    ):
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=assignment)
                for each, assignment in (assignments or {}).items()
            ],
        )
        request = on_the_wire(request, version)
        answer = handled(self.coordinator, request, version)
        return Parked(answer, version, self.coordinator.answer)

    def heartbeat(self, member_id, generation, instance=None):
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        try:
            return ErrorCode.of(handled(self.coordinator, request).error_code)
        except KafkaError as refused:
            return refused.code

    def leave(self, *members, version=5):
        """Each member as (member id, instance id, reason)."""
        identities = [MemberIdentity(member_id=m, group_instance_id=i, reason=r) for m, i, r in members]
        request = LeaveGroupRequest(group_id=GROUP, members=identities)
        if version < 3:
            request = LeaveGroupRequest(group_id=GROUP, member_id=identities[0].member_id)
        return on_the_wire(handled(self.coordinator, on_the_wire(request, version), version), version)

    def described(self, group_id=GROUP):
        (group,) = handled(self.coordinator, DescribeGroupsRequest(groups=[group_id])).groups
        return group

    def left(self, member_id):
        (result,) = self.leave((member_id, None, None)).members
        return ErrorCode.of(result.error_code)

    def alive(self, *members, ms, generation=None):
        """Time passes while these members send heartbeats."""
        for _ in range(ms // 1000):
            self.clock.advance(1000)
            for member in members:
                self.heartbeat(member, self.group.generation_id if generation is None else generation)

    # Groups that are ready

    def pending_member(self, **kind):
        """A member id that was given out and not used."""
        answer = self.join(**kind)
        assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
        return answer.result.member_id

    def joining(self, count=1, **kind):
        """So many members whose first JoinGroup is parked: their answers by member id."""
        ids = [self.pending_member(**kind) for _ in range(count)]
        return {member_id: self.join(member_id, **kind) for member_id in ids}

    def generation(self, count=1, *, version=9, **kind):
        """A group that completes its first rebalance: its members' ids, the leader first."""
        if version >= 4:
            answers = list(self.joining(count, version=version, **kind).values())
        else:
            answers = [self.join(version=version, **kind) for _ in range(count)]
        return self.first_generation(answers)

    def first_generation(self, answers):
        """Waits for it: the ids of the members with these JoinGroups, the leader first."""
        while self.state == "PreparingRebalance":
            self.clock.advance(INITIAL_DELAY_MS)
        results = [answer.result for answer in answers]
        return sorted((each.member_id for each in results), key=lambda each: each != results[0].leader)

    def stable(self, count=1, **kind):
        """A stable group in its first generation: its members' ids, the leader first."""
        members = self.generation(count, **kind)
        self.assign(members)
        return members

    def assign(self, members, generation=None, **how):
        """All sync; the leader, who is the first of them, brings each its own id as assignment."""
        generation = self.group.generation_id if generation is None else generation
        answers = [self.sync(each, generation, **how) for each in members[1:]]
        parts = {each: f"part of {each}".encode() for each in members}
        return [self.sync(members[0], generation, parts, **how), *answers]

    def static_stable(self, *instances, version=9):
        """A stable group of static members: their ids, the leader first."""
        answers = [self.join(instance=instance, version=version) for instance in instances]
        members = self.first_generation(answers)
        self.assign(members)
        return members
