"""Which replica a consumer should read from (KIP-392, ``ReplicaSelector``)."""

from typing import Final, Protocol

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.replica.partition import Partition

_PACKAGE: Final = "org.apache.kafka.common.replica"
LEADER_SELECTOR: Final = f"{_PACKAGE}.LeaderSelector"
RACK_AWARE_SELECTOR: Final = f"{_PACKAGE}.RackAwareReplicaSelector"


class ReplicaSelector(Protocol):
    """Sends a consumer that asks the leader to another replica."""

    def select(self, partition: Partition, *, rack: str, listener: str, fetch_offset: int) -> int | None:
        """The broker to read from, for a consumer of this rack that uses this listener;
        None for the leader.
        """


class RackAwareReplicaSelector:
    """The replica in the consumer's rack that is furthest, where the leader is in another one."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    def select(self, partition: Partition, *, rack: str, listener: str, fetch_offset: int) -> int | None:
        """As `ReplicaSelector.select`.
        Only replicas in the ISR count: one that lags would hold its consumer up.
        """
        if partition.leader_id is None or self._rack(partition.leader_id) == rack:
            return None
        near = [
            (replica.log_end_offset, replica.last_caught_up_time_ms, replica.broker_id)
            for replica in partition.replicas
            if replica.broker_id in partition.isr_state.isr
            and replica.log_start_offset <= fetch_offset <= replica.log_end_offset
            and self._rack(replica.broker_id) == rack
            and self._metadata.broker_endpoint(replica.broker_id, listener) is not None
        ]
        return max(near)[-1] if near else None

    def _rack(self, broker_id: int) -> str | None:
        broker = self._metadata.alive_broker(broker_id)
        return None if broker is None else broker.rack


def replica_selector(name: str | None, metadata: MetadataCache) -> ReplicaSelector | None:
    """The one that ``replica.selector.class`` names; None where consumers read from leaders."""
    return RackAwareReplicaSelector(metadata) if name == RACK_AWARE_SELECTOR else None
