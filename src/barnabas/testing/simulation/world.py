"""`World`: loop, network, store, machines and trace, all from one seed."""

import asyncio
from collections.abc import Coroutine, Mapping
from random import Random
from typing import Any, TextIO, TypeVar

from barnabas.cluster.store.memory import MemoryEnsemble
from barnabas.testing.simulation.log_capture import LogCapture
from barnabas.testing.simulation.loop import Process, SimulatedLoop
from barnabas.testing.simulation.machine import Machine
from barnabas.testing.simulation.network import SimulatedNetwork
from barnabas.testing.simulation.system import stand_in
from barnabas.testing.simulation.trace import Trace

T = TypeVar("T")


class World:
    """Everything there is, until `run` returns."""

    def __init__(self, seed: int, sink: TextIO | None = None) -> None:
        self.seed = seed
        self.rng = Random(seed)
        """The generator that makes all others, so that one more draw here does not shift another's."""
        self.loop = SimulatedLoop()  # type: ignore[abstract]  # only what is called is there
        self.trace = Trace(self.loop.time, sink)
        self.log = LogCapture(self.loop)
        self.network = SimulatedNetwork(self.loop, self.new_rng(), self.trace)
        self.ensemble = MemoryEnsemble(lambda: self.loop.wall_ns() // 1_000_000)
        self.machines: list[Machine] = []
        self.clients: list[Process] = []

    def new_rng(self) -> Random:
        """A generator of its own for one part of the world."""
        return Random(self.rng.getrandbits(64))

    def add_machine(self, config: Mapping[str, str]) -> Machine:
        """One more computer, its broker not started."""
        machine = Machine(
            len(self.machines),
            loop=self.loop,
            network=self.network,
            ensemble=self.ensemble,
            rng=self.new_rng(),
            trace=self.trace,
            config=dict(config),
        )
        self.machines.append(machine)
        return machine

    def new_process(self, name: str) -> Process:
        """A process on a host of its own, for a client."""
        number = len(self.clients) + 1
        self.clients.append(Process(f"{name}.{number}", f"10.0.1.{number}"))
        return self.clients[-1]

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs the world until this is done.
        The coroutine belongs to no machine, and has a host of its own.
        """
        process = self.new_process("main")
        try:
            with self.log.attached(), stand_in(self.loop, self.network, self.rng.getrandbits(64)):
                result: T = self.loop.run_until_complete(self.loop.spawn(process, main))
                self._end(process)
            return result
        finally:
            self.loop.close()

    def _end(self, main: Process) -> None:
        """Ends every process that still lives, so that nothing of it is left to the garbage collector."""
        for machine in self.machines:
            machine.kill()
        for client in self.clients:
            if client is not main:
                client.die()
                client.bury()
        self.loop.run_until_complete(self.loop.spawn(main, asyncio.sleep(0)))

    def __repr__(self) -> str:
        return f"<World seed={self.seed} at {self.loop.time():.1f} s {self.machines}>"
