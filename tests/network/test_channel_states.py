import itertools

import pytest

from barnabas.core.errors import IllegalTransitionError
from barnabas.network.channel_states import TRANSITIONS, ChannelEvent, ChannelState, after

CELLS = list(itertools.product(ChannelState, ChannelEvent))


@pytest.mark.parametrize(("state", "event"), CELLS, ids=lambda each: each.name)
def test_every_cell_is_a_transition_or_raises(state, event):
    following = TRANSITIONS[state].get(event)
    if following is not None:
        assert after(state, event) is following
        return
    with pytest.raises(IllegalTransitionError, match=f"{event.name} while {state.name}"):
        after(state, event)


@pytest.mark.parametrize(("state", "event"), CELLS, ids=lambda each: each.name)
def test_what_each_state_says_of_holds_and_throttles(state, event):
    """The table against what it stands for:
    two conditions that end independently, then draining, then the end.
    """
    held = state in {ChannelState.HELD, ChannelState.HELD_AND_THROTTLED}
    throttled = state in {ChannelState.THROTTLED, ChannelState.HELD_AND_THROTTLED}
    ended = state in {ChannelState.DRAINING, ChannelState.CLOSED}
    match event:
        case ChannelEvent.HOLD if not held and not ended:
            held = True
        case ChannelEvent.RELEASE if held:
            held = False
        case ChannelEvent.THROTTLE if not ended:
            throttled = True
        case ChannelEvent.UNTHROTTLE if throttled:
            throttled = False
        case ChannelEvent.DRAIN if not ended:
            assert TRANSITIONS[state][event] is ChannelState.DRAINING
            return
        case ChannelEvent.CLOSE if state is not ChannelState.CLOSED:
            assert TRANSITIONS[state][event] is ChannelState.CLOSED
            return
        case _:
            expected = ChannelState.DRAINING if state is ChannelState.DRAINING else None
            assert TRANSITIONS[state].get(event) is expected
            return
    names = {
        (False, False): ChannelState.OPEN,
        (True, False): ChannelState.HELD,
        (False, True): ChannelState.THROTTLED,
        (True, True): ChannelState.HELD_AND_THROTTLED,
    }
    assert TRANSITIONS[state][event] is names[held, throttled]


def test_nothing_leads_out_of_closed():
    assert TRANSITIONS[ChannelState.CLOSED] == {}
