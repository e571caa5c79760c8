"""The broker's event loop beside what asyncio does on it."""

import asyncio
import os
import selectors
import signal
import socket
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from network_harness import framed

from barnabas.network.event_loop import BrokerEventLoop


@pytest.fixture(params=[0.0, 0.000_5], ids=["sleeps", "stays awake"])
def run(request):
    """Runs a coroutine function with the loop that it runs on."""

    def on_loop(scenario):
        async def main():
            async with asyncio.timeout(10):
                await scenario(asyncio.get_running_loop())

        with asyncio.Runner(loop_factory=lambda: BrokerEventLoop(request.param)) as runner:
            runner.run(main())

    return on_loop


async def until(condition):
    """Turns the loop until something has happened."""
    while not condition():  # noqa: ASYNC110 - any condition, with nobody to set an event
        await asyncio.sleep(0)


def test_a_reader_is_called_while_there_is_something_to_read(run, free_socket_pair):
    one, other = free_socket_pair

    async def scenario(loop):
        seen, all_seen = [], asyncio.Event()

        def read(*given):
            seen.append((one.recv(1), *given))
            if len(seen) == 3:
                all_seen.set()

        loop.add_reader(one, read, "given")
        other.send(b"abc")
        await all_seen.wait()
        assert seen == [(b"a", "given"), (b"b", "given"), (b"c", "given")]
        assert loop.remove_reader(one)
        assert not loop.remove_reader(one)

    run(scenario)


def test_one_descriptor_may_have_a_reader_and_a_writer(run, free_socket_pair):
    one, other = free_socket_pair

    async def scenario(loop):
        called = []
        loop.add_reader(one.fileno(), lambda: called.append(one.recv(10)))
        loop.add_writer(one.fileno(), lambda: (called.append("writable"), loop.remove_writer(one.fileno())))
        await until(lambda: "writable" in called)
        other.send(b"x")
        await until(lambda: b"x" in called)
        assert sorted(map(str, called)) == ["b'x'", "writable"]
        assert loop.remove_reader(one.fileno())
        # Neither is left: it may be watched again, for the other thing alone.
        loop.add_writer(one, lambda: (called.append("again"), loop.remove_writer(one)))
        await until(lambda: "again" in called)

    run(scenario)


def test_a_later_reader_takes_the_place_of_the_one_before(run, free_socket_pair):
    one, other = free_socket_pair

    async def scenario(loop):
        called = asyncio.Event()
        loop.add_reader(one, pytest.fail, "the first")
        loop.add_reader(one, lambda: (one.recv(10), called.set()))
        other.send(b"x")
        await called.wait()
        loop.remove_reader(one)

    run(scenario)


def test_what_was_taken_off_in_the_same_wait_is_not_called(run):
    pairs = [socket.socketpair() for _ in range(2)]

    async def scenario(loop):
        called = []

        def take_off_all(mine):
            called.append(mine)
            for one, _ in pairs:
                loop.remove_reader(one)

        for number, (one, other) in enumerate(pairs):
            other.send(b"x")
            loop.add_reader(one, take_off_all, number)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(called) == 1

    run(scenario)
    for sock in sum(pairs, ()):
        sock.close()


def test_a_callback_that_raises_harms_nobody_else(run):
    (bad, bad_peer), (good, good_peer) = socket.socketpair(), socket.socketpair()

    async def scenario(loop):
        failures, heard = [], asyncio.Event()
        loop.set_exception_handler(lambda _loop, context: failures.append(context["exception"]))

        def fail():
            bad.recv(1)
            raise LookupError("a bug")

        loop.add_reader(bad, fail)
        loop.add_reader(good, lambda: (good.recv(1), heard.set()))
        bad_peer.send(b"x")
        good_peer.send(b"x")
        await heard.wait()
        await until(lambda: failures)
        assert [type(error) for error in failures] == [LookupError]
        loop.remove_reader(bad)
        loop.remove_reader(good)

    run(scenario)
    for sock in (bad, bad_peer, good, good_peer):
        sock.close()


