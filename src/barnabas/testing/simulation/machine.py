"""`Machine`: one computer of the world, with a disk that outlives the broker on it.

The broker is a `BrokerNode` and nothing less. What it stands on is made here: a clock on the loop, the disk
as its process sees it, a sync that takes its time, work in place instead of in a child process, a session on
the ensemble that ends with the process.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, ParamSpec, TypeVar

from barnabas.cluster.store.contract import MetadataStore
from barnabas.cluster.store.memory import MemoryEnsemble, MemoryStore
from barnabas.core.broker_config import broker_config
from barnabas.core.errors import BarnabasError
from barnabas.core.pending import Pending
from barnabas.log.flush import Syncable
from barnabas.log.names import LOG_SUFFIX
from barnabas.network.clock import LoopClock
from barnabas.node.broker_node import BrokerNode
from barnabas.node.environment import Environment
from barnabas.testing.disk import SimulatedFilesystem
from barnabas.testing.simulation.disk_view import ProcessFilesystem
from barnabas.testing.simulation.loop import Process, SimulatedLoop
from barnabas.testing.simulation.network import SimulatedNetwork
from barnabas.testing.simulation.trace import Trace
from barnabas.testing.sometimes import sometimes

P = ParamSpec("P")
T = TypeVar("T")

_SYNC_S: Final = 0.004
_STORE_S: Final = 0.001


class LaterOffload:
    """`core.offload.Offload` in this process, after a while."""

    def __init__(self, loop: SimulatedLoop, rng: Random) -> None:
        self._loop = loop
        self._rng = rng

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        """Runs the function later; its exception becomes the failure."""
        outcome: Pending[T] = Pending()

        def work() -> None:
            try:
                value = function(*args, **kwargs)
            except Exception as error:
                outcome.fail(error)
            else:
                outcome.complete(value)

        self._loop.call_later(self._rng.random() * 0.1, work)
        return outcome

    def resize(self, processes: int) -> None:
        """All work is done side by side."""

    def close(self) -> None:
        """It holds nothing."""


class LaterSyncer:
    """`log.flush.Syncer` that syncs when its time has come; until then nothing is durable."""

    def __init__(self, loop: SimulatedLoop, rng: Random) -> None:
        self._loop = loop
        self._rng = rng

    def sync(self, files: Sequence[Syncable]) -> Pending[None]:
        outcome: Pending[None] = Pending()
        self._loop.call_later(self._rng.expovariate(1 / _SYNC_S), self._sync, list(files), outcome)
        return outcome

    @staticmethod
    def _sync(files: Sequence[Syncable], outcome: Pending[None]) -> None:
        try:
            for file in files:
                file.sync()
        except OSError as error:
            outcome.fail(error)
        else:
            outcome.complete(None)

    def close(self) -> None:
        """It holds nothing."""


class _StoreTurns:
    """The turns in which a session's answers come: later, in order, and in the session's own process."""

    def __init__(self, loop: SimulatedLoop, process: Process, rng: Random) -> None:
        self._loop = loop
        self._process = process
        self._rng = rng
        self._last_s = 0.0

    def __call__(self, callback: Callable[[], object]) -> None:
        delay_s = self._rng.expovariate(1 / _STORE_S)
        self._last_s = max(self._last_s, self._loop.time() + delay_s)
        self._loop.call_at(self._last_s, callback, context=self._process.context)


class Machine:
    """A computer with one broker. Starting again what runs already, or ending what does not, does nothing."""

    def __init__(
        self,
        broker_id: int,
        *,
        loop: SimulatedLoop,
        network: SimulatedNetwork,
        ensemble: MemoryEnsemble,
        rng: Random,
        trace: Trace,
        config: dict[str, str],
    ) -> None:
        self.host = f"10.0.0.{broker_id + 1}"
        self.disk = SimulatedFilesystem(seed=rng.getrandbits(32), now_ms=lambda: loop.wall_ns() // 1_000_000)
        self.config = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self.host}:9092",
            "log.dirs": "/data",
            **config,
        }
        self.node: BrokerNode | None = None
        """The broker, while it is up."""
        self.deaths_s: list[float] = []
        """When its brokers ended, however they did."""
        self.on_death: list[Callable[[], object]] = []
        """Called when a broker has ended, however it did."""
        self.starts = 0
        self.failures: list[str] = []
        """Why brokers ended by themselves."""
        self._loop = loop
        self._network = network
        self._ensemble = ensemble
        self._rng = rng
        self._trace = trace
        self._process: Process | None = None
        self._filesystem: ProcessFilesystem | None = None
        self._store: MemoryStore | None = None
        self._main: asyncio.Task[None] | None = None
        self._stop: asyncio.Event | None = None
        self._interrupt: Callable[[], None] = lambda: None
        self._powered = True
        self._ends_by_itself = False

    @property
    def address(self) -> str:
        """Where clients find the broker."""
        return f"{self.host}:9092"

    @property
    def running(self) -> bool:
        """Whether there is a process, up or not."""
        return self._process is not None

    @property
    def session_id(self) -> int:
        """The session of the broker that runs; 0 without one."""
        return self._store.session_id if self._store is not None else 0

    def start(self) -> None:
        """Switches the machine on if it is off, and starts the broker."""
        if self._process is not None:
            return
        if not self._powered:
            self._powered = True
            self._network.power_on(self.host)
        self.starts += 1
        self._ends_by_itself = False
        process = self._process = Process(f"broker-{self.config['broker.id']}.{self.starts}", self.host)
        self._trace(f"machine {process.name} starts")
        self._filesystem = ProcessFilesystem(self.disk, process, self._rng, self._trace)
        self._stop = asyncio.Event()
        process.on_death.append(self._gone)
        self._main = self._loop.spawn(process, self._run(process, self._stop))

    async def _run(self, process: Process, stop: asyncio.Event) -> None:
        node = BrokerNode(broker_config(self.config), self._environment(process))
        self._interrupt = node.interrupt_start
        try:
            await node.start()
        except BarnabasError as error:
            self._ended(process, f"did not start: {error}")
            return
        except Exception as error:
            self._ended(process, f"crashed at its start: {error!r}")
            raise
        self.node = node
        self._trace(f"machine {process.name} is up")
        stopped = asyncio.ensure_future(stop.wait())
        failed = asyncio.ensure_future(node.failed())
        await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
        reason = failed.result() if failed.done() else None
        for task in (stopped, failed):
            task.cancel()
        await node.stop()
        self._ended(process, reason)

    def _ended(self, process: Process, reason: str | None) -> None:
        self._trace(f"machine {process.name} ends: {reason or 'was stopped'}")
        self._ends_by_itself = True
        if reason is not None:
            self.failures.append(reason)
        process.die()

    def _environment(self, process: Process) -> Environment:
        assert self._filesystem is not None
        return Environment(
            clock=LoopClock(self._loop),
            filesystem=self._filesystem,
            offload=LaterOffload(self._loop, self._rng),
            new_offload=lambda: LaterOffload(self._loop, self._rng),
            disk_thread=LaterOffload(self._loop, self._rng),
            throttle=lambda _bytes_per_second: lambda _size, _check: None,
            syncer=LaterSyncer(self._loop, self._rng),
            rng=Random(self._rng.getrandbits(64)),
            open_store=lambda: self._open_store(process),
            settle=lambda: None,
        )

    def _open_store(self, process: Process) -> MetadataStore:
        self._store = MemoryStore(self._ensemble, _StoreTurns(self._loop, process, self._rng))
        return self._store

    def stop(self) -> None:
        """Asks for a clean shutdown; `running` says when it is done."""
        if self._stop is not None:
            self._trace(f"machine {self.host} is asked to stop")
            self._stop.set()
            self._interrupt()

    def kill(self) -> None:
        """Ends the broker in the middle of its work; what it wrote stays in the page cache."""
        if self._process is not None:
            self._trace(f"machine {self._process.name} is killed")
            self._process.die()

    def kill_soon(self, changes: int) -> None:
        """Ends the broker after this number of further changes of its disk."""
        if self._filesystem is not None:
            self._filesystem.die_after = changes

    def kill_at_roll(self, changes: int) -> None:
        """Ends the broker this number of changes of its disk after it makes its next segment."""
        if self._filesystem is not None:
            self._filesystem.die_after_roll = changes

    def cut_power(self) -> None:
        """Ends the broker, and of what was not synced only a part, perhaps torn, is left."""
        self._trace(f"machine {self.host} loses power")
        if any(name.endswith(LOG_SUFFIX) for name in self.disk.names_to_sync()):
            sometimes("the power is cut while a segment is new")
        self._powered = False
        self._network.power_off(self.host)
        self.kill()
        self.disk.crash()

    def expire_session(self) -> None:
        """The store takes the broker for dead, though it lives."""
        if self.session_id and self._ensemble.alive(self.session_id):
            self._trace(f"machine {self.host} loses its session")
            self._ensemble.expire(self.session_id)

    def _gone(self) -> None:
        """The process is dead: its session ends, and what it held is let go."""
        for look in self.on_death:
            look()
        if self.node is None and not self._ends_by_itself:
            sometimes("a broker is killed while it starts")
        process, self._process = self._process, None
        self.deaths_s.append(self._loop.time())
        if self.session_id and self._ensemble.alive(self.session_id):
            self._ensemble.end(self.session_id)
        self.node = self._filesystem = self._store = self._stop = None
        assert process is not None
        # Its own stack may be below us now: coroutines are closed when it has unwound.
        self._loop.call_soon(process.bury, context=self._network.context)

    def __repr__(self) -> str:
        state = "up" if self.node is not None else "starting" if self.running else "down"
        return f"<Machine {self.host} {state}>"
