import pytest

from barnabas.core.pending import Pending, gather, steps


def test_value_reaches_what_was_chained_before_and_after_completion():
    pending = Pending()
    before = pending.then(lambda value: value + 1)
    assert not before.done
    assert pending.complete(41)
    assert before.result() == 42
    assert pending.then(lambda value: value * 2).result() == 82


def test_only_the_first_completion_counts():
    pending = Pending()
    assert pending.complete("first")
    assert not pending.complete("second")
    assert not pending.fail(OSError())
    assert pending.result() == "first"


def test_errors_pass_through_and_functions_may_raise():
    failed = Pending.failed(OSError("disk"))
    assert isinstance(failed.then(len).error, OSError)
    assert isinstance(Pending.of([]).then(lambda items: items[0]).error, IndexError)


def test_asking_too_early_is_an_error():
    with pytest.raises(RuntimeError, match="before it is there"):
        Pending().result()


def test_none_is_a_value():
    assert Pending.of(None).done
    assert Pending.of(None).result() is None


def test_steps_wait_for_each_pending_in_turn():
    first, second = Pending(), Pending()

    @steps
    def add():
        one = yield first
        other = yield second
        return one + other

    total = add()
    second.complete(2)
    assert not total.done
    first.complete(1)
    assert total.result() == 3


def test_a_failure_is_raised_at_the_yield_and_may_be_caught():
    waiting = Pending()

    @steps
    def careful():
        try:
            yield waiting
        except OSError as error:
            return f"caught {error}"

    outcome = careful()
    waiting.fail(OSError("torn"))
    assert outcome.result() == "caught torn"


def test_an_uncaught_failure_fails_the_whole():
    @steps
    def careless():
        yield Pending.failed(OSError("torn"))

    assert isinstance(careless().error, OSError)


def test_many_finished_steps_do_not_use_the_stack():
    @steps
    def long():
        total = 0
        for _ in range(50_000):
            total += yield Pending.of(1)
        return total

    assert long().result() == 50_000


def test_gather_waits_for_all_and_keeps_their_order():
    parts = [Pending() for _ in range(3)]
    whole = gather(parts)
    parts[2].complete("c")
    parts[0].fail(OSError())
    assert not whole.done
    parts[1].complete("b")
    assert whole.result() == parts
    assert gather([]).result() == []
