"""Hostile clients beside healthy ones: who behaves must not notice.

    python tests/chaos/hostile.py [--secure] [--seconds 10] [--way NAME ...] [--descriptors 1024]
        [--log-level warning]

A broker of its own with few descriptors, a producer with one record in flight and acks=all, a group with one
member. Each way of `hostile_clients` runs beside them for some seconds, in a process of its own; with
`--secure` each of `hostile_strangers`, and those who behave log in over TLS. It reports for each how many
records were acknowledged meanwhile, their latency, whether the member lost its partitions, the broker's
memory before, at its peak and after, and how much it wrote to its log. What was acknowledged has to be read
by the group in the end, and no line of the log is long or has a password.
"""

import argparse
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "fuzz"))

import hostile_clients
import hostile_strangers
from confluent_kafka import Consumer, KafkaError
from wire_peer import WirePeer, batch, produce

from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from serving import ServeProcess, die_with_parent, free_port
from tls_certificates import Authority

DESCRIPTORS = 1024
HEALTHY_P99_MS = 50
MEMORY_GROWTH_MAX = 0.2
MEMORY_SECONDS = 10
LINE_CHARACTERS_MAX = 2000
LOG_BYTES_MAX = 1 << 20
"""Of one way, unless the log has lines for debugging: docs/decisions/0102."""
SESSION_MS = 6000
BULK_BYTES = 32 * 1024 * 1024
SETTINGS = {
    "offsets.topic.num.partitions": 10,
    "group.min.session.timeout.ms": 1000,
    "group.initial.rebalance.delay.ms": 0,
}


class OpenDoor:
    """A listener in plaintext, and who comes to it."""

    program = hostile_clients

    def settings(self, _port: int) -> Mapping[str, object]:
        """What the broker is configured with."""
        return {}

    def peer(self, port: int) -> WirePeer:
        """A connection of one who behaves."""
        return WirePeer(port)

    def client(self) -> Mapping[str, str]:
        """How librdkafka connects."""
        return {}


