"""A port that several servers share: `SocketServer.share`."""

import asyncio
import contextlib

import pytest
from network_harness import FunctionService, RawClient, echo

from barnabas.network import socket_server
from barnabas.network.clock import LoopClock
from barnabas.network.endpoints import Endpoint
from barnabas.network.settings import SocketSettings
from barnabas.network.socket_server import SocketServer
from serving import free_port


async def sharing(port, name="CLIENTS", **settings):
    server = SocketServer(LoopClock(asyncio.get_running_loop()), SocketSettings(**settings))
    server.bind(Endpoint(name, "127.0.0.1", 0))
    server.start(FunctionService(echo))
    server.share(name, port)
    return server


async def ask(port):
    client = await RawClient.connect(port)
    assert await client.ask(b"hello") == b"hello"
    return client


def test_connections_go_to_all_servers_and_to_the_last_that_is_left():
    async def main():
        port = free_port()
        servers = [await sharing(port) for _ in range(2)]
        clients = []
        while not all(server.connections for server in servers):
            clients.append(await ask(port))
            assert len(clients) < 200
        names = {each.listener.name for server in servers for each in server.connections}
        assert names == {"CLIENTS"}, "they are the listener's in everything"
        servers[0].unshare()
        before = len(servers[0].connections)
        clients += [await ask(port) for _ in range(20)]
        assert len(servers[0].connections) == before
        assert await clients[0].ask(b"still") == b"still"
        for client in clients:
            await client.close()
        for server in servers:
            await server.stop(grace_ms=0)

    asyncio.run(main())


def test_a_server_that_has_all_its_connections_leaves_the_port_to_the_others(caplog):
    """What the system gave it waited in its backlog until the client's time-out."""

    async def main():
        port = free_port()
        small, large = await sharing(port, connections_max=1), await sharing(port)
        clients = [await RawClient.connect(small.listeners["CLIENTS"].endpoint.port)]
        assert await clients[0].ask(b"hello") == b"hello"
        for _ in range(60):
            try:
                clients.append(await asyncio.wait_for(ask(port), 5))
            except (OSError, EOFError):
                # It was in the backlog that was closed: it comes again.
                clients.append(await asyncio.wait_for(ask(port), 5))
        assert (len(small.connections), len(large.connections)) == (1, 60)
        assert caplog.text.count("network.shared_port_left") == 1
        await clients.pop(0).close()
        while small.connections:  # noqa: ASYNC110 - it hears of the end
            await asyncio.sleep(0)
        while not small.connections:
            clients.append(await ask(port))
            assert len(clients) < 200
        small.unshare()
        for client in clients:
            await client.close()
        for server in (small, large):
            await server.stop(grace_ms=0)

    asyncio.run(main())


def test_a_port_that_somebody_has_meanwhile_is_tried_again(caplog, monkeypatch):
    monkeypatch.setattr(socket_server, "_SHARE_AGAIN_MS", 10)

    async def main():
        port = free_port()
        server = await sharing(port, connections_max=1)
        client = await ask(port)
        with contextlib.suppress(OSError, EOFError):
            await asyncio.wait_for(ask(port), 5)  # there is no room: the port is left
        other = server.bind(Endpoint("OTHER", "127.0.0.1", port))
        await client.close()
        while "network.shared_port_lost" not in caplog.text:  # noqa: ASYNC110 - the port cannot be had
            await asyncio.sleep(0)
        server.remove(other.name)
        async with asyncio.timeout(5):
            while not server.connections:
                with contextlib.suppress(OSError):
                    client = await ask(port)
        await client.close()
        assert caplog.text.count("network.shared_port_lost") == 1
        await server.stop(grace_ms=0)

    asyncio.run(main())


def test_a_name_is_not_looked_up_again(monkeypatch):
    """A broker that is full opens the port again and again, on its loop."""

    async def main():
        server = SocketServer(LoopClock(asyncio.get_running_loop()))
        server.bind(Endpoint("CLIENTS", "localhost", 0))
        server.start(FunctionService(echo))
        port = free_port()
        looked_up = []
        real = socket_server.socket.getaddrinfo
        with monkeypatch.context() as patched:
            patched.setattr(
                socket_server.socket,
                "getaddrinfo",
                lambda host, *more, **how: (looked_up.append(host), real(host, *more, **how))[1],
            )
            shared = server.share("CLIENTS", port)
        assert (looked_up, shared.host) == ([server.listeners["CLIENTS"].address], "localhost")
        assert looked_up[0] in {"127.0.0.1", "::1"}
        await server.stop(grace_ms=0)

    asyncio.run(main())


def test_it_is_closed_with_its_listener():
    async def main():
        port = free_port()
        server = await sharing(port)
        server.remove("CLIENTS")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        server.bind(Endpoint("CLIENTS", "127.0.0.1", 0))
        server.share("CLIENTS", port)
        await (await ask(port)).close()
        await server.stop(grace_ms=0)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(main())


def test_it_moves_to_another_listener_and_no_more_once_it_was_left():
    async def main():
        port = free_port()
        server = await sharing(port)
        before = await ask(port)
        server.bind(Endpoint("OTHERS", "127.0.0.1", 0))
        server.move_shared("OTHERS", port)
        server.move_shared("NONE", port)
        after = await ask(port)
        assert await before.ask(b"still") == b"still"
        assert [each.listener.name for each in server.connections] == ["CLIENTS", "OTHERS"]
        server.remove("OTHERS", grace_ms=0)
        server.move_shared("CLIENTS", port)
        await (await ask(port)).close()
        server.unshare()
        server.move_shared("CLIENTS", port)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        for client in (before, after):
            await client.close()
        await server.stop(grace_ms=0)

    asyncio.run(main())


def test_a_port_of_somebody_who_does_not_share_is_refused_in_kafkas_words():
    async def main():
        server = SocketServer(LoopClock(asyncio.get_running_loop()))
        other = server.bind(Endpoint("OTHER", "127.0.0.1", 0))
        server.bind(Endpoint("CLIENTS", "127.0.0.1", 0))
        with pytest.raises(
            OSError, match=f"failed to bind to 127.0.0.1:{other.port}: Address already in use"
        ):
            server.share("CLIENTS", other.port)
        await server.stop(grace_ms=0)

    asyncio.run(main())
