"""From a broker to the controller:
found in the metadata, found again where it was lost, waited for while unknown.
"""

import asyncio
import logging
from types import SimpleNamespace

import pytest

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.core.broker_config import broker_config
from barnabas.core.errors import ErrorCode
from barnabas.core.pending import Pending
from barnabas.network.errors import DisconnectedError, RequestTimedOutError, UnsupportedVersionError
from barnabas.node.controlled_shutdown import ControlledShutdown
from barnabas.node.to_controller import NodeToControllerChannelManager
from barnabas.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from barnabas.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from barnabas.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from metadata_updates import apply
from standing_clock import Clock

ME = 1
INTER, CONTROL = 100, 200
"""What the ports of the listeners INTER and CONTROL begin at."""


def broker(broker_id):
    endpoints = [
        UpdateMetadataEndpoint(listener="INTER", host="h", port=INTER + broker_id),
        UpdateMetadataEndpoint(listener="CONTROL", host="h", port=CONTROL + broker_id),
    ]
    return UpdateMetadataBroker(id=broker_id, endpoints=endpoints)


class Connections:
    """A client: what was asked of whom, and the answers that the test gives."""

    def __init__(self):
        self.asked = []
        self.disconnected = []
        self.closed = False

    def request(self, node, request, *, versions=None):
        self.asked.append((node.port, request, versions, Pending()))
        return self.asked[-1][-1]

    def disconnect(self, node_id):
        self.disconnected.append(node_id)

    async def close(self):
        self.closed = True

    @property
    def ports(self):
        return [port for port, *_ in self.asked]

    def answer(self, response):
        self.asked[-1][-1].complete(response)

    def fail(self, error):
        self.asked[-1][-1].fail(error)


class World:
    """A broker that knows of a cluster what the test tells it."""

    def __init__(self):
        self.clock = Clock()
        self.metadata = MetadataCache(ME)
        self.here = []
        self.local = SimpleNamespace(handle=self._handle)
        self.remote = Connections()

    def _handle(self, request, versions=None):
        self.here.append(request)
        return Pending.of(AllocateProducerIdsResponse(producer_id_start=5))

    def controller_is(self, controller_id, live=(1, 2, 3)):
        apply(
            self.metadata,
            UpdateMetadataRequest(controller_id=controller_id, live_brokers=[broker(each) for each in live]),
        )

    def channel(self, **options):
        return NodeToControllerChannelManager(
            "forwarding",
            ME,
            "CONTROL",
            self.metadata,
            self.clock,
            local=self.local,
            remote=self.remote,
            **options,
        )

    def shutdown(self, **settings):
        config = broker_config({"controlled.shutdown.retry.backoff.ms": "0", **settings})
        return ControlledShutdown(
            ME, "INTER", self.metadata, config, self.clock, local=self.local, remote=self.remote
        )


@pytest.fixture
def world():
    return World()


def refused_partition():
    partition = AlterPartitionResponsePartitionData(error_code=ErrorCode.NOT_CONTROLLER)
    return AlterPartitionResponse(topics=[AlterPartitionResponseTopicData(partitions=[partition])])


def test_requests_go_one_after_the_other_to_the_controllers_listener(world):
    world.controller_is(2)
    channel = world.channel()
    first = channel.send(AllocateProducerIdsRequest(), versions=(0, 0))
    second = channel.send(AllocateProducerIdsRequest())
    assert world.remote.ports == [CONTROL + 2]
    assert world.remote.asked[0][2] == (0, 0)
    world.remote.answer(AllocateProducerIdsResponse(producer_id_start=1))
    world.clock.advance(0)
    world.remote.answer(AllocateProducerIdsResponse(producer_id_start=2))

    assert (first.result().producer_id_start, second.result().producer_id_start) == (1, 2)
    assert repr(channel).startswith("<NodeToControllerChannelManager zk-broker-1-to-controller-forwarding-")


def test_a_controller_in_this_process_is_asked_without_a_connection(world):
    world.controller_is(ME)

    assert world.channel().send(AllocateProducerIdsRequest()).result().producer_id_start == 5
    assert world.remote.asked == []


def test_requests_wait_while_no_controller_is_known(world):
    answer = world.channel().send(AllocateProducerIdsRequest())
    world.clock.advance(60_000)
    world.controller_is(3, live=(1, 2))  # elected, but its endpoints are not known yet
    world.clock.advance(1_000)
    assert (answer.done, world.remote.asked) == (False, [])
    world.controller_is(3)
    world.clock.advance(100)

    assert world.remote.ports == [CONTROL + 3]


def test_a_request_may_have_a_time_limit(world):
    channel = world.channel(retry_timeout_ms=5_000)
    overdue = channel.send(AllocateProducerIdsRequest())
    world.clock.advance(4_000)
    later = channel.send(AllocateProducerIdsRequest())
    world.clock.advance(1_100)

    with pytest.raises(RequestTimedOutError):
        overdue.result()
    assert not later.done
    world.controller_is(2)
    world.clock.advance(100)
    assert world.remote.ports == [CONTROL + 2]


