"""What ``admin.cluster.describe_quorum`` gives back (KIP-836)."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """How far a replica of the metadata log has come (``QuorumInfo.ReplicaState``)."""

    replica_id: int
    log_end_offset: int
    """-1 when unknown."""
    last_fetch_timestamp_ms: int
    """By the leader's clock; -1 for the leader itself, and when unknown."""
    last_caught_up_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """KRaft's quorum (``QuorumInfo``)."""

    leader_id: int
    """-1 while there is none."""
    leader_epoch: int
    high_watermark: int
    voters: Sequence[QuorumReplica]
    observers: Sequence[QuorumReplica]
