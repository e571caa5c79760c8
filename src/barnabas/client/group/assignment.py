"""What members of a group send each other through its coordinator, and how the leader divides the
partitions.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from barnabas.client.assignors import Assignor, RebalanceProtocol, Subscription, Topics
from barnabas.client.assignors.sticky_user_data import generation_of
from barnabas.client.errors import GroupError
from barnabas.client.metadata import ClusterMetadata
from barnabas.core.errors import BarnabasError, ErrorCode
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition, by_topic
from barnabas.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from barnabas.protocol.consumer_protocol import TopicPartition as TopicPartitions
from barnabas.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponseMember

_LEAVES_OUT_WHAT_MOVES: Final = "cooperative-sticky"

_log = EventLog("client.group")


def offered_protocols(
    assignors: Iterable[Assignor],
    topics: Iterable[str],
    owned: Iterable[TopicPartition],
    generation: int,
    rack: str | None,
) -> list[JoinGroupRequestProtocol]:
    """This member's subscription, once for every assignor that it knows."""
    named = sorted(topics)
    owned_partitions = _grouped(owned)
    return [
        JoinGroupRequestProtocol(
            name=assignor.name,
            metadata=ConsumerProtocolSubscription(
                topics=named,
                user_data=assignor.user_data(named),
                owned_partitions=owned_partitions,
                generation_id=generation,
                rack_id=rack,
            ).to_bytes(),
        )
        for assignor in assignors
    ]


def _grouped(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic=topic, partitions=[tp.partition for tp in members])
        for topic, members in by_topic(sorted(partitions)).items()
    ]


def _ungrouped(topics: Iterable[TopicPartitions]) -> list[TopicPartition]:
    return [TopicPartition(one.topic, number) for one in topics for number in one.partitions]


def read_subscriptions(members: Iterable[JoinGroupResponseMember]) -> dict[str, Subscription]:
    """The subscription of each member, as a leader gets them."""
    subscriptions = {}
    for member in members:
        read = ConsumerProtocolSubscription.from_bytes(member.metadata)
        subscriptions[member.member_id] = Subscription(
            topics=read.topics,
            user_data=None if read.user_data is None else bytes(read.user_data),
            owned=_ungrouped(read.owned_partitions),
            generation=generation_of(read.generation_id),
            rack=read.rack_id,
            group_instance_id=member.group_instance_id,
        )
    return subscriptions


def read_assignment(assignment: bytes) -> list[TopicPartition]:
    """The partitions of an assignment, in their order. Raises GroupError for an empty one."""
    if len(assignment) < 2:
        raise GroupError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"The assignment of this member has {len(assignment)} bytes: its group's leader gave it none",
        )
    return sorted(_ungrouped(ConsumerProtocolAssignment.from_bytes(assignment).assigned_partitions))


def topics_with_racks(metadata: ClusterMetadata, topics: Iterable[str]) -> Topics:
    """The partitions of those topics that exist, each with the racks of its replicas."""
    rack_of = {node_id: broker.rack for node_id, broker in metadata.brokers.items()}
    return {
        name: [
            frozenset(rack for replica in one.replicas if (rack := rack_of.get(replica)))
            for one in metadata.topics[name].partitions.values()
        ]
        for name in topics
        if name in metadata.topics
    }


def divide(
    assignor: Assignor,
    protocol: RebalanceProtocol,
    topics: Topics,
    subscriptions: Mapping[str, Subscription],
) -> dict[str, bytes]:
    """The assignment of each member. Raises BarnabasError where an assignor breaks the protocol."""
    divided = assignor.assign(topics, subscriptions)
    if protocol is RebalanceProtocol.COOPERATIVE and assignor.name != _LEAVES_OUT_WHAT_MOVES:
        _refuse_direct_moves(divided, subscriptions)
    _log.info("group.divided", assignor=assignor.name, members=len(divided), topics=len(topics))
    return {
        member_id: ConsumerProtocolAssignment(assigned_partitions=_grouped(partitions)).to_bytes()
        for member_id, partitions in divided.items()
    }


def _refuse_direct_moves(
    divided: Mapping[str, Sequence[TopicPartition]], subscriptions: Mapping[str, Subscription]
) -> None:
    """What one member still owns may not be given to another one in the same round (KIP-429)."""
    revoked, added = set[TopicPartition](), set[TopicPartition]()
    for member_id, partitions in divided.items():
        owned = set(subscriptions[member_id].owned)
        revoked |= owned.difference(partitions)
        added |= set(partitions) - owned
    if moved := sorted(revoked & added):
        raise BarnabasError(
            f"An assignor for the cooperative protocol gave away {', '.join(map(str, moved))},"
            " which other members still own"
        )
