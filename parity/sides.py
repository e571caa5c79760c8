"""The two sides, configured alike: a genuine Kafka, 3.9 with its ZooKeeper or 4.4, and `barnabas serve`."""

import contextlib
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from barnabas.broker.handlers import api_table
from barnabas.broker.profiles import PROFILE_3_9, PROFILE_4_4
from barnabas.broker.registry import Api
from barnabas.protocol.framing import decode_response
from barnabas.protocol.messages.metadata import MetadataRequest
from parity.modes import PLAIN, Mode
from parity.wire import Wire, frame_of

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "jvm"))

import kafka_harness
from kafka_harness import Server, UnavailableError

__all__ = ["Side", "Table", "UnavailableError", "beside_kafka_3_9", "beside_kafka_4_4", "table_of"]

Table: TypeAlias = Mapping[int, Api]

READY_S: Final = 60

SETTINGS: Final = {
    "auto.create.topics.enable": "true",
    "num.partitions": "2",
    "message.max.bytes": "200000",
    "log.retention.check.interval.ms": "3600000",
    "group.min.session.timeout.ms": "1000",
    "group.max.size": "4",
}
"""What both brokers are told. The small limits let a scenario go beyond them cheaply."""

SETTINGS_OF_4: Final = SETTINGS | {
    # Coordinators that are there sooner, as no scenario is about which broker has which.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # Each step of the consumer protocol is answered by what the step before it has made.
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.migration.policy": "bidirectional",
}
"""What both are told beside a Kafka 4.4."""

OUR_SETTINGS: Final = {"barnabas.validate.records": "true"}
_PROFILES: Final = {profile.name: profile for profile in (PROFILE_3_9, PROFILE_4_4)}


def table_of(profile: str) -> Table:
    """The APIs and versions that ours shows its clients in a profile."""
    return {key: api for key, api in api_table(_PROFILES[profile]).items() if api.advertised}


@dataclass
class Side:
    """One broker that runs, and the words that are its own."""

    name: str
    port: int
    words: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = PLAIN
    profile: str = PROFILE_3_9.name
    """Whose versions it is asked at, where a scenario does not say."""

    @property
    def table(self) -> Table:
        """The APIs at the versions of the profile."""
        return table_of(self.profile)

    def wire(self, *, prepares: bool = False) -> Wire:
        """A new connection, of who asks or of who prepares."""
        return Wire(self.mode.connect(self.port, prepares=prepares))

    def __repr__(self) -> str:
        return f"<Side {self.name} port={self.port}>"


@contextlib.contextmanager
def beside_kafka_3_9(
    folder: Path, mode: Mode = PLAIN, settings: Mapping[str, object] = SETTINGS
) -> Iterator[tuple[Side, Side]]:
    """A Kafka 3.9 and ours, ready. Raises kafka_harness.UnavailableError without Java or the artifacts."""
    kafka_harness.artifacts(kafka_harness.ZOOKEEPER_ERA)
    with contextlib.ExitStack() as running:
        zookeeper = kafka_harness.start_zookeeper(_own(folder, "zookeeper"))
        running.callback(zookeeper.kill)
        zookeeper.wait_until_listening()
        port = kafka_harness.free_port()
        own = {**settings, **mode.settings(_own(folder, "kafka"), port)}
        kafka = kafka_harness.start_broker(folder / "kafka", zookeeper.bootstrap, 0, own, port=port)
        running.callback(kafka.kill)
        ours = _start_ours(_own(folder, "barnabas"), {**settings, "barnabas.api.profile": "3.9"}, mode)
        running.callback(ours.kill)
        profile = PROFILE_3_9.name
        yield _side("Apache Kafka", kafka, mode, profile), _side("Barnabas", ours, mode, profile)


@contextlib.contextmanager
def beside_kafka_4_4(folder: Path, mode: Mode = PLAIN) -> Iterator[tuple[Side, Side]]:
    """A Kafka 4.4 that is its own controller, and ours as it starts by default; as above."""
    kafka_harness.artifacts(kafka_harness.KRAFT_ERA)
    with contextlib.ExitStack() as running:
        kafka = kafka_harness.start_kraft(_own(folder, "kafka"), SETTINGS_OF_4, node_id=0)
        running.callback(kafka.kill)
        ours = _start_ours(_own(folder, "barnabas"), SETTINGS_OF_4, mode)
        running.callback(ours.kill)
        profile = PROFILE_4_4.name
        yield _side("Apache Kafka", kafka, mode, profile), _side("Barnabas", ours, mode, profile)


def _own(folder: Path, part: str) -> Path:
    made = folder / part
    made.mkdir(parents=True)
    return made


def _start_ours(folder: Path, settings: Mapping[str, object], mode: Mode) -> Server:
    port = kafka_harness.free_port()
    command = [sys.executable, "-m", "barnabas", "serve"]
    values = {
        "broker.id": 0,
        "log.dirs": folder / "data",
        **kafka_harness.SHIPPED_VALUES,
        **settings,
        **mode.settings(folder, port),
        **OUR_SETTINGS,
    }
    command += ["--config", kafka_harness.write_properties(folder / "server.properties", values)]
    return Server(command, port, folder / "barnabas.log")


def _side(name: str, server: Server, mode: Mode, profile: str) -> Side:
    server.wait_until_listening()
    side = Side(name, server.port, mode=mode, profile=profile)
    cluster_id = _wait_until_serving(server, side)
    folder = server.data.parent
    words = {
        str(server.data): "data",
        str(folder): "folder",
        cluster_id: "cluster id",
        str(server.port): "port",
    }
    listeners = re.search(r"INNER://127.0.0.1:(\d+)", (folder / "server.properties").read_text())
    if listeners is not None:
        words[listeners[1]] = "inner port"
    return replace(side, words=words)


def _wait_until_serving(server: Server, side: Side) -> str:
    """The cluster id, once the broker has told itself of its cluster."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and server.process.poll() is None:
        request = MetadataRequest(topics=[])
        with contextlib.suppress(ConnectionError), side.wire(prepares=True) as wire:
            answer = wire.ask(frame_of(request, 9))
            if isinstance(answer, bytes):
                _, response = decode_response(request.api, 9, answer)  # type: ignore[arg-type]
                if response.brokers and response.controller_id == 0:  # type: ignore[attr-defined]
                    return str(response.cluster_id)  # type: ignore[attr-defined]
        time.sleep(0.05)
    raise RuntimeError(f"{server!r} did not come to serve; its log ends:\n{server.tail()}")
