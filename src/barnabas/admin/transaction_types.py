"""What ``admin.transactions`` takes and gives back."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from barnabas.core.ids import TopicPartition


class TransactionState(StrEnum):
    """Where a transaction stands, by the names that coordinators say (``TransactionState``)."""

    ONGOING = "Ongoing"
    PREPARE_ABORT = "PrepareAbort"
    PREPARE_COMMIT = "PrepareCommit"
    COMPLETE_ABORT = "CompleteAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    EMPTY = "Empty"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    UNKNOWN = "Unknown"

    @classmethod
    def _missing_(cls, value: object) -> "TransactionState":  # noqa: ARG003 - enum's signature
        """A name that this version does not know."""
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: TransactionState
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id as its coordinator describes it."""

    coordinator_id: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    """After so long the coordinator aborts a transaction that is still open."""
    start_time_ms: int | None
    """When the transaction began; None while there is none."""
    partitions: Sequence[TopicPartition]
    """What an open transaction writes to; of one that ends, what has no marker yet."""


@dataclass(frozen=True, slots=True)
class AbortTransactionSpec:
    """One open transaction in one partition; as text, what Java's client prints."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int

    def __str__(self) -> str:
        return (
            f"AbortTransactionSpec(topicPartition={self.partition}, producerId={self.producer_id},"
            f" producerEpoch={self.producer_epoch}, coordinatorEpoch={self.coordinator_epoch})"
        )


class FencedProducer(NamedTuple):
    """The producer id of a transactional id, and the epoch below which every producer of it is fenced."""

    producer_id: int
    epoch: int
