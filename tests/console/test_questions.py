"""`Questions`: who asks waits for a bounded time; the question goes on, once, and its answer is kept."""

import asyncio
import threading

import pytest

from barnabas.client import ClientTimeoutError
from barnabas.console import questions as questions_module
from barnabas.console.kept_admin import KeptAdmin
from barnabas.console.questions import KEPT_MAX, ONCE_MAX, RUNNING_MAX, Questions
from barnabas.core.errors import BarnabasError
from barnabas.operations.errors import OperationError
from waiting import until


class Desk:
    """Questions on a loop of a thread, as those of a cluster, and what they run: `release` lets it go on."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.questions = Questions(lambda work: asyncio.run_coroutine_threadsafe(work, self.loop))
        self.ran = 0
        self.held = asyncio.Event()
        self.outcome = "answer"
        self.silent = []

    def ask(self, key="key", *, patience_s=60, **more):
        async def run(question):
            self.ran += 1
            question.silent = lambda: self.silent
            outcome = self.outcome
            await self.held.wait()
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        self.questions.patience_s = patience_s
        return asyncio.run(self.questions.ask(key, run, **more))

    def release(self):
        self.loop.call_soon_threadsafe(self.held.set)

    def settled(self):
        until(lambda: "running=0" in repr(self.questions), "the questions to end")

    def hold(self):
        self.held = asyncio.Event()

    def close(self):
        self.release()
        self.settled()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture
def desk():
    desk = Desk()
    yield desk
    desk.close()


def seen(answer):
    return answer.reading.value, answer.reading.error, answer.is_pending


def test_an_answer_that_comes_in_time_is_fresh(desk):
    desk.release()
    for _ in range(2):
        assert seen(desk.ask()) == ("answer", None, False)
        desk.settled()
    assert desk.ran == 2


def test_a_question_goes_on_once_and_its_answer_is_for_the_next_who_asks(desk):
    for _ in range(3):
        found = desk.ask(patience_s=0.01)
        assert seen(found) == (None, "the cluster has not answered yet", True)
    desk.release()
    desk.settled()
    assert desk.ran == 1
    desk.outcome = "another"
    assert seen(desk.ask(patience_s=0)) == ("answer", None, False)
    assert desk.ran == 1
    # It was seen: the next one asks the cluster.
    assert seen(desk.ask()) == ("another", None, False)


def test_it_is_said_whom_an_answer_waits_for(desk):
    desk.silent = ["broker 1", "broker 2"]
    until(
        lambda: desk.ask(patience_s=0).reading.error == "broker 1 and broker 2 have not answered yet",
        "the brokers to be noted",
    )
    desk.silent = ["broker 2"]
    until(
        lambda: desk.ask(patience_s=0).reading.error == "broker 2 has not answered yet",
        "the one that is left",
    )


def test_what_was_answered_the_last_time_is_shown_with_its_age(desk):
    desk.release()
    desk.ask()
    desk.settled()
    desk.hold()
    stale = desk.ask(patience_s=0)
    assert seen(stale) == ("answer", "the cluster has not answered yet", True)
    assert stale.reading.state(stale.reading.at_ms) == "stale"


def test_an_answer_that_is_old_is_asked_for_again(desk, monkeypatch):
    desk.ask(patience_s=0)
    desk.release()
    desk.settled()
    later = questions_module.now_ms() + 60_001
    monkeypatch.setattr(questions_module, "now_ms", lambda: later)
    desk.outcome = "newer"
    assert desk.ask().reading.value == "newer"
    assert desk.ran == 2


def test_a_refusal_is_raised_and_no_answer_is_unknown(desk):
    desk.release()
    desk.outcome = OperationError("there is no such topic")
    with pytest.raises(OperationError, match="there is no such topic"):
        desk.ask()
    for error, why in [
        (ClientTimeoutError("Broker 2 did not answer in 3000 ms"), "Broker 2 did not answer in 3000 ms"),
        (TimeoutError(), "no answer came in time"),
    ]:
        desk.settled()
        desk.outcome = error
        assert seen(desk.ask()) == (None, why, False)


def test_what_failed_while_nobody_waited_is_said_beside_the_next_that_does_not_come(desk):
    desk.outcome = ClientTimeoutError("no broker answered")
    desk.ask(patience_s=0)
    desk.release()
    desk.settled()
    desk.hold()
    why = "the cluster has not answered yet (the last time: no broker answered)"
    assert seen(desk.ask(patience_s=0)) == (None, why, True)


@pytest.mark.parametrize("once", [False, True])
def test_a_refusal_that_came_late_is_for_the_next_who_asks(desk, once):
    desk.outcome = OperationError("no right to look")
    desk.ask(patience_s=0, once=once)
    desk.release()
    desk.settled()
    desk.outcome = "answer"
    with pytest.raises(OperationError, match="no right to look"):
        desk.ask(patience_s=0, once=once)
    assert desk.ran == 1
    # It was seen: the right may have been given since.
    assert seen(desk.ask(once=once)) == ("answer", None, False)


def test_who_comes_back_for_a_preview_that_failed_reads_why_and_the_next_one_asks_anew(desk):
    desk.outcome = ClientTimeoutError("partition 0 has no leader")
    desk.ask(patience_s=0, once=True)
    desk.release()
    desk.settled()
    desk.outcome = "answer"
    assert seen(desk.ask(patience_s=0, once=True)) == (None, "partition 0 has no leader", False)
    assert desk.ran == 1
    assert seen(desk.ask(once=True)) == ("answer", None, False)


def test_nobody_is_given_as_new_what_was_asked_before_a_change(desk):
    desk.outcome = "before"
    desk.ask(patience_s=0)
    desk.ask("preview", patience_s=0, once=True)
    desk.release()
    desk.settled()
    # Both have answers that nobody has seen.
    desk.questions.changed()
    desk.hold()
    desk.outcome = "after"
    assert seen(desk.ask(patience_s=0)) == ("before", "the cluster has not answered yet", True)
    assert seen(desk.ask("preview", patience_s=0, once=True))[0] is None
    desk.release()
    desk.settled()
    assert seen(desk.ask()) == ("after", None, False)
    assert seen(desk.ask("preview", once=True)) == ("after", None, False)


def test_a_question_from_before_a_change_answers_nobody_who_asks_after_it(desk):
    desk.outcome = "before"
    desk.ask(patience_s=0)
    until(lambda: desk.ran == 1, "it to begin")
    desk.questions.changed()
    desk.outcome = "after"
    assert seen(desk.ask(patience_s=0)) == (None, "the cluster has not answered yet", True)
    assert repr(desk.questions) == "<Questions running=2 kept=0>"
    desk.release()
    desk.settled()
    assert desk.ran == 2
    assert seen(desk.ask()) == ("after", None, False)


def test_one_user_does_not_take_the_places_of_another(desk):
    for user, most in [("alice", 8), ("bob", 4), ("carol", 2)]:
        for number in range(RUNNING_MAX):
            found = desk.ask((user, number), patience_s=0, asker=user)
        assert found.reading.error == f"{most} questions of {user} wait for their answers"
    desk.ask("of dave", patience_s=0, asker="dave")
    desk.release()
    desk.settled()
    assert desk.ran == 8 + 4 + 2 + 1


@pytest.mark.parametrize(("once", "most"), [(False, KEPT_MAX), (True, ONCE_MAX)])
def test_one_user_does_not_push_out_the_answer_of_another(desk, once, most):
    desk.ask("of bob", patience_s=0, once=once, asker="bob")
    desk.release()
    desk.settled()
    for batch in range(most // 6 + 1):
        desk.hold()  # nobody sees these either
        for number in range(6):
            desk.ask((batch, number), patience_s=0, once=once, asker="alice")
        desk.release()
        desk.settled()
    ran = desk.ran
    assert desk.ask("of bob", once=once, asker="bob").reading.value == "answer"
    assert desk.ran == ran


def test_what_somebody_has_seen_goes_before_what_nobody_has(desk):
    desk.ask("slow", patience_s=0)
    desk.release()
    desk.settled()
    for number in range(KEPT_MAX + 3):
        desk.ask(number)
        desk.settled()
    ran = desk.ran
    assert desk.ask("slow").reading.value == "answer"
    assert desk.ran == ran


def test_records_that_nobody_came_for_do_not_stay(desk, monkeypatch):
    desk.ask("records", patience_s=0, once=True)
    desk.ask("users", patience_s=0)
    desk.release()
    desk.settled()
    later = questions_module.now_ms() + 60_001
    monkeypatch.setattr(questions_module, "now_ms", lambda: later)
    desk.questions.forget_old()
    assert repr(desk.questions) == "<Questions running=0 kept=1>"


def test_a_clock_that_is_set_back_makes_no_answer_younger(desk, monkeypatch):
    desk.ask(patience_s=0)
    desk.release()
    desk.settled()
    earlier = questions_module.now_ms() - 3_600_000
    monkeypatch.setattr(questions_module, "now_ms", lambda: earlier)
    desk.outcome = "newer"
    assert desk.ask().reading.value == "newer"


def test_a_client_that_failed_when_nobody_waited_begins_again(monkeypatch):
    async def use():
        kept, held, outcomes = KeptAdmin({}), asyncio.Event(), [ClientTimeoutError("of an hour ago"), "admin"]

        async def begin():
            await held.wait()
            if isinstance(outcome := outcomes.pop(0), Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(kept, "_begin", begin)
        gone = asyncio.ensure_future(kept.get())
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait({gone})
        held.set()
        await asyncio.wait({kept._beginning})
        return await kept.get()

    assert asyncio.run(use()) == "admin"


def test_questions_and_answers_are_bounded(desk):
    for number in range(RUNNING_MAX):
        desk.ask(number, patience_s=0)
    refused = desk.ask("one more", patience_s=0)
    assert seen(refused) == (None, f"{RUNNING_MAX} questions wait for their answers", True)
    desk.release()
    desk.settled()
    assert desk.ran == RUNNING_MAX
    for number in range(KEPT_MAX + 5):
        desk.ask(("seen", number))
    desk.settled()
    assert repr(desk.questions) == f"<Questions running=0 kept={KEPT_MAX}>"


def test_what_is_given_once_is_given_to_one_and_kept_for_few(desk):
    for number in range(ONCE_MAX + 2):
        desk.ask(number, patience_s=0, once=True)
    desk.release()
    desk.settled()
    kept = list(desk.questions._kept)
    assert (len(kept), desk.ran) == (ONCE_MAX, ONCE_MAX + 2)
    assert desk.ask(kept[0], once=True).reading.value == "answer"
    assert desk.ran == ONCE_MAX + 2
    desk.hold()
    # It is not what was answered the last time: nobody sees it twice.
    assert desk.ask(kept[0], patience_s=0, once=True).reading.value is None


def test_who_is_gone_before_the_answer_harms_nobody(desk):
    desk.ask(patience_s=0)  # its loop is closed when the answer comes
    desk.release()
    desk.settled()
    assert desk.ask(patience_s=0).reading.value == "answer"


def test_a_cluster_that_is_not_looked_at_is_said(desk):
    def none(_work):
        raise BarnabasError("it is not looked at")

    desk.questions._submit = none
    with pytest.raises(BarnabasError, match="it is not looked at"):
        desk.ask()
    assert desk.ran == 0
