"""The sides of a ratio: a running broker each, whose processor time and memory can be read."""

import contextlib
import functools
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

from bench import wire
from bench.processes import ProcessorTime, processor_time, resident_mb
from bench.raw import RawClient

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "jvm"))

import kafka_harness
from kafka_harness import Server, UnavailableError

CHECKOUT: Final = Path(__file__).parent.parent
# What was deleted after a round must be gone before the disk is full, on all sides.
DELETE_SOON: Final[Mapping[str, object]] = {"log.segment.delete.delay.ms": 1000}
ONE_RECORD: Final = wire.batch(b"x" * 100, 1)

Run = TypeVar("Run", bound="Runnable")

TITLES: Final = {
    "kafka": "Apache Kafka 3.9.2",
    "control": "Apache Kafka 3.9.2 again",
    "pure": "Barnabas, pure Python",
    "compiled": "Barnabas, compiled",
    "before": "Barnabas of another commit",
    "kfake": "kfake (Go, in memory)",
    "floor": "floor (C)",
}


class Trees(NamedTuple):
    """Where sides are that are not this checkout in pure Python: source trees or virtual environments."""

    compiled: Path = CHECKOUT
    """The compiled form."""
    before: Path = CHECKOUT
    """An earlier commit, in the form in which it lies there."""


class Side:
    """One broker: how to start it, how to ask what it used."""

    compiles_as_it_runs = False
    """Whether it must be warmed at length before it is timed."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder
        self._starts = 0
        self._server: Server | None = None

    def _launch(self, folder: Path) -> Server:
        raise NotImplementedError

    def launch(self) -> Server:
        """Starts another broker with an empty data directory; returns while it still starts."""
        self._starts += 1
        folder = self._folder / f"{self.name}-{self._starts}"
        folder.mkdir(parents=True)
        return self._launch(folder)

    def start(self) -> None:
        """Starts the broker that the rounds are run on."""
        self._server = self.launch()
        wait_until_serving(self._server)

    def start_again(self) -> None:
        """Starts the broker that was ended, on what it left behind."""
        self._server = self._launch(self.running.log.parent)
        wait_until_serving(self._server, create=False)

    def stop(self) -> None:
        """Ends the broker at once."""
        if self._server:
            self._server.kill()
            self._server = None

    @property
    def running(self) -> Server:
        """The broker that the rounds are run on."""
        if self._server is None:
            raise RuntimeError(f"{self.name} does not run")
        return self._server

    def connect(self) -> RawClient:
        """A new raw connection."""
        return RawClient(self.running.port)

    def processor_time(self) -> ProcessorTime:
        """What the broker and its children have used."""
        return processor_time(self.running.pid)

    def memory_mb(self) -> float:
        """Resident memory of the broker and its children."""
        return resident_mb(self.running.pid)

    def __repr__(self) -> str:
        return f"<Side {self.name} {self._server!r}>"


class ApacheKafka(Side):
    """Kafka 3.9 in ZooKeeper mode, with the options and the heap of its own start script."""

    compiles_as_it_runs = True

    def __init__(self, name: str, folder: Path, zookeeper: str, settings: Mapping[str, object]) -> None:
        super().__init__(name, folder)
        self._zookeeper = zookeeper
        self._settings = settings

    def _launch(self, folder: Path) -> Server:
        # Each life has a chroot of its own in ZooKeeper.
        return kafka_harness.start_broker(
            folder,
            f"{self._zookeeper}/{folder.name}",
            0,
            self._settings,
            options=kafka_harness.BROKER_OPTIONS,
        )


@dataclass(frozen=True)
class Installation:
    """Where a Barnabas lies: the interpreter, and the folder to put before everything else it imports."""

    python: str
    path: str = ""

    @classmethod
    def at(cls, place: Path) -> "Installation":
        """A source tree (with `src`, run by this interpreter) or a virtual environment (with
        `bin/python`).
        """
        interpreter = place / "bin" / "python"
        if interpreter.exists():
            return cls(str(interpreter))
        if (place / "src" / "barnabas").is_dir():
            return cls(sys.executable, str((place / "src").resolve()))
        raise UnavailableError(f"{place} is neither a source tree nor a virtual environment")

    def command(self, *arguments: str) -> list[str]:
        """The command line that runs Python there; byte code is kept, as in what pip has installed."""
        environment = ["env", "-u", "PYTHONDONTWRITEBYTECODE", f"PYTHONPATH={self.path}"]
        return [*environment, self.python, *arguments]

    def serve(self, folder: Path, settings: Mapping[str, object], *options: str) -> Server:
        """A broker on what this folder has; returns while it still starts."""
        port = kafka_harness.free_port()
        sets = [f"--set={key}={value}" for key, value in settings.items()]
        serve = ["-m", "barnabas", "serve", "--data", str(folder / "data"), "--port", str(port)]
        return Server(self.command(*serve, *options, *sets), port, folder / "barnabas.log")

    @property
    def form(self) -> str:
        """What it says it is: pure Python, compiled, or compiled from sources that were edited since."""
        asked = self.command("-c", "from barnabas.core.form import describe; print(describe())")
        # In a folder of its own, as `python -c` looks into the current one first.
        return subprocess.run(asked, capture_output=True, text=True, check=True, cwd="/").stdout.strip()


def pure_copy(folder: Path) -> Installation:
    """This checkout without its compiled modules, if it has any."""
    shutil.copytree(
        CHECKOUT / "src", folder, ignore=shutil.ignore_patterns("*.so", "compiled.json", "__pycache__")
    )
    return Installation(sys.executable, str(folder))


def compiled_at(place: Path) -> Installation:
    """The installation there; raises UnavailableError when it is not a compiled one of its present
    sources.
    """
    found = Installation.at(place)
    if found.form != "compiled":
        raise UnavailableError(f"{place} is {found.form} (make compile, or --compiled PATH)")
    return found


def installation_of(side: str, trees: Trees, folder: Path) -> Installation:
    """What a side of ours runs; UnavailableError when it is not there."""
    if side == "pure":
        return pure_copy(folder / "source")
    return Installation.at(trees.before) if side == "before" else compiled_at(trees.compiled)


class Barnabas(Side):
    """`barnabas serve` as a user starts it, with its embedded metadata store."""

    def __init__(
        self, name: str, folder: Path, installation: Installation, settings: Mapping[str, object]
    ) -> None:
        super().__init__(name, folder)
        self._installation = installation
        self._settings = settings

    def _launch(self, folder: Path) -> Server:
        return self._installation.serve(folder, self._settings)


class Kfake(Side):
    """The fake cluster of franz-go: what Go comes to when nothing is written to a file."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, folder)
        place = kafka_harness.cache_folder().parent / "kfake"
        self._program = kafka_harness.go_program(CHECKOUT / "bench" / "kfake", place)

    def _launch(self, folder: Path) -> Server:
        port = kafka_harness.free_port()
        return Server([str(self._program), str(port)], port, folder / "kfake.log")


