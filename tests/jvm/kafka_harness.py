"""Genuine Apache Kafka on this machine: its published artifacts, its servers and its tools.

The artifacts come from Maven once, into a cache folder (BARNABAS_KAFKA_CACHE, by default
~/.cache/barnabas/kafka). A server runs in a folder of its own on a port of 127.0.0.1, writes its log
there, and dies with the process that started it, however that ends. Where Java or Maven is missing, or
the artifacts cannot be had, `UnavailableError` says what to do about it.

The tests use it as a judge and `bench` as the other side of every ratio. Both have programs of Go, which are
built here too.
"""

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

import java_options
from serving import die_with_parent, free_port

ZOOKEEPER_ERA: Final = "3.9.2"
KRAFT_ERA: Final = "4.4.0"
NEWEST_CLIENTS: Final = KRAFT_ERA
NEWEST_TOOLS: Final = "4.3.1"
"""Of 4.4.0 the tools are not published, nor is Kafka Streams."""
SPARK_CONNECTOR: Final = "4.2.0"
"""Of the line of PySpark that is installed, or the one before it where Maven does not have that yet."""
DEBEZIUM: Final = "3.0.8.Final"
"""The line that was built with Kafka 3.9."""
_LOADER: Final = Path(__file__).with_name("LoadedClasses.java")
"""Makes the archives of `_shared_classes`."""
READY_SECONDS: Final = 90
STOP_SECONDS: Final = 20

# What kafka-server-start.sh of the distribution gives a broker.
BROKER_OPTIONS: Final = [
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
]
_QUICK: Final = java_options.SMALL.split()
TOOL_OPTIONS: Final = ["-Xmx256m", *_QUICK]
JUDGE_OPTIONS: Final = ["-Xmx512m", *_QUICK, "-Djava.awt.headless=true"]
"""Of a broker that is asked and not measured: a start costs a third of the processor time."""

TOOLS: Final = {
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-jmx": "org.apache.kafka.tools.JmxTool",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactional-message-copier": "org.apache.kafka.tools.TransactionalMessageCopier",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}
# In 3.9 these were still written in Scala.
TOOLS_OF_3: Final = {
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
    "kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-console-producer": "kafka.tools.ConsoleProducer",
}

# Kafka 3.9 leaves the two libraries that ZooKeeper's metrics want to its distribution.
_ZOOKEEPER_EXTRAS: Final = ("io.dropwizard.metrics:metrics-core:4.1.12.1",)
_LOG_BINDING: Final = "org.slf4j:slf4j-simple:1.7.36"
_LOG_OPTIONS: Final = [
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.logFile=System.err",
]


class UnavailableError(Exception):
    """Java, Maven, Go or the artifacts are missing; the message says what to install or to allow."""


def cache_folder() -> Path:
    """Where the artifacts are kept from one run to the next."""
    default = Path.home() / ".cache" / "barnabas" / "kafka"
    return Path(os.environ.get("BARNABAS_KAFKA_CACHE", default))


def java() -> str:
    """The launcher to use: that of JAVA_HOME, or the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not found or not Path(found).exists():
        raise UnavailableError("no Java found (Debian: apt-get install default-jre-headless)")
    return found


def artifacts(version: str) -> Path:
    """The folder with the jars of this Kafka version."""
    return _cached(
        f"kafka-{version}", f"Apache Kafka {version}", _coordinates(version), tidy=_keep_one_log_binding
    )


def connector_jars(version: str = SPARK_CONNECTOR) -> str:
    """What ``spark.jars`` takes to have Spark's official Kafka connector."""
    parts = ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13")
    spark = [f"org.apache.spark:{part}:{version}" for part in parts]
    clients = [f"org.apache.kafka:kafka-clients:{ZOOKEEPER_ERA}", "org.apache.commons:commons-pool2:2.12.1"]
    # Spark itself comes by pip: without what they depend on.
    what = f"Spark's Kafka connector {version}"
    folder = _cached(f"spark-kafka-{version}", what, [*spark, *clients], transitive=False)
    return ",".join(str(jar) for jar in sorted(folder.glob("*.jar")))


def clients_jar(version: str = NEWEST_CLIENTS) -> Path:
    """Kafka's clients of a release, with the descriptors of all messages."""
    coordinate = f"org.apache.kafka:kafka-clients:{version}"
    folder = _cached(f"kafka-clients-{version}", f"Kafka's clients {version}", [coordinate], transitive=False)
    return folder / f"kafka-clients-{version}.jar"


