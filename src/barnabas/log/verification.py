"""Transactions that a partition has asked the coordinator about, before their first batch (KIP-890).

A first batch is appended only when the coordinator says that it counts the partition to the transaction. The
answer comes later than the question: a marker may have ended the transaction meanwhile, and the producer may
have begun another one. So each question has a guard, an object of its own, which lasts until the next batch
or marker of the producer: a request that comes back with a guard that was dropped has the answer to another
question (``VerificationStateEntry``, ``VerificationGuard``).
"""

from collections import OrderedDict
from typing import Final

QUESTIONS_MAX: Final = 10_000
"""Of one partition. What is refused stays for a while, so that no later batch gets in front of it: a client
that makes producer ids up must not fill the memory with them, nor push out those that are open.
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


class Verifications:
    """The questions of one partition by producer id: those that are open, and those that were refused.

    Where there are `QUESTIONS_MAX` the one goes that was refused first, and an open one only where all are: a
    producer id that was made up is refused within milliseconds, and is nobody's loss.
    """

    __slots__ = ("_open", "_refused")

    def __init__(self) -> None:
        # Of both the oldest is found at once, however many have gone before it.
        self._open: OrderedDict[int, VerificationState] = OrderedDict()
        self._refused: OrderedDict[int, VerificationState] = OrderedDict()

    def get(self, producer_id: int) -> VerificationState | None:
        """The question about a producer, open or refused."""
        found = self._open.get(producer_id)
        return self._refused.get(producer_id) if found is None else found

    def add(self, producer_id: int, asked: VerificationState) -> None:
        """A question that is open now, new or asked again."""
        if producer_id not in self._open:
            self._refused.pop(producer_id, None)
            if len(self) >= QUESTIONS_MAX:
                (self._refused or self._open).popitem(last=False)
            self._open[producer_id] = asked

    def refuse(self, producer_id: int) -> None:
        """The coordinator has not got the partition. No later batch may get in front of the refused one."""
        asked = self._open.pop(producer_id, None)
        if asked is not None:
            self._refused[producer_id] = asked

    def drop(self, producer_id: int) -> None:
        """A batch or a marker of the producer is in the log."""
        self._open.pop(producer_id, None)
        self._refused.pop(producer_id, None)

    def drop_older(self, asked_ms: int) -> None:
        """Forgets what was asked at this time or before."""
        for questions in (self._open, self._refused):
            for producer_id in [key for key, asked in questions.items() if asked.asked_ms <= asked_ms]:
                del questions[producer_id]

    def __len__(self) -> int:
        return len(self._open) + len(self._refused)

    def __repr__(self) -> str:
        return f"<Verifications open={len(self._open)} refused={len(self._refused)}>"
