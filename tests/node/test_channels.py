"""The controller's requests to the broker in its own process."""

import dataclasses
import logging
from types import SimpleNamespace

import pytest

from barnabas.broker.handlers import api_table
from barnabas.broker.profiles import PROFILE_3_9
from barnabas.cluster.brokers import Broker
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.network.errors import CloseConnection
from barnabas.network.peer import ListenerId
from barnabas.node.channels import BrokerChannels, LocalBroker
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from standing_clock import Clock

ME = 1


def raises(error):
    def handler(context, request):
        raise error

    return handler


def later(error):
    """A handler whose Pending fails in a later turn."""
    return lambda context, request: context.broker.after(error)


class World:
    """The controller's queues, and the handlers of its own broker: LeaderAndIsr's is the test's."""

    def __init__(self, leader_and_isr):
        self.clock = Clock()
        self.calls = []
        self.answers = []
        table = dict(api_table(PROFILE_3_9))
        counted = self._counted(leader_and_isr)
        table[ApiKey.LEADER_AND_ISR] = dataclasses.replace(table[ApiKey.LEADER_AND_ISR], handler=counted)
        table[ApiKey.UPDATE_METADATA] = dataclasses.replace(
            table[ApiKey.UPDATE_METADATA], handler=lambda context, request: UpdateMetadataResponse()
        )
        local = LocalBroker(ListenerId("PLAINTEXT", "PLAINTEXT"))
        local.services = SimpleNamespace(broker_id=ME, api_table=table, after=self._after, clock=self.clock)
        self.channels = BrokerChannels(ME, "PLAINTEXT", self.clock, local=local, remote=None)
        self.channels.add_broker(Broker(ME, ()))

    def _counted(self, handler):
        def counting(context, request):
            self.calls.append(request)
            return handler(context, request)

        return counting

    def _after(self, error):
        pending = Pending()
        self.clock.call_soon(lambda: pending.fail(error))
        return pending

    def send(self, request):
        self.channels.send(ME, request, self.answers.append)


@pytest.mark.parametrize("fails", [raises, later])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaError(ErrorCode.STALE_BROKER_EPOCH), ErrorCode.STALE_BROKER_EPOCH),
        (ZeroDivisionError("oops"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_request_that_fails_in_process_is_answered_once_and_the_queue_goes_on(fails, error, code, caplog):
    world = World(fails(error))

    with caplog.at_level(logging.INFO):
        world.send(LeaderAndIsrRequest())
        world.send(UpdateMetadataRequest())
        world.clock.advance(10_000)

    assert len(world.calls) == 1
    assert [type(answer).__name__ for answer in world.answers] == [
        "LeaderAndIsrResponse",
        "UpdateMetadataResponse",
    ]
    assert world.answers[0].error_code == code
    bugs = [each for each in caplog.records if "request.failed" in each.message]
    assert len(bugs) == (not isinstance(error, KafkaError))


@pytest.mark.parametrize("fails", [raises, later])
def test_a_request_in_process_that_has_no_answer_is_not_asked_again(fails, caplog):
    world = World(fails(CloseConnection("a handler of the controller's requests never does this")))
    world.send(LeaderAndIsrRequest())
    world.send(UpdateMetadataRequest())
    world.clock.advance(10_000)

    assert len(world.calls) == 1
    assert [type(answer).__name__ for answer in world.answers] == ["UpdateMetadataResponse"]
    assert caplog.text.count("channel.local_request_failed request=LeaderAndIsrRequest") == 1


def test_an_answer_that_its_receiver_fails_over_does_not_stop_the_queue(caplog):
    world = World(lambda context, request: UpdateMetadataResponse())
    world.channels.send(ME, LeaderAndIsrRequest(), lambda answer: 1 / 0)
    world.clock.advance(1000)
    world.send(UpdateMetadataRequest())
    world.clock.advance(1000)

    assert len(world.answers) == 1
    assert "channel.answer_not_taken" in caplog.text
