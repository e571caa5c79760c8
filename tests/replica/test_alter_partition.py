"""Proposals on their way to the controller: together, one request at a time, never lost."""

import pytest

from barnabas.cluster.leadership import LeaderAndIsr
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import ZERO_UUID, TopicPartition
from barnabas.core.pending import Pending
from barnabas.node.isr_channel import IsrChannel
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from barnabas.replica.alter_partition import RETRY_MS, AlterPartitionManager
from standing_clock import TickingClock

TOPIC_ID = b"\7" * 16


class Channel:
    def __init__(self):
        self.sent = []

    def send(self, request, *, versions):
        for version in versions:
            request.encode(version)  # it must fit each version that may go over the wire
        self.versions = versions
        self.sent.append((request, Pending()))
        return self.sent[-1][1]

    def answer(self, index, *, code=0, **partitions):
        request, pending = self.sent[index]
        topic = AlterPartitionResponseTopicData(topic_id=TOPIC_ID)
        for each in request.topics[0].partitions:
            topic.partitions.append(
                AlterPartitionResponsePartitionData(
                    partition_index=each.partition_index,
                    error_code=partitions.get(f"p{each.partition_index}", 0),
                    leader_id=1,
                    leader_epoch=each.leader_epoch,
                    isr=[state.broker_id for state in each.new_isr_with_epochs],
                    partition_epoch=each.partition_epoch + 1,
                )
            )
        pending.complete(AlterPartitionResponse(error_code=code, topics=[] if code else [topic]))


@pytest.fixture
def channel():
    return Channel()


@pytest.fixture
def manager(channel, clock):
    return AlterPartitionManager(1, lambda: 9, IsrChannel(channel, clock), clock)


def propose(manager, partition, *isr, topic_id=TOPIC_ID):
    return manager.submit(
        TopicPartition("t", partition), topic_id, LeaderAndIsr(1, isr, 4, partition_epoch=7)
    )


def test_one_request_in_flight_the_next_takes_all_that_waits(manager, channel):
    first = propose(manager, 0, 1, 2)
    second, third = propose(manager, 1, 1), propose(manager, 2, 1)
    assert len(channel.sent) == 1
    request = channel.sent[0][0]
    assert (request.broker_id, request.broker_epoch) == (1, 9)

    channel.answer(0)

    assert first.result() == LeaderAndIsr(1, (1, 2), 4, partition_epoch=8)
    assert [each.partition_index for each in channel.sent[1][0].topics[0].partitions] == [1, 2]
    channel.answer(1, p1=ErrorCode.INELIGIBLE_REPLICA)
    assert second.error.code is ErrorCode.INELIGIBLE_REPLICA
    assert third.result().isr == (1,)
    assert len(channel.sent) == 2


@pytest.mark.parametrize("failure", ["code", "network"])
def test_a_failed_request_is_sent_again(manager, channel, clock, failure):
    decision = propose(manager, 0, 1)
    if failure == "code":
        channel.answer(0, code=ErrorCode.NOT_CONTROLLER)
    else:
        channel.sent[0][1].fail(OSError("gone"))
    assert (decision.done, len(channel.sent)) == (False, 1)
    clock.advance(RETRY_MS)
    channel.answer(1)

    assert decision.result().partition_epoch == 8


def test_a_topic_without_an_id_keeps_the_request_at_version_1(manager, channel):
    decision = propose(manager, 0, 1, 2, topic_id=ZERO_UUID)
    request, pending = channel.sent[0]
    (topic,) = request.topics
    assert channel.versions == (0, 1)
    assert (topic.topic_name, topic.partitions[0].new_isr) == ("t", [1, 2])
    partition = AlterPartitionResponsePartitionData(
        leader_id=1, leader_epoch=4, isr=[1, 2], partition_epoch=8
    )
    answer = AlterPartitionResponseTopicData(topic_name="t", partitions=[partition])
    pending.complete(AlterPartitionResponse(topics=[answer]))

    assert decision.result().isr == (1, 2)
    propose(manager, 0, 1)
    assert channel.versions == (3, 3)


def test_a_partition_that_the_answer_leaves_out_is_unknown(manager, channel):
    decision = propose(manager, 0, 1)
    channel.sent[0][1].complete(AlterPartitionResponse())

    assert decision.error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_second_proposal_of_a_partition_is_not_taken(manager):
    propose(manager, 0, 1)

    with pytest.raises(KafkaError) as refused:
        propose(manager, 0, 1, 2).result()
    assert refused.value.code is ErrorCode.OPERATION_NOT_ATTEMPTED


def test_who_hears_the_decision_may_propose_again(manager, channel):
    again = []
    propose(manager, 0, 1).when_done(lambda done: again.append(propose(manager, 0, 1, 2)))
    channel.answer(0)
    channel.answer(1)

    assert again[0].result().isr == (1, 2)


def test_many_decisions_are_heard_in_slices_and_new_proposals_go_together(channel):
    clock = TickingClock()
    manager = AlterPartitionManager(1, lambda: 9, IsrChannel(channel, clock), clock)
    propose(manager, 1000, 1)
    decisions = [propose(manager, number, 1) for number in range(200)]
    again = []
    for number in range(3):
        decisions[number].then(lambda _, number=number: again.append(propose(manager, number, 1, 2)))
    channel.answer(0)
    channel.answer(1)

    assert not any(decision.done for decision in decisions), "the loop serves others in between"
    clock.advance(1_000)
    assert all(decision.done and not decision.error for decision in decisions)
    assert [len(request.topics[0].partitions) for request, _ in channel.sent] == [1, 200, 3]
    channel.answer(2)
    assert [decision.result().isr for decision in again] == [(1, 2)] * 3
