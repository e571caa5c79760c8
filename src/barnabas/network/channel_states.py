"""Whether a server's connection handles requests, and why not (Kafka's ``KafkaChannel.ChannelMuteState``).

Theory of operation
-------------------
`TRANSITIONS` is the machine; an event that a state has no row for is a bug of the caller and raises.

    OPEN <---hold, release---> HELD
     ^                          ^
     throttle, unthrottle       throttle, unthrottle
     v                          v
    THROTTLED <--hold, release--> HELD_AND_THROTTLED

A *hold* is a request that is worked off in later turns of the loop: those behind it wait, as Kafka mutes a
channel until its request is handled. A *throttled* connection waits for its quota. Both may be on at once,
and the last to end opens the connection again. From each of the four states DRAIN leads to DRAINING, where
responses are still sent, and CLOSE to CLOSED, which is the end. A hold or a throttle may end while DRAINING,
and changes nothing.
"""

from enum import Enum
from typing import Final

from barnabas.core.errors import IllegalTransitionError


class ChannelState(Enum):
    """Requests are handled in OPEN only."""

    OPEN = "open"
    THROTTLED = "throttled"
    HELD = "held"
    HELD_AND_THROTTLED = "held and throttled"
    DRAINING = "draining"
    CLOSED = "closed"


class ChannelEvent(Enum):
    """What happens to a connection."""

    HOLD = "hold"
    RELEASE = "release"
    THROTTLE = "throttle"
    UNTHROTTLE = "unthrottle"
    DRAIN = "drain"
    CLOSE = "close"


_END: Final = {ChannelEvent.DRAIN: ChannelState.DRAINING, ChannelEvent.CLOSE: ChannelState.CLOSED}

TRANSITIONS: Final[dict[ChannelState, dict[ChannelEvent, ChannelState]]] = {
    ChannelState.OPEN: {
        ChannelEvent.HOLD: ChannelState.HELD,
        ChannelEvent.THROTTLE: ChannelState.THROTTLED,
        **_END,
    },
    ChannelState.THROTTLED: {
        ChannelEvent.HOLD: ChannelState.HELD_AND_THROTTLED,
        # A longer throttle time replaces the one under way.
        ChannelEvent.THROTTLE: ChannelState.THROTTLED,
        ChannelEvent.UNTHROTTLE: ChannelState.OPEN,
        **_END,
    },
    # Holds add up: HOLD is the first of them, RELEASE the end of the last.
    ChannelState.HELD: {
        ChannelEvent.RELEASE: ChannelState.OPEN,
        ChannelEvent.THROTTLE: ChannelState.HELD_AND_THROTTLED,
        **_END,
    },
    ChannelState.HELD_AND_THROTTLED: {
        ChannelEvent.RELEASE: ChannelState.THROTTLED,
        ChannelEvent.THROTTLE: ChannelState.HELD_AND_THROTTLED,
        ChannelEvent.UNTHROTTLE: ChannelState.HELD,
        **_END,
    },
    ChannelState.DRAINING: {
        **dict.fromkeys(ChannelEvent, ChannelState.DRAINING),
        ChannelEvent.CLOSE: ChannelState.CLOSED,
    },
    ChannelState.CLOSED: {},
}


def after(state: ChannelState, event: ChannelEvent) -> ChannelState:
    """The state that follows. Raises IllegalTransitionError."""
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise IllegalTransitionError(f"{event.name} while {state.name}")
    return following
