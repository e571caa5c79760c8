from barnabas.core.pending import Pending, steps
from barnabas.core.slices import Slices, in_slices


class Clock:
    """Time passes by what is done; the loop's turns are run by hand."""

    def __init__(self):
        self.now_ms = 0.0
        self.turns = []

    def monotonic_ms(self):
        return self.now_ms

    def call_soon(self, callback):
        self.turns.append(callback)


def long_work(clock, pieces, piece_ms):
    done = []

    @steps
    def work():
        slices = Slices(clock, slice_ms=5)
        for piece in range(pieces):
            clock.now_ms += piece_ms
            done.append(piece)
            if slices.over():
                yield slices.next_turn()
        return len(done)

    return work(), done


def test_long_work_lets_others_run_between_its_slices():
    clock = Clock()
    outcome, done = long_work(clock, pieces=10, piece_ms=2)

    slices = []
    while clock.turns:
        slices.append(len(done))
        clock.turns.pop(0)()
    assert slices == [3, 6, 9]
    assert outcome.result() == 10


def test_short_work_is_done_at_once():
    outcome, _ = long_work(Clock(), pieces=10, piece_ms=0.1)
    assert outcome.result() == 10


def test_the_time_of_a_wait_is_no_work():
    clock = Clock()
    answer = Pending()

    def work():
        value = yield answer
        yield
        return value

    outcome = in_slices(work(), clock)
    clock.now_ms += 100
    answer.complete("there")

    assert clock.turns == []
    assert outcome.result() == "there"
