"""Runs the suites of outside clients against a running broker and holds the outcome against allow-lists.

    python tests/suites/run.py FOLDER [--bootstrap HOST:PORT | --genuine] [--suite NAME] [--write]

FOLDER holds clones of the clients' repositories, each under its own name (kafka-python,
confluent-kafka-python, aiokafka, franz-go, librdkafka). Without --bootstrap a `barnabas serve` of our own is
the broker; --genuine starts an Apache Kafka 4.4 with the same settings, which shows what the suite itself
gets wrong. NAME.allow lists the tests that must pass; --write puts down those that do, and an allow-list only
ever grows. Each suite of Python runs in a virtual environment of its own, in a copy of its tests, because
those bring their own versions of everything.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree as ET

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "jvm")]

import kafka_harness  # noqa: E402 - it stands in the folder above
from kafka_harness import KRAFT_ERA, Server, free_port, start_kraft, write_properties  # noqa: E402
from secure_listeners import LISTENERS, SCOPE, SecureListeners  # noqa: E402 - it stands beside this file

ENVIRONMENTS = Path(os.environ.get("BARNABAS_SUITES_CACHE", Path.home() / ".cache" / "barnabas" / "suites"))
SECONDS_A_SUITE = 1800
SECONDS_A_TEST = 180

BROKER_SETTINGS = {
    "num.partitions": 4,
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
"""What those suites expect of a broker."""


@dataclass(frozen=True)
class Suite:
    """One client's tests and how they are run."""

    name: str
    tests: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    """What is copied out of the repository; a package that has to be compiled is installed instead."""
    needs: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """`{bootstrap}` stands for the broker, and what `SecureListeners.given` names for its other listeners."""
    fixtures: str = ""
    """A file beside this one whose fixtures take the place of those in the suite's `conftest`; of a suite
    in Go one that is added to the package.
    """
    conftest: str = "tests/conftest.py"
    secure: bool = False
    """Whether the broker listens with TLS and SASL as well, and has an authorizer."""
    options: tuple[str, ...] = ()
    """Of pytest."""
    settings: Mapping[str, int | str] = field(default_factory=dict)
    """Of the broker, beside `BROKER_SETTINGS`."""
    go: str = ""
    """The folder of a package of Go, whose tests are run by its toolchain instead of pytest."""
    runner: str = ""
    """A program of C that runs the tests, which `make` has built beside `test.c`."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """How that program's clients connect, with the words of `environment`."""
    only: str = ""
    """Of Go and C: which of the tests, as the start of a regular expression. Empty for all."""
    without: str = ""
    """Of Go: the tests that are left out of those, as a regular expression."""
    is_refused: bool = False
    """Whether the clients log in with what the broker must refuse: each test has to fail."""

    @property
    def client(self) -> str:
        """Whose suite it is: the name of the clone, and of the environment."""
        return self.name.partition(",")[0]

    @property
    def allow_list(self) -> Path:
        """The tests that must pass."""
        return HERE / f"{self.name.replace(', ', '-').replace(' ', '-')}.allow"


AIOKAFKA_PARTS = ("admin", "client", "conn", "consumer", "coordinator", "fetcher", "pep492", "producer")
AIOKAFKA_PARTS += ("rack_awareness", "sasl", "sender", "transactional_consumer", "transactional_producer")
"""Those that need a broker."""
SECURE_ENVIRONMENT = {
    "SUITE_CERTIFICATES": "{certificates}",
    "SUITE_PYTHON": "{python}",
    **{f"SUITE_{name}_PORT": f"{{{name.lower()}}}" for name in LISTENERS},
}

