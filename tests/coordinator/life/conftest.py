"""A coordinator on real partitions."""

import pytest
from life_rig import Life


@pytest.fixture
def life():
    return Life()


@pytest.fixture
def elected():
    """One that leads two empty partitions and has loaded them."""
    return Life().elect()
