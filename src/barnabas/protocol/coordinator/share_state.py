"""ShareSnapshot and ShareUpdate (types 0 and 1 in `__share_group_state`; KIP-932)."""

from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int8, int16, int32, int64


class ShareSnapshotKey(CoordinatorKey, record_type=0):
    """A share-partition."""

    group_id: str = field("0")
    topic_id: Uuid = field("0")
    partition: int32 = field("0")


class StateBatch(Struct):
    """What has become of the records in a range of offsets."""

    first_offset: int64 = field("0+")
    last_offset: int64 = field("0+")
    delivery_state: int8 = field("0+")
    """0 available, 2 acknowledged, 4 archived."""
    delivery_count: int16 = field("0+")


class ShareSnapshotValue(CoordinatorValue, versions="0", flexible="0+"):
    """The whole state of a share-partition."""

    snapshot_epoch: int32 = field("0+")
    state_epoch: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    start_offset: int64 = field("0+")
    delivery_complete_count: int32 = field("0+", default=-1, tag=0)
    """Records from the start offset on whose delivery is complete (KIP-1226)."""
    create_timestamp: int64 = field("0+")
    write_timestamp: int64 = field("0+")
    state_batches: list[StateBatch] = field("0+")


class ShareUpdateKey(CoordinatorKey, record_type=1):
    """A share-partition."""

    group_id: str = field("0")
    topic_id: Uuid = field("0")
    partition: int32 = field("0")


class ShareUpdateValue(CoordinatorValue, versions="0", flexible="0+"):
    """What changed since the snapshot with the same epoch."""

    snapshot_epoch: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    start_offset: int64 = field("0+")
    """-1 when it did not change."""
    delivery_complete_count: int32 = field("0+", default=-1, tag=0)
    state_batches: list[StateBatch] = field("0+")
