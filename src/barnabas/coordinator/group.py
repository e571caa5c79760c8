"""What both kinds of groups have in common, as offsets and listings see it (``Group``)."""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, Protocol

from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.core.ids import TopicPartition


class Client(NamedTuple):
    """Who sent a request."""

    id: str
    """The client's name for itself; empty if it gave none."""
    host: str
    """Its address, as Java prints it: ``/127.0.0.1``."""


class GroupType(Enum):
    """How members of a group get their partitions; tools print the value (``Group.GroupType``)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class OffsetExpiry(NamedTuple):
    """Which offsets of a group may expire, and since when (KIP-211); made for each check."""

    since_ms: int | None
    """When the group became empty; None: each offset counts from its own commit."""
    subscribed: frozenset[str]
    """Topics whose offsets stay, however old they are."""


class Group(Protocol):
    """A group of one shard."""

    group_id: str

    @property
    def type(self) -> GroupType:
        """Which protocol its members speak."""

    @property
    def state_name(self) -> str:
        """The state as tools print it: ``Stable``, ``Empty``, ``PreparingRebalance``, ``Assigning``, ..."""

    @property
    def protocol_type(self) -> str:
        """``consumer``, ``connect``, ...; empty for one that only commits offsets."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""

    def end_overdue_sessions(self, now_ms: float) -> None:
        """Removes members whose session is over, by the monotonic clock, though its timer has not run yet.

        The group may go over to the other protocol by that: look it up again.
        """

    def validate_offset_commit(
        self,
        *,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        transactional: bool,
        version: int,
        partitions: Iterable[TopicPartition],
    ) -> None:
        """Raises KafkaError unless this member may commit these in this generation or member epoch.

        A commit that is allowed counts as a sign of life where Kafka counts it so.
        """

    def validate_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        """Raises KafkaError for a member that may not read offsets (OffsetFetch v9+)."""

    def validate_offset_delete(self) -> None:
        """Raises KafkaError where no offset may be deleted at all."""

    def validate_delete(self) -> None:
        """Raises NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, ...: see DeleteGroups."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads this topic, as far as the coordinator can know."""

    def offset_expiry(self) -> OffsetExpiry | None:
        """Which offsets may expire now; None: none."""

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that make the partition forget the group (not its offsets)."""

    def close(self) -> None:
        """The shard is given up or the group deleted:
        answers NOT_COORDINATOR to all who are parked, stops timers.
        """
