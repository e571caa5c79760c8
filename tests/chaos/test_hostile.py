"""Short sieges by hostile clients, and by strangers at a listener where clients log in over TLS;
`python tests/chaos/hostile.py` lays longer ones with the strict limit.
"""

import hostile
import pytest

STALL_MS = hostile.SESSION_MS / 6
"""On a loaded machine only a stall of the length that endangers sessions is a failure."""


@pytest.mark.campaign
@pytest.mark.timeout(240)
def test_hostile_clients_harm_nobody_who_behaves(tmp_path):
    assert not hostile.run(tmp_path, 1, door=hostile.OpenDoor(), p99_ms=STALL_MS)


@pytest.mark.campaign
@pytest.mark.timeout(240)
def test_strangers_at_a_locked_door_harm_nobody_inside(tmp_path):
    door = hostile.LockedDoor(tmp_path)
    assert not hostile.run(tmp_path, 1, door=door, p99_ms=STALL_MS, log_level="info")
