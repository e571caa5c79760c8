import asyncio
import selectors
import socket
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest
from network_harness import framed

from barnabas.network import busy_poll
from barnabas.network.busy_poll import SKIPPED_MAX, BusyPollSelector

STEP_S = 0.000_02
WINDOW_S = 0.000_2
ONE, ANOTHER = 7, 8


class Line:
    """A system whose descriptors send their next request so long after each wake-up."""

    def __init__(self, think_s):
        self.now_s = 1000.0
        self.think_s = think_s
        self.next_s = self.now_s + think_s
        self.speakers = [ONE]
        self.blocked = 0
        self.polled = 0
        self.selector = BusyPollSelector(WINDOW_S)

    def monotonic(self):
        self.now_s += STEP_S
        return self.now_s

    def select(self, timeout=None):
        if self.now_s < self.next_s:
            if timeout == 0:
                self.polled += 1
                return []
            self.blocked += 1
            self.now_s = self.next_s
        self.next_s = self.now_s + self.think_s
        self.speakers.append(self.speakers.pop(0))
        return [(selectors.SelectorKey(None, self.speakers[-1], selectors.EVENT_READ, None), 1)]

    def requests(self, count):
        """So many requests come; how many of them found the loop asleep."""
        blocked = self.blocked
        for _ in range(count):
            while not self.selector.select(None):
                pass
        return self.blocked - blocked


@pytest.fixture
def line(monkeypatch):
    def make(think_s):
        line = Line(think_s)
        monkeypatch.setattr(busy_poll, "monotonic", line.monotonic)
        monkeypatch.setattr(
            selectors.DefaultSelector, "select", lambda _self, timeout=None: line.select(timeout)
        )
        return line

    return make


def test_a_conversation_finds_the_loop_awake(line):
    assert line(WINDOW_S / 2).requests(100) == 2


def test_the_end_of_a_conversation_lets_the_loop_sleep(line):
    conversation = line(WINDOW_S / 2)
    conversation.requests(5)
    conversation.next_s = float("inf")

    before = conversation.now_s
    assert conversation.selector.select(None) == []

    assert conversation.now_s - before <= WINDOW_S + 2 * STEP_S
    conversation.next_s = conversation.now_s + 10
    assert conversation.requests(1) == 1


def test_a_timer_that_is_due_ends_the_wait(line):
    conversation = line(WINDOW_S / 2)
    conversation.requests(5)
    conversation.next_s = float("inf")

    before = conversation.now_s
    assert conversation.selector.select(STEP_S) == []

    assert conversation.now_s - before <= 3 * STEP_S


def test_waits_in_vain_become_rare(line):
    # Always later than a wait lasts, always sooner than a conversation ends.
    slow = line(2.5 * WINDOW_S)
    slow.requests(1000)
    looks = WINDOW_S / STEP_S + 1  # of one wait in vain
    assert looks - 1 <= slow.polled <= looks * (6 + 1000 / SKIPPED_MAX)


def test_it_pays_again_when_requests_come_closely_again(line):
    conversation = line(2.5 * WINDOW_S)
    conversation.requests(20)
    conversation.think_s = WINDOW_S / 2
    conversation.requests(SKIPPED_MAX)
    assert conversation.requests(100) == 0


def test_a_crowd_that_speaks_in_turn_lets_the_loop_sleep(line):
    crowd = line(WINDOW_S / 2)
    crowd.speakers = [ONE, ANOTHER]
    assert crowd.requests(500) == 500


def test_requests_that_come_seldom_let_the_loop_sleep(line):
    assert line(2 * busy_poll.CONVERSATION_S).requests(10) == 10


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


def test_all_clients_are_answered_beside_a_conversation(serve):
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

    serve(scenario, loop_factory=lambda: asyncio.SelectorEventLoop(BusyPollSelector(0.0005)))