def streams_command(source: Path) -> list[str]:
    """The command that runs a file of Java with Kafka Streams."""
    coordinates = [f"org.apache.kafka:kafka-streams:{ZOOKEEPER_ERA}", _LOG_BINDING]
    what = f"Kafka Streams {ZOOKEEPER_ERA}"
    folder = _cached(f"kafka-streams-{ZOOKEEPER_ERA}", what, coordinates)
    return [java(), *TOOL_OPTIONS, *_LOG_OPTIONS, "-cp", f"{folder}/*", str(source)]


def quickstart_command(main: str, *arguments: str) -> list[str]:
    """The command of a program that Kafka's quickstart runs besides scripts: the demos of Kafka Streams, and
    Connect with its connectors for files.
    """
    return [java(), *TOOL_OPTIONS, *_LOG_OPTIONS, "-cp", f"{quickstart_jars()}/*", main, *arguments]


def quickstart_jars() -> Path:
    """The folder of their jars."""
    parts = ("kafka-streams-examples", "connect-runtime", "connect-json", "connect-file")
    wanted = [f"org.apache.kafka:{part}:{NEWEST_TOOLS}" for part in parts]
    what = f"Kafka's Connect and Streams {NEWEST_TOOLS}"
    return _cached(f"kafka-quickstart-{NEWEST_TOOLS}", what, [*wanted, _LOG_BINDING])


def debezium_jars() -> Path:
    """Debezium's connector for PostgreSQL, in a folder as Connect's ``plugin.path`` takes it."""

    def without_what_connect_has(folder: Path) -> None:
        for pattern in ("kafka-clients-*.jar", "connect-*.jar", "slf4j-*.jar"):
            for jar in folder.glob(pattern):
                jar.unlink()

    coordinate = f"io.debezium:debezium-connector-postgres:{DEBEZIUM}"
    name = f"debezium-{DEBEZIUM}/postgres"
    return _cached(name, f"Debezium {DEBEZIUM}", [coordinate], tidy=without_what_connect_has).parent


