"""Asking a transaction's coordinator before the first batch in a partition (KIP-890).

A producer whose AddPartitionsToTxn was delayed, or lost, must not begin a transaction that no coordinator
knows of: nobody would ever end it, and readers of committed records would wait without end. So the leader
asks whether the coordinator has the partition. Newer clients (Produce 12, TxnOffsetCommit 5) send no
AddPartitionsToTxn: for them the leader has the partition added by the same request.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending

Unverified: TypeAlias = Mapping[TopicPartition, ErrorCode]
"""The partitions that the coordinator does not count to the transaction, and why."""


class TransactionOf(NamedTuple):
    """Whose transaction it is."""

    transactional_id: str
    producer_id: int
    epoch: int


class TransactionSupport(IntEnum):
    """What the version of a request allows (``TransactionSupportedOperation``)."""

    VERIFIED = 0
    """The client does not know TRANSACTION_ABORTABLE, and gets INVALID_TXN_STATE instead."""
    ABORTABLE = 1
    """It knows that code."""
    ADDED = 2
    """The partition is added to the transaction, not asked about (the second part of KIP-890)."""


def support_of(version: int, *, abortable_since: int, added_since: int) -> TransactionSupport:
    """What a version of a request allows, where its API knows that since these versions."""
    if version >= added_since:
        return TransactionSupport.ADDED
    return TransactionSupport.ABORTABLE if version >= abortable_since else TransactionSupport.VERIFIED


class Verifier(Protocol):
    """Asks the coordinators of transactions (``AddPartitionsToTxnManager``)."""

    enabled: bool
    """``transaction.partition.verification.enable``."""

    def verify(
        self, transaction: TransactionOf, partitions: Iterable[TopicPartition], support: TransactionSupport
    ) -> Pending[Unverified]:
        """Asks about partitions, or has them added; does not fail."""

    def later(self, tries: int) -> Pending[None] | None:
        """Done when it is time to ask once more, after so many tries; None when the patience is over."""


_RETRIED: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_OF_COMMIT: Final = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


def known_to_producers(code: ErrorCode) -> tuple[ErrorCode, str | None]:
    """Code and message of a refused batch. Producers of old do not try again after a code of coordinators:
    NOT_ENOUGH_REPLICAS makes them, without a look at the metadata (``handleProduceAppend``).
    """
    if code is ErrorCode.INVALID_TXN_STATE:
        return code, "Partition was not added to the transaction"
    if code in _RETRIED:
        return ErrorCode.NOT_ENOUGH_REPLICAS, (
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        )
    return code, None


def known_to_committers(code: ErrorCode) -> ErrorCode:
    """The code of a refused commit of offsets (``maybeConvertOffsetCommitError``)."""
    return _OF_COMMIT.get(code, code)