TLS = {"ssl.ca.location": "{certificates}/ca.crt", "bootstrap.servers": "127.0.0.1:{sasl_ssl}"}
LOGIN = {"sasl.username": "test", "sasl.password": "test"}
CLEAR = {"security.protocol": "SASL_PLAINTEXT", "bootstrap.servers": "127.0.0.1:{sasl_plaintext}"}
UNSECURED = {
    **CLEAR,
    "sasl.mechanism": "OAUTHBEARER",
    "enable.sasl.oauthbearer.unsecure.jwt": "true",
    "sasl.oauthbearer.config": f"scope={SCOPE} principal=test",
}
SIMPLE = "00(01|05|08|11|12|13|14|15|30|33)_"
"""Tests of librdkafka that produce, consume, and commit: enough where only the way in differs."""
LIBRDKAFKA = Suite(
    "librdkafka",
    environment={"TEST_KAFKA_VERSION": "4.4.0"},
    # Quick; without what needs no broker, is known to fail, or breaks connections by its own sockets.
    options=("-Q", "-p1", "-L", "-K", "-E"),
    runner="tests/test-runner",
    properties={"bootstrap.servers": "{bootstrap}"},
)


def connected(
    name: str, properties: Mapping[str, str], only: str = SIMPLE, *, refused: bool = False
) -> Suite:
    """librdkafka's tests with clients that connect in another way."""
    return replace(
        LIBRDKAFKA,
        name=f"librdkafka, {name}",
        properties=properties,
        only=only,
        is_refused=refused,
        secure=True,
    )


