"""Where a log-in stands at the broker (``SaslServerAuthenticator.SaslState``).

Theory of operation
-------------------
`TRANSITIONS` is the machine; an event that a state has no row for is a bug of the caller and raises.
`REQUESTS` says which requests a state takes; any other ends the connection.

    FIRST --versions--> HANDSHAKE --mechanism--> AUTHENTICATE --proved--> COMPLETE
      |                     |                         ^                      |
      +-----mechanism-------+----> AUTHENTICATE       +------mechanism-------+  (re-authentication, KIP-368)
      +--bare mechanism-----+----> BARE_TOKENS ---proved---> COMPLETE

From each state REFUSED leads to FAILED, which is the end. A SaslHandshake of version 0 is
followed by tokens without a request around them (KIP-43), one of version 1 by SaslAuthenticate (KIP-152).
"""

from enum import Enum
from typing import Final

from barnabas.core.errors import IllegalTransitionError
from barnabas.protocol.api import ApiKey


class SaslState(Enum):
    """What the broker waits for."""

    FIRST = "the client's versions, or its mechanism"
    HANDSHAKE = "the client's mechanism"
    AUTHENTICATE = "SaslAuthenticate"
    BARE_TOKENS = "tokens without a header"
    COMPLETE = "nothing: the client has logged in"
    FAILED = "the end of the connection"


class SaslEvent(Enum):
    """What happens to a log-in."""

    VERSIONS = "the broker has said its versions"
    MECHANISM = "the client chose a mechanism, version 1"
    BARE_MECHANISM = "the client chose a mechanism, version 0"
    PROVED = "the client has proved who it is"
    REFUSED = "the client broke a rule, or could not prove it"


TRANSITIONS: Final[dict[SaslState, dict[SaslEvent, SaslState]]] = {
    SaslState.FIRST: {
        SaslEvent.VERSIONS: SaslState.HANDSHAKE,
        SaslEvent.MECHANISM: SaslState.AUTHENTICATE,
        SaslEvent.BARE_MECHANISM: SaslState.BARE_TOKENS,
        SaslEvent.REFUSED: SaslState.FAILED,
    },
    SaslState.HANDSHAKE: {
        SaslEvent.MECHANISM: SaslState.AUTHENTICATE,
        SaslEvent.BARE_MECHANISM: SaslState.BARE_TOKENS,
        SaslEvent.REFUSED: SaslState.FAILED,
    },
    SaslState.AUTHENTICATE: {
        SaslEvent.PROVED: SaslState.COMPLETE,
        SaslEvent.REFUSED: SaslState.FAILED,
    },
    SaslState.BARE_TOKENS: {
        SaslEvent.PROVED: SaslState.COMPLETE,
        SaslEvent.REFUSED: SaslState.FAILED,
    },
    SaslState.COMPLETE: {
        # Only where the session ends some time: the client proves itself again on the open connection.
        SaslEvent.MECHANISM: SaslState.AUTHENTICATE,
        SaslEvent.REFUSED: SaslState.FAILED,
    },
    SaslState.FAILED: {},
}

REQUESTS: Final[dict[SaslState, frozenset[int]]] = {
    SaslState.FIRST: frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}),
    SaslState.HANDSHAKE: frozenset({ApiKey.SASL_HANDSHAKE}),
    SaslState.AUTHENTICATE: frozenset({ApiKey.SASL_AUTHENTICATE}),
    SaslState.BARE_TOKENS: frozenset(),
    SaslState.COMPLETE: frozenset(),
    SaslState.FAILED: frozenset(),
}


def after(state: SaslState, event: SaslEvent) -> SaslState:
    """The state that follows. Raises IllegalTransitionError."""
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise IllegalTransitionError(f"{event.name} while {state.name}")
    return following
