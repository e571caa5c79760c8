"""What listeners do when accepting fails, when descriptors run short, and when thousands of connections are
idle.
"""

import asyncio
import errno
import os
import socket
from collections import deque

import pytest
from network_harness import LOOPBACK, FunctionService, RawClient, echo, framed

from barnabas.network import socket_server as module
from barnabas.network.clock import LoopClock
from barnabas.network.endpoints import Endpoint
from barnabas.network.settings import SocketSettings
from barnabas.network.socket_server import SocketServer


class Room:
    """Descriptors of which so many are left to connections."""

    limit, reserve = 1024, 256

    def __init__(self, left):
        self.left = left

    def has_room(self):
        self.left -= 1
        return self.left >= 0


class HurriedClock(LoopClock):
    """Timers that are over a hundred times as soon."""

    def call_later(self, delay_ms, callback):
        return super().call_later(delay_ms / 100, callback)


class FailingSocket:
    """A listening socket whose accept fails with these errors first."""

    def __init__(self, sock, codes):
        self.sock = sock
        self.codes = deque(codes)
        self.accepts = 0

    def accept(self):
        self.accepts += 1
        if self.codes:
            code = self.codes.popleft()
            raise OSError(code, os.strerror(code))
        return self.sock.accept()

    def fileno(self):
        return self.sock.fileno()

    def close(self):
        self.sock.close()


def fail_accepts(harness, codes):
    [listener] = harness.server.listeners.values()
    listener._socket = failing = FailingSocket(listener._socket, codes)
    return failing


def lines(caplog, event):
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith(event)]


@pytest.mark.parametrize("code", [errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.ENETUNREACH])
def test_an_error_of_one_connection_lets_the_next_one_in(serve, caplog, code):
    async def scenario(harness):
        fail_accepts(harness, [code] * 3)
        client = await harness.client()
        assert await client.ask(b"fine") == b"fine"

    serve(scenario)
    assert not caplog.records


@pytest.mark.parametrize(
    "code", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EINVAL, errno.EBADF]
)
def test_any_other_error_lets_the_listener_rest_and_go_on(serve, caplog, code):
    async def scenario(harness):
        before = await harness.client()
        await before.ask(b"here")
        failing = fail_accepts(harness, [code] * 3)
        client = await harness.client()
        assert await client.ask(b"late") == b"late"
        assert await before.ask(b"unharmed") == b"unharmed"
        # Three failures, the connection, and the end of the backlog: no loop runs hot.
        assert failing.accepts <= 5

    serve(scenario, clock=HurriedClock)
    assert len(lines(caplog, "network.accept_failed")) == 3


class StandingClock(LoopClock):
    """Timers that are never over."""

    def call_later(self, _delay_ms, callback):
        return super().call_later(3_600_000, callback)


def test_a_listener_that_cannot_accept_does_not_try_again_at_once(serve):
    async def scenario(harness):
        before = await harness.client()
        await before.ask(b"here")
        failing = fail_accepts(harness, [errno.EMFILE] * 1000)
        await harness.client()
        await harness.until(lambda: failing.accepts)
        for _ in range(10):
            await before.ask(b"a turn of the loop, at least")
        assert failing.accepts == 1

    serve(scenario, clock=StandingClock)


def test_while_descriptors_are_short_connections_are_refused_and_those_there_go_on(serve, caplog):
    async def scenario(harness):
        harness.server._descriptors = Room(2)
        first, second = await harness.client(), await harness.client()
        assert await first.ask(b"1") == b"1"
        assert await second.ask(b"2") == b"2"
        for _ in range(20):
            refused = await harness.client()
            assert await refused.is_closed()
        assert await first.ask(b"still") == b"still"
        assert len(harness.server.connections) == 2
        harness.server._descriptors = Room(100)
        late = await harness.client()
        assert await late.ask(b"3") == b"3"

    serve(scenario, clock=HurriedClock)
    [line] = lines(caplog, "network.connections_refused")
    assert "descriptors_max=1024" in line
    assert "reserved=256" in line
    assert "ulimit -n" in line


def test_a_listener_that_refuses_rests_after_each_lot(serve):
    async def scenario(harness):
        harness.server._descriptors = Room(0)
        failing = fail_accepts(harness, [])
        clients = [await RawClient.connect(harness.port) for _ in range(30)]
        # The clock stands still, so this rest has no end.
        await asyncio.sleep(0.02)
        assert failing.accepts <= 2 * len(clients)
        accepts = failing.accepts
        clients += [await RawClient.connect(harness.port) for _ in range(10)]
        await asyncio.sleep(0.02)
        assert failing.accepts == accepts
        for client in clients:
            await client.close()

    serve(scenario, clock=StandingClock)


def test_how_many_were_refused_is_told_once_a_while(serve, caplog, monkeypatch):
    now = 0.0
    monkeypatch.setattr(HurriedClock, "monotonic_ms", staticmethod(lambda: now))

    async def scenario(harness):
        nonlocal now
        harness.server._descriptors = Room(0)
        for _ in range(5):
            assert await (await harness.client()).is_closed()
        now += 10_000
        assert await (await harness.client()).is_closed()

    serve(scenario, clock=HurriedClock)
    counts = [line.split("count=")[1].split()[0] for line in lines(caplog, "network.connections_refused")]
    assert counts == ["1", "5"]


