"""When the replication model takes a disk away."""

from random import Random
from types import SimpleNamespace

from barnabas.cluster.store.memory import MemoryEnsemble
from barnabas.replica.isr import IsrState
from barnabas.testing.clock import VirtualClock
from barnabas.testing.replication.faults import KINDS, Faults
from barnabas.testing.replication.wire import PartyNetwork
from barnabas.testing.simulation.trace import Trace


class Victim:
    """Broker 0, which leads nothing."""

    id, name, lives, alive = 0, "broker-0", 1, True
    replicas = SimpleNamespace(partitions=[])

    def __init__(self):
        self.did = []

    def kill(self):
        self.did.append("kill")

    def lose_disk(self):
        self.did.append("lose_disk")

    def start(self):
        self.did.append("start")


def test_a_disk_stays_while_a_leader_proposes_its_replica_for_the_isr():
    """Seed 8144: the ISR with it was written when the broker was back with an empty disk."""
    clock, victim = VirtualClock(), Victim()
    partition = SimpleNamespace(leader_log=object(), isr_state=IsrState(frozenset({1})).propose({0, 1}))
    leader = SimpleNamespace(id=1, name="broker-1", replicas=SimpleNamespace(partitions=[partition]))
    brokers = {0: victim, 1: leader}
    trace = Trace(clock.time_s)
    faults = Faults(
        clock, Random(1), PartyNetwork(clock, Random(1)), brokers, MemoryEnsemble().table, trace, parties=[]
    )

    KINDS["disk"](faults, victim)
    clock.run_until(clock.now_ms + 1_000)
    assert victim.did == ["kill"]

    partition.isr_state = IsrState(frozenset({1}))
    clock.run_until(clock.now_ms + 1_000)
    assert victim.did == ["kill", "lose_disk", "start"]
