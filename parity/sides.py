"""The two sides: a genuine Kafka 3.9 broker with its ZooKeeper, and `barnabas serve`, configured alike."""

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from barnabas.protocol.framing import decode_response
from barnabas.protocol.messages.metadata import MetadataRequest
from parity.modes import PLAIN, Mode
from parity.wire import Wire, frame_of

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "jvm"))

import kafka_harness
from kafka_harness import Server, UnavailableError

__all__ = ["Side", "UnavailableError", "two_sides"]

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

OUR_SETTINGS: Final = {"barnabas.validate.records": "true", "barnabas.api.profile": "3.9"}


@dataclass
class Side:
    """One broker that runs, and the words that are its own."""

    name: str
    port: int
    words: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = PLAIN

    def wire(self, *, prepares: bool = False) -> Wire:
        """A new connection, of who asks or of who prepares."""
        return Wire(self.mode.connect(self.port, prepares=prepares))

    def __repr__(self) -> str:
        return f"<Side {self.name} port={self.port}>"


@contextlib.contextmanager
def two_sides(
    folder: Path, settings: Mapping[str, object] = SETTINGS, mode: Mode = PLAIN
) -> Iterator[tuple[Side, Side]]:
    """Kafka's side and ours, ready. Raises kafka_harness.UnavailableError without Java or the artifacts."""
    kafka_harness.artifacts(kafka_harness.ZOOKEEPER_ERA)
    for part in ("zookeeper", "kafka", "barnabas"):
        (folder / part).mkdir(parents=True)
    servers = [kafka_harness.start_zookeeper(folder / "zookeeper")]
    try:
        servers[0].wait_until_listening()
        port = kafka_harness.free_port()
        own = settings | mode.settings(folder / "kafka", port)
        servers.append(kafka_harness.start_broker(folder / "kafka", servers[0].bootstrap, 0, own, port=port))
        servers.append(_start_ours(folder / "barnabas", settings, mode))
        yield (
            _side("Apache Kafka", servers[1], folder / "kafka", mode),
            _side("Barnabas", servers[2], folder / "barnabas", mode),
        )
    finally:
        for server in servers:
            server.kill()


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


def _side(name: str, server: Server, folder: Path, mode: Mode) -> Side:
    server.wait_until_listening()
    side = Side(name, server.port, mode=mode)
    cluster_id = _wait_until_serving(server, side)
    words = {str(folder / "data"): "data", cluster_id: "cluster id", str(server.port): "port"}
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