def test_the_inter_broker_listener_takes_the_descriptor_of_an_idle_client():
    async def main():
        server = SocketServer(LoopClock(asyncio.get_running_loop()), inter_broker_listener="INTERNAL")
        clients, brokers = (server.bind(Endpoint(name, "127.0.0.1", 0)) for name in ("CLIENTS", "INTERNAL"))
        server.start(FunctionService(echo))
        server._descriptors = Room(1)
        client = await RawClient.connect(clients.port)
        assert await client.ask(b"client") == b"client"
        broker = await RawClient.connect(brokers.port)
        assert await broker.ask(b"broker") == b"broker"
        assert await client.is_closed()
        refused = await RawClient.connect(clients.port)
        assert await refused.is_closed()
        for each in (client, broker, refused):
            await each.close()
        await server.stop(grace_ms=0)

    asyncio.run(main())


def test_a_listener_for_clients_takes_no_descriptor_from_another_one():
    async def main():
        server = SocketServer(LoopClock(asyncio.get_running_loop()), inter_broker_listener="INTERNAL")
        ports = [server.bind(Endpoint(name, "127.0.0.1", 0)).port for name in ("A", "B", "INTERNAL")]
        server.start(FunctionService(echo))
        server._descriptors = Room(1)
        idle = await RawClient.connect(ports[0])
        assert await idle.ask(b"1") == b"1"
        refused = await RawClient.connect(ports[1])
        assert await refused.is_closed()
        assert await idle.ask(b"still") == b"still"
        for each in (idle, refused):
            await each.close()
        await server.stop(grace_ms=0)

    asyncio.run(main())


def test_a_listener_rests_when_connections_come_faster_than_they_may(serve):
    async def scenario(harness):
        failing = fail_accepts(harness, [])
        clients = [await RawClient.connect(harness.port) for _ in range(10)]
        # The clock stands still, so this rest has no end.
        await asyncio.sleep(0.02)
        assert failing.accepts < len(clients)
        assert await clients[0].ask(b"1") == b"1"
        for client in clients:
            await client.close()

    serve(scenario, clock=StandingClock, creation_rate_max=1, quota_samples=2, quota_window_ms=1000)


def test_a_connection_that_cannot_be_set_up_is_not_counted(serve, monkeypatch):
    def refuse(sock, settings):
        if len(refused) < 2:
            refused.append(sock)
            raise OSError(errno.EINVAL, "Invalid argument")
        configure(sock, settings)

    refused = []
    configure = module._configure
    monkeypatch.setattr(module, "_configure", refuse)

    async def scenario(harness):
        for _ in range(2):
            assert await (await harness.client()).is_closed()
        client = await harness.client()
        assert await client.ask(b"fine") == b"fine"
        assert len(harness.server.connections) == 1

    serve(scenario, connections_per_ip_max=1)
    assert [sock.fileno() for sock in refused] == [-1, -1]


def test_a_flood_of_connections_lets_others_have_their_turns(serve):
    """Each accept takes a millisecond of a clock that only accepts move: one turn is two of them."""
    spent = 0.0

    class Spent(LoopClock):
        @staticmethod
        def monotonic_ms():
            return spent

    class Slow(FailingSocket):
        def accept(self):
            nonlocal spent
            sock = self.sock.accept()
            spent += 1.0
            return sock

    async def scenario(harness):
        light = await harness.client()
        await light.ask(b"light")
        [listener] = harness.server.listeners.values()
        flood = [socket.socket() for _ in range(40)]
        for each in flood:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", harness.port))
        listener._socket = Slow(listener._socket, [])
        light.send(framed(b"light"))
        before = len(harness.server.connections)
        # The turn in which the listener and the light client are both readable, and the client's own.
        await light.response()
        assert len(harness.server.connections) - before <= 3 * module._ACCEPT_TURN_MS
        await harness.until(lambda: len(harness.server.connections) == 41)
        for each in flood:
            each.close()

    serve(scenario, clock=Spent)


def test_a_sweep_closes_many_idle_connections_in_as_many_turns_as_it_needs(monkeypatch):
    count = 350
    # Pairs of sockets, which have no TCP options: accepting is not what is tested here.
    monkeypatch.setattr(module, "_configure", lambda sock, _settings: sock.setblocking(False))

    async def main():
        server = SocketServer(LoopClock(asyncio.get_running_loop()), SocketSettings(idle_ms_max=-1))
        server.bind(LOOPBACK)
        server.start(FunctionService(echo))
        [listener] = server.listeners.values()
        others = []
        for number in range(count):
            here, there = socket.socketpair()
            server.accepted(listener, here, ("10.0.0.1", number))
            others.append(there)
        for connection in server.connections:
            connection.active = connection.address[1] == 7
        server.settings = SocketSettings(idle_ms_max=0)
        server._sweep()
        left = len(server.connections)
        assert left == count - module._SWEPT_A_TURN + 1
        while server._sweep_timer is None:
            await asyncio.sleep(0)
            assert left - len(server.connections) <= module._SWEPT_A_TURN
            left = len(server.connections)
        assert [connection.address[1] for connection in server.connections] == [7]
        for each in others:
            each.close()
        await server.stop(grace_ms=0)

    asyncio.run(main())
