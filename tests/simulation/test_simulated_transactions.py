"""The model of transactions: the seeds of every run, that they replay, and that they find what they are meant
to find.
"""

from functools import partial

import pytest

from barnabas.coordinator.offsets.group_offsets import GroupOffsets
from barnabas.coordinator.transaction.metadata import TransactionMetadata
from barnabas.core.ids import TopicPartition
from barnabas.log.producers import AppendOrigin, ProducerStateManager
from barnabas.log.txn_index import TransactionIndex
from barnabas.records.batch import build_batch
from barnabas.records.control import ControlType, EndTransactionMarker, build_marker
from barnabas.records.record import Record
from barnabas.testing import simulate
from barnabas.testing.simulation.trace import Trace
from barnabas.testing.transactions.judge import ABORTED, COMMITTED, TransactionJudge
from barnabas.testing.transactions.log_walk import LogWalk, walk
from barnabas.testing.transactions.producers import ClientMix
from barnabas.testing.transactions.scenario import TransactionScenario
from seeds import check_first_seeds, drawn_by_this_run

SEEDS = 200
TP = TopicPartition("orders", 0)
ID = "copier"


@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_no_seed_finds_anything():
    check_first_seeds("transactions", SEEDS)


def show_the_first_record_of_an_open_transaction(monkeypatch):
    before = ProducerStateManager.first_unstable_offset.fget

    def one_too_far(self):
        offset = before(self)
        return None if offset is None else offset + 1

    monkeypatch.setattr(ProducerStateManager, "first_unstable_offset", property(one_too_far))


def cut_the_list_of_aborted_transactions_short(monkeypatch):
    collect = TransactionIndex.collect

    def short(self, fetch_offset, upper_bound):
        found, complete = collect(self, fetch_offset, upper_bound)
        return found[1:], complete

    monkeypatch.setattr(TransactionIndex, "collect", short)


def take_offsets_for_valid_before_the_marker(monkeypatch):
    stage = GroupOffsets.stage_transactional

    def valid(self, producer_id, commits):
        stage(self, producer_id, commits)
        self.committed.update(commits)

    monkeypatch.setattr(GroupOffsets, "stage_transactional", valid)


def keep_what_could_not_be_written_pending(monkeypatch):
    monkeypatch.setattr(TransactionMetadata, "take_back", lambda _: None)


def take_a_late_marker_for_that_of_the_present_transaction(monkeypatch):
    check = ProducerStateManager.check_marker

    def lenient(self, batch, marker, _origin, offset):
        check(self, batch, marker, AppendOrigin.COORDINATOR, offset)

    monkeypatch.setattr(ProducerStateManager, "check_marker", lenient)


PLANTED = [
    pytest.param(
        show_the_first_record_of_an_open_transaction,
        {"early", "unread", "unfinished"},
        marks=pytest.mark.interpreted("barnabas.log.producers"),
    ),
    (cut_the_list_of_aborted_transactions_short, {"early", "unread"}),
    (take_offsets_for_valid_before_the_marker, {"early", "torn"}),
    (keep_what_could_not_be_written_pending, {"unfinished"}),
    pytest.param(
        take_a_late_marker_for_that_of_the_present_transaction,
        {"early", "torn", "lost", "undead", "unread"},
        marks=pytest.mark.interpreted("barnabas.log.producers"),
    ),
]