class LockedDoor(OpenDoor):
    """A listener with SASL_SSL."""

    program = hostile_strangers
    USER, SECRET = "alice", "alice-secret-that-no-log-may-show"

    def __init__(self, folder: Path) -> None:
        authority = Authority()
        self._ca = authority.pem(folder / "ca.pem")
        self._key = authority.sign("localhost", "127.0.0.1").pem(folder / "broker.pem")
        self._context = ssl.create_default_context(cafile=self._ca)

    def settings(self, port: int) -> Mapping[str, object]:
        modules = "org.apache.kafka.common.security"
        listener = "listener.name.sasl_ssl"
        return {
            "listeners": f"SASL_SSL://127.0.0.1:{port},PLAINTEXT://127.0.0.1:{free_port()}",
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._key,
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
            f"{listener}.plain.sasl.jaas.config": (
                f'{modules}.plain.PlainLoginModule required user_{self.USER}="{self.SECRET}";'
            ),
            f"{listener}.oauthbearer.sasl.jaas.config": (
                f"{modules}.oauthbearer.OAuthBearerLoginModule required "
                'unsecuredValidatorRequiredScope="nobody has it";'
            ),
        }

    def peer(self, port: int) -> WirePeer:
        peer = WirePeer(port)
        peer.socket = self._context.wrap_socket(peer.socket, server_hostname="localhost")
        assert peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        token = f"\0{self.USER}\0{self.SECRET}".encode()
        assert peer.ask(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0
        return peer

    def client(self) -> Mapping[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": self.USER,
            "sasl.password": self.SECRET,
            "ssl.ca.location": self._ca,
        }


@dataclass(frozen=True)
class Outcome:
    """What one way did to those who behave."""

    way: str
    latencies_ms: list[float]
    lost_partitions: int
    memory_before: int
    memory_peak: int
    memory_after: int
    log_bytes: int

    @property
    def p99_ms(self) -> float:
        ordered = sorted(self.latencies_ms)
        return ordered[int(len(ordered) * 0.99)] if ordered else float("inf")

    @property
    def worst_ms(self) -> float:
        return max(self.latencies_ms, default=float("inf"))

    @property
    def keeps_memory(self) -> bool:
        """Whether more is in use afterwards than before, beyond a fifth."""
        return self.memory_after > self.memory_before * (1 + MEMORY_GROWTH_MAX)

    def __str__(self) -> str:
        mb = 1 << 20
        return (
            f"{self.way:22} {len(self.latencies_ms):6} records, p99 {self.p99_ms:7.1f} ms, worst "
            f"{self.worst_ms:7.1f} ms, "
            f"partitions lost {self.lost_partitions}, memory {self.memory_before / mb:.0f} -> "
            f"{self.memory_peak / mb:.0f} -> {self.memory_after / mb:.0f} MB, "
            f"{self.log_bytes / 1024:.0f} KB of log"
        )


class Member:
    """A healthy member of a group:
    reads all the time, counts what it reads and how often it lost something.
    """

    def __init__(self, bootstrap: str, connects: Mapping[str, str]) -> None:
        self.lost = 0
        self.values: set[bytes] = set()
        self.assigned = threading.Event()
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "healthy",
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 500,
                "log_level": 0,
                **connects,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._consumer.subscribe(
            ["healthy"],
            on_assign=lambda *_: self.assigned.set(),
            on_revoke=self._lose,
            on_lost=self._lose,
        )
        while not self._stop.is_set():
            record = self._consumer.poll(0.1)
            if record is None:
                continue
            if record.error() is None:
                self.values.add(record.value())
            elif record.error().code() == KafkaError._FATAL:
                raise RuntimeError(str(record.error()))
        self._consumer.close()

    def _lose(self, *_) -> None:
        self.lost += 0 if self._stop.is_set() else 1

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


class HarmedError(Exception):
    """A healthy client cannot go on."""


class Siege:
    """One broker, those who behave, and the ways of those who do not."""

    def __init__(
        self, folder: Path, door: OpenDoor, descriptors: int = DESCRIPTORS, log_level: str = "warning"
    ) -> None:
        self._door = door
        port = free_port()
        settings = {**SETTINGS, **door.settings(port)}
        options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        options += ["--log-level", log_level]
        self.server = ServeProcess(folder / "data", *options, port=port, descriptors=descriptors)
        self.broker = self.server.wait_until_ready()
        self.sent = 0
        with door.peer(self.broker.port) as peer:
            # Small segments: a broker that has no descriptor left fails at the next roll.
            small = CreatableTopicConfig(name="segment.bytes", value="16384")
            topic = CreatableTopic(name="healthy", num_partitions=1, replication_factor=1, configs=[small])
            assert peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000)).topics[0].error_code == 0
            peer.create("many", partitions=100)
            peer.create("bulk")
            for _ in range(BULK_BYTES >> 20):
                assert peer.produce("bulk", batch(*[bytes(1 << 17)] * 7)).error_code == 0
        self.producer = door.peer(self.broker.port)
        self.member = Member(self.broker.bootstrap, door.client())
        assert self.member.assigned.wait(30), "the healthy group did not form"
        for _ in range(200):
            self._send_one()

    def _send_one(self) -> float:
        """One record, acknowledged; its milliseconds."""
        record = batch(b"%d" % self.sent)
        started = time.perf_counter()
        try:
            response = self.producer.ask(produce("healthy", record, acks=-1))
        except (AssertionError, OSError) as error:
            raise HarmedError(f"the healthy producer's connection: {error!r}") from error
        took_ms = (time.perf_counter() - started) * 1000
        if code := response.responses[0].partition_responses[0].error_code:
            raise HarmedError(f"a healthy produce is answered {code}")
        self.sent += 1
        return took_ms

    def memory_bytes(self) -> int:
        """What the broker's process holds."""
        fields = Path(f"/proc/{self.broker.pid}/statm").read_text().split()
        return int(fields[1]) * 4096

    def endure(self, way: str, seconds: float) -> Outcome:
        """The healthy ones go on while one way is tried; what it did to them."""
        before, lost = self.memory_bytes(), self.member.lost
        peak, logged = before, self.server.log.stat().st_size
        latencies: list[float] = []
        command = [sys.executable, self._door.program.__file__, way, str(self.broker.port), str(seconds)]
        # Asks for a signal only.
        hostile = subprocess.Popen(command, preexec_fn=die_with_parent)  # noqa: PLW1509
        try:
            while hostile.poll() is None:
                latencies.append(self._send_one())
                peak = max(peak, self.memory_bytes())
                time.sleep(0.002)
        finally:
            hostile.kill()
            hostile.wait()
        assert hostile.returncode == 0, f"{way} ended with {hostile.returncode}"
        deadline = time.monotonic() + MEMORY_SECONDS
        while (after := self.memory_bytes()) > before * (
            1 + MEMORY_GROWTH_MAX
        ) and time.monotonic() < deadline:
            self._send_one()
            time.sleep(0.05)
        logged = self.server.log.stat().st_size - logged
        return Outcome(way, latencies, self.member.lost - lost, before, peak, after, logged)

    def unread(self) -> int:
        """Acknowledged records that the group has not read once it was given the time."""
        deadline = time.monotonic() + 30
        while len(self.member.values) < self.sent and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.sent - len(self.member.values)

    def close(self) -> int:
        """Ends everything; the broker's exit code."""
        self.producer.socket.close()
        self.member.close()
        return self.server.stop()


