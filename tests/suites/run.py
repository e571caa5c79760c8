"""Runs the suites of outside clients against a running broker and holds the outcome against allow-lists.

    python tests/suites/run.py FOLDER [--bootstrap HOST:PORT] [--suite NAME] [--write]

FOLDER holds clones of the clients' repositories, each under its own name (kafka-python,
confluent-kafka-python, aiokafka, franz-go, librdkafka). Without --bootstrap a `barnabas serve` of our own is
the broker; point it at a genuine Kafka to see what the suite itself is worth. NAME.allow lists the tests that
must pass; --write puts down those that do, and an allow-list only ever grows. Each suite of Python runs in a
virtual environment of its own, in a copy of its tests, because those bring their own versions of everything.
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
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "jvm")]

from kafka_harness import Server, free_port, write_properties  # noqa: E402 - it stands in the folder above
from secure_listeners import LISTENERS, SecureListeners  # noqa: E402 - it stands beside this file

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
    """A file beside this one whose fixtures take the place of those in the suite's `conftest`."""
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
        "franz-go",
        environment={"KGO_SEEDS": "{bootstrap}", "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "50000"},
        go="pkg/kgo",
    ),
    Suite(
        "librdkafka",
        environment={"TEST_KAFKA_VERSION": "4.4.0"},
        # Quick; without what needs no broker, is known to fail, or breaks connections by its own sockets.
        options=("-Q", "-p1", "-L", "-K", "-E"),
        runner="tests/test-runner",
    ),
)


NOTHING = dict.fromkeys((*(name.lower() for name in LISTENERS), "certificates", "python"), "")
"""What stands for listeners that there are not."""


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
        yield {**NOTHING, **(secure.given() if secure is not None else {}), "bootstrap": bootstrap}
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


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
    with log.open("w") as output:
        subprocess.run(
            [go, "test", "-count=1", "-v", f"-timeout={SECONDS_A_SUITE}s", "."],
            cwd=repository / suite.go,
            env=os.environ | given,
            stdout=output,
            stderr=output,
            check=False,
        )
    print(f"{suite.name}: what go test said is in {log}")
    return read_go_log(log.read_text(errors="replace"))


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
        configuration.write_text(f"bootstrap.servers={broker['bootstrap']}\n")
        libraries = f"{repository / 'src'}:{repository / 'src-cpp'}"
        given = os.environ | suite.environment | {"LD_LIBRARY_PATH": libraries}
        given["RDKAFKA_TEST_CONF"] = str(configuration)
        for name in runner_tests((runner.parent / "test.c").read_text()):
            if name in found:  # its name was a part of an earlier one's
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
        given = contextlib.nullcontext(elsewhere) if asked.bootstrap else our_broker(suite)
        with given as broker:
            good &= judge(suite, outcomes(suite, repository, broker), write=asked.write)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