@pytest.mark.parametrize(
    ("plant", "kinds"),
    drawn_by_this_run(PLANTED, "planted in simulated_transactions", 2),
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_bug_is_found_and_replayed(plant, kinds, monkeypatch):
    with monkeypatch.context() as planted:
        plant(planted)
        verdicts = map(simulate.run_transactions_seed, range(SEEDS))
        found = next((verdict for verdict in verdicts if verdict.anomalies), None)
        assert found is not None, "no seed finds it"
        again = simulate.run_transactions_seed(found.seed)

    assert {anomaly.partition(":")[0] for anomaly in found.anomalies} & kinds, found
    assert (again.anomalies, again.digest) == (found.anomalies, found.digest)
    assert f"transactions --seed {found.seed}" in str(found)
    assert not simulate.run_transactions_seed(found.seed).anomalies, "without the bug the seed finds nothing"


LATE_SEEDS = 25


def verdict_of(seed, mix):
    return simulate.run_model("late", partial(TransactionScenario, mix=mix), seed, 4.0, None)


def test_what_comes_late_is_harmless_where_each_transaction_has_an_epoch():
    """The schedule that every system fails once: a request that was given up, and is carried out in the next
    transaction. Producers of both versions trust in it here, and the same seeds judge both.
    """
    today, before = ClientMix([2]), ClientMix([0], late_of_version_0=True)

    assert any(verdict_of(seed, before).anomalies for seed in range(LATE_SEEDS)), "no message is late enough"
    found = [verdict for seed in range(LATE_SEEDS) if (verdict := verdict_of(seed, today)).anomalies]
    assert not found, found[0]


# --- the judge


class Sent:
    """A transaction of one record and one offset, and what became of it."""

    def __init__(self):
        self.judge = TransactionJudge(Trace(lambda: 0.0))
        self.sent = self.judge.new_transaction(ID)
        self.values = [self.sent.new_value(TP), self.sent.new_value(TP)]
        self.sent.answered.update(self.values)
        self.sent.sends_offsets = self.sent.offsets_answered = True

    def kinds(self, *, committed, offset=-1, left=()):
        records = [(place, self.values[number]) for place, number in enumerate(committed)]
        self.judge.final({TP: LogWalk(committed=records)}, {ID: offset}, left)
        return {each.partition(":")[0] for each in self.judge.anomalies}


@pytest.mark.parametrize(
    ("told", "committed", "offset", "kinds"),
    [
        (COMMITTED, [0, 1], 1, set()),
        (COMMITTED, [0], 1, {"lost"}),
        (COMMITTED, [], -1, {"lost", "torn"}),
        (COMMITTED, [0, 1], -1, {"torn"}),
        (COMMITTED, [0, 1, 1], 1, {"twice"}),
        (COMMITTED, [1, 0], 1, {"order"}),
        ("", [0, 1], 1, set()),
        ("", [], -1, set()),
        ("", [0], 1, {"torn"}),
        ("", [], 1, {"torn"}),
        (ABORTED, [0, 1], 1, {"undead"}),
        (ABORTED, [], -1, set()),
    ],
)
def test_a_transaction_is_there_as_a_whole_or_not_at_all(told, committed, offset, kinds):
    rig = Sent()
    rig.sent.commit_asked, rig.sent.told = True, told

    assert rig.kinds(committed=committed, offset=offset) == kinds


def test_nobody_is_shown_what_nobody_asked_to_commit():
    rig = Sent()
    rig.judge.shown("broker-1", TP, [(0, rig.values[0])])
    rig.judge.offset_shown("broker-1", ID, 1)
    assert rig.kinds(committed=[]) == {"early"}
    assert len(rig.judge.anomalies) == 2


@pytest.mark.parametrize(
    ("read", "kinds"), [([0, 1], set()), ([0], {"unread"}), ([1], {"unread"}), ([0, 1, 1], {"unread"})]
)
def test_a_consumer_reads_what_is_committed_and_nothing_else(read, kinds):
    rig = Sent()
    rig.sent.commit_asked = True
    rig.judge.read["reader", TP] = [(number, rig.values[number]) for number in read]
    rig.judge.positions["reader", TP] = 2

    assert rig.kinds(committed=[0, 1], offset=1) == kinds


def test_what_has_not_ended_is_named():
    assert Sent().kinds(committed=[], left=["copier"]) == {"unfinished"}


def test_the_walk_of_a_log():
    def batch(offset, producer_id, *values):
        records = [Record(place, 0, None, value) for place, value in enumerate(values)]
        data = bytearray(
            build_batch(
                records, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
            )
        )
        data[:8] = offset.to_bytes(8, "big")
        return bytes(data)

    def marker(offset, producer_id, kind):
        content = EndTransactionMarker(kind, 0)
        data = bytearray(build_marker(content, timestamp=0, producer_id=producer_id, producer_epoch=0))
        data[:8] = offset.to_bytes(8, "big")
        return bytes(data)

    found = walk(
        batch(0, 1, b"a", b"b")
        + batch(2, 2, b"c")
        + batch(3, 3, b"d")
        + marker(4, 2, ControlType.COMMIT)
        + marker(5, 1, ControlType.ABORT)
    )
    assert (found.committed, found.aborted) == ([(2, b"c")], [(0, b"a"), (1, b"b")])
    assert found.unfinished == {3: [(3, b"d")]}
