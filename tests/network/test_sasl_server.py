"""The log-in at a listener with SASL: which requests it takes, what it answers, and when it closes."""

import asyncio
import logging

import pytest
from network_harness import framed
from sasl_harness import SCRAM_256, SaslClientOnFrames, listener, on_sasl

from barnabas.core.errors import ErrorCode, IllegalTransitionError
from barnabas.network.clock import LoopClock
from barnabas.network.sasl.scram import ScramClient
from barnabas.network.sasl.states import TRANSITIONS, SaslEvent, SaslState, after

ALICE = b"\0alice\0alice-secret"


def test_a_client_logs_in_and_is_served_as_its_principal():
    async def scenario(port, functions):
        client = await SaslClientOnFrames.connect(port)
        assert (await client.versions()).error_code == ErrorCode.NONE
        handshake = await client.handshake()
        assert handshake.error_code == ErrorCode.NONE
        assert handshake.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        done = await client.authenticate(ALICE)
        assert (done.error_code, done.auth_bytes, done.session_lifetime_ms) == (0, b"", 0)
        assert await client.whoami() == "User:alice"
        assert [request[:2] for request in functions.requests] == [b"\0\x12", b"\0\x03"]
        await client.close()

    assert on_sasl(scenario).counts.successful == 1


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_the_requests(version):
    async def scenario(port, _functions):
        client = await SaslClientOnFrames.connect(port)
        await client.handshake()
        assert (await client.authenticate(ALICE, version)).error_code == ErrorCode.NONE
        assert await client.whoami() == "User:alice"
        await client.close()

    on_sasl(scenario)


def test_tokens_are_bare_behind_a_handshake_of_version_0():
    async def scenario(port, _functions):
        client = await SaslClientOnFrames.connect(port)
        assert (await client.handshake(version=0)).error_code == ErrorCode.NONE
        assert await client.ask(ALICE) == b""
        assert await client.whoami() == "User:alice"
        await client.close()
        client = await SaslClientOnFrames.connect(port)
        await client.handshake(version=0)
        client.send(framed(b"\0alice\0wrong"))
        assert await client.is_closed()
        await client.close()

    on_sasl(scenario)


def test_scram_over_the_wire():
    async def scenario(port, _functions):
        client = await SaslClientOnFrames.connect(port)
        await client.handshake("SCRAM-SHA-256")
        exchange = ScramClient(SCRAM_256, "alice", "alice-secret")
        challenge = b""
        while (token := exchange.evaluate(challenge)) is not None:
            challenge = (await client.authenticate(token)).auth_bytes
        assert exchange.complete
        assert await client.whoami() == "User:alice"
        await client.close()

    on_sasl(scenario)


WRONG = "Authentication failed: Invalid username or password"
GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"\0alice\0bob-secret", WRONG),
        (b"\0mallory\0alice-secret", WRONG),
        (b"\0mallory\0\x01no password", WRONG),
        (b"bob\0alice\0alice-secret", "requested an authorization id that is different from username"),
        (b"\0alice\0", GENERIC),
        (b"\0\0alice-secret", GENERIC),
        (b"alice", GENERIC),
        (b"\xff\0\xff\0\xff", GENERIC),
        (b"", GENERIC),
    ],
)
def test_who_is_refused_hears_kafkas_words_and_is_closed(token, words, caplog):
    caplog.set_level(logging.DEBUG)

    async def scenario(port, functions):
        client = await SaslClientOnFrames.connect(port)
        await client.handshake()
        refused = await client.authenticate(token)
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert words in refused.error_message
        assert await client.is_closed()
        assert functions.requests == []
        await client.close()

    sasl = on_sasl(scenario)
    assert (sasl.counts.successful, sasl.counts.failed) == (0, 1)
    assert "secret" not in caplog.text
    assert "secret" not in repr(sasl)


