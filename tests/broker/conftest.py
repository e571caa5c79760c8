"""The fixtures of the broker's tests; what they are made of is `broker_world`."""

import pytest

from broker_world import World, batch


@pytest.fixture
def world():
    return World()


@pytest.fixture
def make_world():
    return World


@pytest.fixture
def make_batch():
    return batch
