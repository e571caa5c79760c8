"""What consumers of a classic group tell each other through the coordinator (``ConsumerProtocol``).

A member's subscription travels to the leader, the leader's assignment back, both as bytes that the
coordinator does not look into. Members of newer versions only add fields behind the known ones, so a newer
version is read as the newest that is known.
"""

from barnabas.protocol.schema import Struct, field
from barnabas.protocol.versioned import Versioned
from barnabas.protocol.wire import int32


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str = field("0+")
    partitions: list[int32] = field("0+")


class _ConsumerProtocol(Versioned):
    """Bytes of a later version begin like those of the last one that is known."""

    __slots__ = ()

    @classmethod
    def readable_version(cls, version: int) -> int:
        return min(version, cls.max_version)


class ConsumerProtocolSubscription(_ConsumerProtocol, versions="0-3"):
    """The topics that a member wants, and what it still owns (KIP-429)."""

    topics: list[str] = field("0+")
    user_data: bytes | None = field("0+", default=None, nullable="0+")
    owned_partitions: list[TopicPartition] = field("1+", ignorable=True)
    generation_id: int32 = field("2+", default=-1, ignorable=True)
    """In which the member owned them; what an older one owned does not count (KIP-792)."""
    rack_id: str | None = field("3+", default=None, nullable="3+", ignorable=True)


class ConsumerProtocolAssignment(_ConsumerProtocol, versions="0-3"):
    """The partitions that a member is to read."""

    assigned_partitions: list[TopicPartition] = field("0+")
    user_data: bytes | None = field("0+", default=None, nullable="0+")