def test_a_refusal_comes_after_the_delay_and_nothing_behind_it_is_heard():
    async def scenario(port, functions):
        client = await SaslClientOnFrames.connect(port)
        await client.handshake()
        began = asyncio.get_running_loop().time()
        client.send(framed(b"\0\x24\0\0\0\0\0\7\0\x04test" + b"\0\0\0\x03\0a\0"))
        client.send(framed(b"\0\x11\0\1\0\0\0\x08\0\4test\0\5PLAIN"))
        assert (await client.response())[4:6] == b"\0\x3a"
        assert asyncio.get_running_loop().time() - began >= 0.2
        assert await client.is_closed()
        assert functions.requests == []
        await client.close()

    on_sasl(scenario, failure_delay_ms=200)


def test_an_unknown_mechanism_is_told_the_known_ones_and_closed():
    async def scenario(port, _functions):
        client = await SaslClientOnFrames.connect(port)
        refused = await client.handshake("GSSAPI")
        assert refused.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert "SCRAM-SHA-512" in refused.mechanisms
        assert await client.is_closed()
        await client.close()

    on_sasl(scenario)


METADATA = b"\0\x03\0\0\0\0\0\1\xff\xff"
VERSIONS = b"\0\x12\0\0\0\0\0\1\xff\xff"
HANDSHAKE = b"\0\x11\0\1\0\0\0\1\xff\xff\0\5PLAIN"
AUTHENTICATE = b"\0\x24\0\0\0\0\0\1\xff\xff\0\0\0\x13" + ALICE


@pytest.mark.parametrize(
    "frames",
    [
        [METADATA],
        [AUTHENTICATE],
        [b""],
        [b"\x60\x82\x02"],
        [b"\x7f\xff\0\0\0\0\0\1\xff\xff"],
        [VERSIONS, VERSIONS],
        [VERSIONS, METADATA],
        [VERSIONS, AUTHENTICATE],
        [HANDSHAKE, METADATA],
        [HANDSHAKE, HANDSHAKE],
        [HANDSHAKE, VERSIONS],
        [b"\0\x11\0\7\0\0\0\1\xff\xff\0\5PLAIN"],
        [b"\0\x11\0\1\0\0\0\1\xff\xff\0\x50PLAIN"],
        [HANDSHAKE, b"\0\x24\0\0\0\0\0\1\xff\xff\x7f\xff\xff\xff"],
    ],
)
def test_anything_else_closes_the_connection_and_reaches_no_service(frames):
    async def scenario(port, functions):
        client = await SaslClientOnFrames.connect(port)
        for frame in frames[:-1]:
            await client.ask(frame)
        client.send(framed(frames[-1]))
        client.send(framed(METADATA))
        assert await client.is_closed()
        assert {bytes(request[:2]) for request in functions.requests} <= {b"\0\x12"}
        await client.close()

    on_sasl(scenario)


def test_all_in_one_packet_is_one_log_in_and_requests_behind_it():
    async def scenario(port, _functions):
        client = await SaslClientOnFrames.connect(port)
        client.send(b"".join(map(framed, [VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA, METADATA])))
        answers = [await client.response() for _ in range(5)]
        assert answers[3:] == [b"User:alice"] * 2
        await client.close()

    on_sasl(scenario)


def test_a_client_may_ask_for_versions_again_in_a_version_that_is_known():
    async def scenario(port, _functions):
        client = await SaslClientOnFrames.connect(port)
        assert (await client.versions(4)).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await client.versions(0)).error_code == ErrorCode.NONE
        assert (await client.handshake()).error_code == ErrorCode.NONE
        await client.close()

    on_sasl(scenario)


def test_a_frame_may_be_large_only_after_the_log_in():
    async def scenario(port, _functions):
        client = await SaslClientOnFrames.connect(port)
        client.send((2**31 - 1).to_bytes(4))
        assert await client.is_closed()
        await client.close()
        client = await SaslClientOnFrames.connect(port)
        client.send((1001).to_bytes(4))
        assert await client.is_closed()
        await client.close()
        client = await SaslClientOnFrames.connect(port)
        await client.handshake()
        await client.authenticate(ALICE)
        assert await client.ask(METADATA + bytes(100_000)) == b"User:alice"
        await client.close()

    on_sasl(scenario, receive_bytes_max=1000)


