"""GroupMetadata (type 2 in `__consumer_offsets`): a generation of a classic group."""

from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int32, int64


class GroupMetadataKey(CoordinatorKey, record_type=2):
    """The group."""

    group: str = field("0")


class MemberMetadata(Struct):
    """A member, what it subscribed to and what it was assigned, both opaque."""

    member_id: str = field("0+")
    group_instance_id: str | None = field("3+", default=None, nullable="3+", ignorable=True)
    client_id: str = field("0+")
    client_host: str = field("0+")
    rebalance_timeout: int32 = field("1+", default=-1, ignorable=True)
    session_timeout: int32 = field("0+")
    subscription: bytes = field("0+")
    assignment: bytes = field("0+")


class GroupMetadataValue(CoordinatorValue, versions="0-4", flexible="4+"):
    """The generation, its protocol, leader and members."""

    protocol_type: str = field("0+")
    generation: int32 = field("0+")
    protocol: str | None = field("0+", nullable="0+")
    """Null, like the leader, once the group is empty."""
    leader: str | None = field("0+", nullable="0+")
    current_state_timestamp: int64 = field("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = field("0+")
