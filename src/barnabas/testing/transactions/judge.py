"""`TransactionJudge`: what may never be of transactions, while they run and when all has come to rest.

============  ==========================================================================================
early         a consumer of committed data was shown a record, or an offset, of a transaction that its
              producer had not asked to commit
torn          of one transaction some records or offsets are committed, and others are not
lost          a transaction whose commit was answered is not committed
undead        a transaction is committed whose abort was answered, or whose commit was never asked for
twice         a record is committed twice
order         records of a transaction, or transactions of an id, are not in the order in which they were sent
unread        what a consumer of committed data was given, in all its fetches together, is not what the
              partition's markers commit: something is missing, too much, or in another place
fenced        a producer was answered that it has written, added or ended something, although a later one of
              its id had been answered before it asked
unfinished    in the end a transaction has not ended: in its coordinator, or in a partition
answer        a producer or consumer got a code that nothing explains
============  ==========================================================================================
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Final

from barnabas.coordinator.transaction.metadata import ProducerIdAndEpoch
from barnabas.core.ids import TopicPartition
from barnabas.testing.simulation.trace import Trace
from barnabas.testing.transactions.log_walk import LogWalk, Read

NO_OFFSET: Final = -1
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"


@dataclass(slots=True)
class SentTransaction:
    """One transaction as its producer knows it."""

    transactional_id: str
    number: int
    """Its place among those of its id. The offset of the id's group is the number of the last transaction."""
    records: dict[TopicPartition, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    """What was sent and answered, and what was sent and perhaps never arrived."""
    answered: set[bytes] = field(default_factory=set)
    """The records whose batches the leader has acknowledged."""
    sends_offsets: bool = False
    offsets_answered: bool = False
    commit_asked: bool = False
    end_asked: bool = False
    told: str = ""
    """What the producer was told: `COMMITTED`, `ABORTED` or nothing."""

    @property
    def name(self) -> bytes:
        """What the values of its records begin with."""
        return b"%s %06d" % (self.transactional_id.encode(), self.number)

    def new_value(self, tp: TopicPartition) -> bytes:
        """A record that no other transaction has."""
        place = sum(map(len, self.records.values()))
        value = b"%s %03d" % (self.name, place)
        self.records[tp].append(value)
        return value

    def __repr__(self) -> str:
        told = self.told or ("commit asked" if self.commit_asked else "not ended")
        return f"<Transaction {self.name.decode()} {told}>"


class TransactionJudge:
    """Compares what producers and consumers were answered with each other."""

    def __init__(self, trace: Trace) -> None:
        self.anomalies: list[str] = []
        self.sent: dict[bytes, SentTransaction] = {}
        """By name."""
        self.read: defaultdict[tuple[str, TopicPartition], list[Read]] = defaultdict(list)
        """What each consumer was given, in its order."""
        self.positions: dict[tuple[str, TopicPartition], int] = {}
        self._trace = trace
        self._numbers: defaultdict[str, count[int]] = defaultdict(lambda: count(1))
        self._newest: dict[str, ProducerIdAndEpoch] = {}

    # --- producers --------------------------------------------------------------------------------------

    def new_transaction(self, transactional_id: str) -> SentTransaction:
        """A producer begins."""
        sent = SentTransaction(transactional_id, next(self._numbers[transactional_id]))
        self.sent[sent.name] = sent
        return sent

    def producer_is(self, transactional_id: str, producer: ProducerIdAndEpoch) -> None:
        """A producer of this id has its answer: every earlier one is fenced from now on."""
        self._trace(f"{transactional_id} is {producer.producer_id}/{producer.epoch}")
        newest = self._newest.get(transactional_id, producer)
        self._newest[transactional_id] = max(newest, producer)

    def is_past(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer with a higher epoch of the same producer id has begun."""
        newest = self._newest.values()
        return any(each.producer_id == producer_id and each.epoch > epoch for each in newest)

    def is_fenced(self, transactional_id: str, producer: ProducerIdAndEpoch) -> bool:
        """Whether a later producer of the id has been answered."""
        return producer < self._newest[transactional_id]

    def took_fenced(self, what: str, sent: SentTransaction, producer: ProducerIdAndEpoch) -> None:
        """A request that was sent after its producer was fenced was carried out."""
        newest = self._newest[sent.transactional_id]
        self.anomalies.append(f"fenced: {what} of {sent} by {producer} was taken, after {newest} had begun")

    def ended(self, sent: SentTransaction, told: str) -> None:
        """A producer was answered how its transaction ended."""
        self._trace(f"{sent.name.decode()} is {told}")
        sent.told = told

    def unexplained(self, whom: str, code: str) -> None:
        """A code that nobody should get."""
        self.anomalies.append(f"answer: {whom} got {code}")

    # --- consumers --------------------------------------------------------------------------------------

    def shown(self, whom: str, tp: TopicPartition, records: Iterable[Read]) -> None:
        """A broker gives records to a consumer of committed data, in this moment."""
        for offset, value in records:
            sent = self.transaction_of(value)
            if sent is not None and not sent.commit_asked:
                self.anomalies.append(f"early: {whom} shows {value!r} at {tp}:{offset} of {sent}")

    def offset_shown(self, whom: str, transactional_id: str, number: int) -> None:
        """A broker says how far a group has come, in this moment."""
        if number == NO_OFFSET:
            return
        sent = self.sent.get(SentTransaction(transactional_id, number).name)
        if sent is None or not sent.commit_asked:
            self.anomalies.append(f"early: {whom} shows the offset {number} of {sent}")

    def transaction_of(self, value: bytes) -> SentTransaction | None:
        """Whose record it is; None for one that no transaction has sent."""
        return self.sent.get(value.rpartition(b" ")[0])

    # --- in the end -------------------------------------------------------------------------------------

    def final(
        self, walks: Mapping[TopicPartition, LogWalk], group_offsets: Mapping[str, int], left: Iterable[str]
    ) -> None:
        """Nothing is on its way any more. `group_offsets` are those of the group of each id; `left` is what
        coordinators and partitions still hold for open.
        """
        self.anomalies += [f"unfinished: {each}" for each in left]
        committed: Counter[bytes] = Counter()
        for tp, found in walks.items():
            values = [value for _, value in found.committed]
            committed.update(values)
            self._check_order(tp, values)
            for producer_id, records in found.unfinished.items():
                self.anomalies.append(f"unfinished: {tp} has {records} of {producer_id} without a marker")
        self.anomalies += [f"twice: {value!r}" for value, times in committed.items() if times > 1]
        for sent in self.sent.values():
            self._check_whole(sent, walks.keys(), committed, group_offsets[sent.transactional_id])
        for (consumer, tp), read in self.read.items():
            if tp in walks:
                position = self.positions[consumer, tp]
                self._check_read(
                    consumer, tp, read, [each for each in walks[tp].committed if each[0] < position]
                )

    def _check_order(self, tp: TopicPartition, values: list[bytes]) -> None:
        """The numbers of an id's transactions, and of the records in each, only grow."""
        by_id: defaultdict[bytes, list[bytes]] = defaultdict(list)
        for value in values:
            by_id[value.split(b" ", 1)[0]].append(value)
        for of_id in by_id.values():
            self.anomalies += [
                f"order: {tp} has {later!r} in front of {earlier!r}"
                for later, earlier in pairwise(of_id)
                if earlier < later
            ]

    def _check_whole(
        self,
        sent: SentTransaction,
        judged: Collection[TopicPartition],
        committed: Mapping[bytes, int],
        group_offset: int,
    ) -> None:
        # What was written to a topic that is deleted is gone, however the transaction ended.
        values = [value for tp, of_tp in sent.records.items() if tp in judged for value in of_tp]
        there = [value for value in values if value in committed]
        # What was sent and never answered is not part of a transaction that its producer commits.
        missing = [value for value in values if value in sent.answered and value not in committed]
        has_offsets = sent.sends_offsets and group_offset >= sent.number
        if sent.told == COMMITTED and missing:
            self.anomalies.append(f"lost: {sent} has not {missing}")
        elif there and missing:
            self.anomalies.append(f"torn: {sent} has {there} and not {missing}")
        if there and (sent.told == ABORTED or not sent.commit_asked):
            self.anomalies.append(f"undead: {sent} has {there}")
        # A later transaction of the id may have moved the group on; an earlier offset than this one's cannot
        # stand where this one is committed.
        if sent.offsets_answered and (there or sent.told == COMMITTED) and group_offset < sent.number:
            self.anomalies.append(f"torn: {sent} has {there}, and its group is at {group_offset}")
        if has_offsets and group_offset == sent.number and values and not there:
            self.anomalies.append(f"torn: the group of {sent} is at {group_offset}, and no record is there")

    def _check_read(self, consumer: str, tp: TopicPartition, read: list[Read], expected: list[Read]) -> None:
        if read == expected:
            return
        for got, right in zip(read, expected, strict=False):
            if got != right:
                self.anomalies.append(f"unread: {consumer} was given {got} of {tp}, where {right} follows")
                return
        where = len(min(read, expected, key=len))
        rest = (read[where:] or expected[where:])[0]
        what = "too much" if len(read) > len(expected) else "not given"
        self.anomalies.append(f"unread: {consumer} of {tp}: {what} is {rest} and what follows")