class Floor(Side):
    """What a request costs in system calls and checksums: bench/floor/floor.c says what it leaves out."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, folder)
        self._program = built("floor")

    def _launch(self, folder: Path) -> Server:
        port = kafka_harness.free_port()
        return Server([str(self._program), str(port), str(folder)], port, folder / "floor.log")


def built(program: str, *options: str) -> Path:
    """A program of bench/floor, compiled with these options as well.
    Raises UnavailableError without a compiler.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise UnavailableError(f"no C compiler found to build bench/floor/{program}.c with")
    place = kafka_harness.cache_folder().parent / "".join([f"bench-{program}", *options])
    place.parent.mkdir(parents=True, exist_ok=True)
    source = CHECKOUT / "bench" / "floor" / f"{program}.c"
    subprocess.run([compiler, "-O2", "-march=native", *options, "-o", str(place), str(source)], check=True)
    return place


def wait_until_serving(server: Server, seconds: float = 180, *, create: bool = True) -> None:
    """Returns when the broker has taken a first record, into a topic made for it (unless it is there
    already): a broker listens before it knows itself to be part of a cluster. Raises RuntimeError with the
    end of its log.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and server.process.poll() is None:
        with contextlib.suppress(ConnectionError, RuntimeError), RawClient(server.port) as client:
            if create:
                client.create_topic("first")
            client.produce_bytes("first", ONE_RECORD, 1)
            return
        time.sleep(0.002)
    raise RuntimeError(f"{server!r} took no record; its log ends:\n{server.tail()}")


class Runnable(Protocol):
    """A side of any kind."""

    def start(self) -> None:
        """Returns when it serves."""

    def stop(self) -> None:
        """Ends it at once."""


@contextlib.contextmanager
def running(
    folder: Path, names: Sequence[str], make: Callable[[str, Callable[[], str]], Run]
) -> Iterator[list[Run]]:
    """The sides that `make` makes, running, in this order; says on stderr which one is not to be had, and
    why.

    `make` is called with the name of a side and with a function that says where ZooKeeper is, which runs from
    its first call on. Raises UnavailableError when the first side is not to be had, to which the others are
    compared.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)

        @functools.cache
        def zookeeper() -> str:
            (folder / "zookeeper").mkdir(parents=True)
            server = kafka_harness.wait_until_serving(kafka_harness.start_zookeeper(folder / "zookeeper"))
            stack.callback(server.kill)
            return server.bootstrap

        sides: list[Run] = []
        for name in names:
            try:
                sides.append(make(name, zookeeper))
            except UnavailableError as missing:
                if not sides:
                    raise
                print(f"{TITLES[name]}: {missing}", file=sys.stderr)
                continue
            stack.callback(sides[-1].stop)
            sides[-1].start()
        yield sides


def running_sides(
    folder: Path, names: Sequence[str], trees: Trees, settings: Mapping[str, object] = DELETE_SOON
) -> contextlib.AbstractContextManager[list[Side]]:
    """One broker a side, `running`."""

    def side(name: str, zookeeper: Callable[[], str]) -> Side:
        if name in {"kafka", "control"}:
            return ApacheKafka(name, folder, zookeeper(), settings)
        if name == "kfake":
            return Kfake(name, folder)
        if name == "floor":
            return Floor(name, folder)
        return Barnabas(name, folder, installation_of(name, trees, folder), settings)

    return running(folder, names, side)
