"""Members that say absurd things: groups of both protocols, their offsets, and who asks about them.

Messages are mutated by their schema, so that most arrive whole; members' ids are those that the broker gave
out, so that many reach a living group. Whatever becomes of those groups, the broker stays, the group beside
them notices nothing, and what it committed is there after a restart.
"""

import copy
import random
import time

from test_fuzz_broker import PATIENCE_S, mutated, with_length
from test_fuzz_control import make_absurd, places
from wire_peer import WirePeer, frame_of

from barnabas.broker.handlers import api_table
from barnabas.broker.profiles import PROFILE_4_4
from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.framing import decode_response
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.list_groups import ListGroupsRequest
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
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SECONDS = 8
TRIED_MIN = 100
TRIED_MAX = 10_000
GROWTH_MAX_BYTES = 48 << 20

# Both protocols, and groups that change between them; impatient, so that much happens in little time.
SETTINGS = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.migration.policy": "bidirectional",
    "group.initial.rebalance.delay.ms": "10",
    "group.min.session.timeout.ms": "1",
    "offsets.topic.num.partitions": "3",
    "offsets.retention.check.interval.ms": "1000",
    "group.max.size": "200",
    "group.consumer.max.size": "200",
}

GROUPS = ["fuzz", "other"]
WITNESS = "witness"

SUBSCRIPTION = ConsumerProtocolSubscription(topics=["fuzz"]).to_bytes(3)


def requests():
    """One sensible request for each API and way of saying it."""
    protocols = [JoinGroupRequestProtocol(name=name, metadata=SUBSCRIPTION) for name in ("range", "sticky")]
    join = {"session_timeout_ms": 300, "rebalance_timeout_ms": 200, "protocol_type": "consumer"}
    full = {"rebalance_timeout_ms": 200, "topic_partitions": []}
    position = OffsetCommitRequestPartition(committed_offset=1, committed_metadata="m")
    commit = [OffsetCommitRequestTopic(name="fuzz", partitions=[position])]
    owned = [TopicPartitions(topic_id=bytes(16), partitions=[0])]
    fetch_topics = [OffsetFetchRequestTopics(name="fuzz", partition_indexes=[0])]
    return [
        FindCoordinatorRequest(key="fuzz"),
        FindCoordinatorRequest(coordinator_keys=list(GROUPS)),
        JoinGroupRequest(protocols=protocols, **join),
        JoinGroupRequest(protocols=protocols, group_instance_id="i", reason="r", **join),
        SyncGroupRequest(generation_id=1, assignments=[SyncGroupRequestAssignment(assignment=b"a")]),
        HeartbeatRequest(generation_id=1),
        LeaveGroupRequest(members=[MemberIdentity(group_instance_id="i")]),
        OffsetCommitRequest(topics=commit),
        OffsetFetchRequest(topics=[OffsetFetchRequestTopic(name="fuzz", partition_indexes=[0])]),
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=each, topics=None) for each in GROUPS]),
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="fuzz", topics=fetch_topics)]),
        OffsetDeleteRequest(
            topics=[OffsetDeleteRequestTopic(name="fuzz", partitions=[OffsetDeleteRequestPartition()])]
        ),
        DescribeGroupsRequest(groups=list(GROUPS)),
        ListGroupsRequest(states_filter=["Stable"], types_filter=["consumer"]),
        DeleteGroupsRequest(groups_names=list(GROUPS)),
        ConsumerGroupHeartbeatRequest(member_epoch=0, subscribed_topic_names=["fuzz"], **full),
        ConsumerGroupHeartbeatRequest(member_epoch=0, subscribed_topic_regex="f.*", **full),
        ConsumerGroupHeartbeatRequest(
            member_epoch=0, subscribed_topic_names=["fuzz"], instance_id="i", rack_id="r", **full
        ),
        ConsumerGroupHeartbeatRequest(member_epoch=1, topic_partitions=owned),
        ConsumerGroupHeartbeatRequest(member_epoch=-1),
        ConsumerGroupHeartbeatRequest(member_epoch=-2, instance_id="i"),
        ConsumerGroupDescribeRequest(group_ids=list(GROUPS)),
    ]


