"""The two sides of a ratio: a running broker each, whose processor time and memory can be read."""

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench import wire
from bench.raw import RawClient

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "jvm"))

import kafka_harness
from kafka_harness import Server

# What was deleted after a round must be gone before the disk is full, on both sides.
DELETE_SOON = {"log.segment.delete.delay.ms": 1000}
ONE_RECORD = wire.batch(b"x" * 100, 1)


class Side:
    """One broker: how to start it, how to ask what it used."""

    def __init__(self, name: str, folder: Path, settings: Mapping[str, object] = DELETE_SOON) -> None:
        self.name = name
        self.folder = folder
        self.settings = settings
        self.server: Server | None = None
        self._starts = 0

    def launch(self, folder: Path) -> Server:
        """Starts a broker with an empty data directory; returns while it still starts."""
        raise NotImplementedError

    def start(self) -> None:
        """Starts the broker that the rounds are run on."""
        self.server = self.launch(self.new_folder())
        wait_until_serving(self.server)

    def new_folder(self) -> Path:
        """An empty folder for one life of the broker."""
        self._starts += 1
        folder = self.folder / f"{self.name}-{self._starts}"
        folder.mkdir(parents=True)
        return folder

    def stop(self) -> None:
        """Ends the broker at once."""
        if self.server:
            self.server.kill()
            self.server = None

    @property
    def running(self) -> Server:
        """The broker that the rounds are run on."""
        if self.server is None:
            raise RuntimeError(f"{self.name} does not run")
        return self.server

    def connect(self) -> RawClient:
        """A new raw connection."""
        return RawClient(self.running.port)

    def cpu_seconds(self) -> float:
        """Processor time that the broker and its children have used."""
        return sum(_cpu_seconds(pid) for pid in _with_descendants(self.running.pid))

    def memory_mb(self) -> float:
        """Resident memory of the broker and its children, in MB (10**6 bytes)."""
        return sum(_resident_bytes(pid) for pid in _with_descendants(self.running.pid)) / 1e6

    def __repr__(self) -> str:
        return f"<Side {self.name} {self.server!r}>"


class ApacheKafka(Side):
    """Kafka 3.9 in ZooKeeper mode, with the options and the heap of its own start script."""

    def __init__(
        self,
        folder: Path,
        zookeeper: Server,
        name: str = "kafka",
        settings: Mapping[str, object] = DELETE_SOON,
    ) -> None:
        super().__init__(name, folder, settings)
        self._zookeeper = zookeeper

    def launch(self, folder: Path) -> Server:
        """Each life has a chroot of its own in ZooKeeper."""
        return kafka_harness.start_broker(
            folder, f"{self._zookeeper.bootstrap}/{folder.name}", 0, self.settings
        )


class Barnabas(Side):
    """`barnabas serve` as a user starts it."""

    def __init__(
        self, folder: Path, name: str = "barnabas", settings: Mapping[str, object] = DELETE_SOON
    ) -> None:
        super().__init__(name, folder, settings)

    def launch(self, folder: Path) -> Server:
        """With its embedded metadata store."""
        port = kafka_harness.free_port()
        command = [sys.executable, "-m", "barnabas.cli.main", "serve"]
        options = [f"--set={key}={value}" for key, value in self.settings.items()]
        command += ["--data", str(folder / "data"), "--port", str(port), *options]
        return Server(command, port, folder / "barnabas.log")


def wait_until_serving(server: Server, seconds: float = 60) -> None:
    """Returns when the broker has taken a first record, into a topic made for it: a broker listens before
    it knows itself to be part of a cluster. Raises RuntimeError with the end of its log.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and server.process.poll() is None:
        with contextlib.suppress(ConnectionError, RuntimeError), RawClient(server.port) as client:
            client.create_topic("first")
            client.produce_bytes("first", ONE_RECORD, 1)
            return
        time.sleep(0.002)
    raise RuntimeError(f"{server!r} took no record; its log ends:\n{server.tail()}")


def _cpu_seconds(pid: int) -> float:
    # The kernel's clock of another process: nanoseconds, finished threads included.
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0  # a child that ended between the listing and the look


def _resident_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * 4096


def _with_descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


@contextlib.contextmanager
def two_sides(
    folder: Path, *, control: bool, settings: Mapping[str, object] = DELETE_SOON
) -> Iterator[tuple[Side, Side]]:
    """Apache Kafka and ours, running; as a control, Apache Kafka twice, whose ratios should all be one."""
    (folder / "zookeeper").mkdir(parents=True)
    zookeeper = kafka_harness.start_zookeeper(folder / "zookeeper").wait_until_listening()
    theirs = ApacheKafka(folder, zookeeper, settings=settings)
    ours = (
        ApacheKafka(folder, zookeeper, "control", settings)
        if control
        else Barnabas(folder, settings=settings)
    )
    try:
        theirs.start()
        ours.start()
        yield theirs, ours
    finally:
        for one in (theirs, ours):
            one.stop()
        zookeeper.kill()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def ours_alone(folder: Path, settings: Mapping[str, object] = DELETE_SOON) -> Iterator[tuple[Side]]:
    """Ours, where a budget is not a ratio and Java is not needed."""
    ours = Barnabas(folder, settings=settings)
    try:
        ours.start()
        yield (ours,)
    finally:
        ours.stop()
        shutil.rmtree(folder, ignore_errors=True)
