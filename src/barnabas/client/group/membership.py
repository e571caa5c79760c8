"""`Membership`: the state of a consumer in its group, what its next request says and what an answer means.

Theory of operation
-------------------
A member goes round in a circle of four states::

    UNJOINED -> PREPARING_REBALANCE -> COMPLETING_REBALANCE -> STABLE
                JoinGroup is sent       joined; SyncGroup is    it has its assignment

Every rebalance sends it back to PREPARING_REBALANCE: it joins again because the coordinator says that
others do, because its subscription changed, or because it was thrown out (`request_rejoin`). `NEXT_STATE`
says what may happen in which state; anything else is a bug and raises.

A *generation* is the coordinator's number for one round of the group, with the member's id in it. An answer
counts only for the generation that its request was sent in: what comes late, after a reset or a newer round,
is ignored. UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID forget the member id, ILLEGAL_GENERATION only the number,
since the coordinator still knows the member (KAFKA-12890).

Methods that take an answer raise `KafkaError` for what went wrong; `REJOIN_AT_ONCE` has the codes after which
the member joins again at once. Sockets, time and the caller's callbacks belong to `coordinator`.
(``AbstractCoordinator`` of Kafka 3.9 and the handlers of responses in it.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from barnabas.client.coordinators import COORDINATOR_MOVED
from barnabas.client.errors import GroupError
from barnabas.client.group.settings import PROTOCOL_TYPE, MemberSettings
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

NO_GENERATION: Final = -1
NO_MEMBER_ID: Final = ""
REASON_LENGTH_MAX: Final = 255
"""Characters of a reason that are sent (KIP-800)."""

REJOIN_AT_ONCE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
    }
)
"""Answers to JoinGroup and SyncGroup after which the member joins again without a pause."""
_JOIN_REFUSED: Final = frozenset(
    {
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
_SYNC_REFUSED: Final = frozenset({ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED})
_GENERATION_LOST: Final = frozenset(
    {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}
)

_log = EventLog("client.group")


class MemberState(Enum):
    """Where a member stands (``AbstractCoordinator.MemberState``)."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing rebalance"
    COMPLETING_REBALANCE = "completing rebalance"
    STABLE = "stable"


class MemberEvent(Enum):
    """What changes a member's state."""

    JOIN = "sends JoinGroup"
    JOINED = "is part of a new generation"
    SYNCED = "has its assignment"
    RESET = "is out of the group"


NEXT_STATE: Final[Mapping[MemberState, Mapping[MemberEvent, MemberState]]] = {
    MemberState.UNJOINED: {
        MemberEvent.JOIN: MemberState.PREPARING_REBALANCE,
        MemberEvent.RESET: MemberState.UNJOINED,
    },
    MemberState.PREPARING_REBALANCE: {
        MemberEvent.JOIN: MemberState.PREPARING_REBALANCE,
        MemberEvent.JOINED: MemberState.COMPLETING_REBALANCE,
        MemberEvent.RESET: MemberState.UNJOINED,
    },
    MemberState.COMPLETING_REBALANCE: {
        MemberEvent.JOIN: MemberState.PREPARING_REBALANCE,
        MemberEvent.SYNCED: MemberState.STABLE,
        MemberEvent.RESET: MemberState.UNJOINED,
    },
    MemberState.STABLE: {
        MemberEvent.JOIN: MemberState.PREPARING_REBALANCE,
        MemberEvent.RESET: MemberState.UNJOINED,
    },
}


@dataclass(frozen=True, slots=True)
class Generation:
    """One round of the group, as this member takes part in it."""

    number: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    protocol: str | None = None

    @property
    def is_none(self) -> bool:
        """Whether the member is in no generation (it may still have an id)."""
        return self.number == NO_GENERATION or self.member_id == NO_MEMBER_ID