class Witness:
    """A consumer that behaves, in a group of its own."""

    def __init__(self, peer: WirePeer) -> None:
        self.peer = peer
        while peer.ask(FindCoordinatorRequest(key=WITNESS), 1).error_code:
            time.sleep(0.05)
        joined = peer.ask(
            JoinGroupRequest(
                group_id=WITNESS,
                session_timeout_ms=60_000,
                rebalance_timeout_ms=60_000,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
            ),
            3,
        )
        self.me = {"group_id": WITNESS, "member_id": joined.member_id, "generation_id": joined.generation_id}
        mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
        assert peer.ask(SyncGroupRequest(assignments=[mine], **self.me), 3).assignment == b"mine"
        self.offset = 0

    def look(self) -> None:
        """It is still a member of its generation, and may commit."""
        assert self.peer.ask(HeartbeatRequest(**self.me), 3).error_code == ErrorCode.NONE
        self.offset += 1
        position = OffsetCommitRequestPartition(committed_offset=self.offset)
        answer = self.peer.ask(
            OffsetCommitRequest(
                group_id=WITNESS,
                member_id=self.me["member_id"],
                generation_id_or_member_epoch=self.me["generation_id"],
                topics=[OffsetCommitRequestTopic(name="fuzz", partitions=[position])],
            ),
            7,
        )
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


class Attacker:
    """Sends requests, and learns the members' ids from the answers."""

    def __init__(self, victim, source: random.Random) -> None:
        self._victim = victim
        self._random = source
        self._corpus = requests()
        self.members = ["m-1", "m-2"]
        self.answered: set[int] = set()

    def attack(self) -> None:
        message, version, frame = self._frame()
        with self._victim.connect() as peer:
            try:
                peer.send(with_length(self._random, frame))
                peer.socket.settimeout(PATIENCE_S)
                response = peer.response()
            except OSError:
                return  # closed while it was still being sent, or parked until the others have joined
        if response is not None:
            self.answered.add(message.api)
            self._learn(message, version, response)

    def _frame(self):
        """(message, version, frame without its length), absurd inside; now and then broken as well."""
        source = self._random
        while True:
            message = copy.deepcopy(source.choice(self._corpus))
            self._name_members(message)
            for _ in range(source.choice([0, 0, 1, 1, 2, 4])):
                make_absurd(source, message)
            api = api_table(PROFILE_4_4)[message.api]
            version = source.randint(api.min_version, api.max_version)
            try:
                frame = frame_of(message, version)[4:]
            except (ProtocolError, ValueError):
                continue
            return message, version, mutated(source, frame) if source.random() < 0.1 else frame

    def _name_members(self, message) -> None:
        for struct, name, _ in places(message):
            if name == "group_id" and not getattr(struct, name):
                setattr(struct, name, self._random.choice(GROUPS))
            elif name == "member_id" and self._random.random() < 0.8:
                setattr(struct, name, self._random.choice(self.members))

    def _learn(self, message, version, response) -> None:
        if message.api in {ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT}:
            try:
                member_id = decode_response(message.api, version, response)[1].member_id
            except ProtocolError:
                return  # the broken request was another one
            if member_id:
                self.members = [*self.members[-8:], member_id]


def test_the_broker_and_its_other_groups_survive_whatever_members_could_say(victim, serve):
    # pytest-randomly seeds this and prints the seed: `-p randomly -p "randomly_seed=..."` replays a failure.
    attacker = Attacker(victim, random.Random(random.getrandbits(64)))
    asked = {request.api for request in requests()}
    tried = 0
    with victim.connect() as peer:
        witness = Witness(peer)
        for _ in range(100):
            attacker.attack()
        before = victim.memory_bytes()
        deadline = time.monotonic() + SECONDS
        # On a slow machine the time is over before each of them was answered once.
        while (
            time.monotonic() < deadline
            or tried <= TRIED_MIN
            or (asked - attacker.answered and tried < TRIED_MAX)
        ):
            tried += 1
            attacker.attack()
            if tried % 50 == 0:
                witness.look()
        witness.look()
    assert victim.alive()
    assert not victim.failures(), "\n".join(victim.failures())
    assert attacker.answered == asked
    assert victim.memory_bytes() - before < GROWTH_MAX_BYTES

    assert victim.server.stop() == 0
    again = serve(victim.server.data_dir, *victim.options, instead_of=victim.server)
    again.wait_until_ready()
    victim.server, victim.port = again, again.port
    assert not victim.failures(), "\n".join(victim.failures())
    assert committed(victim) == witness.offset


def committed(victim) -> int:
    wanted = [OffsetFetchRequestTopic(name="fuzz", partition_indexes=[0])]
    with victim.connect() as peer:
        while True:
            answer = peer.ask(OffsetFetchRequest(group_id=WITNESS, topics=wanted), 5)
            if answer.error_code not in {
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            }:
                return answer.topics[0].partitions[0].committed_offset
            time.sleep(0.05)
