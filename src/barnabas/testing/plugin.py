"""The pytest plug-in: a Kafka as a fixture. It is loaded by every pytest of an environment with Barnabas,
so it imports nothing before a test asks.

- ``kafka`` (session): one broker, a `barnabas.testing.Kafka`; faults of a test end with it.
- ``kafka_topic`` (function): the name of a new topic of that broker.
- ``kafka_cluster`` (function): makes clusters, as ``kafka_cluster(3)``; keywords are those of `Kafka`.

Each process of pytest-xdist has a broker of its own.
"""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.testing.kafka.cluster import Kafka

_session_kafka: list["Kafka"] = []


@pytest.fixture(scope="session")
def kafka() -> "Iterator[Kafka]":
    """One broker for all tests of the session, at ``kafka.bootstrap_servers``."""
    from barnabas.testing.kafka.cluster import Kafka

    with Kafka() as running:
        _session_kafka.append(running)
        yield running
        _session_kafka.remove(running)


@pytest.fixture
def kafka_topic(kafka: "Kafka") -> str:
    """The name of a topic that nobody has used, with one partition."""
    return kafka.create_topic()


@pytest.fixture
def kafka_cluster() -> "Iterator[Clusters]":
    """Makes clusters of any number of brokers, which end with the test."""
    with ExitStack() as running:
        yield Clusters(running)


class Clusters:
    """What the fixture ``kafka_cluster`` gives: a call starts a cluster."""

    def __init__(self, running: ExitStack) -> None:
        self._running = running

    def __call__(self, brokers: int = 3, **options: Any) -> "Kafka":
        """A cluster of so many brokers; keywords are those of `Kafka`."""
        from barnabas.testing.kafka.cluster import Kafka

        return self._running.enter_context(Kafka(brokers, **options))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"kafka_cluster has no {name}: write kafka_cluster(3), which starts a cluster that has"
        )


def pytest_runtest_teardown() -> None:
    """What one test has planted is not there for the next."""
    for running in _session_kafka:
        running.clear_faults()
