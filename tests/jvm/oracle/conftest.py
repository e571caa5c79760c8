"""Apache Kafka's own schemas and serialization as the judge of ours."""

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import kafka_harness
import pytest

# What describes our messages in the words of Kafka's descriptors is beside the other tests of the protocol.
sys.path.append(str(Path(__file__).parents[2] / "protocol"))

from kafka_descriptors import RELEASES, Descriptor, Pair, descriptors, pairs
from kafka_java import KafkaJava

_counts = pytest.StashKey[Counter[str]]()


def _silent(missing: kafka_harness.UnavailableError) -> None:
    line = f"JUDGE DID NOT SPEAK: Kafka's serialization: {missing}"
    if os.environ.get("CI") == "true":
        pytest.fail(line, pytrace=False)
    pytest.skip(line)


@pytest.fixture(scope="session")
def jars() -> dict[str, Path]:
    """The folder with the jars of each release."""
    try:
        return {release: kafka_harness.artifacts(release) for release in RELEASES}
    except kafka_harness.UnavailableError as missing:
        _silent(missing)


@pytest.fixture(scope="session")
def releases(jars: Mapping[str, Path]) -> dict[str, dict[str, Descriptor]]:
    """The descriptors of each release, by name."""
    return {release: descriptors(release, folder) for release, folder in jars.items()}


@pytest.fixture(scope="session")
def pairs_of(releases: Mapping[str, Mapping[str, Descriptor]]) -> dict[type, list[Pair]]:
    """By class of ours: each version of it that a release of Kafka describes."""
    found: dict[type, list[Pair]] = {}
    for pair in pairs(releases):
        found.setdefault(pair.cls, []).append(pair)
    return found


@pytest.fixture(scope="session")
def kafka_java(jars: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaJava]:
    """The Java process; it lives as long as the session."""
    try:
        process = KafkaJava(tmp_path_factory.mktemp("oracle"), jars)
    except kafka_harness.UnavailableError as missing:
        _silent(missing)
    yield process
    process.close()


@pytest.fixture(scope="session")
def counts(pytestconfig: pytest.Config) -> Counter[str]:
    """What was compared, for the line at the end."""
    return pytestconfig.stash.setdefault(_counts, Counter())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts = terminalreporter.config.stash.get(_counts, None)
    if counts:
        line = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        terminalreporter.write_line(f"oracle: {line} compared with Apache Kafka {' and '.join(RELEASES)}")
