"""Histories of groups, some of two thousand in each run; that they replay, and that they would find what they
are meant to find.
"""

import pytest
import run_groups
from group_model.journal import SimulatedJournal

from barnabas.coordinator import group_coordinator, state_machine
from barnabas.coordinator.classic import rebalance
from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.consumer import plan as consumer_plan
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.offsets.group_offsets import GroupOffsets
from barnabas.coordinator.runtime.session import Session
from barnabas.testing import simulate
from seeds import drawn_by_this_run, first_seeds, printed_histories

SEEDS = 2000
CHUNK = 250
CHUNKS = first_seeds(SEEDS)[::CHUNK]
HALVES = [half for half in (CHUNKS[: len(CHUNKS) // 2], CHUNKS[len(CHUNKS) // 2 :]) if half]
DRAWN = [first for half in HALVES for first in drawn_by_this_run(half, f"seeds from {half[0]}")]
"""The first seeds of those chunks that this run goes through: a quarter of all."""


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", DRAWN)
def test_no_seed_finds_anything(first):
    seeds = range(first, first + CHUNK)
    verdicts = simulate.run_seeds(seeds, run_groups.SECONDS, run=run_groups.run_seed)
    failed = [verdict for verdict in verdicts if verdict.anomalies]
    assert not failed, "\n".join(map(str, failed))


def test_a_seed_is_the_same_history_in_every_process():
    program = [run_groups.__file__, "--seeds", "8", "--first", "11"]
    one = printed_histories(program, "1")

    assert one.count("trace ") == 8
    assert one == printed_histories(program, "2")


def skip_generation_check(patch):
    patch.setattr(ClassicGroup, "check_generation", lambda *_: None)


def let_an_old_leader_assign(patch):
    sync = group_coordinator.classic_group_sync

    def sync_without_check(shard, request):
        with patch.context() as meanwhile:
            meanwhile.setattr(ClassicGroup, "check_generation", lambda *_: None)
            return sync(shard, request)

    patch.setattr(group_coordinator, "classic_group_sync", sync_without_check)


def wait_for_syncs_for_ever(patch):
    patch.setattr(rebalance, "_wait_for_syncs", lambda *_: None)


def wait_for_joins_for_ever(patch):
    complete = rebalance.complete_join
    patch.setattr(
        rebalance, "complete_join", lambda group: complete(group) if group.members.all_joined else None
    )


def forget_fencing(patch):
    check = ClassicGroup.check_member

    def check_instance_only(group, member_id, group_instance_id):
        current = group.members.static.get(group_instance_id, member_id)
        return check(group, current, group_instance_id)

    patch.setattr(ClassicGroup, "check_member", check_instance_only)


def forget_parked(patch):
    patch.setattr(ClassicGroup, "refuse_parked", lambda *_, **__: [])


def acknowledge_before_replication(patch):
    append = SimulatedJournal.append

    def append_and_trust(journal, records, *, acks=None, **fields):
        return append(journal, records, acks=0, **fields)

    patch.setattr(SimulatedJournal, "append", append_and_trust)


def load_no_offsets(patch):
    patch.setattr(state_machine, "replay_commits", lambda *_, **__: 0)


def lose_pending_commits(patch):
    patch.setattr(GroupOffsets, "acknowledge", lambda offsets, commits, _: offsets.fail(commits))


def show_pending_commits(patch):
    def stage(offsets, commits):
        offsets.pending.update(commits)
        offsets.committed.update({tp: commit.at(-1) for tp, commit in commits.items()})

    patch.setattr(GroupOffsets, "stage", stage)


def let_sessions_run_on(patch):
    patch.setattr(Session, "end", lambda _: None)


def take_any_epoch(patch):
    patch.setattr(ConsumerGroup, "validate_offset_commit", lambda *_, **__: None)


def give_away_what_is_held(patch):
    patch.setattr(ConsumerGroup, "partition_epoch", lambda *_: -1)


def answer_unconfirmed(patch):
    patch.setattr(consumer_plan, "_once_confirmed", lambda _shard, _group, answer: answer)


PLANTED = [
    (skip_generation_check, {"old member"}),
    (let_an_old_leader_assign, {"old member", "two owners"}),
    (wait_for_syncs_for_ever, {"unsettled", "left waiting"}),
    (wait_for_joins_for_ever, {"unsettled", "left waiting"}),
    (forget_fencing, {"fenced", "unsettled"}),
    (forget_parked, {"left waiting"}),
    (acknowledge_before_replication, {"not written", "lost", "back"}),
    (load_no_offsets, {"lost"}),
    (lose_pending_commits, {"lost"}),
    (show_pending_commits, {"early"}),
    (let_sessions_run_on, {"leak"}),
    (take_any_epoch, {"old member"}),
    (give_away_what_is_held, {"two owners"}),
    (answer_unconfirmed, {"not written"}),
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("plant", "kinds"),
    drawn_by_this_run(PLANTED, "planted in groups", 4),
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_bug_is_found_and_replayed(plant, kinds, monkeypatch):
    with monkeypatch.context() as patch:
        plant(patch)
        found = next(verdict for verdict in map(run_groups.run_seed, range(SEEDS)) if verdict.anomalies)
        again = run_groups.run_seed(found.seed)

    assert found.anomalies[0].partition(":")[0] in kinds, found
    assert (again.anomalies, again.digest) == (found.anomalies, found.digest)
    assert f"run_groups.py --seed {found.seed}" in str(found)
    assert not run_groups.run_seed(found.seed).anomalies, "without the bug the same seed finds nothing"
