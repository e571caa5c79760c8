import select

import pytest

from barnabas.network import poller
from barnabas.network.poller import CONVERSATION_S, REPEATS_MIN, Poller

OTHERS, ONE, ANOTHER = 3, 7, 8
LOOK_S = 0.000_002
WINDOW_S = 0.000_05


class Batch:
    """A system that finds these events, all in one wait."""

    def __init__(self, *events):
        self.events = list(events)

    def register(self, _descriptor, _mask):
        pass

    modify = register

    def unregister(self, _descriptor):
        pass

    def poll(self, _timeout):
        return self.events


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([(ONE, select.EPOLLIN | select.EPOLLERR | select.EPOLLHUP)], id="one event for both"),
        pytest.param([(ANOTHER, select.EPOLLIN), (ONE, select.EPOLLIN)], id="two events"),
    ],
)
def test_an_event_is_not_for_who_has_got_the_number_since(monkeypatch, events):
    system = Batch(*events)
    monkeypatch.setattr(select, "epoll", lambda: system)
    under_test = Poller(OTHERS, 0.0, lambda error, _callback: pytest.fail(repr(error)))
    called = []

    def close_and_connect():
        """The connection is closed, and a new one has its number at once."""
        called.append("old")
        under_test.remove_reader(ONE)
        under_test.remove_writer(ONE)
        under_test.set_reader(ONE, lambda: called.append("new"))
        under_test.set_writer(ONE, lambda: called.append("new"))

    under_test.set_writer(ONE, lambda: called.append("writer"))
    for descriptor in (ONE, ANOTHER):
        under_test.set_reader(descriptor, close_and_connect)
    under_test.poll(0.0)
    assert called == ["old"]

    system.events = [(ONE, select.EPOLLIN)]
    under_test.poll(0.0)
    assert called == ["old", "new"]


class Line:
    """A system in virtual time, and clients that send their next requests so long after each wake-up."""

    def __init__(self, *thinks_s):
        self.now_s = 1000.0
        self.thinks_s = list(thinks_s)
        self.next_s = self.now_s + self.thinks_s[0]
        self.speakers = [ONE]
        self.asleep = 0
        """Wake-ups from a wait that had blocked."""
        self.awake_s = 0.0
        """Time spent in looks that do not block."""
        self.answered = 0

    def monotonic(self):
        return self.now_s

    def register(self, _descriptor, _mask):
        pass

    def poll(self, timeout=None):
        if timeout == 0.0:
            self.now_s += LOOK_S
            self.awake_s += LOOK_S
            if self.now_s < self.next_s:
                return []
        elif self.now_s < self.next_s:
            self.asleep += 1
            self.now_s = self.next_s
        self.thinks_s.append(self.thinks_s.pop(0))
        self.next_s = self.now_s + self.thinks_s[0]
        self.speakers.append(self.speakers.pop(0))
        return [(self.speakers[-1], select.EPOLLIN)]

    def answer(self):
        self.answered += 1

    def requests(self, count):
        """So many requests come; how many of them found the loop asleep."""
        asleep, end = self.asleep, self.answered + count
        while self.answered < end:
            self.poller.poll(-1.0)
        return self.asleep - asleep

    def share_awake(self, seconds):
        """The share of this time that goes into looks that do not block."""
        started_s, awake_s = self.now_s, self.awake_s
        while self.now_s < started_s + seconds:
            self.poller.poll(-1.0)
        return (self.awake_s - awake_s) / (self.now_s - started_s)


@pytest.fixture
def line(monkeypatch):
    def make(*thinks_s):
        line = Line(*thinks_s)
        monkeypatch.setattr(select, "epoll", lambda: line)
        monkeypatch.setattr(poller, "monotonic", line.monotonic)
        line.poller = Poller(OTHERS, WINDOW_S, lambda error, _callback: pytest.fail(repr(error)))
        for descriptor in (ONE, ANOTHER):
            line.poller.set_reader(descriptor, line.answer)
        return line

    return make


def test_a_conversation_finds_the_loop_awake(line):
    assert line(WINDOW_S / 2).requests(100) == REPEATS_MIN + 1


def test_the_end_of_a_conversation_lets_the_loop_sleep(line):
    conversation = line(WINDOW_S / 2)
    conversation.requests(20)
    conversation.next_s = conversation.now_s + 10

    assert conversation.poller.poll(-1.0) is False
    assert conversation.awake_s <= 20 * WINDOW_S
    assert conversation.requests(1) == 1


def test_a_timer_that_is_due_ends_the_wait(line):
    conversation = line(WINDOW_S / 2)
    conversation.requests(20)
    conversation.next_s = float("inf")

    before_s = conversation.now_s
    assert conversation.poller.poll(WINDOW_S / 5) is False

    assert conversation.now_s - before_s <= WINDOW_S / 5 + 2 * LOOK_S


BURST = [WINDOW_S * 0.9] * 9


@pytest.mark.parametrize(
    "thinks_s",
    [
        pytest.param([0.01], id="100 requests/s"),
        pytest.param([0.001], id="1,000 requests/s"),
        pytest.param([0.000_4], id="requests that come just too late"),
        pytest.param([WINDOW_S * 0.9, 0.002], id="pairs"),
        pytest.param([*[WINDOW_S * 0.9] * 4, 0.005], id="a few"),
        pytest.param([*BURST, 0.01], id="bursts of ten"),
        pytest.param([*BURST * 11, 0.1], id="bursts of a hundred"),
    ],
)
def test_a_broker_with_few_requests_spends_little_time_awake(line, thinks_s):
    assert line(*thinks_s).share_awake(20.0) <= 0.05


def test_waits_in_vain_take_a_fixed_share_of_the_time_at_most(line):
    # Always a little later than a wait lasts.
    assert 0.01 <= line(WINDOW_S + 2 * LOOK_S).share_awake(10.0) <= 0.03


def test_it_pays_again_when_requests_come_closely_again(line):
    conversation = line(WINDOW_S * 1.5)
    conversation.requests(2000)
    conversation.thinks_s = [WINDOW_S / 2]
    conversation.requests(200)
    assert conversation.requests(100) == 0


def test_a_crowd_that_speaks_in_turn_lets_the_loop_sleep(line):
    crowd = line(WINDOW_S / 2)
    crowd.speakers = [ONE, ANOTHER]
    assert crowd.requests(500) == 500


def test_requests_that_come_seldom_let_the_loop_sleep(line):
    seldom = line(1.1 * CONVERSATION_S)
    assert seldom.requests(50) == 50
    assert seldom.awake_s == 0.0


def test_a_window_of_nothing_never_stays_awake(line, monkeypatch):
    silent = line(WINDOW_S / 2)
    silent.poller = Poller(OTHERS, 0.0, lambda *_: None)
    silent.poller.set_reader(ONE, silent.answer)
    assert silent.requests(100) == 100
