"""Members of a classic group: what they ask and get, who is in it, and the protocol that they agree on.

`ClassicMembers` counts as members come and change, and never walks over all of them: a JoinGroup into a group
of five hundred costs what it costs in a group of one. It knows neither states nor time.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from barnabas.coordinator.group import Client
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import java_hash
from barnabas.core.pending import Pending

if TYPE_CHECKING:
    from barnabas.coordinator.runtime.session import Session
    from barnabas.core.clock import Timer

NO_MEMBER: Final = ""
"""The member id of a client that has none yet."""
NO_GENERATION: Final = -1

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""Names of protocols (assignors) in the order of preference, each with the member's metadata for it."""


# What members ask and get. The rules of versions are the request handlers' business.


class JoinRequest(NamedTuple):
    """What a member asks with JoinGroup (``handleJoinGroup``)."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client: Client
    protocol_type: str
    protocols: Protocols
    rebalance_timeout_ms: int
    session_timeout_ms: int
    reason: str | None = None
    """Why the client says that it joins (KIP-800)."""
    requires_known_member_id: bool = True
    """The client comes back with the member id that MEMBER_ID_REQUIRED gives it (KIP-394)."""
    supports_skipping_assignment: bool = True
    """The client can lead a group and leave its assignment alone (KIP-814)."""


class JoinedMember(NamedTuple):
    """A member as the leader of its group sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The generation that a member takes part in, or why it does not (``JoinGroupResult``)."""

    error: ErrorCode
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = NO_MEMBER
    skip_assignment: bool = False
    members: Sequence[JoinedMember] = ()
    """Only the leader gets to see them."""


class SyncRequest(NamedTuple):
    """What a member asks with SyncGroup (``handleSyncGroup``)."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]
    """By member id; empty unless the leader asks."""


