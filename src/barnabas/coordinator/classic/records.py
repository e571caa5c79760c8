"""A classic group as its record in ``__consumer_offsets``, and back (``GroupMetadataManager.storeGroup``)."""

from collections.abc import Mapping
from typing import Final

from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.members import ClassicMember, MemberTerms
from barnabas.coordinator.classic.states import ClassicGroupState
from barnabas.coordinator.group import Client
from barnabas.coordinator.runtime.journal import COORDINATOR_WORDS, CoordinatorRecord, Journal
from barnabas.coordinator.settings import GroupSettings
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.fault_log import FaultLog
from barnabas.core.pending import Pending
from barnabas.protocol.coordinator.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)

GROUP_METADATA_VERSION: Final = 3
"""The newest that is not flexible; Kafka 3.9 writes it."""
NO_TIMESTAMP: Final = -1

_STORE_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    **COORDINATOR_WORDS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The errors that members get where the log refuses a group's record; they get any other error as it is."""

_log = EventLog("coordinator.classic")


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """The generation as it is, with these assignments, one for each member."""
    since_ms = group.state_since_ms
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.members.leader_id,
        current_state_timestamp=NO_TIMESTAMP if since_ms is None else since_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client.id,
                client_host=member.client.host,
                rebalance_timeout=member.terms.rebalance_timeout_ms,
                session_timeout=member.terms.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=assignments[member.member_id],
            )
            for member in group.members
        ],
    )
    return CoordinatorRecord(GroupMetadataKey(group=group.group_id), value, GROUP_METADATA_VERSION)


def store(group: ClassicGroup, assignments: Mapping[str, bytes]) -> Pending[ErrorCode]:
    """``storeGroup``: writes the generation; NONE, or the error that members get. The Pending never fails."""
    stored: Pending[ErrorCode] = Pending()

    def written(done: "Pending[int]") -> None:
        stored.complete(_member_error(group, done.error))

    try:
        group.journal.append([group_record(group, assignments)]).when_done(written)
    except KafkaError as refused:
        stored.complete(_member_error(group, refused))
    return stored


def _member_error(group: ClassicGroup, error: BaseException | None) -> ErrorCode:
    if error is None:
        return ErrorCode.NONE
    code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
    answer = _STORE_ERRORS.get(code, code)
    _log.warning("classic.store_failed", group=group.group_id, error=error, answer=answer.name)
    return answer


def group_of(
    key: GroupMetadataKey,
    value: GroupMetadataValue,
    journal: Journal,
    clock: Clock,
    settings: GroupSettings,
    faults: FaultLog,
) -> ClassicGroup:
    """The group that a record describes: Stable if it has members, else Empty.
    Its sessions do not run yet.
    """
    group = ClassicGroup(key.group, journal, clock, settings, faults)
    group.state = ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY
    group.generation_id = value.generation
    group.protocol_type = value.protocol_type
    group.protocol_name = value.protocol
    timestamp = value.current_state_timestamp
    group.state_since_ms = None if timestamp == NO_TIMESTAMP else timestamp
    for member in value.members:
        group.members.add(_member_of(member, value))
    if value.leader is not None and value.leader in group.members:
        group.members.leader_id = value.leader  # else the first member leads
    group.compute_subscribed_topics()
    return group


def _member_of(member: MemberMetadata, group: GroupMetadataValue) -> ClassicMember:
    # Version 0 knew no rebalance time-out.
    rebalance_timeout_ms = member.rebalance_timeout
    if rebalance_timeout_ms < 0:
        rebalance_timeout_ms = member.session_timeout
    return ClassicMember(
        member.member_id,
        member.group_instance_id,
        Client(member.client_id, member.client_host),
        group.protocol_type,
        MemberTerms(
            ((group.protocol or "", member.subscription),), rebalance_timeout_ms, member.session_timeout
        ),
        member.assignment,
    )
