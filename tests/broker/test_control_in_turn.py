"""Large requests of controllers:
one after the other, each judged when its turn comes, and seen whole or not at all.
"""

import pytest

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import GROUP_METADATA_TOPIC, TopicPartition
from barnabas.core.pending import Pending
from barnabas.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from barnabas.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from barnabas.replica.partition import Role
from standing_clock import TickingClock

MANY = 200
OLD, NEW = 1, 2


@pytest.fixture
def world(make_world):
    return make_world(clock=TickingClock())


def lead(controller_epoch, *, leader_epoch=0, leader=1, partitions=MANY, topic="orders"):
    states = [
        LeaderAndIsrPartitionState(
            partition_index=index,
            controller_epoch=controller_epoch,
            leader=leader,
            leader_epoch=leader_epoch,
            partition_epoch=leader_epoch,
            isr=[1, 2],
            replicas=[1, 2],
        )
        for index in range(partitions)
    ]
    return LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=controller_epoch,
        broker_epoch=7,
        topic_states=[LeaderAndIsrTopicState(topic_name=topic, topic_id=b"i" * 16, partition_states=states)],
    )


def stop(controller_epoch, *, partitions=MANY):
    states = [
        StopReplicaPartitionState(partition_index=index, leader_epoch=-2, delete_partition=True)
        for index in range(partitions)
    ]
    return StopReplicaRequest(
        controller_id=1,
        controller_epoch=controller_epoch,
        broker_epoch=7,
        topic_states=[StopReplicaTopicState(topic_name="orders", partition_states=states)],
    )


def update(controller_epoch, *, leader=1, partitions=MANY, topic_id=b"i" * 16):
    states = [
        UpdateMetadataPartitionState(partition_index=index, leader=leader, isr=[1], replicas=[1])
        for index in range(partitions)
    ]
    topic = UpdateMetadataTopicState(topic_name="orders", topic_id=topic_id, partition_states=states)
    return UpdateMetadataRequest(
        controller_id=1, controller_epoch=controller_epoch, broker_epoch=7, topic_states=[topic]
    )


def leader_epochs(world):
    return {each.leader_epoch for each in world.replicas.partitions}


def test_a_small_request_is_done_when_its_handler_returns(world):
    for request, version in ((stop(OLD, partitions=3), 4), (update(OLD, partitions=3), 8)):
        assert world.start(request, version)() is not None
    assert world.start(lead(OLD, partitions=3), 7)() is not None
    assert world.clock.turns == 0


def test_a_request_that_waited_is_refused_by_the_epoch_that_came_before_its_turn(world):
    """The connection of a controller that was replaced still held a StopReplica."""
    first = world.start(lead(OLD), 7)
    newer = world.start(lead(NEW, leader_epoch=1), 7)
    late = world.start(stop(OLD), 4)
    late_roles = world.start(lead(OLD, leader_epoch=9), 7)
    late_metadata = world.start(update(OLD), 8)
    assert [each() for each in (first, newer, late, late_roles, late_metadata)] == [None] * 5
    world.clock.advance()

    for answer in (first, newer):
        assert {each.error_code for each in answer().topics[0].partition_errors} == {0}
    for answer in (late, late_roles, late_metadata):
        assert answer().error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert (len(world.replicas.partitions), leader_epochs(world)) == (MANY, {1})
    assert len(world.logs.logs) == MANY
    assert "orders" not in world.cache
    assert world.control.holds == 0


def test_requests_do_not_cross(world):
    """A deletion between two slices of a LeaderAndIsr left half of the partitions."""
    seen = []
    soon = world.clock.call_soon

    def observed(callback):
        seen.append(len(world.replicas.partitions))
        soon(callback)

    world.clock.call_soon = observed
    made, deleted = world.start(lead(OLD), 7), world.start(stop(OLD), 4)
    assert world.control.holds == 2, "neither connection may go on"
    world.clock.advance()

    assert {each.error_code for each in made().topics[0].partition_errors} == {0}
    assert {each.error_code for each in deleted().partition_errors} == {0}
    most = seen.index(max(seen))
    assert seen[: most + 1] == sorted(seen[: most + 1])
    assert seen[most:] == sorted(seen[most:], reverse=True)
    assert (max(seen), len(world.replicas.partitions)) == (MANY, 0)
    steps = set(seen[most:])
    assert len(steps) > MANY // 20, "deleted in slices"


def test_an_update_of_the_metadata_is_seen_whole_or_not_at_all(world):
    world.send(update(OLD), 8)
    before = world.cache.snapshot
    seen = []
    soon = world.clock.call_soon

    def observed(callback):
        snapshot = world.cache.snapshot
        leaders = {state.leader for state in snapshot.partitions["orders"].values()}
        seen.append((snapshot is before, leaders, dict(snapshot.topic_ids), dict(snapshot.topic_names)))
        soon(callback)

    world.clock.call_soon = observed
    answer = world.start(update(OLD, leader=2, topic_id=b"j" * 16), 8)
    world.clock.advance()

    assert answer().error_code == 0
    old = (True, {1}, {"orders": b"i" * 16}, {b"i" * 16: "orders"})
    assert len(seen) > MANY // 20
    assert [each for each in seen if each[0]] == [old] * len([each for each in seen if each[0]])
    assert {frozenset(each[1]) for each in seen if not each[0]} <= {frozenset({2})}
    assert world.cache.snapshot.topic_names == {b"j" * 16: "orders"}


def test_a_disk_that_fails_between_two_slices_costs_its_own_partitions_only(world):
    """Who followed was begun to be fetched when all had their roles, by when one may be offline."""
    answer = world.start(lead(OLD, leader=2), 7)
    gone = TopicPartition("orders", 0)
    assert world.replicas.partition(gone).role is Role.FOLLOWER
    world.replicas.log_directory_failed([gone])
    world.clock.advance()

    assert len(answer().topics[0].partition_errors) == MANY
    assert gone not in world.fetchers.fetching
    assert len(world.fetchers.fetching) == MANY - 1


def test_coordinators_hear_of_their_roles_once_at_the_end(world, monkeypatch):
    elected = []
    monkeypatch.setattr(world.coordinator, "elected", lambda partition, epoch: elected.append(partition))
    answer = world.start(lead(OLD, topic=GROUP_METADATA_TOPIC), 7)
    assert (answer(), elected) == (None, [])
    world.clock.advance()

    assert elected == list(range(MANY))


def test_small_requests_that_waited_are_not_one_long_piece_of_work(world):
    world.start(lead(OLD), 7)
    waiting = [world.start(update(OLD, partitions=3), 8) for _ in range(20)]
    answered = []
    soon = world.clock.call_soon

    def observed(callback):
        answered.append(sum(answer() is not None for answer in waiting))
        soon(callback)

    world.clock.call_soon = observed
    world.clock.advance()

    assert set(range(19)) <= set(answered), "each begins in a turn of its own"
    assert all(answer() is not None for answer in waiting)


def test_what_a_request_waits_for_keeps_the_next_waiting(world):
    settings = Pending()
    world.topics.ensure = lambda names: settings
    first, second = world.start(lead(OLD, partitions=1), 7), world.start(stop(OLD, partitions=1), 4)
    world.clock.advance()
    assert (first(), second()) == (None, None)
    settings.complete(None)
    world.clock.advance()

    assert second().partition_errors[0].error_code == 0
    assert len(world.replicas.partitions) == 0
