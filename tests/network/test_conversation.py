import struct
from random import Random

import pytest

from barnabas.core.chunks import FileSlice, materialize
from barnabas.core.pending import Pending
from barnabas.network import conversation as module
from barnabas.network.conversation import Conversation
from barnabas.network.errors import CloseConnection
from barnabas.network.frames import FrameReader, ReceiveMemory
from barnabas.network.peer import ANONYMOUS, ListenerId


class Line:
    """A transport that records, and the peer at its other end."""

    def __init__(self, clock, handle, parked_max=500):
        self.woken = 0
        self.short = b""
        self.aborted = []
        self.requests = []
        self.turns = []
        self.at_end = lambda: None
        self._handle = handle
        self.conversation = Conversation(
            self,
            self,
            FrameReader(ReceiveMemory(), 10_000),
            clock,
            listener=ListenerId("PLAINTEXT", "PLAINTEXT"),
            address=("10.0.0.1", 5000),
            parked_max=parked_max,
        )

    def handle(self, peer, frame):
        self.requests.append(bytes(frame))
        return self._handle(peer, bytes(frame))

    def begin_turn(self):
        self.turns.append(len(self.requests))

    def end_turn(self):
        self.turns.append(len(self.requests))
        self.at_end()

    def wake(self):
        self.woken += 1

    def abort(self, error):
        self.aborted.append(error)
        self.conversation.closed()

    def send(self, *bodies):
        data = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
        self.conversation.buffers()[0][: len(data)] = data
        # What comes by the short way is sent before anything that `take_output` gives.
        self.short += self.conversation.received(len(data)) or b""

    def output(self):
        short, self.short = self.short, b""
        return short + materialize(self.conversation.take_output())


@pytest.fixture
def pendings():
    return {}


@pytest.fixture
def parked(pendings):
    """A handler that answers lower-case requests later, numbers never, the others at once."""

    def handle(_peer, body):
        if body.isdigit():
            return None
        if body.isupper():
            return [body]
        return pendings.setdefault(body, Pending())

    return handle


def test_responses_of_one_read_come_out_together(clock):
    line = Line(clock, lambda _, body: [body.upper()])

    line.send(b"one", b"two", b"three")

    assert line.output() == b"ONETWOTHREE"
    assert not line.woken


def test_responses_keep_the_order_of_requests(clock, parked, pendings):
    line = Line(clock, parked)
    line.send(b"a", b"B", b"c", b"7", b"D")

    assert line.output() == b""
    pendings[b"c"].complete([b"-c-"])
    assert line.output() == b""
    assert line.woken == 0
    pendings[b"a"].complete([b"-a-"])
    assert line.woken == 1
    assert line.output() == b"-a-B-c-D"
    assert line.conversation.waiting == 0


def test_a_later_no_response_is_none(clock, parked, pendings):
    line = Line(clock, parked)
    line.send(b"a", b"B")

    pendings[b"a"].complete(None)

    assert line.output() == b"B"


def test_a_pending_that_is_done_does_not_wait(clock):
    line = Line(clock, lambda _, body: Pending.of([body]))

    line.send(b"a", b"b")

    assert line.output() == b"ab"
    assert line.conversation.waiting == 0


def test_too_many_parked_requests_stop_the_reading(clock, parked, pendings):
    line = Line(clock, parked, parked_max=3)
    line.send(b"a", b"b", b"c", b"d", b"e")

    assert line.requests == [b"a", b"b", b"c"]
    assert not line.conversation.wants_read
    assert not line.conversation.runnable
    pendings[b"a"].complete([b"A"])
    assert line.conversation.runnable
    line.conversation.resume()
    assert line.requests == [b"a", b"b", b"c", b"d"]
    for body in (b"b", b"c", b"d"):
        pendings[body].complete([body])
    line.conversation.resume()
    assert line.conversation.wants_read


