"""The checker: which promises a history breaks.

Theory of operation
-------------------
The final content of each partition is the truth; every answer that clients got is compared with it.

============  ==========================================================================================
hole          offsets of the final log do not follow each other
phantom       a record is there that was not sent
lost          an acknowledged record is not where it was said to be. After a loss of power a topic that
              does not sync keeps a clean prefix: then a lost record with a later one kept is the anomaly
duplicated    a record of an idempotent producer is there twice. A producer with several batches under way
              when the broker ended is not promised that: like Kafka's, a snapshot has each producer's last
              batch only, so the retry of the one before it looks like a gap, and goes under a new epoch
reordered     records of one producer stand in another order than they were sent; offsets in its answers fall.
              Only where nothing may be lost: with its records a broker forgets their producers
unread        a consumer was given something that is not in the final log at that offset
skipped       a consumer was not given the offset that follows its last one
stale         an end of the log was answered below what had been acknowledged before the question
complaint     a client was answered with damage, or could not read to the end
============  ==========================================================================================

The kinds follow Jepsen's test of Kafka, as far as there are no transactions.
"""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import NamedTuple

from barnabas.core.ids import TopicPartition
from barnabas.testing.simulation.history import History, Send


class Anomaly(NamedTuple):
    """A broken promise."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def check(history: History) -> list[Anomaly]:
    """Every broken promise; an empty list where all were kept."""
    found = [Anomaly("complaint", text) for text in history.complaints]
    for rule in (_holes, _phantoms, _lost, _duplicated, _reordered, _unread, _skipped, _stale):
        found += [Anomaly(rule.__name__.strip("_").removesuffix("s"), text) for text in rule(history)]
    return found


def _holes(history: History) -> Iterator[str]:
    for tp, records in history.final.items():
        for (offset, _), (following, _) in pairwise(records):
            if following != offset + 1:
                yield f"{tp} has offset {following} after {offset}"


def _phantoms(history: History) -> Iterator[str]:
    sent = {(send.tp, send.value) for send in history.sends}
    for tp, records in history.final.items():
        for offset, value in records:
            if (tp, value) not in sent:
                yield f"{tp} has {value[:40]!r} at {offset}, which was not sent there"


def _lost(history: History) -> Iterator[str]:
    places = _places(history)

    def is_kept(send: Send) -> bool:
        found = places.get((send.tp, send.value), [])
        return send.offset in found if send.offset >= 0 else bool(found)

    def life_of(send: Send) -> tuple[TopicPartition, int]:
        return send.tp, _losses_before(history, send, is_kept=is_kept(send))

    for (tp, _), group in groupby(sorted(_promised(history), key=life_of), life_of):
        missing: Send | None = None
        for send in sorted(group, key=lambda send: send.offset):
            if not is_kept(send) and history.keeps_everything(tp):
                yield f"{send} is not there; found at {places.get((tp, send.value), [])}"
            elif not is_kept(send):
                missing = missing or send
            elif missing is not None and send.offset >= 0:
                yield f"{missing} is not there, but the later {send} is"


def _losses_before(history: History, send: Send, *, is_kept: bool) -> int:
    """How many losses of power were before the answer to a send left the broker.

    One may be on its way when the power goes. So of a record that was lost the answer counts as given when it
    was sent.
    """
    told_s = send.acked_s if is_kept or send.offset < 0 else send.sent_s
    assert told_s is not None
    return bisect_right(history.power_losses_s, told_s)


def _duplicated(history: History) -> Iterator[str]:
    places = _places(history)
    for send in history.sends:
        offsets = places.get((send.tp, send.value), [])
        excused = send.producer.pipelines and history.was_told_late(send)
        if len(offsets) > 1 and send.producer.idempotent and not excused:
            yield f"{send} is at each of {offsets}"


def _reordered(history: History) -> Iterator[str]:
    places = _places(history)
    for sends in _by_producer(history).values():
        if not history.keeps_everything(sends[0].tp):
            continue
        if sends[0].producer.idempotent:
            stored = [
                (send, places[send.tp, send.value][0]) for send in sends if (send.tp, send.value) in places
            ]
            for (one, offset), (other, following) in pairwise(stored):
                if following < offset:
                    yield f"{one} is at {offset}, and {other}, sent later, at {following}"
        answered = [send for send in sends if send.promised and send.offset >= 0]
        for one, other in pairwise(answered):
            if other.offset <= one.offset:
                yield f"{one} was acknowledged behind {other}, which was sent later"


def _unread(history: History) -> Iterator[str]:
    final = {tp: dict(records) for tp, records in history.final.items()}
    for read in history.reads:
        if history.keeps_everything(read.tp) and final[read.tp].get(read.offset) != read.value:
            there = final[read.tp].get(read.offset, b"nothing")
            yield (
                f"{read.consumer} was given {read.value[:40]!r} at {read.tp}:{read.offset}, where "
                f"{there[:40]!r} is in the end"
            )


def _skipped(history: History) -> Iterator[str]:
    last: dict[tuple[str, TopicPartition], int] = {}
    for read in history.reads:
        expected = last.get((read.consumer, read.tp), -1) + 1
        last[read.consumer, read.tp] = read.offset
        if read.offset != expected and history.keeps_everything(read.tp):
            yield f"{read.consumer} was given {read.tp}:{read.offset} where {expected} follows"


def _stale(history: History) -> Iterator[str]:
    acked = [(send.acked_s, send) for send in _promised(history) if send.acked_s is not None]
    for seen in history.ends:
        if not history.keeps_everything(seen.tp):
            continue
        known = [send for at, send in acked if at < seen.asked_s and send.tp == seen.tp]
        newest = max(known, key=lambda send: send.offset, default=None)
        if newest is not None and newest.offset >= seen.offset:
            yield f"{seen} although {newest} was known"


def _promised(history: History) -> list[Send]:
    return [send for send in history.sends if send.promised]


def _places(history: History) -> dict[tuple[TopicPartition, bytes], list[int]]:
    """Where each value stands in the end."""
    places: dict[tuple[TopicPartition, bytes], list[int]] = {}
    for tp, records in history.final.items():
        for offset, value in records:
            places.setdefault((tp, value), []).append(offset)
    return places


def _by_producer(history: History) -> dict[tuple[str, TopicPartition], list[Send]]:
    """The sends of each producer to each partition, in the order of sending."""
    grouped: dict[tuple[str, TopicPartition], list[Send]] = {}
    for send in history.sends:
        grouped.setdefault((send.producer.name, send.tp), []).append(send)
    return grouped
