"""Apache Kafka as a judge: its servers and its tools, once a session.

Where Java or Maven is missing these tests are skipped with the names of the judges that did not speak;
with CI=true that is a failure, because a judge that never speaks proves nothing.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import kafka_harness
import pytest
from kafka_harness import Server

import java_options
from barnabas.admin import Admin
from barnabas.admin.quotas import ClientQuotaAlteration, QuotaFilter, UserScramCredentialDeletion
from barnabas.core.scram import NUMBERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _judge(name: str, summon: Callable[[], object]) -> object:
    try:
        return summon()
    except kafka_harness.UnavailableError as missing:
        line = f"JUDGE DID NOT SPEAK: {name}: {missing}"
        if os.environ.get("CI") == "true":
            pytest.fail(line, pytrace=False)
        pytest.skip(line)


@contextlib.contextmanager
def _running(*servers: Server) -> Iterator[None]:
    try:
        yield
    finally:
        for server in servers:
            server.kill()  # a minute of orderly JVM shutdowns would prove nothing here


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Where the servers keep their data and logs; kept when a test failed, to be read."""
    folder = tmp_path_factory.mktemp("apache-kafka")
    yield folder
    if not request.session.testsfailed:
        shutil.rmtree(folder, ignore_errors=True)


def _own_folder(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def zookeeper(server_folder: Path) -> Iterator[str]:
    """The address of a ZooKeeper server; give each cluster a chroot of its own."""
    _judge("Apache Kafka 3.9", lambda: kafka_harness.artifacts(kafka_harness.ZOOKEEPER_ERA))
    server = kafka_harness.start_zookeeper(_own_folder(server_folder, "zookeeper"))
    with _running(server):
        yield kafka_harness.wait_until_serving(server).bootstrap


@pytest.fixture(scope="session")
def kafka39(server_folder: Path, zookeeper: str) -> Iterator[str]:
    """The bootstrap address of a genuine Kafka 3.9 broker in ZooKeeper mode."""
    server = kafka_harness.start_broker(_own_folder(server_folder, "kafka39"), f"{zookeeper}/kafka39")
    with _running(server):
        yield server.wait_until_listening().bootstrap


@pytest.fixture
def users_forgotten(kafka39: str) -> Iterator[None]:
    """After the test the genuine broker has no quota and no password: one of all users, left behind, would
    go before those that the next test sets.
    """
    yield
    with Admin(kafka39) as admin:
        for types in (("user",), ("client-id",), ("user", "client-id"), ("ip",)):
            admin.quotas.alter(
                [
                    ClientQuotaAlteration(left.entity, dict.fromkeys(left.values))
                    for left in admin.quotas.describe([QuotaFilter(each) for each in types])
                ]
            )
        admin.quotas.alter_scram_credentials(
            [
                UserScramCredentialDeletion(user, NUMBERS[number].value)
                for user, numbers in admin.quotas.scram_credentials().items()
                for number in numbers
            ]
        )


@pytest.fixture(scope="session")
def kafka44(server_folder: Path) -> Iterator[str]:
    """The bootstrap address of a genuine Kafka 4.4 node."""
    version = kafka_harness.KRAFT_ERA
    _judge(f"Apache Kafka {version}", lambda: kafka_harness.artifacts(version))
    few = {"transaction.state.log.num.partitions": 1}
    server = kafka_harness.start_kraft(_own_folder(server_folder, "kafka44"), few, version)
    with _running(server):
        yield server.wait_until_listening().bootstrap


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """A session of our own, small, beside the judges."""
    from barnabas.spark import sessions

    config = {
        "spark.driver.memory": "512m", "spark.sql.shuffle.partitions": 1,
        # As in tests/spark: time for workers on a busy machine.
        "spark.driver.extraJavaOptions": java_options.QUICK,
        "spark.python.authenticate.socketTimeout": "120s",
    }  # fmt: skip
    session = sessions.make("judged", master="local[2]", config=config)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def judge() -> Callable[[str, Callable[[], object]], object]:
    """Summons a judge by name, or skips: `judge("Apache Kafka 4.4", lambda: artifacts("4.4.0"))`."""
    return _judge


@pytest.fixture(scope="session")
def kafka_tool() -> Callable[..., object]:
    """Runs a tool of Kafka's `bin` folder: `kafka_tool(name, *arguments, version="3.9.2", input=None)`."""

    def run(name: str, *arguments: str, version: str = kafka_harness.ZOOKEEPER_ERA, **options):
        _judge(f"Apache Kafka {version}", lambda: kafka_harness.artifacts(version))
        return kafka_harness.run_tool(name, *arguments, version=version, **options)

    return run
