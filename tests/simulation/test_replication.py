"""The model of replication: the seeds of every run, that they replay, and that they find what they are meant
to find.
"""

import pytest

from barnabas.cluster.controller import reassignment, replica_state_machine
from barnabas.cluster.controller.context import ControllerContext
from barnabas.core.errors import ErrorCode
from barnabas.core.pending import Pending
from barnabas.log.snapshots import SnapshotStore
from barnabas.replica import log_read
from barnabas.replica.fetcher.replica_fetcher import PartitionFetchState, ReplicaFetcher
from barnabas.replica.isr import IsrState
from barnabas.replica.manager import ReplicaManager
from barnabas.replica.partition import Partition
from barnabas.replica.state_changes import StateChanges
from barnabas.testing import simulate
from barnabas.testing.replication.scenario import ReplicationScenario
from seeds import check_first_seeds, drawn_by_this_run

SEEDS = 200
PATCHES_PARTITION = pytest.mark.interpreted("barnabas.replica.partition")
PATCHES_LOG_READ = pytest.mark.interpreted("barnabas.replica.log_read")


@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_no_seed_finds_anything():
    check_first_seeds("replication", SEEDS)


@pytest.mark.parametrize(
    ("whose", "calls", "answers"), [("all", 1, 0), ("all", 0, 1), ("the controller's", 1, 1)]
)
def test_a_store_that_stalls_for_half_a_minute(whose, calls, answers):
    scenario = ReplicationScenario(7, seconds=36)

    def stall():
        for broker in scenario.brokers.values():
            if whose == "all" or broker.controller.is_active:
                broker.store.stall(calls * 30_000, answers * 30_000)

    scenario.clock.call_later(3_000, stall)
    report = scenario.run()

    assert not report.anomalies
    assert report.acked > 100


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
    monkeypatch.setattr(log_read, "_divergence", lambda *_: None)


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


def expand_the_isr_without_a_look_at_the_epoch(monkeypatch):
    monkeypatch.setattr(
        Partition, "_in_sync", lambda self, replica: replica.log_end_offset >= self.leader_log.high_watermark
    )


def end_a_reassignment_before_the_new_replicas_are_in_sync(monkeypatch):
    monkeypatch.setattr(reassignment, "_is_complete", lambda *_: Pending.of(True))


def take_roles_of_past_epochs(monkeypatch):
    change = StateChanges._change

    def without_epochs(self, tp, state, topic_id, roles):
        partition = self._hosted.online.get(tp)
        if partition is not None:
            partition.leader_epoch = min(partition.leader_epoch, state.leader_epoch - 1)
            partition.partition_epoch = min(partition.partition_epoch, state.partition_epoch)
        return change(self, tp, state, topic_id, roles)

    monkeypatch.setattr(StateChanges, "_change", without_epochs)
    monkeypatch.setattr(StateChanges, "check_controller", lambda *_: None)
    monkeypatch.setattr(ReplicaManager, "controller_epoch", 0)


def know_one_batch_of_each_producer(monkeypatch):
    monkeypatch.setattr(SnapshotStore, "_batches_of", lambda *_: None)
    monkeypatch.setattr(SnapshotStore, "_recall", lambda *_: None)


PLANTED = [
    pytest.param(answer_when_the_leader_has_it, {"early", "lost"}, marks=PATCHES_PARTITION),
    pytest.param(answer_one_record_early, {"early", "lost"}, marks=PATCHES_PARTITION),
    (wait_only_for_the_committed_isr, {"early", "lost", "unread"}),
    (elect_who_is_not_in_sync, {"lost", "unread", "early", "different"}),
    (forget_the_last_of_an_isr, {"epoch"}),
    (do_not_truncate, {"different", "lost"}),
    pytest.param(see_no_divergence, {"different", "lost"}, marks=PATCHES_LOG_READ),
    pytest.param(take_all_for_committed, {"early", "lost", "unread"}, marks=PATCHES_PARTITION),
    (use_answers_of_another_epoch, {"different"}),
    (take_the_dead_for_live, {"different", "lost", "stuck"}),
    pytest.param(expand_the_isr_without_a_look_at_the_epoch, {"early"}, marks=PATCHES_PARTITION),
    (end_a_reassignment_before_the_new_replicas_are_in_sync, {"early", "lost", "stuck"}),
    (take_roles_of_past_epochs, {"epoch"}),
    (know_one_batch_of_each_producer, {"unsent", "twice"}),
]


@pytest.mark.parametrize(
    ("plant", "kinds"),
    drawn_by_this_run(PLANTED, "planted in replication", 3),
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
