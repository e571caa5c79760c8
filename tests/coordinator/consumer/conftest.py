"""A shard of consumer groups, and the members that talk to it."""

import pytest
from consumer_world import World


@pytest.fixture
def world():
    return World()


@pytest.fixture
def world_with():
    """A world with other settings."""
    return World
