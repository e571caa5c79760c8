"""ConsumerGroupHeartbeat (68), v0-1.

Behaviour: a member of a consumer group reports what changed on its side, and learns what it is to own
(KIP-848). It may DESCRIBE the topics that it names; an expression stands for those that it may.
Versions:  v0 · v1 regular expressions, and the member names itself (KIP-1082). Kafka 3.9 with ZooKeeper
           advertises v0 and refuses it with UNSUPPORTED_VERSION, by which clients know that there is only the
           classic protocol; so does a broker here whose `group.coordinator.rebalance.protocols` says the
           same. Where `consumer` is among them, v1 is advertised too, as by Kafka 4: librdkafka speaks
           nothing older, and Java's clients send patterns only with it.
Not implemented: nothing. Very many names or owned partitions are refused, which Kafka allows.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import client_of, require_consumer_protocol, require_group
from barnabas.broker.registry import handles
from barnabas.coordinator.consumer.member import HeartbeatResult, MemberHeartbeat
from barnabas.coordinator.consumer.validation import SUBSCRIBED_NAMES_MAX
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

CLIENT_MEMBER_ID_SINCE: Final = 1


def _failed(
    _request: ConsumerGroupHeartbeatRequest, error: KafkaError, _version: int
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.own_message)


@handles(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), failed=_failed)
def consumer_group_heartbeat(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Pending[ConsumerGroupHeartbeatResponse]:
    require_consumer_protocol(context)
    require_group(context, Operation.READ, request.group_id)
    _require_topics(context, request.subscribed_topic_names)
    if not request.group_id:
        # Refused here, because the group without a name has a coordinator too: it may store offsets.
        raise KafkaError(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    if context.version >= CLIENT_MEMBER_ID_SINCE and not request.member_id.strip():
        raise KafkaError(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    answer = context.broker.group_coordinator.consumer_group_heartbeat(
        MemberHeartbeat(
            request.group_id,
            request.member_id,
            request.member_epoch,
            request.instance_id,
            request.rack_id,
            request.rebalance_timeout_ms,
            request.subscribed_topic_names,
            request.subscribed_topic_regex,
            request.server_assignor,
            request.topic_partitions,
            client_of(context),
            partial(_may_describe, context),
        )
    )
    return answer.then(_response) if isinstance(answer, Pending) else _response(answer)


def _require_topics(context: RequestContext, names: Sequence[str] | None) -> None:
    """Raises TOPIC_AUTHORIZATION_FAILED unless the client may describe all topics that it names: the answer
    would tell their ids and how many partitions they have (KAFKA-18813).
    """
    # A request with more names is refused before anybody looks at one.
    if names is None or len(names) > SUBSCRIBED_NAMES_MAX:
        return
    may_describe = context.may(Operation.DESCRIBE)
    # All are asked, so that the audit has a line for each.
    denied = [name for name in names if not may_describe[name]]
    if denied:
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _may_describe(context: RequestContext, topic: str) -> bool:
    """Whether the client may see a topic that its expression matches; it did not ask for it by name."""
    return context.authorize(Operation.DESCRIBE, Resource.TOPIC, topic, log_if_denied=False)


def _response(result: HeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    member_id, member_epoch, heartbeat_interval_ms, owned = result
    response = ConsumerGroupHeartbeatResponse(
        member_id=member_id, member_epoch=member_epoch, heartbeat_interval_ms=heartbeat_interval_ms
    )
    if owned is not None:
        response.assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in owned.items()
            ]
        )
    return response
