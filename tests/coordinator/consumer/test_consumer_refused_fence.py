"""A member is to be fenced and the log refuses to write that down (found by the model of groups,
seed 1752).
"""

import pytest
from consumer_world import SESSION_MS

from barnabas.core.errors import ErrorCode


@pytest.fixture
def silent(world):
    """A world whose only member was silent for too long, which cannot be written down."""
    world.topics.create("a", 1)
    world.join("m1", "a")
    world.journal.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    world.clock.advance(SESSION_MS)
    assert set(world.group.members) == {"m1"}
    return world


def test_it_is_tried_again_until_it_is_written(silent):
    silent.clock.advance(10_000)
    silent.journal.refusal = None
    silent.clock.advance(500)
    assert not silent.group.members


def test_a_sign_of_life_meanwhile_counts(silent):
    silent.journal.refusal = None
    silent.beat("m1", 1)
    silent.clock.advance(SESSION_MS - 1)
    assert set(silent.group.members) == {"m1"}
    silent.clock.advance(1)
    assert not silent.group.members


def test_nothing_is_tried_any_more_once_the_partition_is_another_leaders(silent):
    silent.group.close()
    assert not silent.clock.waiting
