"""Fixtures over `network_harness`."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from network_harness import LOOPBACK, FakeClock, FunctionService, Harness, echo

from barnabas.network.address_rates import AddressRates
from barnabas.network.clock import LoopClock
from barnabas.network.event_loop import BrokerEventLoop
from barnabas.network.settings import SocketSettings
from barnabas.network.socket_server import SocketServer


@pytest.fixture
def serve() -> Callable[..., None]:
    """Runs a coroutine function against a fresh server: ``serve(scenario, service=..., max_bytes=...)``."""

    def run(
        scenario: Callable[[Harness], Coroutine[Any, Any, None]],
        service=echo,
        clock=LoopClock,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] = BrokerEventLoop,
        address_rates: AddressRates | None = None,
        **settings: Any,
    ) -> None:
        async def main() -> None:
            server = SocketServer(
                clock(asyncio.get_running_loop()), SocketSettings(**settings), address_rates=address_rates
            )
            bound = server.bind(LOOPBACK)
            functions = FunctionService(service)
            server.start(functions)
            harness = Harness(server, functions, bound.port)
            try:
                await scenario(harness)
            finally:
                for client in harness.clients:
                    await client.close()
                await server.stop(grace_ms=0)
            assert not server.connections

        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(main())

    return run


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def free_socket_pair():
    """Two ends of a local stream connection, non-blocking."""
    one, other = socket.socketpair()
    one.setblocking(False)
    other.setblocking(False)
    yield one, other
    one.close()
    other.close()
