"""`AddPartitionsToTxnManager`: one request at a time to a coordinator, and what becomes of each question."""

import pytest

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TRANSACTION_STATE_TOPIC, TopicPartition
from barnabas.core.pending import Pending
from barnabas.network.errors import DisconnectedError, UnsupportedVersionError
from barnabas.network.node_link import Node
from barnabas.node.verification import AddPartitionsToTxnManager
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from barnabas.replica.verification import TransactionOf
from barnabas.replica.verification import TransactionSupport as S
from standing_clock import Clock

E = ErrorCode
ME, OTHER = 1, 2
TP = TopicPartition("t", 0)


class Remote:
    """A coordinator that answers when it is told to."""

    def __init__(self):
        self.requests = []

    def request(self, node, request, *, versions=None):
        assert (node.id, versions) == (OTHER, (4, 5))
        answer = Pending()
        self.requests.append((request, answer))
        return answer

    def say(self, code=0, *, leave_out=False, error_code=0):
        """Answers the oldest request: this code for each partition."""
        request, answer = self.requests.pop(0)
        results = [
            AddPartitionsToTxnResult(
                transactional_id=each.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(partition_index=one, partition_error_code=code)
                            for one in topic.partitions[leave_out:]
                        ],
                    )
                    for topic in each.topics
                ],
            )
            for each in request.transactions
        ]
        answer.complete(AddPartitionsToTxnResponse(error_code=error_code, results_by_transaction=results))


class Broker:
    def node(self, listener):
        return Node(OTHER, "h", 1) if listener == "BROKERS" else None


class Metadata:
    """Broker 2 coordinates the partition 5, and nobody the others."""

    def partition(self, tp):
        class State:
            leader = OTHER

        return State if tp == TopicPartition(TRANSACTION_STATE_TOPIC, 5) else None

    def alive_broker(self, broker_id):
        return Broker() if broker_id == OTHER else None


@pytest.fixture
def remote():
    return Remote()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def manager(remote, clock):
    return AddPartitionsToTxnManager(
        ME,
        "BROKERS",
        Metadata(),
        lambda name: 5 if name != "nowhere" else 6,
        local=None,
        remote=remote,
        clock=clock,
        enabled=True,
    )


def ask(manager, name="id", epoch=0, *partitions, support=S.ABORTABLE):
    return manager.verify(TransactionOf(name, 7, epoch), partitions or [TP], support)


def test_what_comes_up_while_a_request_is_under_way_goes_in_the_next_one(manager, remote):
    first, second, third = ask(manager), ask(manager, "b"), ask(manager, "c")
    assert len(remote.requests) == 1
    remote.say()
    assert first.result() == {}
    (request, _) = remote.requests[0]
    assert [each.transactional_id for each in request.transactions] == ["b", "c"]
    assert all(each.verify_only for each in request.transactions)
    remote.say(E.TRANSACTION_ABORTABLE)
    assert second.result() == third.result() == {TP: E.TRANSACTION_ABORTABLE}


def test_questions_are_timed_and_refusals_counted(manager, remote, clock):
    ask(manager, "id", 0, TP, TopicPartition("t", 1))
    ask(manager, "refused", 0, TP, TopicPartition("t", 1))
    clock.advance(30)
    remote.say()
    clock.advance(20)
    remote.say(E.TRANSACTION_ABORTABLE)
    ask(manager, "nowhere")

    assert list(manager.times_ms.recent) == [30, 50]
    assert manager.failures == 2


def test_a_question_about_an_id_that_waits_displaces_it(manager, remote):
    ask(manager, "under way")
    old = ask(manager)
    again = ask(manager)
    assert old.result() == {TP: E.NETWORK_EXCEPTION}
    newer = ask(manager, epoch=1)
    assert again.result() == {TP: E.INVALID_PRODUCER_EPOCH}
    zombie = ask(manager, epoch=0)
    assert zombie.result() == {TP: E.INVALID_PRODUCER_EPOCH}
    remote.say()
    remote.say()
    assert newer.result() == {}


def test_of_two_producer_ids_none_is_fenced_by_its_epoch(manager, remote):
    """A producer whose epochs are used up goes on under another id, with epoch 0."""
    ask(manager, "under way")
    old = ask(manager, epoch=32766)
    new = manager.verify(TransactionOf("id", 8, 0), [TP], S.ADDED)
    assert old.result() == {TP: E.NETWORK_EXCEPTION}
    remote.say()
    remote.say()
    assert new.result() == {}


@pytest.mark.parametrize(
    ("said", "support", "found"),
    [
        (E.PRODUCER_FENCED, S.ABORTABLE, E.INVALID_PRODUCER_EPOCH),
        (E.TRANSACTION_ABORTABLE, S.ABORTABLE, E.TRANSACTION_ABORTABLE),
        (E.TRANSACTION_ABORTABLE, S.VERIFIED, E.INVALID_TXN_STATE),
        (E.NOT_COORDINATOR, S.ABORTABLE, E.NOT_COORDINATOR),
    ],
)
def test_codes_are_those_that_the_client_knows(manager, remote, said, support, found):
    answer = ask(manager, support=support)
    remote.say(said)
    assert answer.result() == {TP: found}


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (UnsupportedVersionError("too old"), {}),
        (DisconnectedError("gone"), {TP: E.NETWORK_EXCEPTION}),
        (TimeoutError(), {TP: E.NETWORK_EXCEPTION}),
    ],
)
def test_a_coordinator_that_does_not_answer_is_asked_again_one_that_cannot_is_believed(
    manager, remote, error, found
):
    answer = ask(manager)
    remote.requests.pop(0)[1].fail(error)
    assert answer.result() == found
    assert ask(manager) is not None
    assert len(remote.requests) == 1, "the next question goes out"


def test_a_coordinator_that_cannot_add_is_not_believed_to_have_added(manager, remote):
    answer = ask(manager, support=S.ADDED)
    remote.requests.pop(0)[1].fail(UnsupportedVersionError("too old"))

    assert answer.result() == {TP: E.INVALID_TXN_STATE}


def test_a_refusal_of_the_whole_request_is_no_clients_business(manager, remote):
    answer = ask(manager)
    remote.say(error_code=E.CLUSTER_AUTHORIZATION_FAILED)
    assert answer.result() == {TP: E.INVALID_TXN_STATE}


def test_a_partition_that_is_left_out_is_not_verified(manager, remote):
    answer = ask(manager, "id", 0, TP, TopicPartition("t", 1))
    remote.say(leave_out=True)
    assert set(answer.result().values()) == {E.NETWORK_EXCEPTION}


def test_without_a_coordinator_the_producer_tries_again(manager, remote):
    assert ask(manager, "nowhere").result() == {TP: E.COORDINATOR_NOT_AVAILABLE}
    assert not remote.requests


def test_the_times_at_which_it_is_asked_again_end(manager, clock):
    """While the markers of the transaction before are on their way; Kafka has 100 ms of patience too."""
    waited, begun = [], clock.monotonic_ms()
    while (later := manager.later(len(waited))) is not None:
        while not later.done:
            clock.advance(0.5)
        waited.append(clock.monotonic_ms() - begun)

    assert waited == [0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 51.5, 71.5, 91.5]
