"""A server that ends while clients come."""

import asyncio
import gc
import socket
import warnings

import pytest

from barnabas.network.event_loop import BrokerEventLoop
from barnabas.network.listening import stop_listening


@pytest.mark.parametrize("new_loop", [asyncio.SelectorEventLoop, BrokerEventLoop])
@pytest.mark.parametrize("turns", range(6))
def test_who_comes_as_a_server_ends_is_served_or_refused(turns, new_loop):
    async def scene():
        served = []
        server = await asyncio.start_server(lambda reader, writer: served.append(writer), "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname()) as client:
            client.settimeout(10)
            for _ in range(turns):
                await asyncio.sleep(0)
            await stop_listening(server)
            for writer in served:
                writer.write(b"served")
                writer.close()
                await writer.wait_closed()
            try:
                return client.recv(10)
            except ConnectionResetError:
                return b"refused"

    with asyncio.Runner(loop_factory=new_loop) as runner, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        assert runner.run(scene()) in {b"served", b"refused"}
        gc.collect()
    assert [str(each.message) for each in told] == []
