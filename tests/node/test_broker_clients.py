"""The keys that the connections between brokers obey, seen on sockets;
time is a clock that the test moves.
"""

import asyncio
import contextlib
import socket
from random import Random

import pytest

from barnabas.core.broker_config import broker_config
from barnabas.network.errors import ConnectionSetupTimedOutError, RequestTimedOutError
from barnabas.network.node_link import Node
from barnabas.network.selector import completed
from barnabas.node.broker_clients import (
    controlled_shutdown_client,
    controller_client,
    fetcher_clients,
    to_controller_client,
)
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import encode_response
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from standing_clock import Clock

VERSION = ControlledShutdownRequest.max_version
REQUEST = ControlledShutdownRequest(broker_id=1)
ANSWERS = {
    ApiKey.API_VERSIONS: ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=ApiKey.CONTROLLED_SHUTDOWN, max_version=VERSION)]
    ),
    ApiKey.CONTROLLED_SHUTDOWN: ControlledShutdownResponse(),
}

CLIENTS = {
    "controller to broker": controller_client,
    "broker to controller": lambda *parts: to_controller_client(*parts, retry_timeout_ms=60_000),
    "controlled shutdown": controlled_shutdown_client,
    "follower to leader": lambda *parts: fetcher_clients(*parts)[0],
}


class Middle(Random):
    """No jitter."""

    def uniform(self, _low, _high):
        return 1.0


class Peer:
    """The broker at the other end: counts its connections, and answers or is silent."""

    def __init__(self, *, answers):
        self.connections = 0
        self.closed = asyncio.Event()
        self.asked = asyncio.Event()
        self._answers = answers

    @contextlib.asynccontextmanager
    async def listening(self):
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield Node(2, *server.sockets[0].getsockname())
        finally:
            server.close()

    async def _serve(self, reader, writer):
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                self.asked.set()
                if self._answers:
                    key, version, correlation_id = (
                        int.from_bytes(frame[at:end]) for at, end in ((0, 2), (2, 4), (4, 8))
                    )
                    writer.write(b"".join(encode_response(correlation_id, ANSWERS[ApiKey(key)], version)))
        self.closed.set()
        writer.close()


@contextlib.asynccontextmanager
async def client(which, settings):
    """The client of this name under a configuration, and its clock."""
    clock = Clock()
    config = broker_config({key: str(value) for key, value in settings.items()})
    made = CLIENTS[which](1, config, clock, Middle())
    try:
        yield made, clock
    finally:
        await made.close()


async def turns(clock):
    """Lets what is due happen, on the loop and on the clock."""
    for _ in range(5):
        clock.advance(0)
        await asyncio.sleep(0)


TIMEOUT_KEYS = {
    "controller to broker": "request.timeout.ms",
    "broker to controller": "controller.socket.timeout.ms",
    "controlled shutdown": "request.timeout.ms",
    "follower to leader": "request.timeout.ms",
}


@pytest.mark.parametrize("which", CLIENTS)
def test_a_silent_broker_is_waited_for_as_long_as_the_time_out_says(run, which):
    async def scenario():
        peer = Peer(answers=False)
        async with peer.listening() as node, client(which, {TIMEOUT_KEYS[which]: 4321}) as (asker, clock):
            call = asker.request(node, REQUEST)
            await peer.asked.wait()
            clock.advance(4321)
            assert not call.done
            clock.advance(2)
            assert isinstance(call.error, RequestTimedOutError)
            await peer.closed.wait()
            peer.asked.clear()
            asker.request(node, REQUEST)
            clock.advance(100)
            await peer.asked.wait()
            assert peer.connections == 2

    run(scenario())


@contextlib.contextmanager
def unreachable():
    """A node that answers no attempt to connect:
    its queue of new connections is full, so the system drops them.
    """
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            filler = sockets.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield Node(2, *listener.getsockname())


SETUP = {"socket.connection.setup.timeout.ms": 1000, "socket.connection.setup.timeout.max.ms": 4000}
SOCKET_KEYS = dict.fromkeys(CLIENTS, "controller.socket.timeout.ms") | {
    "follower to leader": "replica.socket.timeout.ms"
}


@pytest.mark.parametrize("which", CLIENTS)
@pytest.mark.parametrize(
    ("socket_ms", "limits_ms"), [(30_000, [1000, 2000, 4000, 4000]), (3000, [1000, 2000])]
)
def test_an_attempt_to_connect_may_take_twice_as_long_each_time(run, which, socket_ms, limits_ms):
    async def scenario(node):
        settings = SETUP | {SOCKET_KEYS[which]: socket_ms}
        async with client(which, settings) as (asker, clock):
            for limit_ms in limits_ms:
                clock.advance(100)  # the longest pause before an attempt
                call = asker.request(node, REQUEST)
                await turns(clock)
                clock.advance(limit_ms)
                assert not call.done
                clock.advance(2)
                assert isinstance(call.error, ConnectionSetupTimedOutError)

    with unreachable() as node:
        run(scenario(node))


@pytest.mark.parametrize("which", ["controller to broker", "controlled shutdown", "follower to leader"])
def test_an_attempt_to_connect_takes_no_longer_than_the_time_out_of_its_sockets(run, which):
    async def scenario(node):
        async with client(which, {SOCKET_KEYS[which]: 700}) as (asker, clock):
            call = asker.request(node, REQUEST)
            await turns(clock)
            clock.advance(700)
            assert not call.done
            clock.advance(2)
            assert isinstance(call.error, ConnectionSetupTimedOutError)

    with unreachable() as node:
        run(scenario(node))


@pytest.mark.parametrize(
    ("which", "ends"),
    [
        ("controller to broker", False),
        ("broker to controller", False),
        ("controlled shutdown", True),
        ("follower to leader", True),
    ],
)
def test_which_connections_end_when_they_are_idle(run, which, ends):
    """Those to and from the controller never do (``Selector.NO_IDLE_TIMEOUT_MS``)."""

    async def scenario():
        peer = Peer(answers=True)
        async with (
            peer.listening() as node,
            client(which, {"connections.max.idle.ms": 5000}) as (asker, clock),
        ):
            await completed(asker.request(node, REQUEST))
            clock.advance(5000)
            await turns(clock)
            assert not peer.closed.is_set()
            clock.advance(1_000_000)
            if ends:
                await peer.closed.wait()
            await completed(asker.request(node, REQUEST))
            assert peer.connections == 1 + ends

    run(scenario())
