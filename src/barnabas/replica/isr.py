"""The in-sync replicas of a partition, and a change of them that is under way (``PartitionState``, KIP-497).

Theory of operation
-------------------
The leader does not decide who is in sync: it proposes, the controller decides and writes. While a proposal
is in flight either set may come to hold, so the leader counts with both: for advancing the high
watermark it waits for the *maximal* set (a replica about to join may already be counted on by the
controller), for ``min.insync.replicas`` it counts the *committed* one.

    committed(isr) --propose--> pending(isr, proposed) --accepted--> committed(proposed)
                                       |--refused------------------> committed(isr)
                                       |--outdated: stays until the controller's next LeaderAndIsr
"""

from dataclasses import dataclass
from typing import Final, Protocol

from barnabas.cluster.leadership import LeaderAndIsr
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition, Uuid
from barnabas.core.pending import Pending


class IsrChanges:
    """How often ISRs changed on a broker, as the controller has decided (``IsrShrinksPerSec``,
    ``IsrExpandsPerSec``).
    """

    __slots__ = ("expands", "shrinks")

    def __init__(self) -> None:
        self.expands = 0
        self.shrinks = 0

    def __repr__(self) -> str:
        return f"<IsrChanges expands={self.expands} shrinks={self.shrinks}>"


@dataclass(frozen=True, slots=True)
class IsrState:
    """The committed set, and the proposed one while a proposal is in flight."""

    isr: frozenset[int]
    proposed: frozenset[int] | None = None

    @property
    def in_flight(self) -> bool:
        return self.proposed is not None

    @property
    def maximal(self) -> frozenset[int]:
        """Every replica that may be in the set, however the proposal ends."""
        return self.isr if self.proposed is None else self.isr | self.proposed

    def propose(self, isr: frozenset[int]) -> "IsrState":
        """The state while `isr` is in flight."""
        # A second proposal would leave two answers to wait for, and no order between them.
        assert self.proposed is None, "one proposal at a time"
        return IsrState(self.isr, isr)


EMPTY_ISR: Final = IsrState(frozenset())


class AlterPartition(Protocol):
    """The way to the controller's AlterPartition."""

    def submit(self, tp: TopicPartition, topic_id: Uuid, proposal: LeaderAndIsr) -> Pending[LeaderAndIsr]:
        """What the controller decided; fails with KafkaError with the controller's code."""


REFUSED: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""The controller did not do it: the committed set holds, and the leader may propose again."""

OUTDATED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The controller knows better than this leader: wait for its next LeaderAndIsr."""
