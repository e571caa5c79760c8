"""The purgatory: what wakes an operation, and that it ends once."""

from barnabas.replica.purgatory import DelayedOperation, Purgatory


class Waiting(DelayedOperation):
    def __init__(self, after=None):
        super().__init__()
        self.ready = False
        self.completions = 0
        self.asked = 0
        self.after = after

    def try_complete(self, key=None):
        self.asked += 1
        return self.ready and self.force_complete()

    def on_complete(self):
        self.completions += 1
        if self.after:
            self.after()


def test_what_can_complete_at_once_never_waits(clock):
    purgatory = Purgatory("Test", clock)
    operation = Waiting()
    operation.ready = True

    assert purgatory.try_complete_else_watch(operation, ["a"], 100)
    assert (operation.completions, purgatory.size, clock.waiting) == (1, 0, 0)


def test_it_is_woken_under_any_of_its_keys(clock):
    purgatory = Purgatory("Test", clock)
    operation = Waiting()
    assert not purgatory.try_complete_else_watch(operation, ["a", "b", "a"], 100)
    assert repr(purgatory) == "<Purgatory Test waiting=1 keys=2>"

    assert purgatory.check_and_complete("b") == 0
    assert purgatory.check_and_complete("unknown") == 0
    operation.ready = True
    assert purgatory.check_and_complete("b") == 1

    assert repr(purgatory) == "<Purgatory Test waiting=0 keys=0>"
    assert clock.waiting == 0, "the timer is gone too"
    clock.advance(1000)
    assert operation.completions == 1


def test_it_ends_when_its_time_is_over(clock):
    purgatory = Purgatory("Test", clock)
    operation = Waiting()
    purgatory.try_complete_else_watch(operation, ["a"], 100)
    clock.advance(99)
    assert not operation.completed
    clock.advance(1)

    assert (operation.completions, purgatory.size, purgatory.watches("a")) == (1, 0, 0)
    assert not operation.force_complete()


def test_a_completion_may_complete_others(clock):
    purgatory = Purgatory("Test", clock)
    second = Waiting()
    first = Waiting(after=lambda: purgatory.check_and_complete("a"))
    for operation in (first, second):
        purgatory.try_complete_else_watch(operation, ["a"], 100)
        operation.ready = True

    purgatory.check_and_complete("a")

    assert (first.completions, second.completions) == (1, 1)


def test_shutdown_ends_everything(clock):
    purgatory = Purgatory("Test", clock)
    operations = [Waiting() for _ in range(3)]
    for index, operation in enumerate(operations):
        purgatory.try_complete_else_watch(operation, [index, "all"], 100)
    purgatory.complete_all()

    assert [operation.completions for operation in operations] == [1, 1, 1]
    assert purgatory.size == 0
