"""Sessions on one tree, in memory."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "cluster"))

from plain_loop import Loop

from barnabas.cluster.store.memory import MemoryEnsemble, MemoryStore
from barnabas.security.acl_store import AclStore
from standing_clock import Clock


class Brokers:
    """Brokers that keep their rules in one store."""

    def __init__(self):
        self.loop = Loop()
        self.clock = Clock()
        self.ensemble = MemoryEnsemble(self.clock.time_ms)

    def session(self):
        store = MemoryStore(self.ensemble, self.loop.call_soon)
        self.loop.wait(store.start())
        return store

    def acls(self, session=None, *, started=True, on_change=lambda: None):
        acls = AclStore(session or self.session(), self.clock, random.Random(1))
        if started:
            self.loop.wait(acls.start(on_change))
        return acls


@pytest.fixture
def brokers():
    return Brokers()
