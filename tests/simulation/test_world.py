"""The simulated machine under the programs: time, processes, network, power."""

import asyncio
import contextlib
import errno
import socket
import time

import pytest

from barnabas.admin.admin import AsyncAdmin
from barnabas.admin.types import NewTopic
from barnabas.client.consumer import AsyncConsumer
from barnabas.client.producer import AsyncProducer
from barnabas.testing.simulation.loop import StuckError
from barnabas.testing.simulation.network import CONNECT_TIMEOUT_S
from barnabas.testing.simulation.world import World

WEEK_S = 7 * 24 * 3600


def test_time_jumps_and_real_clocks_come_back():
    world = World(1)

    async def main():
        before = time.monotonic(), time.time()
        await asyncio.sleep(WEEK_S)
        return time.monotonic() - before[0], time.time() - before[1]

    began = time.perf_counter()
    assert world.run(main()) == pytest.approx((WEEK_S, WEEK_S))
    assert time.perf_counter() - began < 10
    assert time.monotonic is not world.loop.time


def test_a_world_in_which_nothing_can_happen_says_so():
    world = World(1)
    with pytest.raises(StuckError, match="nothing can happen"):
        world.run(forever())


async def until(condition):
    while not condition():  # noqa: ASYNC110 - there is no event in another process to wait for
        await asyncio.sleep(0.01)


async def forever():
    await asyncio.get_running_loop().create_future()


def test_a_killed_process_never_runs_again_and_cleans_nothing_up_outside():
    world = World(1)
    ran = []

    async def clean_up(name):
        await asyncio.sleep(1)
        ran.append(name)

    async def program():
        asyncio.get_running_loop().call_later(5, ran.append, "timer")
        async with contextlib.AsyncExitStack() as stack:
            for name in ("first", "second"):
                stack.push_async_callback(clean_up, name)
            try:
                await asyncio.sleep(3)
                ran.append("went on")
            finally:
                asyncio.get_running_loop().call_soon(ran.append, "called")
                await clean_up("awaited")

    async def main():
        process = world.new_process("program")
        task = world.loop.spawn(process, program())
        await asyncio.sleep(1)
        process.die()
        process.bury()
        await asyncio.sleep(10)
        return task.done()

    assert world.run(main()) is False
    assert ran == []
    assert world.loop.problems == []


def test_what_nobody_catches_is_a_problem():
    world = World(1)

    async def main():
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    world.run(main())
    assert "ZeroDivisionError" in world.loop.problems[0]


class Pair:
    """A connection between the main process and another one, as bytes."""

    def __init__(self, world):
        self.world = world
        self.other = world.new_process("other")

    async def open(self):
        listener = await self.world.loop.spawn(self.other, self.listen())
        self.near = socket.socket()
        self.near.connect_ex(listener.getsockname())
        await asyncio.sleep(1)
        assert self.near.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        self.far, _ = self.other.context.run(listener.accept)
        return self

    async def listen(self):
        listener = socket.socket()
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        return listener

    async def arrives(self, data, after_s=1.0):
        """What the far end has after the near one sent this."""
        self.near.send(data)
        await asyncio.sleep(after_s)
        return self.take()

    def take(self):
        buffer = bytearray(100_000)
        taken = b""
        while self.far.received:
            taken += bytes(buffer[: self.far.recv_into(memoryview(buffer))])
        return taken


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_in_order_and_a_full_pipe_takes_no_more(seed):
    world = World(seed)

    async def main():
        pair = await Pair(world).open()
        sent = b""
        while pair.near.writable:
            piece = bytes([len(sent) % 251]) * 5000
            sent += piece[: pair.near.send(piece)]
        with pytest.raises(BlockingIOError):
            pair.near.send(b"more")
        await asyncio.sleep(1)
        assert pair.take() == sent
        assert pair.near.writable
        pair.near.close()
        await asyncio.sleep(1)
        return pair.far.recv_into(memoryview(bytearray(10)))

    assert world.run(main()) == 0


def test_partition_holds_back_half_open_swallows_cut_resets():
    world = World(3)

    async def main():
        pair = await Pair(world).open()
        network, host = world.network, pair.other.host
        network.partition(pair.near.host, host)
        assert await pair.arrives(b"held", 100) == b""
        network.heal()
        assert await pair.arrives(b" back") == b"held back"
        network.open_half(host)
        assert await pair.arrives(b"swallowed", 100) == b""
        assert not pair.near.readable
        network.cut_connections(host)
        with pytest.raises(ConnectionResetError):
            pair.near.recv_into(memoryview(bytearray(10)))

    world.run(main())


def test_a_host_without_power_says_nothing_until_it_is_back():
    world = World(4)

    async def main():
        pair = await Pair(world).open()
        world.network.power_off(pair.other.host)
        pair.other.die()
        knocking = socket.socket()
        knocking.connect_ex((pair.other.host, 1))
        assert await pair.arrives(b"anybody?", CONNECT_TIMEOUT_S + 2) == b""
        assert knocking.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ETIMEDOUT
        assert not pair.near.readable
        world.network.power_on(pair.other.host)
        await asyncio.sleep(1)
        with pytest.raises(ConnectionResetError):
            pair.near.send(b"again")
        knocking = socket.socket()
        knocking.connect_ex((pair.other.host, 1))
        await asyncio.sleep(1)
        assert knocking.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED

    world.run(main())


def test_a_broker_forgets_after_hours_what_it_may_forget():
    """Thousands of virtual seconds, with everything that a real broker does in them."""
    world = World(5)
    machine = world.add_machine({"log.retention.hours": "7", "log.segment.bytes": "2000"})

    async def main():
        machine.start()
        await until(lambda: machine.node is not None)
        async with AsyncAdmin(machine.address) as admin:
            await admin.topics.create(NewTopic("hours", partitions=1))
        async with AsyncProducer(machine.address) as producer:
            for _ in range(9):
                for _ in range(4):
                    await producer.send_and_wait("hours", bytes(300))
                await asyncio.sleep(3600)
        async with AsyncConsumer(machine.address) as consumer:
            tp = ("hours", 0)
            offsets = [await consumer.beginning_offsets([tp]), await consumer.end_offsets([tp])]
        machine.stop()
        await until(lambda: not machine.running)
        return [next(iter(each.values())) for each in offsets]

    first, end = world.run(main())
    assert end == 36
    assert 0 < first <= 12, "the oldest two of nine hours are too old, segments go as a whole"
    assert world.loop.problems == []
    assert machine.failures == []
