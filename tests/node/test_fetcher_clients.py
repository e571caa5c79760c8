"""The connections of a follower to its leaders, as the configuration wants them."""

import asyncio
import gc
import random
import socket

import pytest

from barnabas.core.broker_config import broker_config
from barnabas.network.clock import LoopClock
from barnabas.network.node_link import Node
from barnabas.node.broker_clients import fetcher_clients
from barnabas.protocol.messages.fetch import FetchRequest


def clients(**given):
    config = broker_config({key.replace("_", "."): str(value) for key, value in given.items()})
    return fetcher_clients(7, config, LoopClock(asyncio.get_running_loop()), random.Random(1))


def test_each_fetcher_has_a_client_with_one_request_in_flight(run):
    async def scenario():
        return [client.settings for client in clients(num_replica_fetchers=3, request_timeout_ms=1234)]

    settings = run(scenario())
    assert [each.client_id for each in settings] == [f"broker-7-fetcher-{number}" for number in range(3)]
    assert {(each.max_in_flight, each.request_timeout_ms) for each in settings} == {(1, 1234)}


def test_a_connection_may_take_as_long_as_the_socket_time_out_allows(run):
    async def scenario():
        (client,) = clients(replica_socket_timeout_ms=600)
        return client.settings

    settings = run(scenario())
    assert (settings.setup_timeout_ms, settings.setup_timeout_max_ms) == (600, 600)


@pytest.mark.parametrize(
    ("given", "fixed"), [({}, False), ({"replica_socket_receive_buffer_bytes": 8192}, True)]
)
def test_the_receive_buffer_is_the_systems_unless_it_is_set(run, given, fixed):
    async def scenario():
        connected = asyncio.Event()

        async def accept(_reader, writer):
            connected.set()
            writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        (client,) = clients(**given)
        client.request(Node(1, *address), FetchRequest(), versions=(17, 17)).when_done(lambda _: None)
        await connected.wait()
        sizes = [each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for each in _sockets_to(address)]
        await client.close()
        server.close()
        return sizes

    # The kernel doubles what it is given, for its own use.
    (size,) = run(scenario())
    assert (size == 2 * 8192) is fixed


def _sockets_to(address):
    found = [each for each in gc.get_objects() if type(each) is socket.socket and each.fileno() >= 0]
    for each in found:
        try:
            if each.getpeername() == address:
                yield each
        except OSError:
            continue