def test_a_client_that_stops_at_any_byte_is_let_go():
    stream = b"".join(map(framed, [VERSIONS, HANDSHAKE, AUTHENTICATE]))

    async def scenario(port, functions):
        for end in range(len(stream)):
            client = await SaslClientOnFrames.connect(port)
            client.send(stream[:end])
            await client.close()
        assert all(request[:2] == b"\0\x12" for request in functions.requests)

    on_sasl(scenario)


def test_a_session_ends_unless_the_client_logs_in_again():
    clocks = []

    def clock(loop):
        class Shifted(LoopClock):
            ahead = 0.0

            def monotonic_ms(self):
                return super().monotonic_ms() + self.ahead

        clocks.append(Shifted(loop))
        return clocks[0]

    async def scenario(port, _functions):
        client = await SaslClientOnFrames.connect(port)
        await client.handshake()
        assert 59_000 < (await client.authenticate(ALICE)).session_lifetime_ms <= 60_000
        clocks[0].ahead = 50_000
        await client.handshake()
        assert (await client.authenticate(ALICE)).session_lifetime_ms > 59_000
        clocks[0].ahead = 100_000
        assert await client.whoami() == "User:alice"
        clocks[0].ahead = 120_000
        client.send(framed(METADATA))
        assert await client.is_closed()
        await client.close()
        for token, words in ((b"\0bob\0bob-secret", "Cannot change principals"), (b"\0alice\0x", WRONG)):
            client = await SaslClientOnFrames.connect(port)
            await client.handshake()
            await client.authenticate(ALICE)
            await client.handshake()
            refused = await client.authenticate(token)
            assert words in refused.error_message
            assert await client.is_closed()
            await client.close()
        client = await SaslClientOnFrames.connect(port)
        await client.handshake()
        await client.authenticate(ALICE)
        refused = await client.handshake("SCRAM-SHA-256")
        assert refused.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert await client.is_closed()
        await client.close()

    assert on_sasl(scenario, clock, session_ms_max={"PLAIN": 60_000}).counts.expired == 1


@pytest.mark.parametrize("state", SaslState)
@pytest.mark.parametrize("event", SaslEvent)
def test_each_cell_of_the_table(state, event):
    if event in TRANSITIONS[state]:
        assert after(state, event) is TRANSITIONS[state][event]
    else:
        with pytest.raises(IllegalTransitionError):
            after(state, event)


def test_nobody_is_complete_without_a_proof():
    reached = {event for row in TRANSITIONS.values() for event, to in row.items() if to is SaslState.COMPLETE}
    assert reached == {SaslEvent.PROVED}
    assert "PLAIN" in listener().mechanisms


def test_who_logs_in_again_within_a_second_of_the_last_time_is_answered_as_for_any_request():
    clocks = []

    def clock(loop):
        class Standing(LoopClock):
            now_ms = 5_000.0

            def monotonic_ms(self):
                return self.now_ms

        clocks.append(Standing(loop))
        return clocks[0]

    # A handshake that opens a log-in; the service says who asks instead.
    handshake = b"\0\x11\0\1\0\0\0\7\xff\xff\0\5PLAIN"

    async def scenario(port, _functions):
        client = await SaslClientOnFrames.connect(port)
        await client.handshake()
        await client.authenticate(ALICE)
        # The first time is as early as the client likes.
        assert (await client.handshake()).error_code == ErrorCode.NONE
        assert (await client.authenticate(ALICE)).error_code == ErrorCode.NONE
        clocks[0].now_ms += 399
        assert await client.ask(handshake) == b"User:alice"
        clocks[0].now_ms += 601
        assert (await client.handshake()).error_code == ErrorCode.NONE
        assert (await client.authenticate(ALICE)).error_code == ErrorCode.NONE
        clocks[0].now_ms += 500
        # Its session ends 400 ms after the last log-in began.
        client.send(framed(handshake))
        assert await client.is_closed()
        await client.close()

    assert on_sasl(scenario, clock, session_ms_max={"PLAIN": 400}).counts.expired == 1
