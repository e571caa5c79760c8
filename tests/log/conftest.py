"""The fixtures of the log's tests; what they are made of is `log_world`."""

import pytest
from log_world import World


@pytest.fixture
def world():
    """An empty simulated disk with a clock that stands."""
    return World()