class SyncResult(NamedTuple):
    """A member's part of the assignment, or why there is none (``SyncGroupResult``)."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class LeavingMember(NamedTuple):
    """A member that is to leave, known by its id or, where an administrator asks, by its instance id
    alone.
    """

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


Answers: TypeAlias = list[tuple[Pending[Any], JoinResult | SyncResult]]
"""Parked requests with their results."""


def send(answers: Answers) -> None:
    """Answers the requests. Only done when the group is at rest: an answer may let the next request of the
    same connection in, which is then handled before this returns.
    """
    for parked, result in answers:
        parked.complete(result)


# Members


class MemberTerms(NamedTuple):
    """What a member says about itself in each JoinGroup."""

    protocols: Protocols
    rebalance_timeout_ms: int
    session_timeout_ms: int


class ClassicMember:
    """A member (``ClassicGroupMember``, once ``MemberMetadata``); its `ClassicMembers` counts it."""

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
        self.parked_join: Pending[JoinResult] | None = None
        self.parked_sync: Pending[SyncResult] | None = None
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
        """The member sent something: its session time-out is counted from now."""
        assert self.session is not None, f"{self} has no session"
        self.session.extend(self.terms.session_timeout_ms)

    def metadata(self, protocol: str | None) -> bytes:
        """What it says to the leader in this protocol; ValueError when it does not speak it."""
        for name, metadata in self.terms.protocols:
            if name == protocol:
                return metadata
        raise ValueError(f"{self} does not support {protocol}")

    def vote(self, candidates: Container[str]) -> str:
        """The candidate that it prefers."""
        for name, _ in self.terms.protocols:
            if name in candidates:
                return name
        raise ValueError(f"{self} supports none of {candidates}")

    def __repr__(self) -> str:
        static = f" static={self.group_instance_id}" if self.is_static else ""
        parked = " joining" if self.parked_join else " syncing" if self.parked_sync else ""
        return f"<ClassicMember {self.member_id}{static}{parked}>"


class ClassicMembers:
    """Members by id, in the order in which they came, and ids that were given out and not used yet."""

    __slots__ = ("_joined", "_members", "_supporters", "leader_id", "pending", "static")

    def __init__(self) -> None:
        self._members: dict[str, ClassicMember] = {}
        self._supporters: Counter[str] = Counter()
        self._joined = 0
        self.static: dict[str, str] = {}
        """Member id by ``group.instance.id``."""
        self.pending: dict[str, Timer] = {}
        """Ids given out with MEMBER_ID_REQUIRED (KIP-394) and not used yet, with the end of the wait for
        each.
        """
        self.leader_id: str | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[ClassicMember]:
        return iter(self._members.values())

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> ClassicMember:
        return self._members[member_id]

    def get(self, member_id: str) -> ClassicMember | None:
        return self._members.get(member_id)

    @property
    def ids(self) -> Iterable[str]:
        return self._members.keys()

    @property
    def joined(self) -> int:
        """How many have a JoinGroup parked."""
        return self._joined

    @property
    def all_joined(self) -> bool:
        """Whether each member has joined, and each id that was given out was used or given up."""
        return self._joined == len(self._members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take to join again."""
        return max((member.terms.rebalance_timeout_ms for member in self), default=0)

    def add(self, member: ClassicMember) -> None:
        assert member.member_id not in self._members, f"{member} is already a member"
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static, f"{member} is there under another id"
            self.static[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._members[member.member_id] = member
        self._count(member, +1)
        self._joined += member.parked_join is not None
        self.forget_pending(member.member_id)

    def remove(self, member_id: str) -> None:
        """Forgets a member or a pending id. If the leader goes, the member that came first leads.

        What was parked is the caller's to answer.
        """
        self.forget_pending(member_id)
        member = self._members.pop(member_id, None)
        if member is None:
            return
        self._count(member, -1)
        self._joined -= member.parked_join is not None
        if member.group_instance_id is not None:
            self.static.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self._members), None)
        if member.session is not None:
            member.session.end()

    def update(self, member: ClassicMember, terms: MemberTerms) -> None:
        self._count(member, -1)
        member.terms = terms
        self._count(member, +1)

    def replace_static(self, member: ClassicMember, new_member_id: str) -> None:
        """``replaceStaticMember``: the same instance under a new member id, with all that it had, leadership
        too.
        """
        assert member.group_instance_id is not None, f"{member} is not static"
        old_member_id = member.member_id
        del self._members[old_member_id]
        member.member_id = new_member_id
        self._members[new_member_id] = member
        self.static[member.group_instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id

    def forget_pending(self, member_id: str) -> None:
        """The id is used or given up; the wait for it ends."""
        timer = self.pending.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    def park_join(self, member: ClassicMember, parked: Pending[JoinResult]) -> Pending[JoinResult] | None:
        """The member has joined and waits.
        Returns the request whose place this one takes, if there was one.
        """
        replaced = self.unpark_join(member)
        member.parked_join = parked
        self._joined += 1
        return replaced

    def unpark_join(self, member: ClassicMember) -> Pending[JoinResult] | None:
        """The member's parked JoinGroup, which the caller answers."""
        parked, member.parked_join = member.parked_join, None
        self._joined -= parked is not None
        return parked

    def elect_joined_leader(self) -> bool:
        """``maybeElectNewJoinedLeader``: keeps a leader that joined, else takes a member that did.
        False: none did.
        """
        if self.leader_id is None:
            return False
        if self._members[self.leader_id].parked_join is not None:
            return True
        joined = next((member for member in self if member.parked_join is not None), None)
        if joined is not None:
            self.leader_id = joined.member_id
        return joined is not None

    def support_any(self, protocols: Iterable[str]) -> bool:
        """Whether all members support one of these."""
        size = len(self._members)
        return any(self._supporters[name] == size for name in protocols)

    def select_protocol(self) -> str:
        """``selectProtocol``: of what all members support, the one that most of them prefer."""
        size = len(self._members)
        assert size, "there is no member to choose a protocol"
        candidates = {name for name, supporters in self._supporters.items() if supporters == size}
        return winner(member.vote(candidates) for member in self)

    def _count(self, member: ClassicMember, change: int) -> None:
        # A name given twice counts once: Kafka counts it twice and then finds no candidate at all.
        for name in {name for name, _ in member.terms.protocols}:
            self._supporters[name] += change
            if not self._supporters[name]:
                del self._supporters[name]

    def __repr__(self) -> str:
        return f"<ClassicMembers {len(self)} joined={self._joined} pending={len(self.pending)}>"


# Ties between protocols. Kafka takes the first of those with the most votes, in the order of a Scala hash
# map. The order follows from the names alone, so two members that each prefer another protocol get the same
# one from every broker. It must be the same here, or a change of the coordinator would change the protocol.

_BITS: Final = 5
_WORD: Final = 0xFFFF_FFFF


def winner(votes: Iterable[str]) -> str:
    """The protocol with the most votes; there must be a vote."""
    counts = Counter(votes)
    # Names with few votes are in the map as well, and move the names that they share bits with.
    return max(_hash_map_order(list(counts)), key=counts.__getitem__)


def _hash_map_order(names: Sequence[str], shift: int = 0) -> list[str]:
    """The names as ``scala.collection.immutable.HashMap`` iterates: by five bits of their hashes; those that
    share all five come after those that are alone, ordered by the next five.
    """

    def bits(name: str) -> int:
        return _spread(java_hash(name)) >> shift & 31

    if shift > 32 or len(names) == 1:
        return list(names)
    branches = [list(branch) for _, branch in groupby(sorted(names, key=bits), bits)]
    alone = [branch[0] for branch in branches if len(branch) == 1]
    return alone + [
        name for branch in branches if len(branch) > 1 for name in _hash_map_order(branch, shift + _BITS)
    ]


def _spread(value: int) -> int:
    """``scala.collection.Hashing.improve``, in 32 bits."""
    value &= _WORD
    value = (value + (~(value << 9) & _WORD)) & _WORD
    value ^= value >> 14
    value = (value + (value << 4)) & _WORD
    return value ^ (value >> 10)
