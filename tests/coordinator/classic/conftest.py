"""A shard of classic groups, and the clients that talk to it."""

import pytest
from classic_world import World


@pytest.fixture
def world():
    return World()


@pytest.fixture
def world_with():
    """A world with other settings."""
    return World
