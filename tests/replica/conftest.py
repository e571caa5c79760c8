"""A clock that stands, and partitions on a simulated disk."""

import pytest
from replica_rig import Rig

from standing_clock import Clock


@pytest.fixture
def rig():
    return Rig()


@pytest.fixture
def make_rig():
    return Rig


@pytest.fixture
def clock():
    return Clock()
