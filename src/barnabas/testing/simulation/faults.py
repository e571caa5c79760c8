"""`FaultPlan`: the faults of a scenario, one after the other. Each of them ends."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from barnabas.log.producers import BATCHES_KEPT
from barnabas.testing.simulation.history import History
from barnabas.testing.simulation.machine import Machine
from barnabas.testing.simulation.world import World

PATIENCE_S: Final = 60.0
_DISK_ROOM_BYTES: Final = 64 * 1024
"""A full disk still has up to so much room."""


class FaultPlan:
    """Strikes one machine, by the names of `KINDS`."""

    def __init__(
        self, world: World, machine: Machine, history: History, unanswered: Callable[[], int]
    ) -> None:
        """`unanswered` is how many batches of one producer are under way, at most, to one partition."""
        self._unanswered = unanswered
        self._world = world
        self._machine = machine
        self._history = history
        self._rng = world.new_rng()
        self.injected = 0

    async def inject(self, kind: str) -> None:
        """One fault, from its beginning to its end. Afterwards the broker runs or starts."""
        self._world.trace(f"fault {kind}")
        self.injected += 1
        await KINDS[kind](self)
        await self.heal()

    async def heal(self) -> None:
        """Ends the faults of machine and network, and starts the broker if it does not run."""
        self._world.network.heal()
        disk = self._machine.disk
        disk.heal()
        disk.capacity = None
        self._machine.start()

    async def until(self, condition: Callable[[], bool], patience_s: float) -> bool:
        """Waits until the condition holds, at most `patience_s`; whether it does."""
        deadline_s = self._world.loop.time() + patience_s
        while not condition():
            if self._world.loop.time() > deadline_s:
                return False
            await asyncio.sleep(0.02)
        return True

    async def until_up(self) -> bool:
        """Waits until the broker is up, and starts it again where it ended by itself. Whether it came up."""
        deadline_s = self._world.loop.time() + PATIENCE_S
        while self._machine.node is None and self._world.loop.time() < deadline_s:
            self._machine.start()
            await self.until(lambda: self._machine.node is not None or not self._machine.running, PATIENCE_S)
            if self._machine.node is None:
                await asyncio.sleep(1.0)
        return self._machine.node is not None

    async def _pause(self, mean_s: float) -> None:
        await asyncio.sleep(self._rng.expovariate(1 / mean_s))

    async def _kill(self) -> None:
        self._machine.kill()
        await self._pause(0.5)

    async def _kill_with_batches_under_way(self) -> None:
        self._world.network.slow = True
        await self.until(lambda: self._unanswered() >= BATCHES_KEPT, 5.0)
        self._machine.kill()
        await self._pause(0.5)

    async def _kill_at_the_disk(self) -> None:
        self._machine.kill_soon(self._rng.randrange(60))
        if self._rng.random() < 0.3:
            self._machine.stop()
        if not await self.until(lambda: not self._machine.running, 5.0):
            self._machine.kill()
        await self._pause(0.5)

    async def _kill_while_starting(self) -> None:
        self._machine.kill()
        self._machine.start()
        self._machine.kill_soon(self._rng.randrange(40))
        await self.until(lambda: not self._machine.running, 1.0)
        self._machine.kill()

    async def _cut_power(self) -> None:
        if self._rng.random() < 0.3:
            self._machine.kill_soon(self._rng.randrange(60))
            await self.until(lambda: not self._machine.running, 2.0)
        self._history.power_losses_s.append(self._world.loop.time())
        self._machine.cut_power()
        await self._pause(1.0)

    async def _kill_then_cut_power(self) -> None:
        """What recovery takes in counts as synced from then on, whether the killed broker had synced it or
        not.
        """
        self._machine.kill_at_roll(self._rng.randrange(15))
        if not await self.until(lambda: not self._machine.running, 4.0):
            self._machine.kill()
        if await self.until_up():
            await self._pause(0.2)
        await self._cut_power()

    async def _restart(self) -> None:
        self._machine.stop()
        if not await self.until(lambda: not self._machine.running, PATIENCE_S):
            self._history.complaints.append("the broker did not stop when it was asked to")

    async def _cut_connections(self) -> None:
        self._world.network.cut_connections(self._machine.host)

    async def _open_half(self) -> None:
        self._world.network.open_half(self._machine.host)

    async def _partition(self) -> None:
        others = sorted({process.host for process in self._world.clients})
        self._world.network.partition(self._machine.host, self._rng.choice(others))
        await self._pause(4.0)

    async def _slow_down(self) -> None:
        self._world.network.slow = True
        await self._pause(4.0)

    async def _expire_session(self) -> None:
        self._machine.expire_session()

    async def _fail_disk(self) -> None:
        operation = self._rng.choice(["write", "sync", "name", "read"])
        self._machine.disk.fail(self._rng.choice(_places(self._machine)), operation)
        await self._pause(1.0)
        if self._rng.random() < 0.3:
            self._machine.kill()
            self._machine.start()
            await self._pause(1.0)
        # A directory that failed stays out of service until the broker is started again.
        self._machine.kill()

    async def _fill_disk(self) -> None:
        disk = self._machine.disk
        disk.capacity = disk.used + self._rng.randrange(self._rng.choice([1, 10_000, _DISK_ROOM_BYTES]))
        await self._pause(2.0)
        self._machine.kill()


def _places(machine: Machine) -> list[str]:
    """Where a disk may fail: a log directory, or one partition in it."""
    directories = machine.config["log.dirs"].split(",")
    inside = [f"{path}/{name}" for path in directories for name in machine.disk.listdir(path)]
    return [*directories, *(path for path in inside if machine.disk.is_directory(path))]


KINDS: Final[dict[str, Callable[[FaultPlan], Awaitable[None]]]] = {
    "kill": FaultPlan._kill,  # noqa: SLF001 - the table of this class
    "kill-with-batches-under-way": FaultPlan._kill_with_batches_under_way,  # noqa: SLF001
    "kill-at-the-disk": FaultPlan._kill_at_the_disk,  # noqa: SLF001
    "kill-while-starting": FaultPlan._kill_while_starting,  # noqa: SLF001
    "power": FaultPlan._cut_power,  # noqa: SLF001
    "kill-then-power": FaultPlan._kill_then_cut_power,  # noqa: SLF001
    "restart": FaultPlan._restart,  # noqa: SLF001
    "cut": FaultPlan._cut_connections,  # noqa: SLF001
    "half-open": FaultPlan._open_half,  # noqa: SLF001
    "partition": FaultPlan._partition,  # noqa: SLF001
    "slow": FaultPlan._slow_down,  # noqa: SLF001
    "session": FaultPlan._expire_session,  # noqa: SLF001
    "disk-error": FaultPlan._fail_disk,  # noqa: SLF001
    "disk-full": FaultPlan._fill_disk,  # noqa: SLF001
}
