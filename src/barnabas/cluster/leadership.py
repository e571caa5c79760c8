"""The leader of a partition, its ISR and its replicas:
values that the store, the controller and replicas share.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import EPOCH_DURING_DELETE, LEADER_DURING_DELETE, Uuid


class LeaderRecoveryState(IntEnum):
    """Whether a leader that was elected uncleanly has come to terms with what is lost (KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """The state of a partition that leader and controller change in turn; guarded by `partition_epoch`."""

    leader: int
    isr: tuple[int, ...]
    leader_epoch: int = 0
    recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    partition_epoch: int = 0
    """The version of the partition's znode."""

    def with_leader(self, leader: int, isr: tuple[int, ...] | None = None) -> "LeaderAndIsr":
        """The next leader epoch, under this leader and ISR."""
        return replace(
            self,
            leader=leader,
            isr=self.isr if isr is None else isr,
            leader_epoch=self.leader_epoch + 1,
        )

    def recovering(self, leader: int, isr: tuple[int, ...]) -> "LeaderAndIsr":
        """The next leader epoch, under a leader that was not in sync."""
        return replace(self.with_leader(leader, isr), recovery_state=LeaderRecoveryState.RECOVERING)

    def with_partition_epoch(self, version: int) -> "LeaderAndIsr":
        """The same, as the store now has it."""
        return replace(self, partition_epoch=version)

    def same_but_older(self, current: "LeaderAndIsr") -> bool:
        """Whether it asks for what is already so, by a request that was repeated
        (``equalsAllowStalePartitionEpoch``).
        """
        return (
            self.leader == current.leader
            and self.leader_epoch == current.leader_epoch
            and self.isr == current.isr
            and self.recovery_state == current.recovery_state
            and self.partition_epoch <= current.partition_epoch
        )

    def during_delete(self) -> "LeaderAndIsr":
        """What UpdateMetadata says of a partition whose topic is being deleted."""
        return LeaderAndIsr(LEADER_DURING_DELETE, self.isr, EPOCH_DURING_DELETE)


class ControllerEpoch(NamedTuple):
    """The controller that gives an order, and its term."""

    controller_id: int
    epoch: int


class IsrProposal(NamedTuple):
    """An ISR that a leader asks the controller for (``AlterPartition``)."""

    topic: str | None
    """None where the leader names the topic by its id alone."""
    topic_id: Uuid
    partition: int
    wanted: LeaderAndIsr | None
    """None where the leader's recovery state is one that nobody knows."""


IsrVerdict: TypeAlias = LeaderAndIsr | ErrorCode
"""What the controller says to a proposal: the state that stands now, or why there is no other one."""


@dataclass(frozen=True, slots=True)
class PartitionLeadership:
    """A `LeaderAndIsr` and the controller that decided on it (Kafka's ``LeaderIsrAndControllerEpoch``)."""

    leader_and_isr: LeaderAndIsr
    controller_epoch: int

    @property
    def leader(self) -> int:
        """The leader's broker id, or -1."""
        return self.leader_and_isr.leader


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """The brokers that hold a partition, and those that a reassignment adds or removes (KIP-455)."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def being_reassigned(self) -> bool:
        """Whether a reassignment has not finished."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that stay."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas that were there before the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    def reassign_to(self, target: Sequence[int]) -> "ReplicaAssignment":
        """On its way from where it was to a target, which comes first (``reassignTo``)."""
        # By sets, as a request may name a hundred thousand brokers before it is refused.
        origin, wanted = dict.fromkeys(self.origin), frozenset(target)
        every = tuple(dict.fromkeys((*target, *origin)))
        return ReplicaAssignment(
            every,
            tuple(replica for replica in every if replica not in origin),
            tuple(replica for replica in every if replica not in wanted),
        )

    def without(self, replica: int) -> "ReplicaAssignment":
        """The same without one broker."""
        return ReplicaAssignment(
            *(tuple(other for other in group if other != replica) for group in self._groups())
        )

    def _groups(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        return self.replicas, self.adding, self.removing


NO_ASSIGNMENT = ReplicaAssignment(())


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """What /brokers/topics/<topic> holds."""

    topic_id: bytes | None
    partitions: dict[int, ReplicaAssignment]
