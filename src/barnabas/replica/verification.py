"""Asking a transaction's coordinator before the first batch in a partition (KIP-890, the first part).

A producer whose AddPartitionsToTxn was delayed, or lost, must not begin a transaction that no coordinator
knows of: nobody would ever end it, and readers of committed records would wait without end.
"""

from collections.abc import Iterable, Mapping
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


class Verifier(Protocol):
    """Asks the coordinators of transactions (``AddPartitionsToTxnManager``)."""

    enabled: bool
    """``transaction.partition.verification.enable``."""

    def verify(
        self, transaction: TransactionOf, partitions: Iterable[TopicPartition], *, abortable: bool
    ) -> Pending[Unverified]:
        """Asks about partitions; does not fail.

        `abortable`: the client knows TRANSACTION_ABORTABLE; others get INVALID_TXN_STATE instead.
        """


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