NEEDS_A_BROKER = (
    "Test(UnknownGroupOffsetFetchPinned|Ping|SCRAM|Issue|Consume(Topic|Regex|Max)|848Regex|Direct|AddRemove"
    "|Pause|Pooling|Group|HookPollStart$|Client_|TxnEtl)"
)
"""Those tests of franz-go that ask for a broker."""
FRANZ_GO = Suite(
    "franz-go",
    environment={"KGO_SEEDS": "{bootstrap}", "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "50000"},
    go="pkg/kgo",
)


def logged_in(mechanism: str, *, tls: bool, only: str) -> Suite:
    """franz-go's tests with clients that log in."""
    listener = "sasl_ssl" if tls else "sasl_plaintext"
    scram = f"test:test:{mechanism[-3:]}" if "SCRAM" in mechanism else "test:test"
    login = {
        "SUITE_MECHANISM": mechanism,
        "KGO_TEST_RECORDS": "5000",
        "KGO_SEEDS": f"127.0.0.1:{{{listener}}}",
        # Two of its own tests have a listener without TLS.
        "KGO_TEST_SCRAM": scram,
        "KGO_TEST_SCRAM_SEEDS": "127.0.0.1:{sasl_plaintext}",
    }
    if tls:
        login["KGO_TEST_TLS"] = "ca:{certificates}/ca.crt"
    return replace(
        FRANZ_GO,
        name=f"franz-go, {mechanism}{' and TLS' if tls else ''}",
        environment={**FRANZ_GO.environment, **login},
        fixtures="franz_go_login.go",
        conftest="helpers_test.go",
        only=only,
        # It brings a dialer, beside which this client takes no settings of TLS, and ends all tests over it.
        without="^TestIssue769$" if tls else "",
        secure=True,
    )


SUITES = (
    Suite(
        "kafka-python",
        ("test/integration",),
        ("test", "kafka"),  # they change together, between releases as well
        ("kafka-python[crc32c,lz4,snappy,zstd]", "pytest-mock", "xxhash"),
        {"KAFKA_URI": "kafka://{bootstrap}", "KAFKA_VERSION": "3.9.0", "KAFKA_ROOT": "."},
        # It reads the version of the broker out of what that advertises.
        settings={"barnabas.api.profile": "3.9"},
    ),
    Suite(
        "kafka-python, security",
        ("test/integration/test_sasl_integration.py", "test/integration/test_ssl_integration.py"),
        ("test", "kafka"),
        ("kafka-python[crc32c,lz4,snappy,zstd]", "pytest-mock", "xxhash"),
        {"KAFKA_VERSION": "3.9.0", "KAFKA_ROOT": ".", **SECURE_ENVIRONMENT},
        fixtures="kafka_python_fixtures.py",
        conftest="test/integration/conftest.py",
        settings={"barnabas.api.profile": "3.9"},
        secure=True,
    ),
    Suite(
        "confluent-kafka-python",
        tuple(f"tests/integration/{part}" for part in ("admin", "consumer", "producer")),
        ("tests",),
        ("confluent-kafka[avro,json,protobuf,schemaregistry]", "pytest-asyncio", "trivup"),
        {"BROKERS": "{bootstrap}"},
    ),
    Suite(
        "confluent-kafka-python, consumer protocol",
        ("tests/integration/consumer",),
        ("tests",),
        ("confluent-kafka[avro,json,protobuf,schemaregistry]", "pytest-asyncio", "trivup"),
        {"BROKERS": "{bootstrap}", "TEST_CONSUMER_GROUP_PROTOCOL": "consumer"},
    ),
    Suite(
        "aiokafka",
        tuple(f"tests/test_{part}.py" for part in AIOKAFKA_PARTS),
        ("tests",),
        ("aiokafka[lz4,snappy,zstd]", "pytest-asyncio", "pytest-mock", "docker"),
        {"SUITE_BOOTSTRAP": "{bootstrap}", **SECURE_ENVIRONMENT},
        fixtures="aiokafka_fixtures.py",
        options=("-o", "asyncio_mode=auto"),
        settings={"num.partitions": 2},
        secure=True,
    ),
    Suite(
        "confluent-kafka-python, security",
        ("tests/integration/admin", "tests/integration/consumer", "tests/integration/producer"),
        ("tests",),
        ("confluent-kafka[avro,json,protobuf,schemaregistry]", "pytest-asyncio", "trivup"),
        {**SECURE_ENVIRONMENT, "BROKERS": "{bootstrap}"},
        fixtures="confluent_kafka_python_fixtures.py",
        conftest="tests/integration/conftest.py",
        secure=True,
    ),
    FRANZ_GO,
    logged_in("SCRAM-SHA-512", tls=True, only=NEEDS_A_BROKER),
    logged_in("SCRAM-SHA-256", tls=False, only="Test(Ping|SCRAM|GroupSimple|Client_|TxnEtl|ConsumeRegex)"),
    logged_in("PLAIN", tls=True, only="Test(Ping|GroupSimple|Client_|TxnEtl|ConsumeRegex)"),
    LIBRDKAFKA,
    connected(
        "SCRAM-SHA-512 and TLS",
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", **TLS, **LOGIN},
        only="",
    ),
    connected("TLS", {**TLS, "security.protocol": "SSL", "bootstrap.servers": "127.0.0.1:{ssl}"}),
    connected("PLAIN", {**CLEAR, "sasl.mechanism": "PLAIN", **LOGIN}),
    connected("SCRAM-SHA-256", {**CLEAR, "sasl.mechanism": "SCRAM-SHA-256", **LOGIN}),
    connected("OAUTHBEARER", UNSECURED),
    connected(
        "another user",
        {**CLEAR, "sasl.mechanism": "PLAIN", **LOGIN, "sasl.username": "wrongjoe"},
        "0001_",
        refused=True,
    ),
    connected(
        "another scope",
        {**UNSECURED, "sasl.oauthbearer.config": "scope=wrongScope principal=test"},
        "0001_",
        refused=True,
    ),
    replace(
        LIBRDKAFKA,
        name="librdkafka, rules",
        environment={**LIBRDKAFKA.environment, "BROKERS": "{bootstrap}", "KAFKA_PATH": "{scripts}"},
        # They call Kafka's scripts, here ours of the same names.
        only="0(052|077|081|109|115|119)_",
        secure=True,
        # What they deny to everybody must count for themselves.
        settings={"super.users": "User:admin"},
    ),
)


NOTHING = dict.fromkeys((*(name.lower() for name in LISTENERS), "certificates", "python", "scripts"), "")
"""What stands for listeners, and scripts of tools, that there are not."""


@contextlib.contextmanager
def our_broker(suite: Suite) -> Iterator[dict[str, str]]:
    """A `barnabas serve` with the settings that the suite expects; what stands for it in the environment."""
    folder = Path(tempfile.mkdtemp(prefix="barnabas-suites-"))
    port = free_port()
    values = {"broker.id": 0, "listeners": f"PLAINTEXT://127.0.0.1:{port}", "log.dirs": folder / "data"}
    secure = SecureListeners(folder) if suite.secure else None
    if secure is not None:
        values |= secure.settings(port)
    properties = write_properties(folder / "server.properties", values | BROKER_SETTINGS | suite.settings)
    command = [sys.executable, "-m", "barnabas", "serve", "--config", properties]
    server = Server(command, port, folder / "barnabas.log")
    try:
        bootstrap = server.wait_until_listening().bootstrap
        if secure is not None:
            secure.add_users(bootstrap)
        yield words(suite, folder, bootstrap, secure)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def genuine_broker(suite: Suite) -> Iterator[dict[str, str]]:
    """As `our_broker`, of an Apache Kafka."""
    kafka_harness.artifacts(KRAFT_ERA)
    folder = Path(tempfile.mkdtemp(prefix="barnabas-suites-"))
    values: dict[str, object] = {}
    secure = SecureListeners(folder) if suite.secure else None
    if secure is not None:
        # Its own port takes the place of the one that is asked for here.
        values |= {key: value for key, value in secure.settings(0).items() if key != "listeners"}
        protocols = ("CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", *(f"{name}:{name}" for name in LISTENERS))
        values["listener.security.protocol.map"] = ",".join(protocols)
        values["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    values |= BROKER_SETTINGS | suite.settings
    values.pop("barnabas.api.profile", None)
    server = start_kraft(folder, values, sasl_listeners=secure.ports if secure is not None else None)
    try:
        bootstrap = server.wait_until_listening().bootstrap
        if secure is not None:
            secure.add_users(bootstrap)
        yield words(suite, folder, bootstrap, secure)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def words(suite: Suite, folder: Path, bootstrap: str, secure: SecureListeners | None) -> dict[str, str]:
    """What stands for a broker, its listeners and certificates in a suite's environment."""
    given = secure.given() if secure is not None else {}
    tools = scripts(folder / "kafka") if suite.runner else ""
    return {**NOTHING, **given, "bootstrap": bootstrap, "scripts": tools}


def scripts(folder: Path) -> str:
    """A folder like that of a Kafka installation, whose scripts call our tools."""
    command = [sys.executable, "-m", "barnabas", "kafka-scripts", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return str(folder)


def python_of(suite: Suite, repository: Path) -> str:
    """The interpreter of the suite's own environment, made the first time."""
    folder = ENVIRONMENTS / suite.client
    python = folder / "bin" / "python"
    ready = folder / ".ready"
    if not ready.exists():
        print(f"{suite.name}: making {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        # trivup is published nowhere but in the repository that uses it.
        archives = {
            path.name.partition("-")[0]: str(path) for path in repository.glob("tests/trivup/*.tar.gz")
        }
        wanted = [archives.get(need, need) for need in ("pytest", "pytest-timeout", *suite.needs)]
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *wanted], check=True)
        ready.touch()
    return str(python)


def outcomes(suite: Suite, repository: Path, broker: Mapping[str, str]) -> dict[str, str]:
    """passed, failed, error or skipped of every test, by its name."""
    if suite.go:
        return go_outcomes(suite, repository, broker)
    if suite.runner:
        return runner_outcomes(suite, repository, broker)
    python = python_of(suite, repository)
    with tempfile.TemporaryDirectory(prefix=f"{suite.name}-") as work:
        for part in suite.parts:
            shutil.copytree(repository / part, Path(work, part))
        if suite.fixtures:
            # What is defined last in a module counts.
            with Path(work, suite.conftest).open("a") as conftest:
                conftest.write((HERE / suite.fixtures).read_text())
        report = Path(work, "report.xml")
        command = [
            python,
            "-m",
            "pytest",
            *suite.tests,
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            *suite.options,
        ]
        limits = [f"--timeout={SECONDS_A_TEST}", "--timeout-method=signal", "--tb=short"]
        given = {name: value.format_map(broker) for name, value in suite.environment.items()}
        log = Path(tempfile.gettempdir(), f"barnabas-suite-{suite.name}.log")
        with log.open("w") as output:
            subprocess.run(
                [*command, *limits],
                cwd=work,
                env=os.environ | given,
                stdout=output,
                stderr=output,
                timeout=SECONDS_A_SUITE,
                check=False,
            )
        print(f"{suite.name}: what pytest said is in {log}")
        return read_report(report) if report.exists() else {}


def go_outcomes(suite: Suite, repository: Path, broker: Mapping[str, str]) -> dict[str, str]:
    """As `outcomes`, of a package of Go; {} without a toolchain."""
    go = shutil.which("go")
    if go is None:
        print(f"JUDGE DID NOT SPEAK: {suite.name}: no go (https://go.dev/dl)")
        return {}
    given = {name: value.format_map(broker) for name, value in suite.environment.items()}
    log = Path(tempfile.gettempdir(), f"barnabas-suite-{suite.name}.log")
    chosen = [f"-run=^{suite.only}"] if suite.only else []
    chosen += [f"-skip={suite.without}"] if suite.without else []
    with package_of(suite, repository) as package, log.open("w") as output:
        subprocess.run(
            [go, "test", "-count=1", "-v", f"-timeout={SECONDS_A_SUITE}s", *chosen, "."],
            cwd=package,
            env=os.environ | given,
            stdout=output,
            stderr=output,
            check=False,
        )
    print(f"{suite.name}: what go test said is in {log}")
    return read_go_log(log.read_text(errors="replace"))


@contextlib.contextmanager
def package_of(suite: Suite, repository: Path) -> Iterator[Path]:
    """The folder of a suite's package of Go; with fixtures a copy, whose clients connect as those say."""
    if not suite.fixtures:
        yield repository / suite.go
        return
    with tempfile.TemporaryDirectory(prefix="barnabas-suite-go-") as work:
        copied = Path(work, "copy")
        shutil.copytree(
            repository, copied, ignore=shutil.ignore_patterns(".git"), copy_function=shutil.copyfile
        )
        package = copied / suite.go
        package.chmod(0o755)  # in the cache of the toolchain nothing can be written
        # What the suite connects with keeps its name for the fixtures, which have its place.
        helpers = package / suite.conftest
        helpers.chmod(0o644)
        before = helpers.read_text()
        helpers.write_text(before.replace("func getSeedBrokers() Opt", "func suiteSeedBrokers() Opt"))
        (package / "suite_fixtures_test.go").write_text((HERE / suite.fixtures).read_text())
        yield package


def read_go_log(log: str) -> dict[str, str]:
    """The outcomes in what ``go test -v`` prints. Inputs of fuzzers, which need no broker, are left out."""
    kinds = {"PASS": "passed", "FAIL": "failure", "SKIP": "skipped"}
    found = re.findall(r"^ *--- (PASS|FAIL|SKIP): (Test\S+) \(", log, re.MULTILINE)
    return {name: kinds[kind] for kind, name in found}


def runner_outcomes(suite: Suite, repository: Path, broker: Mapping[str, str]) -> dict[str, str]:
    """As `outcomes`, of librdkafka's own runner; {} where it is not built. Each test has a process, so that
    one that hangs or dies takes no other with it.
    """
    runner = repository / suite.runner
    if not runner.exists():
        print(f"JUDGE DID NOT SPEAK: {suite.name}: no {runner} (./configure && make && make -C tests build)")
        return {}
    found: dict[str, str] = {}
    log = Path(tempfile.gettempdir(), f"barnabas-suite-{suite.name}.log")
    with tempfile.TemporaryDirectory(prefix=f"{suite.name}-") as work, log.open("w") as output:
        configuration = Path(work, "test.conf")
        lines = (f"{key}={value.format_map(broker)}\n" for key, value in suite.properties.items())
        configuration.write_text("".join(lines))
        libraries = f"{repository / 'src'}:{repository / 'src-cpp'}"
        own = {name: value.format_map(broker) for name, value in suite.environment.items()}
        given = os.environ | {name: value for name, value in own.items() if value}
        given |= {"LD_LIBRARY_PATH": libraries, "RDKAFKA_TEST_CONF": str(configuration)}
        for name in runner_tests((runner.parent / "test.c").read_text()):
            # The name of one may be a part of an earlier one's.
            if name in found or not re.match(suite.only, name):
                continue
            try:
                done = subprocess.run(
                    [runner, *suite.options],
                    cwd=runner.parent,
                    env=given | {"TESTS": name},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    timeout=SECONDS_A_TEST,
                    check=False,
                )
                said = done.stdout.decode(errors="replace")
            except subprocess.TimeoutExpired as over:
                said = (over.stdout or b"").decode(errors="replace")
            output.write(said)
            output.flush()
            found |= {name: "failure"} | read_runner_log(said)
    print(f"{suite.name}: what the tests said is in {log}")
    if suite.is_refused:
        turned = {"passed": "let in", "failure": "passed"}
        return {name: turned.get(outcome, outcome) for name, outcome in found.items()}
    return found


def runner_tests(source: str) -> list[str]:
    """The names in librdkafka's table of tests that need a broker. Those of share groups, which are not here,
    and those from 1000 on, which need a broker of their own, are left out.
    """
    table = re.findall(r"^ +_TEST\((\w+),\s*([\w |]+)", source, re.MULTILINE)
    return [
        name
        for name, flags in table
        if name < "1000" and not re.search("LOCAL|SOCKEM|KNOWN_ISSUE\\b", flags) and "_share_" not in name
    ]


def read_runner_log(log: str) -> dict[str, str]:
    """The outcomes in what librdkafka's runner prints."""
    kinds = {"PASSED": "passed", "FAILED": "failure", "SKIPPED": "skipped"}
    # What is skipped for its scenario stands in the table at the end alone.
    found = re.findall(r"(?:=+ Test |^\|\S* )(\w+)[ |]+(PASSED|FAILED|SKIPPED) ", log, re.MULTILINE)
    return {name: kinds[kind] for name, kind in found}


def read_report(report: Path) -> dict[str, str]:
    """The outcomes in a JUnit report. A test that passes and then fails to clean up has failed."""
    found: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{re.sub(r'0x[0-9a-f]+', '0x', case.get('name', ''))}"
        kinds = {child.tag for child in case}
        outcome = next((kind for kind in ("error", "failure", "skipped") if kind in kinds), "passed")
        found[name] = outcome if found.get(name, "passed") in {"passed", "skipped"} else found[name]
    return found


def judge(suite: Suite, found: Mapping[str, str], *, write: bool) -> bool:
    """Prints what came of a suite; whether everything on its allow-list passed."""
    allowed = set(suite.allow_list.read_text().split("\n")) - {""} if suite.allow_list.exists() else set()
    passed = {name for name, outcome in found.items() if outcome == "passed"}
    counts = {
        kind: sum(outcome == kind for outcome in found.values()) for kind in sorted(set(found.values()))
    }
    print(f"{suite.name}: {counts}, {len(allowed)} on the allow-list")
    for name in sorted(found):
        if found[name] == "skipped":
            print(f"  SKIPPED {name}")
    for name in sorted(allowed - passed):
        print(f"  NO LONGER PASSES ({found.get(name, 'not run')}) {name}")
    for name in sorted(passed - allowed):
        print(f"  passes and is not on the list: {name}")
    if write:
        suite.allow_list.write_text("".join(f"{name}\n" for name in sorted(allowed | passed)))
    return bool(found) and allowed <= passed


def main() -> int:
    """0 when every suite passes what it must; 1 when not, or when a suite is missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the clients' repositories are")
    parser.add_argument("--bootstrap", help="a broker that runs already")
    parser.add_argument("--genuine", action="store_true", help="an Apache Kafka 4.4, which is started")
    parser.add_argument("--suite", help="only this one")
    parser.add_argument("--write", action="store_true", help="let the allow-lists grow")
    asked = parser.parse_args()
    good = True
    for suite in SUITES:
        if asked.suite not in {None, suite.name}:
            continue
        repository = asked.folder.resolve() / suite.client
        if not repository.is_dir():
            print(f"JUDGE DID NOT SPEAK: {suite.name}: no {repository} (clone its repository there)")
            good = False
            continue
        elsewhere = {**NOTHING, "bootstrap": asked.bootstrap}
        started = genuine_broker if asked.genuine else our_broker
        given = contextlib.nullcontext(elsewhere) if asked.bootstrap else started(suite)
        with given as broker:
            good &= judge(suite, outcomes(suite, repository, broker), write=asked.write)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
