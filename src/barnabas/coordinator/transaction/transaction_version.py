"""The protocol of a transaction, numbered as the feature ``transaction.version`` is (``TransactionVersion``).

0 is what Kafka 3.9 speaks. 1 lets records of ``__transaction_state`` have tagged fields. 2 is the second part
of KIP-890: every end of a transaction bumps the producer's epoch, so that two transactions never share one,
and the first batch in a partition adds it.

Two of these numbers are about: the *server's* is finalized for the cluster, and says which records are
written and how the coordinator fences. The *client's* follows from the version of its request, transaction by
transaction; clients of both kinds may use one transactional id.
"""

from typing import Final

TV_0: Final = 0
TV_2: Final = 2


def supports_epoch_bump(transaction_version: int) -> bool:
    """Whether the end of a transaction bumps the epoch of its producer."""
    return transaction_version >= TV_2


def log_value_version(transaction_version: int) -> int:
    """The version of ``TransactionLogValue`` that is written (``transactionLogValueVersion``)."""
    return 1 if transaction_version > TV_0 else 0