def problems(outcome: Outcome, p99_ms: float) -> list[str]:
    """What the way achieved, and must not."""
    found = []
    if not outcome.p99_ms <= p99_ms:
        found.append(
            f"{outcome.way}: the p99 of a healthy producer is {outcome.p99_ms:.1f} ms, not {p99_ms:g}"
        )
    if outcome.lost_partitions:
        found.append(f"{outcome.way}: a healthy member lost its partitions")
    if outcome.keeps_memory:
        found.append(
            f"{outcome.way}: {outcome.memory_after - outcome.memory_before} bytes were not given back"
        )
    return found


def run(
    folder: Path,
    seconds: float,
    *,
    door: OpenDoor,
    ways: list[str] | None = None,
    p99_ms: float,
    descriptors: int = DESCRIPTORS,
    log_level: str = "warning",
) -> list[str]:
    """All ways of those who come to the door in turn, or these, a line each; the problems. A broker that was
    harmed is replaced by a new one.
    """
    found: list[str] = []
    left = ways or [*door.program.WAYS]
    while left:
        place = folder / f"broker-{len(left)}"
        place.mkdir()
        found += _besiege(Siege(place, door, descriptors, log_level), left, seconds, p99_ms, log_level)
    return found


def _besiege(siege: Siege, left: list[str], seconds: float, p99_ms: float, log_level: str) -> list[str]:
    """Tries the ways that are left, until one harms; the problems."""
    found = []
    try:
        while left:
            way = left.pop(0)
            outcome = siege.endure(way, seconds)
            sys.stdout.write(f"{outcome}\n")
            if outcome.log_bytes > LOG_BYTES_MAX and log_level != "debug":
                found.append(f"{way}: {outcome.log_bytes} bytes of log")
            if outcome.keeps_memory:
                # The interpreter keeps whole arenas of a megabyte for one block in use: free memory, but its
                # own. A leak is what grows with each time.
                outcome = siege.endure(way, seconds)
                sys.stdout.write(f"{outcome}, the second time\n")
            sys.stdout.flush()
            found += problems(outcome, p99_ms)
        if unread := siege.unread():
            found.append(f"{unread} acknowledged records were never read")
    except HarmedError as harm:
        sys.stdout.write(f"{way:22} HARMED: {harm}\n")
        found.append(f"{way}: {harm}")
    finally:
        code = siege.close()
    log = siege.server.log.read_text(errors="replace")
    if code != 0:
        found.append(f"the broker ended with {code}; its log ends:\n{log[-1500:]}")
    if "Traceback" in log:
        found.append(
            f"a traceback in the broker's log:\n{log[max(0, log.index('Traceback') - 500) :][:3000]}"
        )
    found += [
        f"a line of {len(line)} characters in the broker's log: {line[:200]}"
        for line in log.splitlines()
        if len(line) > LINE_CHARACTERS_MAX
    ][:3]
    found += [
        f"the broker's log has the password {secret}"
        for secret in (LockedDoor.SECRET, hostile_strangers.WRONG_SECRET)
        if secret in log
    ]
    return found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10, help="for each way")
    parser.add_argument("--secure", action="store_true", help="strangers at a listener with TLS and log-ins")
    parser.add_argument("--way", action="append", help="this one only")
    parser.add_argument("--descriptors", type=int, default=DESCRIPTORS, help="the broker's limit")
    parser.add_argument("--log-level", default="warning", help="the broker's")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        door = LockedDoor(Path(folder)) if given.secure else OpenDoor()
        if unknown := {*(given.way or ())} - {*door.program.WAYS}:
            parser.error(f"no such way: {', '.join(unknown)}; there are {', '.join(door.program.WAYS)}")
        found = run(
            Path(folder),
            given.seconds,
            door=door,
            ways=given.way,
            p99_ms=HEALTHY_P99_MS,
            descriptors=given.descriptors,
            log_level=given.log_level,
        )
    sys.stdout.write("\n".join([*found, ""]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
