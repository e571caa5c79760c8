"""`ConsumerMembership`: a member of a group of the protocol ``consumer`` (KIP-848): what its next heartbeat
says, and what an answer means.

Theory of operation
-------------------
The coordinator divides the partitions. A member sends heartbeats, and each answer may bring what it is to own
(its *target*), as far as other members have let go of it. The member then gives up what is not in the target,
takes what is new, and tells with its next heartbeat what it owns. Nobody waits for a whole group::

    UNSUBSCRIBED -> JOINING -----> STABLE <----> RECONCILING     (a target that is not what it owns)
                       ^             |                |
                       +-- FENCED <--+----------------+          (thrown out: its partitions are lost)
                       +-- STALE  <--+----------------+          (it left, as its caller did not poll)

``ConsumerMembershipManager`` has ACKNOWLEDGING besides: here a member has news while what it told is not what
is so (`has_news`). A heartbeat says what has changed since the last one that was answered, and everything
after one that was not.

The *epoch* is the coordinator's number for the member's place in the group: 0 joins, -1 leaves, and -2 says
that a static member will be back. An answer counts only for the stay in the group that its request was sent
in. Sockets, time and the caller's callbacks belong to `consumer_member`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from barnabas.client.coordinators import COORDINATOR_MOVED
from barnabas.client.errors import GroupError
from barnabas.client.group.membership import Generation
from barnabas.client.group.settings import MemberSettings
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import Uuid
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2

FENCED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
"""Answers after which the member has lost its partitions, and joins again."""
_AGAIN: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, *COORDINATOR_MOVED})

_NOT_SUPPORTED: Final = (
    "The cluster does not support the new CONSUMER group protocol. Set group.protocol=classic on the consumer"
    " configs to revert to the CLASSIC protocol until the cluster is upgraded."
)

Owned: TypeAlias = Mapping[Uuid, frozenset[int]]
"""Partitions by the ids of their topics."""

_log = EventLog("client.group")


class ConsumerMemberState(Enum):
    """Where a member stands (``MemberState`` of Java's new consumer)."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    STABLE = "stable"
    RECONCILING = "reconciling"
    FENCED = "fenced"
    STALE = "stale"
    FATAL = "fatal"


class ConsumerMemberEvent(Enum):
    """What changes a member's state."""

    SUBSCRIBED = "wants to be in the group"
    ASSIGNED = "has a target that it does not own yet"
    SETTLED = "owns its target, or has none yet"
    THROWN_OUT = "the coordinator does not know it, or not in this epoch"
    EXPIRED = "left because its caller does not poll"
    DROPPED = "its caller knows that its partitions are lost"
    LEFT = "is out of the group, as its caller wanted"
    REFUSED = "cannot be in this group"


_IN_GROUP: Final = {
    ConsumerMemberEvent.ASSIGNED: ConsumerMemberState.RECONCILING,
    ConsumerMemberEvent.SETTLED: ConsumerMemberState.STABLE,
    ConsumerMemberEvent.THROWN_OUT: ConsumerMemberState.FENCED,
    ConsumerMemberEvent.EXPIRED: ConsumerMemberState.STALE,
    ConsumerMemberEvent.LEFT: ConsumerMemberState.UNSUBSCRIBED,
    ConsumerMemberEvent.REFUSED: ConsumerMemberState.FATAL,
}
_OUTSIDE: Final = {
    ConsumerMemberEvent.DROPPED: ConsumerMemberState.JOINING,
    ConsumerMemberEvent.LEFT: ConsumerMemberState.UNSUBSCRIBED,
}
NEXT_STATE: Final[Mapping[ConsumerMemberState, Mapping[ConsumerMemberEvent, ConsumerMemberState]]] = {
    ConsumerMemberState.UNSUBSCRIBED: {
        ConsumerMemberEvent.SUBSCRIBED: ConsumerMemberState.JOINING,
        ConsumerMemberEvent.LEFT: ConsumerMemberState.UNSUBSCRIBED,
    },
    ConsumerMemberState.JOINING: _IN_GROUP,
    ConsumerMemberState.STABLE: _IN_GROUP,
    ConsumerMemberState.RECONCILING: _IN_GROUP,
    ConsumerMemberState.FENCED: _OUTSIDE,
    ConsumerMemberState.STALE: _OUTSIDE,
    ConsumerMemberState.FATAL: {ConsumerMemberEvent.LEFT: ConsumerMemberState.UNSUBSCRIBED},
}


@dataclass(frozen=True, slots=True)
class _Told:
    """What a heartbeat said of the member."""

    topics: frozenset[str]
    owned: Owned


@dataclass(frozen=True, slots=True)
class SentHeartbeat:
    """A heartbeat that is on its way."""

    request: ConsumerGroupHeartbeatRequest
    told: _Told
    stay: int
    """The number of the member's stay in the group."""


class ConsumerMembership:
    """One member; no I/O."""

    rebalancing = is_preparing = False
    """A member of this protocol may commit at any time: nothing waits for a round of the group."""

    def __init__(self, settings: MemberSettings, member_id: str) -> None:
        """`member_id` is the member's own choice, and it keeps it for its life."""
        self.state = ConsumerMemberState.UNSUBSCRIBED
        self.heartbeat_interval_ms: float = settings.heartbeat_interval_ms
        self.target: Owned = {}
        """What the coordinator wants it to own."""
        self.owned: Owned = {}
        self.topics: frozenset[str] = frozenset()
        """What it subscribes to."""
        self.failure: KafkaError | None = None
        """Why it cannot be in the group, while it is FATAL."""
        self._settings = settings
        self._member_id = member_id
        self._epoch = JOIN_EPOCH
        self._told: _Told | None = None
        self.stay = 0
        """Grows when it is out of the group."""

    @property
    def generation(self) -> Generation:
        """Its epoch and id, as commits name them; none outside of the group."""
        return Generation(self._epoch, self._member_id) if self._epoch > 0 else Generation()

    @property
    def stable_generation(self) -> Generation | None:
        """What it may commit in; None outside of the group."""
        return self.generation if self._epoch > 0 else None

    @property
    def sends_heartbeats(self) -> bool:
        return NEXT_STATE[self.state] is _IN_GROUP

    @property
    def has_lost_all(self) -> bool:
        """Whether it is out of the group, and its caller has to know."""
        return NEXT_STATE[self.state] is _OUTSIDE

    @property
    def has_news(self) -> bool:
        """Whether the next heartbeat should not wait for its time."""
        return self.sends_heartbeats and self._told != _Told(self.topics, self.owned)

    def subscribed(self) -> None:
        """Joins the group, where it is not in it."""
        if self.state is ConsumerMemberState.UNSUBSCRIBED:
            self._happened(ConsumerMemberEvent.SUBSCRIBED)

    # Heartbeats.

    def heartbeat(self) -> SentHeartbeat:
        """What to say now (``ConsumerHeartbeatRequestManager.HeartbeatState.buildRequestData``)."""
        now, before, joins = _Told(self.topics, self.owned), self._told, self._epoch == JOIN_EPOCH
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=self._settings.group_instance_id,
        )
        if joins or before is None:
            request.rack_id = self._settings.rack
            request.rebalance_timeout_ms = self._settings.rebalance_timeout_ms
            request.server_assignor = self._settings.server_assignor
        if joins or before is None or before.topics != now.topics:
            request.subscribed_topic_names = sorted(now.topics)
        if joins or before is None or before.owned != now.owned:
            request.topic_partitions = _as_topics(now.owned)
        return SentHeartbeat(request, now, self.stay)

    def heard(self, response: ConsumerGroupHeartbeatResponse, sent: SentHeartbeat) -> None:
        """An answer. Raises KafkaError for a heartbeat that did not count: GroupError where the member can
        not be in the group as it is.
        """
        if sent.stay != self.stay or not self.sends_heartbeats:
            return
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            raise self._not_heard(code, response.error_message)
        if response.member_epoch < JOIN_EPOCH:
            # Only who leaves is answered so: a member that took it would say next that it leaves.
            self.not_answered()
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"the coordinator gave epoch {response.member_epoch}"
            )
        self._told = sent.told
        self._epoch = response.member_epoch
        self._member_id = response.member_id or self._member_id
        if response.heartbeat_interval_ms > 0:
            self.heartbeat_interval_ms = response.heartbeat_interval_ms
        if response.assignment is not None:
            self.target = {
                each.topic_id: frozenset(each.partitions)
                for each in response.assignment.topic_partitions
                if each.partitions
            }
        self._settle()

    def _not_heard(self, code: ErrorCode, message: str | None) -> KafkaError:
        self.not_answered()
        group = self._settings.group_id
        if code in FENCED:
            _log.info("group.fenced", group=group, member=self._member_id, epoch=self._epoch, error=code.name)
            self._ends(ConsumerMemberEvent.THROWN_OUT)
            return KafkaError(code)
        if code in _AGAIN:
            return KafkaError(code)
        if code is ErrorCode.UNSUPPORTED_VERSION:
            message = _NOT_SUPPORTED
        refused = GroupError(code, f"{message or code.message} (group {group})")
        if code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self.failure = refused
            self._ends(ConsumerMemberEvent.REFUSED)
        return refused

    def not_answered(self) -> None:
        """Whether the last heartbeat has come is not known: the next one says everything."""
        self._told = None

    def applied(self, owned: Owned) -> None:
        """The caller owns these now, which is its target as far as that could be done."""
        self.owned = owned
        self._settle()

    def _settle(self) -> None:
        is_settled = self.owned == self.target
        self._happened(ConsumerMemberEvent.SETTLED if is_settled else ConsumerMemberEvent.ASSIGNED)

    # The end of a stay in the group.

    def leave_request(self) -> ConsumerGroupHeartbeatRequest | None:
        """Says that it leaves; None where there is nothing to say."""
        if not self.sends_heartbeats:
            return None
        instance = self._settings.group_instance_id
        return ConsumerGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self._member_id,
            member_epoch=LEAVE_EPOCH if instance is None else LEAVE_STATIC_EPOCH,
            instance_id=instance,
        )

    def left(self) -> None:
        """It is out of the group, as its caller wanted."""
        self._ends(ConsumerMemberEvent.LEFT)

    def expired(self) -> None:
        """It has left because its caller did not poll, and joins again when it does."""
        self._ends(ConsumerMemberEvent.EXPIRED)

    def dropped(self) -> None:
        """The caller knows that its partitions are lost: it joins again."""
        self.owned = {}
        self._happened(ConsumerMemberEvent.DROPPED)

    def _ends(self, event: ConsumerMemberEvent) -> None:
        self._happened(event)
        self.stay += 1
        self._epoch = JOIN_EPOCH
        self.target, self.owned, self._told = {}, {}, None

    def _happened(self, event: ConsumerMemberEvent) -> None:
        following = NEXT_STATE[self.state].get(event)
        if following is None:
            raise AssertionError(f"{event.name} cannot happen to a member that is {self.state.name}")
        if following is not self.state:
            _log.debug("group.member", group=self._settings.group_id, old=self.state.name, new=following.name)
        self.state = following

    # What commits find out.

    def request_rejoin(self, reason: str) -> None:
        """Nothing has to be done: this protocol has no rounds that a member could ask for."""

    def reset_after(self, code: ErrorCode, request: str) -> None:
        """Nothing is done before a heartbeat says so, as in Java's consumer."""

    def __repr__(self) -> str:
        return f"<ConsumerMembership {self._settings.group_id} {self.state.name} epoch={self._epoch}>"


def _as_topics(owned: Owned) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=sorted(numbers)) for topic_id, numbers in owned.items()
    ]
