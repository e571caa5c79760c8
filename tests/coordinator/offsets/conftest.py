"""One rig a test: see `offsets_rig`."""

import pytest
from offsets_rig import Rig


@pytest.fixture
def rig():
    return Rig()