def test_output_that_nobody_takes_stops_the_handling(clock):
    line = Line(clock, lambda *_: [b"x" * (module.OUTPUT_BYTES_MAX // 2 + 1)])

    line.send(b"1", b"2", b"3", b"4")

    assert line.requests == [b"1", b"2"]
    assert not line.conversation.wants_read
    line.output()
    assert line.conversation.runnable
    line.conversation.resume()
    assert line.requests == [b"1", b"2", b"3", b"4"]


def test_one_peer_does_not_hold_up_the_others(clock):
    line = Line(clock, lambda _, body: [body])
    bodies = [b"%03d" % n for n in range(module.TURN_REQUESTS_MAX + 2)]

    line.send(*bodies)

    assert len(line.requests) == module.TURN_REQUESTS_MAX
    assert line.conversation.runnable
    assert not line.conversation.wants_read
    line.conversation.resume()
    assert line.output() == b"".join(bodies)


def test_requests_that_come_while_a_backlog_waits_keep_their_place(clock, parked, pendings):
    line = Line(clock, parked, parked_max=1)
    line.send(b"a", b"B")
    line.send(b"C")
    pendings[b"a"].complete([b"A"])

    line.conversation.resume()

    assert line.output() == b"ABC"


def test_ranges_of_files_hardly_count_as_memory(clock):
    line = Line(clock, lambda *_: [b"head", FileSlice(None, 0, 1 << 30)])

    line.send(b"1", b"2")

    assert line.requests == [b"1", b"2"]
    assert line.conversation.wants_read


def test_a_muted_peer_is_answered_and_then_heard_no_more_for_a_while(clock):
    def handle(peer, body):
        if body == b"loud":
            peer.mute_until(clock.monotonic_ms() + 100)
        return [body]

    line = Line(clock, handle)
    line.send(b"loud", b"next")

    assert line.output() == b"loud"
    assert not line.conversation.wants_read
    clock.advance(99)
    assert not line.conversation.runnable
    clock.advance(1)
    assert line.woken == 1
    line.conversation.resume()
    assert line.output() == b"next"


def test_what_comes_behind_a_held_request_is_handled_when_it_is_released(clock):
    answer = Pending()

    def handle(peer, body):
        if body == b"large":
            peer.hold()
            return answer
        return [body]

    line = Line(clock, handle)
    line.send(b"before", b"large", b"behind")
    line.send(b"later")

    assert line.requests == [b"before", b"large"]
    assert line.output() == b"before"
    assert not line.conversation.wants_read
    assert not line.conversation.runnable
    line.conversation.peer.release()
    assert line.woken == 1
    assert line.conversation.runnable
    line.conversation.resume()
    assert line.requests == [b"before", b"large", b"behind", b"later"]
    answer.complete([b"large"])
    assert line.output() == b"largebehindlater"
    assert line.conversation.wants_read


def test_a_request_alone_waits_behind_a_held_one_too(clock):
    line = Line(clock, lambda _, body: Pending())
    line.conversation.peer.hold()
    data = struct.pack(">i", 1) + b"x"
    line.conversation.buffers()[0][: len(data)] = data

    assert line.conversation.received(len(data)) is None
    assert line.requests == []


def test_holds_add_up_and_with_a_mute(clock):
    line = Line(clock, lambda _, body: [body])
    peer = line.conversation.peer
    peer.hold()
    peer.hold()
    peer.mute_until(clock.now + 50)
    line.send(b"a")

    peer.release()
    assert not line.conversation.runnable
    peer.release()
    assert not line.conversation.runnable
    clock.advance(50)
    assert line.conversation.runnable
    peer.hold()
    peer.mute_until(clock.now + 50)
    clock.advance(50)
    assert not line.conversation.runnable
    peer.release()
    assert line.conversation.runnable


def test_a_release_after_the_end_starts_nothing(clock):
    line = Line(clock, lambda _, body: [body])
    line.conversation.peer.hold()
    line.send(b"a")

    line.conversation.closed()
    line.conversation.peer.release()

    assert not line.conversation.runnable
    assert not line.conversation.wants_read


def test_the_longest_mute_counts(clock):
    line = Line(clock, lambda _, body: [body])
    peer = line.conversation.peer
    peer.mute_until(clock.now + 50)
    peer.mute_until(clock.now + 200)
    peer.mute_until(clock.now + 10)

    clock.advance(199)
    assert not line.conversation.wants_read
    clock.advance(1)
    assert line.conversation.wants_read


def test_what_a_service_raises_goes_to_the_transport(clock):
    def handle(_peer, body):
        raise CloseConnection("nonsense") if body == b"bad" else ValueError(body)

    line = Line(clock, handle)

    with pytest.raises(CloseConnection, match="nonsense"):
        line.send(b"bad")


@pytest.mark.parametrize("error", [CloseConnection("later"), ValueError("a bug")])
def test_a_pending_that_fails_aborts(clock, parked, pendings, error):
    line = Line(clock, parked)
    line.send(b"a", b"b")

    pendings[b"b"].fail(error)
    assert not line.aborted, "the response before it is still owed"
    pendings[b"a"].complete([b"A"])

    assert line.aborted == [error]


def test_a_service_can_close(clock):
    def handle(peer, body):
        if body == b"bye":
            peer.close("enough")
        return [body]

    line = Line(clock, handle)
    line.send(b"hello", b"bye", b"unheard")

    assert [str(error) for error in line.aborted] == ["enough"]
    assert line.requests == [b"hello", b"bye"]


def test_a_closed_conversation_ignores_what_completes_later(clock, parked, pendings):
    line = Line(clock, parked)
    line.send(b"a")
    line.conversation.closed()

    pendings[b"a"].complete([b"A"])

    assert line.woken == 0
    assert line.output() == b""


def test_draining_answers_what_was_asked_and_hears_nothing_more(clock, parked, pendings):
    line = Line(clock, parked)
    line.send(b"a")
    line.conversation.drain()
    line.send(b"b")

    pendings[b"a"].complete([b"A"])

    assert line.output() == b"A"
    assert line.requests == [b"a"]
    assert not line.conversation.wants_read
    assert "draining" in repr(line.conversation)


def test_what_a_service_sees_of_a_peer(clock):
    line = Line(clock, lambda *_: None)
    peer = line.conversation.peer

    assert peer.address == ("10.0.0.1", 5000)
    assert peer.listener.name == "PLAINTEXT"
    assert peer.principal == ANONYMOUS
    assert repr(peer) == "<Peer 10.0.0.1:5000 on PLAINTEXT>"


def exchange(line, *bodies):
    """A read of these requests by the short way; the answer that it returns, if it does."""
    data = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    line.conversation.buffers()[0][: len(data)] = data
    return line.conversation.received(len(data))


def test_one_small_request_is_answered_on_the_short_way(clock):
    line = Line(clock, lambda _, body: [body.upper()])

    assert exchange(line, b"one") == b"ONE"
    assert line.output() == b""
    assert exchange(line, b"two", b"three") is None
    assert line.output() == b"TWOTHREE"


def test_the_short_way_and_the_long_way_answer_alike(clock):
    """The same requests one by one, which is the short way where it is free, and together, which is the long
    one.
    """
    for seed in range(50):
        rng = Random(seed)
        kinds = [rng.choice(["at once", "pieces", "later", "none", "done"]) for _ in range(12)]
        outputs = []
        for way in ("one by one", "together"):
            pendings = []

            def handle(_peer, body, kinds=kinds, pendings=pendings):
                kind = kinds[int(body)]
                if kind == "later":
                    pendings.append((body, Pending()))
                    return pendings[-1][1]
                return {"at once": [body], "pieces": [body, b"."], "none": None, "done": Pending.of([body])}[
                    kind
                ]

            line = Line(clock, handle)
            bodies = [b"%02d" % number for number in range(len(kinds))]
            output = b""
            for lot in [[body] for body in bodies] if way == "one by one" else [bodies]:
                line.send(*lot)
                output += line.output()
            for body, pending in pendings:
                pending.complete([body])
                output += line.output()
            outputs.append(output)
        assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        ([b"in ", b"pieces"], b"in pieces"),
        ([memoryview(b"a view")], b"a view"),
        (None, b""),
        ([], b""),
        (Pending.of([b"done"]), b"done"),
        (Pending.of(None), b""),
    ],
)
def test_any_other_answer_takes_the_long_way(clock, answer, sent):
    line = Line(clock, lambda *_: answer)

    assert exchange(line, b"one") is None
    assert line.output() == sent
    assert line.conversation.waiting == 0


def test_a_request_with_nonsense_behind_it_is_answered_before_the_end(clock):
    line = Line(clock, lambda _, body: [body])
    data = struct.pack(">i", 3) + b"one" + struct.pack(">i", -1) + b"nonsense"
    line.conversation.buffers()[0][: len(data)] = data

    with pytest.raises(CloseConnection, match="size = -1"):
        line.conversation.received(len(data))

    assert line.output() == b"one"


def test_the_short_way_overtakes_no_response_that_waits(clock, parked, pendings):
    line = Line(clock, parked)
    assert exchange(line, b"a") is None

    assert exchange(line, b"B") is None
    assert line.output() == b""
    pendings[b"a"].complete([b"-a-"])

    assert line.output() == b"-a-B"
    assert exchange(line, b"C") == b"C"


def test_the_short_way_overtakes_no_output_that_nobody_took(clock):
    line = Line(clock, lambda _, body: [body])
    line.send(b"one", b"two")

    assert exchange(line, b"three") is None

    assert line.output() == b"onetwothree"


def test_the_short_way_overtakes_no_request_that_was_read_before(clock):
    line = Line(clock, lambda _, body: [body])
    bodies = [b"%03d" % n for n in range(module.TURN_REQUESTS_MAX + 1)]
    line.send(*bodies)
    assert line.output() == b"".join(bodies[:-1])

    assert exchange(line, b"later") is None

    assert line.requests == bodies[:-1]
    line.conversation.resume()
    assert line.output() == bodies[-1] + b"later"


def test_nothing_is_handled_after_drain(clock):
    line = Line(clock, lambda _, body: [body])
    line.send(b"before")
    line.output()

    line.conversation.drain()
    line.send(b"after")
    line.send(b"more", b"and more")

    assert line.requests == [b"before"]
    assert line.output() == b""
    assert not line.conversation.runnable


def test_a_drain_in_the_middle_of_a_turn_ends_the_turn(clock):
    def handle(_peer, body):
        if body == b"last":
            line.conversation.drain()
        return [body]

    line = Line(clock, handle)
    line.send(b"first", b"last", b"never")

    assert line.requests == [b"first", b"last"]
    assert line.output() == b"firstlast"
    assert not line.conversation.runnable


def test_the_service_knows_where_several_requests_begin_and_end(clock):
    line = Line(clock, lambda _, body: [body])

    line.send(b"one", b"two", b"three")
    line.send(b"four")

    assert line.turns == [0, 3]
    assert line.output() == b"onetwothreefour"


def test_a_request_that_is_left_alone_is_no_turn(clock):
    line = Line(clock, lambda _, body: [body])
    line.send(*[b"%03d" % n for n in range(module.TURN_REQUESTS_MAX + 1)])

    line.conversation.resume()

    assert line.turns == [0, module.TURN_REQUESTS_MAX]


def test_a_response_may_be_changed_until_its_turn_ends(clock, parked, pendings):
    answers = []

    def handle(peer, body):
        answers.append(parked(peer, body))
        return answers[-1]

    def change():
        answers[0][:] = [b"other"]
        pendings[b"b"].complete([b"-b-"])

    line = Line(clock, handle)
    line.at_end = change

    line.send(b"A", b"b", b"C")

    assert line.output() == b"other-b-C"
    assert not line.aborted


def test_a_turn_that_a_request_breaks_is_ended_and_answered_as_far_as_it_came(clock):
    def handle(_peer, body):
        if body == b"bad":
            raise CloseConnection("no")
        return [body]

    line = Line(clock, handle)
    with pytest.raises(CloseConnection):
        line.send(b"one", b"two", b"bad", b"never")

    assert line.turns == [0, 3]
    assert line.output() == b"onetwo"


def test_responses_are_there_when_the_end_of_a_turn_closes_the_connection(clock):
    def refuse():
        raise CloseConnection("no")

    line = Line(clock, lambda _, body: [body])
    line.at_end = refuse

    with pytest.raises(CloseConnection):
        line.send(b"one", b"two")

    assert line.output() == b"onetwo"


def test_a_peer_that_goes_in_the_middle_of_a_turn_is_answered_nothing(clock):
    def handle(peer, body):
        if body == b"close":
            peer.close("enough")
        return [body]

    line = Line(clock, handle)
    line.send(b"one", b"close", b"never")

    assert line.requests == [b"one", b"close"]
    assert line.conversation.output_bytes == 0


def test_responses_that_wait_in_a_turn_end_it(clock, parked):
    line = Line(clock, parked, parked_max=3)

    line.send(b"A", b"b", b"C", b"D", b"E")

    assert line.requests == [b"A", b"b", b"C", b"D"]
    assert line.conversation.waiting == 3
    assert not line.conversation.runnable


def test_what_was_left_of_a_turn_is_not_handled_after_drain(clock):
    line = Line(clock, lambda _, body: [body], parked_max=1)
    line.send(*[b"%03d" % n for n in range(module.TURN_REQUESTS_MAX + 5)])

    line.conversation.drain()

    assert not line.conversation.runnable
    assert len(line.requests) == module.TURN_REQUESTS_MAX


def test_a_mute_that_ends_after_drain_handles_nothing(clock):
    line = Line(clock, lambda _, body: [body])
    line.conversation.peer.mute_until(clock.now + 50)
    line.conversation.drain()
    line.send(b"late")

    clock.advance(60)

    assert not line.conversation.runnable
    assert line.requests == []


def test_a_turn_ends_with_the_request_that_uses_it_up(clock):
    def handle(_peer, body):
        clock.now += int(body)
        return [body]

    line = Line(clock, handle)
    line.send(b"1", b"1", b"1", b"9", b"0", b"0")

    assert line.requests == [b"1", b"1"]
    for _ in range(4):
        line.conversation.resume()
    assert line.requests == [b"1", b"1", b"1", b"9", b"0", b"0"]
    assert not line.conversation.runnable
    assert line.output() == b"111900"


def test_a_lone_request_asks_for_no_time(clock, monkeypatch):
    line = Line(clock, lambda _, body: [body, b""])
    monkeypatch.setattr(clock, "monotonic_ms", None)

    line.send(b"long way")
    assert exchange(line, b"short way") is None

    assert line.output() == b"long wayshort way"


def test_responses_behind_one_that_waits_count_as_memory(clock):
    """A peer with a long poll in front must not pile up the answers to what it asks after it."""
    first = Pending()
    line = Line(clock, lambda _, body: first if body == b"poll" else [b"x" * 100_000])
    line.send(b"poll", *[b"?"] * 100)

    assert len(line.requests) == 1 + 11
    assert not line.conversation.wants_read
    first.complete([b"first"])
    assert line.conversation.waiting == 0
    assert len(line.output()) == 5 + 1_100_000
    assert line.conversation.runnable
    while line.conversation.runnable:
        line.conversation.resume()
        line.output()
    assert len(line.requests) == 101
    assert line.conversation.wants_read


def test_responses_that_come_out_of_order_count_as_memory_until_they_are_sent(clock, pendings, parked):
    line = Line(clock, parked)
    line.send(b"a", b"b", b"c")
    pendings[b"c"].complete([b"c" * module.OUTPUT_BYTES_MAX])
    assert line.conversation.wants_read
    pendings[b"b"].complete([b"b"])
    assert not line.conversation.wants_read

    pendings[b"a"].complete([b"a"])

    assert line.output() == b"ab" + b"c" * module.OUTPUT_BYTES_MAX
    assert line.conversation.wants_read


def test_a_failure_behind_another_response_waits_for_its_turn(clock, parked, pendings):
    line = Line(clock, parked)
    line.send(b"a", b"b", b"c")
    pendings[b"b"].fail(ValueError("a bug"))
    pendings[b"c"].complete([b"C"])
    assert not line.aborted

    pendings[b"a"].complete([b"A"])

    assert [str(error) for error in line.aborted] == ["a bug"]


def test_a_failure_at_once_ends_the_turn_before_what_came_behind_it_is_done(clock):
    line = Line(
        clock, lambda _peer, body: Pending.failed(CloseConnection("bad")) if body == b"bad" else [body]
    )

    with pytest.raises(CloseConnection):
        line.send(b"a", b"bad", b"b", b"c")

    assert line.requests == [b"a", b"bad"]
    assert line.output() == b"a"


def test_a_closed_conversation_lets_go_of_its_transport_and_its_peer(clock, parked, pendings):
    line = Line(clock, parked)
    line.send(b"a", b"B")
    peer = line.conversation.peer

    line.conversation.closed()
    peer.close("late")
    peer.mute_until(clock.now + 50)
    peer.hold()
    peer.release()
    pendings[b"a"].fail(ValueError("a bug"))

    assert line.aborted == []
    assert line.woken == 0
    assert line.conversation.output_bytes == 0
