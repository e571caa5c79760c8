"""Transactions that a partition has asked the coordinator about, before their first batch (KIP-890).

A first batch is appended only when the coordinator says that it counts the partition to the transaction. The
answer comes later than the question: a marker may have ended the transaction meanwhile, and the producer may
have begun another one. So each question has a guard, an object of its own, which lasts until the next batch
or marker of the producer: a request that comes back with a guard that was dropped has the answer to another
question (``VerificationStateEntry``, ``VerificationGuard``).
"""

from typing import Final

QUESTIONS_MAX: Final = 10_000
"""Of one partition. What is refused stays for a while, so that no later batch gets in front of it: a client
that makes producer ids up must not fill the memory with them.
"""


class VerificationGuard:
    """What ties an answer of the coordinator to the question; only its identity counts."""

    __slots__ = ()


class VerificationState:
    """The question about one producer that is open."""

    __slots__ = ("asked_ms", "bumped", "epoch", "guard", "lowest_sequence")

    def __init__(self, sequence: int, epoch: int, now_ms: int, *, bumped: bool) -> None:
        self.guard = VerificationGuard()
        self.lowest_sequence = sequence
        """Of the batches that asked. A later one must not be appended before it."""
        self.epoch = epoch
        self.asked_ms = now_ms
        self.bumped = bumped
        """Whether each transaction of the producer has an epoch of its own (``supportsEpochBump``)."""

    def asked_again(self, sequence: int, epoch: int) -> None:
        """Another batch asks (``maybeUpdateLowestSequenceAndEpoch``)."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
