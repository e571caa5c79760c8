"""The model of replication: the seeds of every run, that they replay, and that they find what they are meant to find."""

import pytest

from barnabas.cluster.controller import replica_state_machine
from barnabas.cluster.controller.context import ControllerContext
from barnabas.core.errors import ErrorCode
from barnabas.replica.fetcher.replica_fetcher import PartitionFetchState, ReplicaFetcher
from barnabas.replica.isr import IsrState
from barnabas.replica.partition import Partition
from barnabas.testing import simulate

SEEDS = 40
PATCHES_PARTITION = pytest.mark.interpreted("barnabas.replica.partition")


@pytest.mark.timeout(300)
def test_no_seed_finds_anything():
    seconds = simulate.REPLICATION_SECONDS
    verdicts = simulate.run_seeds(range(SEEDS), seconds, run=simulate.run_replication_seed)
    failed = [verdict for verdict in verdicts if verdict.anomalies]
    assert not failed, "\n".join(map(str, failed))


def answer_when_the_leader_has_it(monkeypatch):
    monkeypatch.setattr(Partition, "enough_replicas", lambda *_: (True, ErrorCode.NONE))


def answer_one_record_early(monkeypatch):
    enough = Partition.enough_replicas
    monkeypatch.setattr(Partition, "enough_replicas", lambda self, offset: enough(self, offset - 1))


def wait_only_for_the_committed_isr(monkeypatch):
    monkeypatch.setattr(IsrState, "maximal", property(lambda self: self.proposed or self.isr))


def elect_who_is_not_in_sync(monkeypatch):
    monkeypatch.setattr("barnabas.cluster.controller.partition_state_machine.elect", _elect_uncleanly)


def _elect_uncleanly(strategy, context, tp, state, *, unclean):
    from barnabas.cluster.controller.election import elect

    return elect(strategy, context, tp, state, unclean=True)


def forget_the_last_of_an_isr(monkeypatch):
    def without(state, broker_id):
        isr = tuple(each for each in state.isr if each != broker_id)
        return state.with_leader(-1 if state.leader == broker_id else state.leader, isr)

    monkeypatch.setattr(replica_state_machine, "_without", without)


def take_the_dead_for_live(monkeypatch):
    monkeypatch.setattr(ControllerContext, "is_online", lambda *_, **__: True)


def do_not_truncate(monkeypatch):
    monkeypatch.setattr(ReplicaFetcher, "_truncate", lambda *_: None)


def see_no_divergence(monkeypatch):
    monkeypatch.setattr(Partition, "_divergence", lambda *_: None)


def take_all_for_committed(monkeypatch):
    def follow(self, *_):
        self.log.high_watermark = self.log.log_end_offset

    monkeypatch.setattr(Partition, "follow_offsets", follow)


def use_answers_of_another_epoch(monkeypatch):
    monkeypatch.setattr(
        PartitionFetchState,
        "expects",
        lambda self, requested: requested.offset == self.partition.log.log_end_offset,
    )


@pytest.mark.parametrize(
    ("plant", "kinds"),
    [
        pytest.param(answer_when_the_leader_has_it, {"early", "lost"}, marks=PATCHES_PARTITION),
        pytest.param(answer_one_record_early, {"early", "lost"}, marks=PATCHES_PARTITION),
        (wait_only_for_the_committed_isr, {"early", "lost", "unread"}),
        (elect_who_is_not_in_sync, {"lost", "unread", "early", "different"}),
        (forget_the_last_of_an_isr, {"stuck"}),
        (do_not_truncate, {"stuck"}),
        pytest.param(see_no_divergence, {"stuck"}, marks=PATCHES_PARTITION),
        pytest.param(take_all_for_committed, {"early", "lost", "unread"}, marks=PATCHES_PARTITION),
        (use_answers_of_another_epoch, {"stuck"}),
        (take_the_dead_for_live, {"stuck", "early"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_bug_is_found_and_replayed(plant, kinds, monkeypatch):
    with monkeypatch.context() as planted:
        plant(planted)
        verdicts = map(simulate.run_replication_seed, range(SEEDS))
        found = next((verdict for verdict in verdicts if verdict.anomalies), None)
        assert found is not None, "no seed finds it"
        again = simulate.run_replication_seed(found.seed)

    assert {anomaly.partition(":")[0] for anomaly in found.anomalies} & kinds, found
    assert (again.anomalies, again.digest) == (found.anomalies, found.digest)
    assert f"replication --seed {found.seed}" in str(found)
    assert not simulate.run_replication_seed(found.seed).anomalies, "without the bug the seed finds nothing"