def _cached(
    name: str,
    what: str,
    coordinates: Sequence[str],
    *,
    transitive: bool = True,
    tidy: Callable[[Path], object] = lambda _: None,
) -> Path:
    """The folder of this name in the cache; Maven fetches what is in it the first time."""
    folder = cache_folder() / name
    if folder.is_dir():
        return folder
    java()
    if not shutil.which("mvn"):
        raise UnavailableError(f"no Maven found to fetch {what} with (Debian: apt-get install maven)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Two Mavens in one repository are in each other's way.
    with _locked(folder.parent):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as work:
                partial = Path(work, "jars")
                _fetch(coordinates, partial, Path(work, "pom.xml"), transitive=transitive)
                tidy(partial)
                partial.rename(folder)
    return folder


@contextlib.contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """One of the processes that run tests side by side fills the cache; the others wait."""
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _coordinates(version: str) -> list[str]:
    parts = ("kafka_2.13",) if version == KRAFT_ERA else ("kafka_2.13", "kafka-tools")
    wanted = [f"org.apache.kafka:{part}:{version}" for part in parts]
    extras = _ZOOKEEPER_EXTRAS if version.startswith("3.") else ()
    return [*wanted, *extras, _LOG_BINDING]


def _fetch(coordinates: Sequence[str], folder: Path, pom: Path, *, transitive: bool = True) -> None:
    names = "<groupId>{}</groupId><artifactId>{}</artifactId>"
    alone = "" if transitive else f"<exclusions><exclusion>{names.format('*', '*')}</exclusion></exclusions>"
    dependency = f"<dependency>{names}<version>{{}}</version>{alone}</dependency>"
    dependencies = "".join(dependency.format(*coordinate.split(":")) for coordinate in coordinates)
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>barnabas</groupId>"
        "<artifactId>judges</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    options = [f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stdout + done.stderr).strip().splitlines()[:1]
        raise UnavailableError(f"Maven could not fetch {', '.join(coordinates)}: {' '.join(reason)}")


def _keep_one_log_binding(folder: Path) -> None:
    """Log bindings that Kafka brings would fight with slf4j-simple, which needs no configuration file."""
    for pattern in ("slf4j-reload4j-*.jar", "log4j-slf4j-impl-*.jar", "log4j-slf4j2-impl-*.jar"):
        for jar in folder.glob(pattern):
            jar.unlink()


def go_program(source: Path, program: Path, *options: str) -> Path:
    """Builds the module of Go in the folder `source` to `program`, with options of ``go build``. Go keeps
    what it has fetched and compiled for the next time.
    """
    # Its own installer leaves it outside of PATH.
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise UnavailableError(f"no Go found to build {source.name} with (https://go.dev/dl)")
    build = [go, "build", "-buildvcs=false", *options, "-o", str(program), "."]
    done = subprocess.run(build, cwd=source, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(f"{source.name} cannot be built: {done.stderr.strip().splitlines()[-1]}")
    return program


def java_command(version: str, main: str, options: Sequence[str]) -> list[str]:
    """The command that runs a class, or a file of Java, with the jars of this Kafka version."""
    jars = artifacts(version)
    # Not for the brokers of `bench`: they start as Kafka's own scripts start them.
    shared = _shared_classes(jars) if _QUICK[0] in options else []
    return [java(), *options, *shared, *_LOG_OPTIONS, "-cp", f"{jars}/*", main]


def _shared_classes(jars: Path) -> list[str]:
    """Options with which a JVM maps the classes of these jars, verified, from a file beside their folder.

    The file is made the first time. A JVM to which it does not fit says nothing, and reads the jars.
    """
    archive = jars.with_name(f"{jars.name}.jsa")
    if not archive.exists():
        with _locked(jars.parent):
            if not archive.exists():
                partial = archive.with_suffix(".partial")
                options = [f"-XX:ArchiveClassesAtExit={partial}", "-Xlog:disable", "-cp", f"{jars}/*"]
                command = [java(), *_QUICK, *options, str(_LOADER)]
                subprocess.run(command, check=True, capture_output=True)
                partial.rename(archive)
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"]


class Server:
    """A process that listens on a port. `stop` ends it by its id; its log stays in its folder."""

    def __init__(self, command: Sequence[str], port: int, log: Path) -> None:
        self.port = port
        self.log = log
        self.started_at = time.monotonic()
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - no thread runs while servers are started
            )

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self.process.pid

    @property
    def bootstrap(self) -> str:
        """What clients are given as bootstrap servers."""
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """The log directory of a broker, beside its log."""
        return self.log.parent / "data"

    def wait_until_listening(self, seconds: float = READY_SECONDS) -> "Server":
        """Returns itself once the port takes connections; raises RuntimeError with the end of the log."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.01)
        self.kill()
        raise RuntimeError(f"{self!r} does not listen; its log ends:\n{self.tail()}")

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-4000:]

    def stop(self, seconds: float = STOP_SECONDS) -> int:
        """SIGTERM, then after a while SIGKILL; the exit code."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                return self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.wait()

    def kill(self) -> None:
        """SIGKILL, and the process is gone on return."""
        self.process.kill()
        self.process.wait()

    def __repr__(self) -> str:
        state = self.process.poll()
        return f"<Server {self.log.stem} port={self.port} {'running' if state is None else f'ended {state}'}>"


def write_properties(path: Path, values: Mapping[str, object]) -> str:
    """Writes a file of properties; its path, for a command line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return str(path)


def start_zookeeper(
    folder: Path, settings: Mapping[str, object] | None = None, options: Sequence[str] = ()
) -> Server:
    """A ZooKeeper server, of the release that Kafka 3.9 ships; returns while it still starts."""
    port = int(str((settings or {}).get("clientPort") or free_port()))
    values = {
        "dataDir": folder / "data",
        "clientPort": port,
        "clientPortAddress": "127.0.0.1",
        "admin.enableServer": "false",
        "maxClientCnxns": 0,
        **(settings or {}),
    }
    path = write_properties(folder / "zookeeper.properties", values)
    options = [*TOOL_OPTIONS, "-Djava.awt.headless=true", *options]
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    return Server([*java_command(ZOOKEEPER_ERA, main, options), path], port, folder / "zookeeper.log")


def wait_until_serving(zookeeper: Server, seconds: float = READY_SECONDS) -> Server:
    """Returns the ZooKeeper server once it answers: it listens before, and forgets whom it hears then."""
    deadline = time.monotonic() + seconds
    zookeeper.wait_until_listening(seconds)
    while time.monotonic() < deadline:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", zookeeper.port), 1) as probe,
        ):
            probe.sendall(b"srvr")
            if b"Mode:" in probe.makefile("rb").read():
                return zookeeper
        time.sleep(0.02)
    zookeeper.kill()
    raise RuntimeError(f"{zookeeper!r} does not serve; its log ends:\n{zookeeper.tail()}")


def start_broker(
    folder: Path,
    zookeeper: str,
    broker_id: int = 0,
    settings: Mapping[str, object] | None = None,
    *,
    port: int | None = None,
    options: Sequence[str] = JUDGE_OPTIONS,
) -> Server:
    """A Kafka 3.9 broker in ZooKeeper mode; returns while it still starts."""
    port = port or free_port()
    values = {
        "broker.id": broker_id,
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": folder / "data",
        "zookeeper.connect": zookeeper,
        **SHIPPED_VALUES,
        **(settings or {}),
    }
    path = write_properties(folder / "server.properties", values)
    command = [*broker_command(options), path]
    return Server(command, port, folder / f"kafka-{ZOOKEEPER_ERA}.log")


def broker_command(options: Sequence[str]) -> list[str]:
    """What `kafka-server-start.sh` comes down to; the path of a file of properties follows."""
    return java_command(ZOOKEEPER_ERA, "kafka.Kafka", options)


def start_kraft(
    folder: Path,
    settings: Mapping[str, object] | None = None,
    version: str = KRAFT_ERA,
    node_id: int = 1,
    sasl_listeners: Mapping[str, int] | None = None,
) -> Server:
    """A Kafka 4 node that is broker and controller; formats its folder, returns while it starts.
    `sasl_listeners` are further ones with SASL_PLAINTEXT, and their ports.
    """
    port, controller_port = free_port(), free_port()
    sasl = sasl_listeners or {}
    open_to_clients = ",".join(
        f"{name}://127.0.0.1:{each}" for name, each in {"PLAINTEXT": port, **sasl}.items()
    )
    values = {
        "process.roles": "broker,controller",
        "node.id": node_id,
        "log.dirs": folder / "data",
        "controller.quorum.voters": f"{node_id}@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{open_to_clients},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": open_to_clients,
        "listener.security.protocol.map": ",".join(
            ("CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", *(f"{name}:SASL_PLAINTEXT" for name in sasl))
        ),
        **SHIPPED_VALUES,
        **(settings or {}),
    }
    path = write_properties(folder / "server.properties", values)
    cluster_id = "MkU3OEVBNTcwNTJENDM2Qg"
    storage_tool = java_command(version, "kafka.tools.StorageTool", TOOL_OPTIONS)
    subprocess.run([*storage_tool, "format", "-t", cluster_id, "-c", path], check=True, capture_output=True)
    command = [*java_command(version, "kafka.Kafka", JUDGE_OPTIONS), path]
    return Server(command, port, folder / f"kafka-{version}.log")


# What the server.properties of the distribution sets for a single broker.
SHIPPED_VALUES: Final = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
}


def tool_command(
    name: str, *arguments: str, version: str = ZOOKEEPER_ERA, options: Sequence[str] = TOOL_OPTIONS
) -> list[str]:
    """The command line that a script of Kafka's `bin` folder comes down to."""
    return [*java_command(version, main_class(name, version), options), *arguments]


def main_class(name: str, version: str = ZOOKEEPER_ERA) -> str:
    """The class that a script of Kafka's `bin` folder runs."""
    return (TOOLS_OF_3 if version.startswith("3.") else {}).get(name, TOOLS[name])


def verifiable_producer(version: str) -> list[str]:
    """The command of the producer that Kafka's own system tests run;
    it says on stdout what was acknowledged.
    """
    return java_command(version, "org.apache.kafka.tools.VerifiableProducer", TOOL_OPTIONS)


def verifiable_consumer(version: str) -> list[str]:
    """The command of the consumer that Kafka's own system tests run; it says on stdout what it reads."""
    return java_command(version, "org.apache.kafka.tools.VerifiableConsumer", TOOL_OPTIONS)


def run_tool(
    name: str,
    *arguments: str,
    version: str = ZOOKEEPER_ERA,
    input: str | None = None,  # noqa: A002 - the word of subprocess.run
    seconds: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Runs a tool to its end. Does not judge the exit code; raises subprocess.TimeoutExpired."""
    command = tool_command(name, *arguments, version=version)
    given = {"stdin": subprocess.DEVNULL} if input is None else {"input": input}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        preexec_fn=die_with_parent,
        **given,
    )