class Membership:
    """One member; no I/O."""

    def __init__(self, settings: MemberSettings) -> None:
        self.state = MemberState.UNJOINED
        self.generation = Generation()
        self.rejoin_needed = True
        self.prepared = False
        """Whether the caller knows that a rebalance begins, and has given up what it must (not
        ``needsJoinPrepare``).
        """
        self._settings = settings
        self._reason = ""

    @property
    def stable_generation(self) -> Generation | None:
        """The generation while the member has its assignment in it (``generationIfStable``)."""
        return self.generation if self.state is MemberState.STABLE else None

    @property
    def rebalancing(self) -> bool:
        """Whether a round is under way for this member (``rebalanceInProgress``)."""
        return self.state in {MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE}

    @property
    def is_preparing(self) -> bool:
        """Whether it has asked to be in a new generation, and has no answer yet."""
        return self.state is MemberState.PREPARING_REBALANCE

    @property
    def is_joined(self) -> bool:
        """Whether the coordinator expects heartbeats of it."""
        return self.state in {MemberState.COMPLETING_REBALANCE, MemberState.STABLE}

    def request_rejoin(self, reason: str, *, only_if_none: bool = False) -> None:
        """The member will join again, with this reason for the coordinator (``requestRejoin``, KIP-800)."""
        if self.rejoin_needed and only_if_none:
            return
        _log.info("group.rejoin", group=self._settings.group_id, reason=reason)
        self._reason = reason[:REASON_LENGTH_MAX]
        self.rejoin_needed = True

    def reset(self, reason: str, *, forget_member: bool = True) -> None:
        """The member is out of the group and will join again;
        its partitions are lost (``resetStateAndRejoin``).
        """
        self._happened(MemberEvent.RESET)
        kept = NO_MEMBER_ID if forget_member else self.generation.member_id
        self.generation = Generation(member_id=kept)
        self.prepared = False
        self.request_rejoin(reason)

    def reset_after(self, code: ErrorCode, request: str) -> None:
        """As `reset`, because an answer said so (``resetStateOnResponseError``)."""
        self.reset(
            f"encountered {code.name} from {request} response",
            forget_member=code is not ErrorCode.ILLEGAL_GENERATION,
        )

    def _happened(self, event: MemberEvent) -> None:
        following = NEXT_STATE[self.state].get(event)
        if following is None:
            raise AssertionError(f"{event.name} cannot happen to a member that is {self.state.name}")
        self.state = following

    # Joining.

    def join_request(self, protocols: Sequence[JoinGroupRequestProtocol]) -> JoinGroupRequest:
        """Asks to be part of the next generation (``sendJoinGroupRequest``)."""
        self._happened(MemberEvent.JOIN)
        return JoinGroupRequest(
            group_id=self._settings.group_id,
            session_timeout_ms=self._settings.session_timeout_ms,
            rebalance_timeout_ms=self._settings.rebalance_timeout_ms,
            member_id=self.generation.member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=list(protocols),
            reason=self._reason,
        )

    def joined(self, response: JoinGroupResponse, sent: Generation) -> bool:
        """Takes part in the generation of the answer; whether as its leader (``JoinGroupResponseHandler``).
        Raises KafkaError.
        """
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            raise self._join_failed(code, response, sent)
        if response.protocol_type not in {None, PROTOCOL_TYPE}:
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if self.state is not MemberState.PREPARING_REBALANCE:
            # It left in the meantime: the answer is for a former member.
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        self._happened(MemberEvent.JOINED)
        self.generation = Generation(response.generation_id, response.member_id, response.protocol_name)
        return response.leader == response.member_id

    def _join_failed(self, code: ErrorCode, response: JoinGroupResponse, sent: Generation) -> KafkaError:
        if code is ErrorCode.UNKNOWN_MEMBER_ID and self.generation == sent:
            self.reset_after(code, "JOIN_GROUP")
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            # KIP-394: the coordinator gives the id first, so that a lost answer leaves no ghost behind.
            self.generation = Generation(member_id=response.member_id)
            self.request_rejoin(f"need to re-join with the given member-id: {response.member_id}")
        if code in REJOIN_AT_ONCE or code in COORDINATOR_MOVED | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
            return KafkaError(code)
        return self._fatal(code, "join group", _JOIN_REFUSED)

    def sync_request(self, assignments: Mapping[str, bytes]) -> SyncGroupRequest:
        """Asks for its part; a leader brings the parts of all members (``sendSyncGroupRequest``)."""
        return SyncGroupRequest(
            group_id=self._settings.group_id,
            generation_id=self.generation.number,
            member_id=self.generation.member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.generation.protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments.items()
            ],
        )

    def synced(self, response: SyncGroupResponse, sent: Generation) -> bytes:
        """The member's assignment, with which it is stable (``SyncGroupResponseHandler``).
        Raises KafkaError.
        """
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            raise self._sync_failed(code, sent)
        if self.state is not MemberState.COMPLETING_REBALANCE or self.generation != sent:
            # The answer to a heartbeat has ended this generation in the meantime.
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        if response.protocol_type not in {None, PROTOCOL_TYPE} or response.protocol_name not in {
            None,
            self.generation.protocol,
        }:
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self._happened(MemberEvent.SYNCED)
        self._reason = ""
        self.rejoin_needed = False
        return bytes(response.assignment)

    def _sync_failed(self, code: ErrorCode, sent: Generation) -> KafkaError:
        lost = code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}
        if lost and self.generation == sent:
            self.reset_after(code, "SYNC_GROUP")
        if lost or code is ErrorCode.REBALANCE_IN_PROGRESS or code in COORDINATOR_MOVED:
            return KafkaError(code)
        return self._fatal(code, "sync group", _SYNC_REFUSED)

    # Staying, and leaving.

    def heartbeat_request(self) -> HeartbeatRequest:
        """Says that the member is alive (``sendHeartbeatRequest``)."""
        return HeartbeatRequest(
            group_id=self._settings.group_id,
            generation_id=self.generation.number,
            member_id=self.generation.member_id,
            group_instance_id=self._settings.group_instance_id,
        )

    def heard(self, response: HeartbeatResponse, sent: Generation) -> None:
        """The answer to a heartbeat (``HeartbeatResponseHandler``).
        Raises KafkaError when the heartbeat did not count.
        """
        code = ErrorCode.of(response.error_code)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is MemberState.STABLE:
                self.request_rejoin("group is already rebalancing")
        elif code in _GENERATION_LOST:
            if self.generation == sent:
                self.reset_after(code, "HEARTBEAT")
                if code is ErrorCode.FENCED_INSTANCE_ID:
                    raise self._fatal(code, "heartbeat", _GENERATION_LOST)
                raise KafkaError(code)
        elif code in COORDINATOR_MOVED:
            raise KafkaError(code)
        elif code is not ErrorCode.NONE:
            raise self._fatal(code, "heartbeat", _SYNC_REFUSED)

    def leave_request(self, reason: str) -> LeaveGroupRequest | None:
        """Says that this member leaves (``maybeLeaveGroup``); None where there is nothing to say.

        A static member never says so: it may come back within its session time-out (KIP-345).
        """
        is_static = self._settings.group_instance_id is not None
        if is_static or self.state is MemberState.UNJOINED or self.generation.member_id == NO_MEMBER_ID:
            return None
        identity = MemberIdentity(member_id=self.generation.member_id, reason=reason[:REASON_LENGTH_MAX])
        return LeaveGroupRequest(group_id=self._settings.group_id, members=[identity])

    def _fatal(self, code: ErrorCode, request: str, expected: frozenset[ErrorCode]) -> GroupError:
        message = (
            code.message if code in expected else f"Unexpected error in {request} response: {code.message}"
        )
        return GroupError(code, f"{message} (group {self._settings.group_id})")

    def __repr__(self) -> str:
        generation = self.generation
        return (
            f"<Membership {self._settings.group_id} {self.state.name} generation={generation.number}"
            f" member={generation.member_id or None}{' rejoining' if self.rejoin_needed else ''}>"
        )
