"""What security costs, on Apache Kafka 3.9 and on Barnabas: bytes over TLS, handshakes, log-ins, connections.

    python -m bench.security [--quick] [--rows tls,handshakes,beside,...] [--sides kafka,pure]

Keys are of the curve P-256, handshakes are whole ones of TLS 1.3 with a request each, log-ins are those of
SCRAM-SHA-256 with 4,096 iterations. The rate is that of the broker and of the clients, which share the
machine; the processor time is the broker's alone. `rules` is a function of ours, timed in the side's own
Python: Kafka's stands in no protocol that could be timed from outside.
"""

import argparse
import base64
import contextlib
import functools
import hashlib
import hmac
import json
import multiprocessing
import random
import resource
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from barnabas.admin import Admin
from barnabas.admin.quotas import UserScramCredentialUpsertion
from barnabas.core.acl import (
    AccessControlEntry,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourcePattern,
)
from barnabas.core.scram import ScramMechanism
from barnabas.protocol.api import ApiKey
from barnabas.security.acl_authorizer import AclAuthorizer
from barnabas.security.acl_index import AclIndex
from bench import command, options, wire
from bench.figures import Measure
from bench.raw import RawClient, produce_p99_ms
from bench.rounds import Effort, Row, Turn
from bench.rows import MEGABYTE, new_topic
from bench.sides import (
    CHECKOUT,
    DELETE_SOON,
    ONE_RECORD,
    ApacheKafka,
    Barnabas,
    Installation,
    Side,
    Trees,
    installation_of,
    running,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import kafka_harness
from kafka_harness import Server

from tls_certificates import PASSWORD, Authority

CLIENTS: Final = 4
"""Threads that connect at the same time."""
IDLE: Final = 2_000
BESIDE: Final = 500
"""Handshakes, or wrong log-ins, a second beside another client's requests."""
REFUSED_WITHIN_S: Final = 0.5
"""A refusal comes `connection.failed.authentication.delay.ms` after what was wrong, which is 100."""
RULES: Final = 10_000
USER, USERS_PASSWORD = "bench", "bench-secret"
SHA_256: Final = ScramMechanism.SHA_256

# --- sides with three listeners ---------------------------------------------------------------------------


class Listeners:
    """The ports of a side, and what its clients trust."""

    def __init__(self, folder: Path) -> None:
        self.plain, self.tls, self.scram = (kafka_harness.free_port() for _ in range(3))
        self._authority = Authority("bench")
        self._key = folder / "broker.p12"

    def settings(self) -> Mapping[str, object]:
        """What the broker is configured with."""
        self._authority.sign("localhost").p12(self._key)
        ports = {"PLAINTEXT": self.plain, "TLS": self.tls, "SCRAM": self.scram}
        return {
            **DELETE_SOON,
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,SCRAM:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.location": self._key,
            "ssl.keystore.password": PASSWORD,
            "ssl.keystore.type": "PKCS12",
            "sasl.enabled.mechanisms": SHA_256.value,
            "listener.name.scram.scram-sha-256.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "max.connections.per.ip": 2 * IDLE,
        }

    @functools.cached_property
    def context(self) -> ssl.SSLContext:
        """How a client encrypts."""
        return ssl.create_default_context(cadata=self._authority.pem_text)


class SecureKafka(ApacheKafka):
    """Apache Kafka with the three listeners."""

    def __init__(self, name: str, folder: Path, zookeeper: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.listeners = Listeners(folder)
        super().__init__(name, folder, zookeeper, {})

    def _launch(self, folder: Path) -> Server:
        settings = dict(self.listeners.settings())
        connect = f"{self._zookeeper}/{folder.name}"
        return kafka_harness.start_broker(
            folder, connect, 0, settings, port=self.listeners.plain, options=kafka_harness.BROKER_OPTIONS
        )


class SecureBarnabas(Barnabas):
    """`barnabas serve` with them."""

    def __init__(self, name: str, folder: Path, installation: Installation) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.listeners = Listeners(folder)
        super().__init__(name, folder, installation, {})

    def _launch(self, folder: Path) -> Server:
        sets = [f"--set={key}={value}" for key, value in self.listeners.settings().items()]
        serve = self._installation.command("-m", "barnabas", "serve", "--data", str(folder / "data"), *sets)
        return Server(serve, self.listeners.plain, folder / "barnabas.log")

    def timed_rules(self) -> Sequence[float]:
        """What `time_rules` finds in this side's Python."""
        asked = self._installation.command("-m", "bench.security", "--time-rules")
        done = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=CHECKOUT)
        found: list[float] = json.loads(done.stdout)
        return found


def secure_sides(
    folder: Path, names: Sequence[str], trees: Trees
) -> contextlib.AbstractContextManager[Sequence[Side]]:
    """One broker a side, each with its own ports."""

    def side(name: str, zookeeper: Callable[[], str]) -> Side:
        place = folder / name
        if name in {"kafka", "control"}:
            return SecureKafka(name, place, zookeeper())
        return SecureBarnabas(name, place, installation_of(name, trees, folder))

    return running(folder, names, side)


def listeners_of(side: Side) -> Listeners:
    """The listeners of a side of this command."""
    assert isinstance(side, SecureKafka | SecureBarnabas)
    return side.listeners


class TlsClient(RawClient):
    """A raw client over TLS."""

    def __init__(self, listeners: Listeners) -> None:
        super().__init__(listeners.tls)
        self.socket = listeners.context.wrap_socket(self.socket, server_hostname="localhost")


# --- bytes ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _tls_bytes(side: Side, effort: Effort) -> Iterator[Turn]:
    """Processor seconds of the broker for each GB (10**9 bytes) in and out over TLS, and over plaintext."""

    def cost(work: Callable[[], int]) -> float:
        before = side.processor_time().total_s
        done = work()
        return (side.processor_time().total_s - before) / (done / 1e9)

    def turn() -> Sequence[float]:
        found = []
        for connect in (lambda: TlsClient(listeners_of(side)), side.connect):
            with new_topic(side, "bulk") as topic, connect() as client:
                found.append(
                    cost(functools.partial(client.produce_bytes, topic, MEGABYTE, effort.round_bytes))
                )
                found.append(cost(functools.partial(client.consume_bytes, topic, effort.round_bytes)))
        return found

    for _ in range(3 if side.compiles_as_it_runs else 1):
        turn()
    yield turn


# --- handshakes and log-ins -------------------------------------------------------------------------------


def _many(work: Callable[[], object], seconds: float) -> int:
    """How often clients got it done in so many seconds, `CLIENTS` at a time."""
    counts, until, failed = [0] * CLIENTS, time.perf_counter() + seconds, list[BaseException]()

    def run(place: int) -> None:
        try:
            while time.perf_counter() < until:
                work()
                counts[place] += 1
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return sum(counts)


@contextlib.contextmanager
def _rate(side: Side, effort: Effort, work: Callable[[], object]) -> Iterator[Turn]:
    """How often a second the work can be done, and ms of the broker's processor time each."""

    def turn(seconds: float = effort.window_seconds) -> Sequence[float]:
        before, began = side.processor_time().total_s, time.perf_counter()
        done = _many(work, seconds)
        took = time.perf_counter() - began
        return [done / took, (side.processor_time().total_s - before) / done * 1000]

    turn(3 * effort.window_seconds if side.compiles_as_it_runs else 0.5)
    yield turn


VERSIONS: Final = wire.request(ApiKey.API_VERSIONS, 0, b"")


def _handshake(listeners: Listeners) -> None:
    """A whole handshake, and an answer over it: a client of TLS 1.3 is done before the server."""
    with TlsClient(listeners) as client:
        client.ask(VERSIONS)


@functools.cache
def _salted(salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", USERS_PASSWORD.encode(), salt, iterations)


def _log_in(port: int) -> None:
    """A log-in, without the client's own work on the password, which is done once."""
    with RawClient(port) as client:
        bare, first = _challenge(client)
        fields = dict(part.split("=", 1) for part in first.split(","))
        salted = _salted(base64.b64decode(fields["s"]), int(fields["i"]))
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        final = f"c=biws,r={fields['r']}"
        message = f"{bare},{first},{final}".encode()
        signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        _answer_to(bytes(client.ask(_token(f"{final},p={base64.b64encode(proof).decode()}"))))


def _challenge(client: RawClient) -> tuple[str, str]:
    """Begins a log-in; what it began with, and what the broker said to that."""
    client.ask(wire.request(ApiKey.SASL_HANDSHAKE, 1, wire.string(SHA_256.value)))
    bare = f"n={USER},r={random.getrandbits(128):x}"
    return bare, _answer_to(bytes(client.ask(_token(f"n,,{bare}"))))


def _token(text: str) -> bytes:
    size = struct.pack(">i", len(text.encode()))
    return wire.request(ApiKey.SASL_AUTHENTICATE, 0, size + text.encode())


def _answer_to(frame: bytes) -> str:
    (error,) = struct.unpack(">h", frame[4:6])
    if error:
        raise RefusedError(error)
    return frame[12:].decode()  # behind an error message that is null, and its own length


class RefusedError(RuntimeError):
    """The broker has answered a log-in with an error code."""


def _handshakes(side: Side, effort: Effort) -> contextlib.AbstractContextManager[Turn]:
    return _rate(side, effort, functools.partial(_handshake, listeners_of(side)))


def _log_ins(side: Side, effort: Effort) -> contextlib.AbstractContextManager[Turn]:
    with Admin(side.running.bootstrap) as admin:
        user = UserScramCredentialUpsertion(USER, SHA_256.value, USERS_PASSWORD)
        admin.quotas.alter_scram_credentials([user])
    return _rate(side, effort, functools.partial(_log_in, listeners_of(side).scram))


def _beside(side: Side, effort: Effort) -> contextlib.AbstractContextManager[Turn]:
    """The p99 of a client with one request in flight: alone, and beside handshakes of others."""
    return _p99_beside(side, effort, _shake, listeners_of(side).tls)


def _strangers(side: Side, effort: Effort) -> contextlib.AbstractContextManager[Turn]:
    """The same beside log-ins of others with a wrong password."""
    with Admin(side.running.bootstrap) as admin:
        user = UserScramCredentialUpsertion(USER, SHA_256.value, USERS_PASSWORD)
        admin.quotas.alter_scram_credentials([user])
    return _p99_beside(side, effort, _guess, listeners_of(side).scram)


@contextlib.contextmanager
def _p99_beside(
    side: Side, effort: Effort, others: Callable[[int, Any, Any], None], port: int
) -> Iterator[Turn]:
    def p99_ms() -> float:
        until = time.perf_counter() + effort.window_seconds
        with side.connect() as client:
            return produce_p99_ms(client, ONE_RECORD, lambda: time.perf_counter() > until)

    def turn() -> Sequence[float]:
        alone = p99_ms()
        # In another process: their Python must not hold up the one that is measured.
        processes = multiprocessing.get_context("spawn")
        ended, rates = processes.Event(), processes.Queue()
        running = processes.Process(target=others, args=(port, ended, rates), daemon=True)
        running.start()
        rates.get(timeout=30)
        try:
            beside = p99_ms()
        finally:
            ended.set()
            rate = rates.get(timeout=30)
            running.join()
        return [rate, alone, beside]

    yield turn


def _shake(port: int, ended: Any, rates: Any) -> None:
    """Makes `BESIDE` handshakes a second until it has `ended`; says that it begins, then the true rate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    rates.put(0.0)
    began, done = time.perf_counter(), 0
    for _ in _paced(ended):
        with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain):
            done += 1
    rates.put(done / (time.perf_counter() - began))


def _guess(port: int, ended: Any, rates: Any) -> None:
    """As `_shake`, of log-ins with a wrong proof. Refusals come late, so that others begin meanwhile."""
    rates.put(0.0)
    began, done = time.perf_counter(), 0
    waiting = deque[tuple[float, RawClient]]()
    for _ in _paced(ended):
        client = RawClient(port)
        _, first = _challenge(client)
        client.socket.sendall(_token(f"c=biws,{first.partition(',')[0]},p={'A' * 43}="))
        waiting.append((time.perf_counter(), client))
        done += 1
        while waiting and waiting[0][0] + REFUSED_WITHIN_S < time.perf_counter():
            _hear_refusal(waiting.popleft()[1])
    rates.put(done / (time.perf_counter() - began))
    for _, client in waiting:
        _hear_refusal(client)


def _hear_refusal(client: RawClient) -> None:
    with client:
        (size,) = struct.unpack(">i", client.receive(4))
        with contextlib.suppress(RefusedError):
            _answer_to(bytes(client.receive(size)))
            raise RuntimeError("a wrong password was taken")


def _paced(ended: Any) -> Iterator[None]:
    """`BESIDE` times a second until it has `ended`."""
    due = time.perf_counter()
    while not ended.is_set():
        time.sleep(max(0.0, due - time.perf_counter()))
        due += 1 / BESIDE
        yield


# --- connections that rest --------------------------------------------------------------------------------


@contextlib.contextmanager
def _idle(side: Side, _effort: Effort) -> Iterator[Turn]:
    """KB of the broker's memory for each connection that has asked once and says nothing more."""

    def connected(count: int) -> list[TlsClient]:
        found = [TlsClient(listeners_of(side)) for _ in range(count)]
        for each in found:
            each.ask(VERSIONS)
        return found

    def turn() -> Sequence[float]:
        # What the first connections load is no connection's.
        early = connected(50)
        before = side.memory_mb()
        held = connected(IDLE)
        grown = side.memory_mb() - before
        for each in (*early, *held):
            each.close()
        return [grown * 1000 / IDLE]

    yield turn


# --- authorization ----------------------------------------------------------------------------------------


def time_rules() -> Sequence[float]:
    """Microseconds of one authorization among `RULES` rules: asked for the first time, and again."""
    rng, index = random.Random(1), AclIndex()
    kinds = (PatternType.LITERAL, PatternType.LITERAL, PatternType.PREFIXED)
    names = [f"team{number % 100}.topic{number}" for number in range(RULES)]
    for number, name in enumerate(names):
        kind = kinds[number % 3]
        pattern = ResourcePattern(Resource.TOPIC, name[: len(name) - (kind is PatternType.PREFIXED)], kind)
        principal = f"User:{rng.randrange(100)}"
        index.put(pattern, [AccessControlEntry(principal, "*", Operation.READ, Permission.ALLOW)])
    authorizer = AclAuthorizer(
        SimpleNamespace(index=index),
        frozenset(),
        allow_without_rules=False,
    )
    asking = [
        SimpleNamespace(principal=f"User:{user}", client_host="127.0.0.1", api_key=int(ApiKey.FETCH))
        for user in range(100)
    ]
    asked = [(rng.choice(asking), name) for name in names]
    found = []
    for _ in range(2):
        began = time.process_time()
        for request, name in asked:
            authorizer.authorize(request, Operation.READ, Resource.TOPIC, name)
        found.append((time.process_time() - began) / len(asked) * 1e6)
    return found


@contextlib.contextmanager
def _rules(side: Side, _effort: Effort) -> Iterator[Turn]:
    assert isinstance(side, SecureBarnabas)
    yield side.timed_rules


# --- the table --------------------------------------------------------------------------------------------

ROWS: Final[dict[str, Row]] = {
    "tls": Row(
        "batches of 1 MB over TLS, and over plaintext",
        [
            Measure("broker processor time a GB in, TLS", "s", 1.0),
            Measure("broker processor time a GB out, TLS", "s", 1.0),
            Measure("a GB in, plaintext", "s"),
            Measure("a GB out, plaintext", "s"),
        ],
        _tls_bytes,
    ),
    "handshakes": Row(
        f"whole handshakes of TLS 1.3, EC key, {CLIENTS} clients",
        [
            Measure("handshakes a second", "/s", 1.0, higher_is_better=True),
            Measure("broker processor time of one", "ms", 1.0),
        ],
        _handshakes,
    ),
    "beside": Row(
        f"a producer with one request in flight beside {BESIDE} handshakes a second",
        [
            Measure("handshakes that were made", "/s"),
            Measure("p99 alone", "ms"),
            Measure("p99 beside them", "ms", 10, is_ratio=False),
        ],
        _beside,
        "long",
    ),
    "logins": Row(
        f"log-ins by SCRAM-SHA-256, {CLIENTS} clients",
        [
            Measure("log-ins a second", "/s", 0.5, higher_is_better=True),
            Measure("broker processor time of one", "ms", 2.0),
        ],
        _log_ins,
    ),
    "strangers": Row(
        f"a producer with one request in flight beside {BESIDE} wrong log-ins a second",
        [
            Measure("wrong log-ins that were made", "/s"),
            Measure("p99 alone", "ms"),
            Measure("p99 beside them", "ms", 10, is_ratio=False),
        ],
        _strangers,
        "long",
    ),
    "idle": Row(
        f"{IDLE:,} connections of TLS that rest",
        [Measure("memory of each", "KB", 40, is_ratio=False, any_mood=True)],
        _idle,
        "once",
    ),
    "rules": Row(
        f"an authorization among {RULES:,} rules",
        [
            Measure("asked for the first time", "us", 2, is_ratio=False),
            Measure("asked again", "us", 2, is_ratio=False),
        ],
        _rules,
        without=("kafka", "control"),
    ),
}


def main() -> int:
    """Runs the rows; 0 when every budget is met."""
    summary = (__doc__ or "").partition("\n")[0]
    parser = options.parser_of("python -m bench.security", summary, ROWS, "kafka,pure,compiled")
    parser.add_argument("--time-rules", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.time_rules:
        print(json.dumps(time_rules()))
        return 0
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    return command.run(asked, ROWS, secure_sides)


if __name__ == "__main__":
    sys.exit(main())
