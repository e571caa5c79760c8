"""Every cell of the table of states, against the validPreviousStates of Kafka 3.9's ClassicGroupState."""

import pytest

from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.states import TRANSITIONS, ClassicGroupState
from barnabas.core.errors import IllegalTransitionError
from standing_clock import Clock

# Rows: where it is. Columns: where it is moved to, in the order of the enumeration.
PICTURE = """
                    Empty Preparing Completing Stable Dead
Empty               .     x         .          .      x
PreparingRebalance  x     .         x          .      x
CompletingRebalance .     x         .          x      x
Stable              .     x         .          .      x
Dead                .     .         .          .      x
"""


def cells():
    for line in PICTURE.strip().splitlines()[1:]:
        name, *marks = line.split()
        for mark, target in zip(marks, ClassicGroupState, strict=True):
            yield pytest.param(ClassicGroupState(name), target, mark == "x", id=f"{name}-{target.value}")


def group_in(state):
    group = ClassicGroup("orders", None, Clock(), None, None)
    group.state = state
    return group


@pytest.mark.parametrize(("current", "target", "allowed"), list(cells()))
def test_a_group_moves_where_the_table_says(current, target, allowed):
    group = group_in(current)
    if allowed:
        group.transition_to(target)
        assert group.state is target
    else:
        with pytest.raises(IllegalTransitionError, match=f"orders .* before moving to {target.value}"):
            group.transition_to(target)
        assert group.state is current


def test_every_way_says_what_leads_along_it():
    assert set(TRANSITIONS) == set(ClassicGroupState)
    assert all(reason for ways in TRANSITIONS.values() for reason in ways.values())


def test_a_move_is_dated():
    clock = Clock()
    group = ClassicGroup("orders", None, clock, None, None)
    clock.advance(5_000)

    group.transition_to(ClassicGroupState.PREPARING_REBALANCE)

    assert group.state_since_ms == clock.time_ms()
