"""A member learns nothing that the next leader might not know (found by the model of groups, seed 166)."""

import pytest
from consumer_world import GROUP, REBALANCE_MS

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from handled import handled


@pytest.fixture
def joining(world):
    """Sends a member's first heartbeat, or the same again, to a journal that keeps its word for itself."""
    world.topics.create("a", 1)
    world.journal.holds = True

    def join():
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="m1",
            member_epoch=0,
            rebalance_timeout_ms=REBALANCE_MS,
            topic_partitions=[],
            subscribed_topic_names=["a"],
        )
        return handled(world, request)

    return join


def test_a_heartbeat_that_writes_nothing_waits_for_what_was_written_before(world, joining):
    first, again = joining(), joining()
    assert len(world.journal.batches) == 1
    assert not (first.done)
    assert not (again.done)

    world.journal.waiting[0].complete(0)

    assert first.result().member_epoch == again.result().member_epoch == 1


def test_it_is_refused_with_what_was_written_before(world, joining):
    _, again = joining(), joining()

    world.journal.waiting[0].fail(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    with pytest.raises(KafkaError) as refusal:
        again.result()
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR


def test_what_nobody_knows_the_fate_of_is_confirmed_by_writing_behind_it(world, joining):
    joining()
    world.journal.waiting[0].fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT))

    again = joining()
    assert not again.done
    assert len(world.journal.batches) == 2
    world.journal.waiting[1].complete(0)

    assert again.result().member_epoch == 1
    assert joining().member_epoch == 1, "confirmed once is confirmed"
    assert world.reloaded().group.epoch == world.group.epoch


def test_while_the_log_refuses_it_is_refused_too(world, joining):
    joining()
    world.journal.waiting[0].fail(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
    world.journal.refusal = ErrorCode.NOT_ENOUGH_REPLICAS

    with pytest.raises(KafkaError) as refusal:
        joining()

    assert refusal.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