def test_a_hang_up_is_heard_by_the_reader(run, free_socket_pair):
    one, other = free_socket_pair

    async def scenario(loop):
        heard = loop.create_future()
        loop.add_reader(one, lambda: heard.done() or heard.set_result(one.recv(1)))
        other.close()
        assert await heard == b""
        loop.remove_reader(one)

    run(scenario)


def test_what_is_scheduled_runs_though_descriptors_are_always_ready(run, free_socket_pair):
    one, other = free_socket_pair

    async def scenario(loop):
        other.send(b"x")
        loop.add_reader(one, lambda: None)  # it reads nothing, so it is ready for ever
        turns = []
        loop.call_soon(turns.append, "soon")
        loop.call_later(0.001, turns.append, "later")
        threading.Thread(target=loop.call_soon_threadsafe, args=(turns.append, "thread")).start()
        await until(lambda: len(turns) == 3)
        assert sorted(turns) == ["later", "soon", "thread"]
        loop.remove_reader(one)

    run(scenario)


def test_timers_threads_signals_and_children_wake_a_loop_that_waits(run):
    async def scenario(loop):
        heard = asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, heard.set)
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        await heard.wait()
        assert await loop.run_in_executor(None, lambda: "thread") == "thread"
        await asyncio.sleep(0.002)
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(1)", stdout=-1)
        assert (await child.communicate())[0] == b"1\n"
        loop.remove_signal_handler(signal.SIGUSR1)

    run(scenario)


def test_connections_of_asyncio_come_and_go(run):
    """It watches their descriptors in a way of its own, and takes them off with the loop's public
    functions.
    """

    async def echo(reader, writer):
        writer.write(await reader.read(100))
        writer.close()

    async def scenario(_loop):
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        for _ in range(5):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"x")
            assert await reader.read() == b"x"
            # An abort leaves what it does not know of, unlike a close.
            writer.transport.abort()
            await asyncio.sleep(0)
        server.close()
        await server.wait_closed()

    run(scenario)


def test_a_descriptor_that_cannot_be_watched_leaves_nothing_behind(run, tmp_path):
    async def scenario(loop):
        with (tmp_path / "file").open("wb") as file:
            with pytest.raises(PermissionError):
                loop.add_reader(file, lambda: None)
            assert not loop.remove_reader(file)

    run(scenario)


def ask_in_turn(port, count, name):
    """A blocking client; the answers that it got."""
    with socket.create_connection(("127.0.0.1", port)) as sock, sock.makefile("rb") as stream:
        sock.settimeout(10)
        answers = []
        for number in range(count):
            sock.sendall(framed(b"%s %d" % (name, number)))
            (size,) = struct.unpack(">i", stream.read(4))
            answers.append(stream.read(size))
        return answers


def uvloop():
    return pytest.importorskip("uvloop").new_event_loop()


@pytest.mark.parametrize(
    "loop_factory",
    [
        lambda: BrokerEventLoop(0.0005),
        BrokerEventLoop,
        lambda: asyncio.SelectorEventLoop(selectors.SelectSelector()),
        uvloop,
    ],
    ids=["stays awake", "sleeps", "asyncio", "uvloop"],
)
def test_all_clients_are_answered_on_every_loop(serve, loop_factory):
    async def scenario(harness):
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(3) as threads:
            asked = [(b"chatty", 3000), (b"calm", 300), (b"other", 1000)]
            found = await asyncio.gather(
                *(loop.run_in_executor(threads, ask_in_turn, harness.port, n, name) for name, n in asked)
            )
        for (name, count), answers in zip(asked, found, strict=True):
            assert answers == [b"%s %d" % (name, number) for number in range(count)]
        await harness.until(lambda: not harness.server.connections)

    serve(scenario, loop_factory=loop_factory)
