from barnabas.network.busy_poll import SKIPPED_MAX, BusyPoll

ONE, ANOTHER = object(), object()


class Clock:
    """Time that passes when told to; the loop's turns are run by hand."""

    def __init__(self):
        self.now_ms = 1000.0
        self.turns = []

    def monotonic_ms(self):
        return self.now_ms

    def call_soon(self, callback):
        self.turns.append(callback)

    def run(self, by_ms):
        """Passes time in steps, one turn of the loop each; how many turns found something to do."""
        busy = 0
        for _ in range(int(by_ms / 0.05)):
            self.now_ms += 0.05
            turns, self.turns = self.turns, []
            busy += bool(turns)
            for turn in turns:
                turn()
        return busy


def test_a_single_request_lets_the_loop_sleep():
    clock = Clock()
    poll = BusyPoll(clock, 0.2)
    poll.small_exchange(ONE)
    assert not poll.awake
    assert clock.turns == []


def test_a_conversation_keeps_the_loop_awake_and_its_end_lets_it_sleep():
    clock = Clock()
    poll = BusyPoll(clock, 0.2)
    for _ in range(50):
        poll.small_exchange(ONE)
        clock.run(0.1)
    assert poll.awake
    assert clock.run(10) <= 5, "a vigil ends with its window"
    assert not poll.awake


def test_vigils_in_vain_become_rare():
    clock = Clock()
    poll = BusyPoll(clock, 0.2)
    begun = 0
    for _ in range(1000):
        poll.small_exchange(ONE)
        begun += poll.awake
        clock.run(0.5)  # always later than a vigil lasts, always sooner than a conversation ends
    assert begun <= 6 + 1000 / SKIPPED_MAX


def test_it_pays_again_when_requests_come_closely_again():
    clock = Clock()
    poll = BusyPoll(clock, 0.2)
    for _ in range(20):
        poll.small_exchange(ONE)
        clock.run(0.5)
    for _ in range(200):
        poll.small_exchange(ONE)
        clock.run(0.1)
    assert poll.awake


def test_a_crowd_that_speaks_in_turn_keeps_nobody_awake():
    clock = Clock()
    poll = BusyPoll(clock, 0.2)
    for _ in range(500):
        for connection in (ONE, ANOTHER):
            poll.small_exchange(connection)
            assert not poll.awake
            clock.run(0.1)


def test_a_window_of_zero_is_off():
    clock = Clock()
    poll = BusyPoll(clock, 0)
    for _ in range(10):
        poll.small_exchange(ONE)
    assert not poll.awake
