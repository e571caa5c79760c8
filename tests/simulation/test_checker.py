"""Each rule of the checker: a history that breaks it, and one that comes close and does not."""

import pytest

from barnabas.core.ids import TopicPartition
from barnabas.testing.simulation.checker import check
from barnabas.testing.simulation.history import EndSeen, History, ProducerPromise, Read, Send, TopicPromise

SYNCED = TopicPartition("synced", 0)
LOOSE = TopicPartition("loose", 0)
IDEMPOTENT = ProducerPromise("idempotent", "all", idempotent=True)
PIPELINED = ProducerPromise("pipelined", "all", idempotent=True, pipelines=True)
PLAIN = ProducerPromise("plain", "1", idempotent=False)
SILENT = ProducerPromise("silent", "0", idempotent=False)


def sent(number, offset=None, *, producer=IDEMPOTENT, tp=SYNCED, at=1.0):
    """A record, acknowledged 0.1 s after its sending unless no offset is given."""
    value = b"%s %d" % (producer.name.encode(), number)
    acked_s = None if offset is None else at + 0.1
    return Send(producer, tp, number, value, at, acked_s, -1 if offset is None else offset)


def judged(*sends, final=None, **fields):
    """The kinds of anomalies; the final log is what the sends were told, unless given."""
    told = {tp: [(send.offset, send.value) for send in sends if send.tp == tp] for tp in (SYNCED, LOOSE)}
    topics = {
        "synced": TopicPromise("synced", 1, durable=True),
        "loose": TopicPromise("loose", 1, durable=False),
    }
    history = History(topics=topics, sends=list(sends), final={**told, **(final or {})}, **fields)
    return [anomaly.kind for anomaly in check(history)]


def values(*sends, first=0):
    return list(enumerate((send.value for send in sends), first))


def test_a_history_that_keeps_every_promise():
    one, other = sent(0, 0), sent(1, 1)
    reads = [Read("c", SYNCED, 0, one.value), Read("c", SYNCED, 1, other.value)]
    assert judged(one, other, reads=reads, ends=[EndSeen(SYNCED, 2.0, 2), EndSeen(SYNCED, 1.05, 0)]) == []


def test_holes_and_phantoms():
    one, other = sent(0, 0), sent(1, 2)
    assert judged(one, other) == ["hole"]
    assert judged(one, final={SYNCED: [(0, one.value), (1, b"who?")]}) == ["phantom"]
    assert judged(one, final={SYNCED: [(0, one.value)], LOOSE: [(0, one.value)]}) == ["phantom"]


@pytest.mark.parametrize("producer", [IDEMPOTENT, PLAIN])
def test_what_was_acknowledged_may_not_be_lost(producer):
    one, other = sent(0, 0, producer=producer), sent(1, 1, producer=producer)
    assert judged(one, other, final={SYNCED: values(one)}) == ["lost"]
    assert judged(one, sent(1, producer=producer), final={SYNCED: values(one)}) == []


def test_nobody_promised_that_a_silent_record_stays():
    assert judged(sent(0, 0, producer=SILENT), final={SYNCED: []}) == []


def test_a_topic_that_does_not_sync_keeps_a_clean_prefix():
    before = [sent(number, number, tp=LOOSE) for number in range(3)]
    loss = {"power_losses_s": [2.0]}
    assert judged(*before, final={LOOSE: values(before[0])}, **loss) == []
    assert judged(*before, final={LOOSE: values(before[0])}) == ["lost", "lost"]
    after = sent(3, 1, tp=LOOSE, at=3.0)
    assert judged(*before, after, final={LOOSE: values(before[0], after)}, **loss) == []
    kept_later = {LOOSE: [(0, before[0].value), (2, before[2].value)]}
    assert judged(*before, final=kept_later, **loss) == ["hole", "lost"]
    assert judged(sent(0, 0), final={SYNCED: []}, **loss) == ["lost"], "a topic that syncs loses nothing"
    on_its_way = sent(1, 1, tp=LOOSE, at=1.95)
    assert judged(before[0], on_its_way, after, final={LOOSE: values(before[0], after)}, **loss) == [], (
        "its answer was under way when the power went"
    )
    again = sent(4, 2, tp=LOOSE, at=3.1)
    kept_later = {LOOSE: [(0, before[0].value), (2, again.value)]}
    assert judged(before[0], after, again, final=kept_later, **loss) == ["hole", "lost"]


def test_duplicates_of_idempotent_producers():
    twice = sent(0, 0)
    plain = sent(0, 0, producer=PLAIN)
    assert judged(twice, final={SYNCED: values(twice, twice)}) == ["duplicated"]
    assert judged(plain, final={SYNCED: values(plain, plain)}) == []
    pipelined = sent(0, 0, producer=PIPELINED)
    final = {SYNCED: values(pipelined, pipelined)}
    assert judged(pipelined, final=final) == ["duplicated"]
    assert judged(pipelined, final=final, deaths_s=[1.05]) == [], "the broker ended before it answered"
    assert judged(twice, final={SYNCED: values(twice, twice)}, deaths_s=[1.05]) == ["duplicated"]


def test_order_of_one_producer():
    assert judged(sent(0, 1), sent(1, 0)) == ["hole", "reordered", "reordered"]
    assert judged(sent(0, 1, producer=PLAIN), sent(1, 0, producer=PLAIN)) == ["hole", "reordered"]
    first, second = sent(0), sent(1)
    assert judged(first, second, final={SYNCED: values(second, first)}) == ["reordered"]


def test_readers_see_what_stays_without_gaps():
    one, other = sent(0, 0), sent(1, 1)
    assert judged(one, other, reads=[Read("c", SYNCED, 0, b"gone")]) == ["unread"]
    assert judged(one, other, reads=[Read("c", SYNCED, 1, other.value)]) == ["skipped"]
    again = [Read("c", SYNCED, 0, one.value), Read("c", SYNCED, 0, one.value)]
    assert judged(one, other, reads=again) == ["skipped"]


def test_the_end_of_a_log_is_never_stale():
    assert judged(sent(0, 0), ends=[EndSeen(SYNCED, 2.0, 0)]) == ["stale"]


def test_complaints_of_clients_are_anomalies():
    assert judged(complaints=["the end could not be reached"]) == ["complaint"]
