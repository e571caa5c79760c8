"""The sides of `bench.cluster`: three brokers each, with one store, that can be killed and started again."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata

from bench.processes import processor_time
from bench.raw import RawClient
from bench.sides import (
    TITLES,
    Installation,
    Server,
    Trees,
    installation_of,
    kafka_harness,
    running,
)

BROKERS: Final = (1, 2, 3)
# The shortest session that a ZooKeeper of this tick gives. The embedded store sees a killed process by its
# lock.
SESSION_MS: Final = 6000
SETTINGS: Final[Mapping[str, object]] = {
    "zookeeper.session.timeout.ms": SESSION_MS,
    "log.segment.delete.delay.ms": 1000,
    "auto.create.topics.enable": "false",
    # Leaders stay where a row has put them.
    "auto.leader.rebalance.enable": "false",
}
TITLES.setdefault("on-zookeeper", "Barnabas, compiled, on ZooKeeper")
# A client says nothing of a broker that is gone: that is what the rows are about.
QUIET: Final[Mapping[str, object]] = {"enable.metrics.push": False, "log_level": 2}
NAMES: Final = ("kafka", "pure", "compiled", "on-zookeeper")

Launch = Callable[[Path, int], Server]
"""Starts the broker of that id on what its folder has."""


class Cluster:
    """Three brokers of one kind; the first is in office until it ends."""

    def __init__(self, name: str, folder: Path, launch: Launch) -> None:
        self.name = name
        self._folder = folder / name
        self._launch = launch
        self._servers: dict[int, Server] = {}

    @property
    def compiles_as_it_runs(self) -> bool:
        """Whether it must be warmed at length before it is timed."""
        return self.name == "kafka"

    @property
    def bootstrap(self) -> str:
        """All brokers, for a client's `bootstrap.servers`."""
        return ",".join(server.bootstrap for server in self._servers.values())

    def bootstrap_of(self, broker: int) -> str:
        """One broker, for the same."""
        return str(self._servers[broker].bootstrap)

    def start(self) -> None:
        """Starts all three and returns when they know each other."""
        for broker in BROKERS:
            self.start_broker(broker)
            self._servers[broker].wait_until_listening()
        self.until(lambda admin: len(admin.list_topics(timeout=5).brokers) == len(BROKERS))

    def start_broker(self, broker: int) -> None:
        """Starts one, with the data that it had; returns while it still starts."""
        folder = self._folder / str(broker)
        folder.mkdir(parents=True, exist_ok=True)
        self._servers[broker] = self._launch(folder, broker)

    def kill(self, broker: int) -> None:
        """SIGKILL; the process is gone on return."""
        self._servers[broker].kill()

    def terminate(self, broker: int) -> None:
        """SIGTERM: returns while it shuts down."""
        self._servers[broker].process.terminate()

    def wait_until_ended(self, broker: int) -> None:
        """After `terminate`."""
        self._servers[broker].stop()

    @contextlib.contextmanager
    def frozen(self, broker: int) -> Iterator[None]:
        """This broker does not run meanwhile; it is to be less than its session."""
        process = self._servers[broker].process
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ends all brokers at once."""
        for server in self._servers.values():
            server.kill()

    def connect(self, broker: int) -> RawClient:
        """A new raw connection to one broker."""
        return RawClient(self._servers[broker].port)

    def processor_time(self, *brokers: int) -> float:
        """Seconds that these brokers have used, or all of them."""
        return sum(processor_time(self._servers[broker].pid).total_s for broker in brokers or BROKERS)

    # --- topics -------------------------------------------------------------------------------------------

    @property
    def controller(self) -> int:
        """The id of the broker in office."""
        return int(self.admin().list_topics(timeout=10).controller_id)

    def admin(self) -> AdminClient:
        """A new client; an older one may look for a broker at a port of its former life."""
        return AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})

    def create(
        self, topic: str, assignment: Sequence[Sequence[int]], config: Mapping[str, str] | None = None
    ) -> None:
        """Creates a topic with these replicas, and returns when all are in sync."""
        replicas = [list(each) for each in assignment]
        new = NewTopic(topic, len(replicas), replica_assignment=replicas, config=config or {})
        admin = self.admin()  # it must outlive the call
        admin.create_topics([new], operation_timeout=60)[topic].result(120)
        self.wait_in_sync(topic)

    def delete(self, topic: str) -> None:
        """Deletes it; returns when clients see it no more."""
        admin = self.admin()
        admin.delete_topics([topic])[topic].result(120)
        self.until(lambda admin: topic not in admin.list_topics(timeout=10).topics)

    def wait_in_sync(self, topic: str) -> None:
        """Returns when each partition has its preferred number of replicas in sync."""

        def complete(admin: AdminClient) -> bool:
            found: TopicMetadata = admin.list_topics(topic, timeout=10).topics[topic]
            return bool(found.partitions) and all(
                len(each.isrs) == len(each.replicas) for each in found.partitions.values()
            )

        self.until(complete)

    def until(self, holds: Callable[[AdminClient], bool], seconds: float = 120) -> None:
        """Returns when this is true; raises RuntimeError when it is not within a while."""
        admin, deadline = self.admin(), time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(KafkaException):
                if holds(admin):
                    return
            time.sleep(0.05)
        tails = "\n".join(server.tail()[-1000:] for server in self._servers.values())
        raise RuntimeError(f"{self.name} did not come as far within {seconds} s; its logs end:\n{tails}")

    def __repr__(self) -> str:
        return f"<Cluster {self.name} {[*self._servers.values()]}>"


def _kafka(zookeeper: str) -> Launch:
    return lambda folder, broker: kafka_harness.start_broker(
        folder, zookeeper, broker, SETTINGS, options=kafka_harness.BROKER_OPTIONS
    )


def _barnabas(installation: Installation, store: str) -> Launch:
    return lambda folder, broker: installation.serve(folder, SETTINGS, "--id", str(broker), f"--set={store}")


def running_clusters(
    folder: Path, names: Sequence[str], trees: Trees
) -> contextlib.AbstractContextManager[list[Cluster]]:
    """Three brokers a side, `running`."""

    def launch(name: str, zookeeper: Callable[[], str]) -> Launch:
        if name == "kafka":
            return _kafka(f"{zookeeper()}/{name}")
        installation = installation_of(name, trees, folder)
        if name == "on-zookeeper":
            return _barnabas(installation, f"zookeeper.connect={zookeeper()}/{name}")
        return _barnabas(installation, f"barnabas.metadata.path={folder / name / 'metadata.sqlite'}")

    return running(folder, names, lambda name, zookeeper: Cluster(name, folder, launch(name, zookeeper)))
