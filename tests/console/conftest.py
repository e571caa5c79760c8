"""A real cluster in this process, a console that looks at it, and a client of its application."""

import contextlib

import pytest
from console_site import Site, scraped_sender

from barnabas.admin import NewTopic, OffsetAndMetadata
from barnabas.client import Producer
from barnabas.console.collector import Pace
from barnabas.console.console import console_of
from barnabas.console.watched import WatchedCluster
from barnabas.core.ids import TopicPartition
from barnabas.testing import Kafka

START_MS = 1_900_000_000_000
"""Later than now: retention takes none of these records."""


@pytest.fixture(scope="module")
def cluster():
    """Two brokers: topic orders with 10 records, ten seconds apart, and groups that read them."""
    with Kafka(2) as kafka:
        kafka.admin.topics.create(
            [NewTopic("orders", partitions=3), NewTopic("logs.app", configs={"retention.ms": "3600000"})]
        )
        with Producer(kafka.bootstrap_servers) as producer:
            for number in range(10):
                at = START_MS + number * 10_000
                producer.send_and_wait(
                    "orders", f"value {number}", f"key {number}", partition=0, timestamp_ms=at
                )
        positions = {
            "behind": {TopicPartition("orders", 0): OffsetAndMetadata(3)},
            "done": {TopicPartition("orders", 0): OffsetAndMetadata(10)},
        }
        for group, offsets in positions.items():
            kafka.admin.groups.alter_offsets(group, offsets)
        yield kafka


@contextlib.contextmanager
def consoles(folder):
    """Opens consoles on a cluster, and closes them."""
    opened = []

    def open_it(bootstrap, *, name="demo", pace=None, watched=None, patience_s=60, **settings):
        one = WatchedCluster(
            name, {"bootstrap.servers": bootstrap}, pace or Pace(round_s=3600, seldom=1), **(watched or {})
        )
        one.limits["leaders-uneven"] = 9  # five partitions on two brokers: chance decides
        one.questions.patience_s = patience_s
        console = console_of([one], data=folder / "console", **settings)
        opened.append(console)
        return Site(console)

    yield open_it
    for console in opened:
        console.close()


@pytest.fixture
def open_console(tmp_path):
    with consoles(tmp_path) as open_it:
        yield open_it


@pytest.fixture(scope="module")
def standing_site(cluster, tmp_path_factory):
    """A console that has looked at the cluster twice, for the tests of a file that leave it as it is."""
    with consoles(tmp_path_factory.mktemp("standing")) as open_it:
        site = open_it(cluster.bootstrap_servers, watched={"brokers": scraped_sender})
        site.look()
        site.look()
        yield site


@pytest.fixture
def site(cluster, open_console):
    """A console that has looked at the cluster twice."""
    site = open_console(cluster.bootstrap_servers)
    site.look()
    site.look()
    return site
