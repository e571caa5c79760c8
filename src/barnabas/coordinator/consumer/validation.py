"""What a ConsumerGroupHeartbeat must look like, and the epochs that it may carry (KIP-848, KIP-1082)."""

from collections.abc import Collection
from typing import Final

from barnabas.coordinator.consumer.assignment import Assignment, is_within
from barnabas.coordinator.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NOT_GIVEN,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberHeartbeat,
)
from barnabas.core.errors import ErrorCode, KafkaError

SUBSCRIBED_NAMES_MAX: Final = 10_000
OWNED_TOPICS_MAX: Final = 10_000
OWNED_PARTITIONS_MAX: Final = 100_000
"""A heartbeat is handled in one piece of work, which looks through these: 10,000 names take 25 ms."""


def validate_heartbeat(heartbeat: MemberHeartbeat, assignors: Collection[str]) -> None:
    """``throwIfConsumerGroupHeartbeatRequestIsInvalid``, with Kafka's messages.

    Raises INVALID_REQUEST or UNSUPPORTED_ASSIGNOR.
    """
    if len(heartbeat.subscribed_topic_names or ()) > SUBSCRIBED_NAMES_MAX:
        raise _invalid(f"SubscribedTopicNames must not be more than {SUBSCRIBED_NAMES_MAX}.")
    owned = heartbeat.topic_partitions or ()
    if len(owned) > OWNED_TOPICS_MAX or sum(len(topic.partitions) for topic in owned) > OWNED_PARTITIONS_MAX:
        raise _invalid(
            f"TopicPartitions must not be more than {OWNED_PARTITIONS_MAX} of {OWNED_TOPICS_MAX} topics."
        )
    epoch = heartbeat.member_epoch
    # KIP-1082: a client makes its own id since version 1; in version 0 one that joins may have none yet.
    if epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH:
        _check_not_empty(heartbeat.member_id, "MemberId")
    _check_not_empty(heartbeat.group_id, "GroupId")
    _check_not_empty(heartbeat.instance_id, "InstanceId")
    _check_not_empty(heartbeat.rack_id, "RackId")
    if epoch == JOIN_EPOCH:
        _check_join(heartbeat)
    elif epoch == STATIC_LEAVE_EPOCH and heartbeat.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if heartbeat.server_assignor is not None and heartbeat.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {heartbeat.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(heartbeat: MemberHeartbeat) -> None:
    if heartbeat.rebalance_timeout_ms == NOT_GIVEN:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if heartbeat.topic_partitions is None or heartbeat.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if heartbeat.subscribed_topic_names is None and heartbeat.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def _check_not_empty(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def check_member_epoch(member: ConsumerMember, epoch: int, owned: Assignment | None) -> None:
    """``throwIfConsumerGroupMemberEpochIsInvalid``: raises FENCED_MEMBER_EPOCH.

    The previous epoch is good while the member owns nothing that it does not have: then only the response
    with its present epoch was lost.
    """
    if epoch == member.member_epoch:
        return
    # The coordinator never gave out this epoch, or lost it: the member is ahead of the log.
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