@pytest.mark.parametrize(
    "lost",
    [
        lambda remote: remote.fail(DisconnectedError("gone")),
        lambda remote: remote.fail(RequestTimedOutError("silent")),
        lambda remote: remote.answer(AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)),
        lambda remote: remote.answer(refused_partition()),
    ],
)
def test_a_lost_controller_is_looked_up_again_after_a_pause(world, lost):
    world.controller_is(2)
    channel = world.channel()
    answer = channel.send(AlterPartitionRequest(broker_id=7))
    behind = channel.send(AllocateProducerIdsRequest())
    lost(world.remote)
    world.controller_is(3)
    assert world.remote.ports == [CONTROL + 2], "not at once"
    assert world.remote.disconnected == [2]
    world.clock.advance(50)

    assert world.remote.ports == [CONTROL + 2, CONTROL + 3]
    assert world.remote.asked[-1][1].broker_id == 7, "it keeps its place"
    world.remote.answer(AlterPartitionResponse())
    assert (answer.done, behind.done) == (True, False)
    world.clock.advance(0)
    assert isinstance(world.remote.asked[-1][1], AllocateProducerIdsRequest)


def test_a_controller_is_kept_while_it_answers(world):
    """As Kafka: the metadata may name another one already, but this one still decides."""
    world.controller_is(2)
    channel = world.channel()
    channel.send(AllocateProducerIdsRequest())
    world.controller_is(3)
    world.remote.answer(AllocateProducerIdsResponse())
    channel.send(AllocateProducerIdsRequest())

    assert world.remote.ports == [CONTROL + 2, CONTROL + 2]


def test_an_error_that_sending_again_does_not_mend_goes_to_the_sender(world):
    world.controller_is(2)
    channel = world.channel()
    answer = channel.send(AllocateProducerIdsRequest())
    world.remote.fail(UnsupportedVersionError("too old"))
    world.clock.advance(1_000)

    assert isinstance(answer.error, UnsupportedVersionError)
    assert len(world.remote.asked) == 1


def test_a_closed_channel_sends_nothing_more(world):
    world.controller_is(2)
    channel = world.channel()
    channel.send(AllocateProducerIdsRequest())
    channel.send(AllocateProducerIdsRequest())
    asyncio.run(channel.close())
    world.remote.fail(DisconnectedError("closed"))
    channel.send(AllocateProducerIdsRequest())
    world.clock.advance(1_000)

    assert len(world.remote.asked) == 1
    assert world.remote.closed


# ------------------------------------------------------------------------------ controlled shutdown


def answers(world, *each):
    """The client gives these in turn: a response, or an error to fail with."""
    left = list(each)

    def request(node, request, *, versions=None):
        world.remote.asked.append((node.port, request, versions, None))
        answer = left.pop(0)
        return Pending.failed(answer) if isinstance(answer, Exception) else Pending.of(answer)

    world.remote.request = request


def run_down(world, **settings):
    """Runs it to its end, on a clock whose timers are due at once."""

    async def scenario():
        running = asyncio.ensure_future(world.shutdown(**settings).run(44))
        while not running.done():
            await asyncio.sleep(0)
            world.clock.advance()
        return await running

    return asyncio.run(scenario())


def test_controlled_shutdown_goes_to_the_inter_broker_listener(world):
    world.controller_is(2)
    answers(world, ControlledShutdownResponse())

    assert run_down(world) is True
    ((port, request, _, _),) = world.remote.asked
    assert (port, request) == (INTER + 2, ControlledShutdownRequest(broker_id=ME, broker_epoch=44))
    assert world.remote.closed


def test_controlled_shutdown_is_tried_again(world, caplog):
    world.controller_is(2)
    remaining = ControlledShutdownResponse(remaining_partitions=[RemainingPartition(topic_name="t")])
    answers(world, DisconnectedError("gone"), remaining, ControlledShutdownResponse())

    with caplog.at_level(logging.WARNING):
        assert run_down(world) is True
    assert world.remote.disconnected == [2]
    assert "reason=gone" in caplog.text
    assert "1 partitions remain" in caplog.text


def test_controlled_shutdown_waits_before_it_tries_again(world, run):
    world.controller_is(2)
    answers(world, DisconnectedError("gone"), ControlledShutdownResponse())

    async def scenario():
        running = asyncio.ensure_future(
            world.shutdown(**{"controlled.shutdown.retry.backoff.ms": "5000"}).run(44)
        )
        for passed_ms, asked in ((4999, 1), (1, 2)):
            for _ in range(5):
                await asyncio.sleep(0)
            world.clock.advance(passed_ms)
            for _ in range(5):
                await asyncio.sleep(0)
            assert len(world.remote.asked) == asked
        return await running

    assert run(scenario()) is True


def test_controlled_shutdown_ends_after_its_tries(world, caplog):
    assert run_down(world, **{"controlled.shutdown.max.retries": "2"}) is False
    assert caplog.text.count("no controller is known") == 2
    assert caplog.text.count("shutdown.forced") == 1
