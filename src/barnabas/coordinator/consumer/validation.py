"""What a ConsumerGroupHeartbeat must look like, and who may send it (KIP-848, KIP-1082)."""

from collections.abc import Collection
from typing import Final

from barnabas.coordinator.consumer.assignment import Assignment, is_within
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH, ConsumerMember
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

CLIENT_MADE_MEMBER_ID_VERSION: Final = 1
NOT_GIVEN: Final = -1

SUBSCRIBED_NAMES_MAX: Final = 10_000
OWNED_TOPICS_MAX: Final = 10_000
OWNED_PARTITIONS_MAX: Final = 100_000
"""A heartbeat is one piece of work, and these are looked through: 10,000 names take 25 ms."""


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Raises INVALID_REQUEST or UNSUPPORTED_ASSIGNOR with Kafka's words."""
    _check_counts(request)
    epoch = request.member_epoch
    if version >= CLIENT_MADE_MEMBER_ID_VERSION or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH:
        _check_not_empty(request.member_id, "MemberId")
    _check_not_empty(request.group_id, "GroupId")
    _check_not_empty(request.instance_id, "InstanceId")
    _check_not_empty(request.rack_id, "RackId")
    if epoch == JOIN_EPOCH:
        _check_first(request)
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _check_counts(request: ConsumerGroupHeartbeatRequest) -> None:
    if len(request.subscribed_topic_names or ()) > SUBSCRIBED_NAMES_MAX:
        raise _invalid(f"SubscribedTopicNames must not be more than {SUBSCRIBED_NAMES_MAX}.")
    owned = request.topic_partitions or ()
    if len(owned) > OWNED_TOPICS_MAX or sum(len(topic.partitions) for topic in owned) > OWNED_PARTITIONS_MAX:
        raise _invalid(
            f"TopicPartitions must not be more than {OWNED_PARTITIONS_MAX} of {OWNED_TOPICS_MAX} topics."
        )


def _check_first(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == NOT_GIVEN:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def _check_not_empty(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def check_epoch(member: ConsumerMember, epoch: int, owned: Assignment | None) -> None:
    """Raises FENCED_MEMBER_EPOCH unless the member is where the coordinator believes it is.

    Epoch 0 joins again whatever was before. The previous epoch is good while the member owns nothing that it
    does not have: then only the response with its present epoch was lost.
    """
    if epoch in {JOIN_EPOCH, member.member_epoch}:
        return
    if epoch > member.member_epoch:
        raise _fenced(member, epoch, "greater")
    if epoch != member.previous_member_epoch or owned is None or not is_within(owned, member.assigned):
        raise _fenced(member, epoch, "smaller")


def _fenced(member: ConsumerMember, epoch: int, how: str) -> KafkaError:
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {how} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def check_size(group: ConsumerGroup, member_id: str, size_max: int) -> None:
    """Raises GROUP_MAX_SIZE_REACHED for a new member of a full group."""
    if len(group.members) >= size_max and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {size_max} members.",
        )


def check_released(member: ConsumerMember, member_id: str, instance_id: str) -> None:
    """Raises UNRELEASED_INSTANCE_ID while the member that has the instance id has not left."""
    if member.member_epoch != STATIC_LEAVE_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
            f"instance id is owned by {member.member_id} member.",
        )


def static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """The member that has an instance id. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID for another one."""
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def known_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member that a request names. Raises UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    return group.member(member_id) if instance_id is None else static_member(group, member_id, instance_id)
