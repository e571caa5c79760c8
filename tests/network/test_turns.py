"""Who has a turn when: many requests of one connection beside few of another."""

import asyncio

import pytest
from network_harness import framed

from barnabas.core.pending import Pending
from barnabas.network.clock import LoopClock
from barnabas.network.conversation import TURN_MS, TURN_REQUESTS_MAX


class SpentTime(LoopClock):
    """The time that requests have cost: it moves only when a service says so."""

    now_ms = 0.0

    def __init__(self, loop):
        super().__init__(loop)
        SpentTime.now_ms = 0.0

    @staticmethod
    def monotonic_ms():
        return SpentTime.now_ms


def costing(cost_ms):
    """Answers every request, each of which takes so long; one that begins with "light" takes no time."""

    def service(_peer, frame):
        if bytes(frame[:5]) != b"light":
            SpentTime.now_ms += cost_ms
        return [framed(bytes(frame))]

    return service


def spent_between(requests, cost_ms):
    """The milliseconds that requests of others took between two light ones, the longest time."""
    longest = spent = 0.0
    for request in requests:
        if request.startswith(b"light"):
            longest, spent = max(longest, spent), 0.0
        else:
            spent += cost_ms
    return longest


# The last request of a turn may begin just before its end.
@pytest.mark.parametrize(("cost_ms", "turn_ms"), [(5.0, 5.0), (0.3, TURN_MS + 0.3)])
def test_a_peer_with_one_request_waits_for_one_turn_of_those_that_pipeline(serve, cost_ms, turn_ms):
    async def scenario(harness):
        light = await harness.client()
        busy = [await harness.client() for _ in range(4)]
        await light.ask(b"light")
        for client in busy:
            client.send(framed(b"heavy") * 120)
        for _ in range(5):
            await light.ask(b"light")
        # The light client runs in the same loop: it reads, and writes its next request, each in a turn of its
        # own.
        assert spent_between(harness.service.requests, cost_ms) <= 4 * turn_ms + 0.001
        for client in busy:
            assert [await client.response() for _ in range(120)] == [b"heavy"] * 120

    serve(scenario, service=costing(cost_ms), clock=SpentTime)


def test_connections_that_pipeline_share_the_time_by_connection(serve):
    """One that has sent ten times as much has no more of the time."""
    order = []

    def service(peer, frame):
        order.append(peer.address)
        SpentTime.now_ms += 1.0
        return [framed(bytes(frame))]

    async def scenario(harness):
        one, other = await harness.client(), await harness.client()
        one.send(framed(b"x") * 400)
        await harness.until(lambda: order)
        other.send(framed(b"y") * 40)
        for _ in range(40):
            await other.response()
        mine = [at for at, address in enumerate(order) if address != order[0]]
        others = order[mine[0] : mine[-1]].count(order[0])
        assert others <= 40 + TURN_MS
        for _ in range(400):
            await one.response()

    serve(scenario, service=service, clock=SpentTime)


def test_a_new_connection_is_answered_while_others_pipeline(serve):
    async def scenario(harness):
        busy = [await harness.client() for _ in range(4)]
        for client in busy:
            client.send(framed(b"heavy") * 500)
        new = await harness.client()
        assert await new.ask(b"light") == b"light"
        # One turn of each when it has all come, one of any in each turn of the loop after that.
        assert harness.service.requests.index(b"light") < 20
        for client in busy:
            for _ in range(500):
                await client.response()

    serve(scenario, service=costing(5.0), clock=SpentTime)


def test_a_flood_of_tiny_requests_in_one_write_lets_others_have_their_turns(serve):
    count = 20_000

    async def scenario(harness):
        light, flood = await harness.client(), await harness.client()
        await light.ask(b"light")
        flood.send(framed(b"tiny") * count)
        await harness.until(lambda: len(harness.service.requests) > TURN_REQUESTS_MAX)
        before = len(harness.service.requests)
        await light.ask(b"light")
        assert len(harness.service.requests) - before <= 4 * TURN_REQUESTS_MAX
        for _ in range(count):
            await flood.response()

    serve(scenario, service=costing(0.0), clock=SpentTime)


def test_a_connection_that_closes_while_it_waits_for_its_turn_harms_nobody(serve):
    async def scenario(harness):
        gone, stays = await harness.client(), await harness.client()
        gone.send(framed(b"heavy") * 300)
        stays.send(framed(b"heavy") * 100)
        await harness.until(lambda: len(harness.service.requests) > 2)
        gone.writer.transport.abort()
        assert [await stays.response() for _ in range(100)] == [b"heavy"] * 100
        await harness.until(lambda: len(harness.server.connections) == 1)

    serve(scenario, service=costing(5.0), clock=SpentTime)


def test_what_was_asked_before_nonsense_is_answered_though_it_takes_many_turns(serve):
    async def scenario(harness):
        client = await harness.client()
        client.send(framed(b"heavy") * 300 + b"\xff\xff\xff\xff")
        assert [await client.response() for _ in range(300)] == [b"heavy"] * 300
        assert await client.is_closed()

    serve(scenario, service=costing(5.0), clock=SpentTime)


def test_a_connection_that_waits_for_its_peer_to_read_has_no_turns(serve):
    """Its requests wait too, but a loop that gives it one empty turn after the other would run hot."""
    answer = framed(b"x" * 100_000)

    async def scenario(harness):
        client = await harness.client()
        client.writer.transport.pause_reading()
        client.send(framed(b"?") * 500)
        [connection] = harness.server.connections
        await harness.until(lambda: connection.sending)
        await asyncio.sleep(0)
        assert not harness.server.processor._queue
        assert "backlog=0" not in repr(connection)
        client.writer.transport.resume_reading()
        for _ in range(500):
            assert len(await client.response()) == 100_000

    serve(scenario, service=lambda *_: [answer])


def test_each_connection_of_the_queue_has_its_turn_before_any_has_another(serve):
    order = []

    def service(peer, frame):
        order.append(peer.address)
        SpentTime.now_ms += 5.0
        return [framed(bytes(frame))]

    async def scenario(harness):
        clients = [await harness.client() for _ in range(3)]
        for client in clients:
            client.send(framed(b"x") * 60)
        for client in clients:
            for _ in range(60):
                await client.response()
        # The first few are handled while the requests of the others are still on their way.
        assert all(len(set(order[at : at + 3])) == 3 for at in range(30, 150))

    serve(scenario, service=service, clock=SpentTime)


def test_a_connection_stands_in_the_queue_once_however_often_it_is_woken(serve):
    waiting = []

    def service(_peer, frame):
        SpentTime.now_ms += 5.0
        if frame == b"wait":
            waiting.append(Pending())
            return waiting[-1]
        return [framed(bytes(frame))]

    async def scenario(harness):
        client = await harness.client()
        client.send(framed(b"wait") * 20 + framed(b"x") * 200)
        await harness.until(lambda: len(waiting) == 20)
        for pending in waiting:
            pending.complete([framed(b"woken")])
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert len(harness.server.processor._queue) <= 1
        for expected in [b"woken"] * 20 + [b"x"] * 200:
            assert await client.response() == expected

    serve(scenario, service=service, clock=SpentTime)
