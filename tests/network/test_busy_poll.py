import asyncio
import socket
import struct
from concurrent.futures import ThreadPoolExecutor

from network_harness import framed

from barnabas.network.busy_poll import SKIPPED_MAX, TURN_MS, BusyPoll

ONE, ANOTHER = object(), object()
STEP_MS = 0.02


class Line:
    """A clock that stands still, and a peer that sends its next request so long after each answer."""

    def __init__(self, window_ms, think_ms):
        self.now_ms = 1000.0
        self.think_ms = think_ms
        self.next_ms = None
        self.poll = BusyPoll(self, window_ms)

    def monotonic_ms(self):
        return self.now_ms

    def receive(self):
        self.now_ms += STEP_MS
        if self.next_ms is None or self.now_ms < self.next_ms:
            return None
        self.next_ms = self.now_ms + self.think_ms
        return True

    def request(self, connection=ONE):
        """The peer's next request finds the loop asleep; whether a vigil begins after it."""
        self.now_ms = max(self.now_ms, self.next_ms or 0.0)
        self.next_ms = self.now_ms + self.think_ms
        return self.poll.begins(connection)

    def begin(self):
        """Requests follow each other closely until a vigil begins."""
        assert any(self.request() for _ in range(3))


def test_a_single_request_lets_the_loop_sleep():
    assert not Line(0.2, 0.1).request()


def test_a_conversation_is_answered_in_vigils_and_the_loop_has_its_turns():
    line = Line(0.2, 0.1)
    line.begin()
    for _ in range(20):
        before = line.now_ms
        assert line.poll.keep(ONE, line.receive), "it goes on after the loop's turn"
        assert line.now_ms - before <= TURN_MS + 0.2


def test_the_end_of_a_conversation_lets_the_loop_sleep():
    line = Line(0.2, 0.1)
    line.begin()
    line.think_ms = line.next_ms = 1e9
    before = line.now_ms
    assert not line.poll.keep(ONE, line.receive)
    assert line.now_ms - before <= 0.2 + 2 * STEP_MS


def test_whatever_is_no_small_exchange_ends_a_vigil():
    line = Line(0.2, 0.1)
    line.begin()
    assert not line.poll.keep(ONE, lambda: False)


def test_vigils_in_vain_become_rare():
    line = Line(0.2, 0.5)  # always later than a vigil lasts, always sooner than a conversation ends
    begun = 0
    for _ in range(1000):
        if line.request():
            begun += 1
            assert not line.poll.keep(ONE, line.receive)
    assert 1 <= begun <= 6 + 1000 / SKIPPED_MAX


def test_it_pays_again_when_requests_come_closely_again():
    line = Line(0.2, 0.5)
    for _ in range(20):
        if line.request():
            line.poll.keep(ONE, line.receive)
    line.think_ms = 0.1
    assert any(line.request() and line.poll.keep(ONE, line.receive) for _ in range(2 * SKIPPED_MAX))


def test_a_crowd_that_speaks_in_turn_keeps_nobody_awake():
    line = Line(0.2, 0.1)
    assert not any(line.request(connection) for _ in range(500) for connection in (ONE, ANOTHER))


def test_a_vigil_ends_when_somebody_else_has_spoken_in_the_loops_turn():
    line = Line(0.2, 0.1)
    line.begin()
    assert line.poll.keep(ONE, line.receive)
    assert not line.poll.begins(ANOTHER)
    assert not line.poll.keep(ONE, line.receive)


def test_a_window_of_zero_is_off():
    line = Line(0.0, 0.1)
    assert not any(line.request() for _ in range(10))


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


def test_nobody_is_forgotten_beside_a_conversation(serve):
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

    serve(scenario, busy_poll_ms=0.5)
