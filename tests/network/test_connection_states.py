import itertools

import pytest

from barnabas.core.errors import IllegalTransitionError
from barnabas.network.backoff import ExponentialBackoff
from barnabas.network.connection_states import (
    TRANSITIONS,
    ConnectionEvent,
    ConnectionState,
    ConnectionTimings,
    NodeConnectionState,
)

STEPS = {
    ConnectionEvent.CONNECT: lambda state: state.connecting(0.0),
    ConnectionEvent.CHECK: lambda state: state.checking_api_versions(),
    ConnectionEvent.READY: lambda state: state.ready(),
    ConnectionEvent.DISCONNECT: lambda state: state.disconnected(0.0),
    ConnectionEvent.FAIL_AUTHENTICATION: lambda state: state.authentication_failed(0.0, OSError("no")),
}

WAYS = {
    ConnectionState.DISCONNECTED: [],
    ConnectionState.CONNECTING: [ConnectionEvent.CONNECT],
    ConnectionState.CHECKING_API_VERSIONS: [ConnectionEvent.CONNECT, ConnectionEvent.CHECK],
    ConnectionState.READY: [ConnectionEvent.CONNECT, ConnectionEvent.READY],
    ConnectionState.AUTHENTICATION_FAILED: [ConnectionEvent.FAIL_AUTHENTICATION],
}

# (from, event) -> to; every other cell is illegal.
EXPECTED = {
    ("DISCONNECTED", "CONNECT"): "CONNECTING",
    ("DISCONNECTED", "FAIL_AUTHENTICATION"): "AUTHENTICATION_FAILED",
    ("CONNECTING", "CHECK"): "CHECKING_API_VERSIONS",
    ("CONNECTING", "READY"): "READY",
    ("CONNECTING", "DISCONNECT"): "DISCONNECTED",
    ("CHECKING_API_VERSIONS", "CHECK"): "CHECKING_API_VERSIONS",
    ("CHECKING_API_VERSIONS", "READY"): "READY",
    ("CHECKING_API_VERSIONS", "DISCONNECT"): "DISCONNECTED",
    ("READY", "DISCONNECT"): "DISCONNECTED",
    ("AUTHENTICATION_FAILED", "CONNECT"): "CONNECTING",
}


def new_state():
    return NodeConnectionState(
        ConnectionTimings(
            reconnect=ExponentialBackoff(initial_ms=50, max_ms=1000, uniform=lambda *_: 1.0),
            setup=ExponentialBackoff(initial_ms=10_000, max_ms=30_000, uniform=lambda *_: 1.0),
        )
    )


@pytest.mark.parametrize(
    ("start", "event"), list(itertools.product(ConnectionState, ConnectionEvent)), ids=lambda each: each.name
)
def test_every_cell(start, event):
    state = new_state()
    for step in WAYS[start]:
        STEPS[step](state)
    assert state.state is start
    expected = EXPECTED.get((start.name, event.name))

    if expected is None:
        with pytest.raises(IllegalTransitionError, match=f"{event.name} while {start.name}"):
            STEPS[event](state)
        assert state.state is start
    else:
        STEPS[event](state)
        assert state.state is ConnectionState[expected]


def test_the_table_has_a_row_for_each_state():
    assert set(TRANSITIONS) == set(ConnectionState)


def fail(state, now, *, established):
    state.connecting(now)
    if established:
        state.checking_api_versions()
    state.disconnected(now)


def test_the_backoff_grows_until_ready():
    state = new_state()
    waits = []
    for attempt in range(6):
        fail(state, float(attempt), established=attempt % 2 == 0)
        waits.append(state.reconnect_backoff_ms)

    assert waits == [50, 100, 200, 400, 800, 1000]
    state.connecting(10_000.0)
    state.ready()
    state.disconnected(10_000.0)
    assert state.reconnect_backoff_ms == 50


def test_the_backoff_counts_from_the_loss():
    state = new_state()
    assert state.can_connect(0.0)
    state.connecting(0.0)
    assert not state.can_connect(1e9)
    state.disconnected(700.0)

    assert not state.can_connect(749.0)
    assert state.backoff_left_ms(720.0) == 30
    assert state.can_connect(750.0)


def test_the_setup_timeout_grows_only_when_connecting_fails():
    state = new_state()
    fail(state, 0.0, established=False)
    fail(state, 0.0, established=False)
    assert state.setup_timeout_ms == 30_000
    fail(state, 0.0, established=True)
    assert state.setup_timeout_ms == 10_000


def test_the_setup_is_over_time_only_beyond_its_timeout():
    state = new_state()
    assert not state.setup_timed_out(1e9)
    state.connecting(500.0)

    assert not state.setup_timed_out(10_500.0)
    assert state.setup_timed_out(10_500.1)
    state.ready()
    assert not state.setup_timed_out(1e9)


def test_a_throttled_node_is_not_ready_and_the_throttle_never_shrinks():
    state = new_state()
    state.connecting(0.0)
    state.ready()
    state.throttle(300.0)
    state.throttle(100.0)

    assert not state.is_ready(299.0)
    assert state.is_ready(300.0)


def test_a_failed_authentication_is_remembered_and_backs_off_twice():
    state = new_state()
    state.connecting(0.0)
    state.checking_api_versions()
    state.disconnected(0.0)
    error = OSError("SASL")
    state.authentication_failed(0.0, error)

    assert state.error is error
    assert state.reconnect_backoff_ms == 100
    assert state.state.disconnected
    state.connecting(200.0)
    state.ready()
    assert state.error is None
    assert repr(state) == "<NodeConnectionState READY failed_attempts=0>"
