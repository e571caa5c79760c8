"""A short siege by hostile clients;
`python tests/chaos/hostile.py` lays a longer one with the strict limit.
"""

import hostile
import pytest

STALL_MS = hostile.SESSION_MS / 6
"""On a loaded machine only a stall of the length that endangers sessions is a failure."""


@pytest.mark.campaign
@pytest.mark.timeout(240)
def test_hostile_clients_harm_nobody_who_behaves(tmp_path):
    assert not hostile.run(tmp_path, 1, ways=list(hostile.WAYS), p99_ms=STALL_MS)
