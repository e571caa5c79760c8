"""`ClassicMember`: one member of a classic group, what it can do and what it waits for (``MemberMetadata``)."""

from collections.abc import Container
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.coordinator.group import Client
from barnabas.core.pending import Pending
from barnabas.protocol.messages.describe_groups import DescribedGroupMember
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

if TYPE_CHECKING:
    from barnabas.coordinator.runtime.session import Session
    from barnabas.protocol.messages.sync_group import SyncGroupResponse

NO_MEMBER: Final = ""
"""The member id of whoever has none yet."""

Protocols = tuple[tuple[str, bytes], ...]
"""Names of protocols (assignors) in the order of preference, each with the member's metadata for it."""


class ParkedJoin(NamedTuple):
    """A JoinGroup that waits for the others; answered in the version that it came in."""

    answer: Pending[JoinGroupResponse]
    version: int


class MemberTerms(NamedTuple):
    """What a member says about itself in each JoinGroup."""

    protocols: Protocols
    rebalance_timeout_ms: int
    session_timeout_ms: int

    @classmethod
    def of(cls, request: JoinGroupRequest, version: int) -> "MemberTerms":
        """As the request says; version 0 knows one time-out for both."""
        return cls(
            tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
            request.rebalance_timeout_ms if version >= 1 else request.session_timeout_ms,
            request.session_timeout_ms,
        )


class ClassicMember:
    """A member. Whether it is counted (as joined, as supporter of a protocol) is its `Membership`'s business."""

    __slots__ = (
        "assignment",
        "client",
        "group_instance_id",
        "is_new",
        "member_id",
        "parked_join",
        "parked_sync",
        "protocol_type",
        "session",
        "terms",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client: Client,
        protocol_type: str,
        terms: MemberTerms,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client = client
        self.protocol_type = protocol_type
        self.terms = terms
        self.assignment = assignment
        self.is_new = False
        """It waits for its first generation; its session may end while its JoinGroup is parked."""
        self.parked_join: ParkedJoin | None = None
        self.parked_sync: Pending[SyncGroupResponse] | None = None
        self.session: Session | None = None

    @property
    def is_static(self) -> bool:
        """Whether it keeps its place over restarts (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def is_parked(self) -> bool:
        """Whether the coordinator owes it an answer: then nothing is to be heard from it."""
        return self.parked_join is not None or self.parked_sync is not None

    def alive(self) -> None:
        """Something was heard of it: its session begins anew."""
        assert self.session is not None, f"{self} has no session"
        self.session.extend(self.terms.session_timeout_ms)

    def metadata(self, protocol: str | None) -> bytes:
        """What it tells the leader in this protocol; ValueError when it does not speak it."""
        for name, metadata in self.terms.protocols:
            if name == protocol:
                return metadata
        raise ValueError(f"{self} does not support {protocol}")

    def vote(self, candidates: Container[str]) -> str:
        """The protocol that it likes best among the candidates."""
        for name, _ in self.terms.protocols:
            if name in candidates:
                return name
        raise ValueError(f"{self} supports none of {candidates}")

    def as_joined(self, protocol: str | None) -> JoinGroupResponseMember:
        """What the leader gets to see."""
        return JoinGroupResponseMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            metadata=self.metadata(protocol),
        )

    def described(self, protocol: str | None) -> DescribedGroupMember:
        """What tools get to see; without a protocol (no stable generation) no metadata and no assignment."""
        return DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client.id,
            client_host=self.client.host,
            member_metadata=b"" if protocol is None else self.metadata(protocol),
            member_assignment=b"" if protocol is None else self.assignment,
        )

    def __repr__(self) -> str:
        static = f" static={self.group_instance_id}" if self.is_static else ""
        parked = " joining" if self.parked_join else " syncing" if self.parked_sync else ""
        return f"<ClassicMember {self.member_id}{static}{parked}>"
