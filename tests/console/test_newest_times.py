"""The times that lag in seconds is made of are read where a log is not as it was, and only there."""

import itertools

import pytest

from barnabas.admin import NewTopic, OffsetAndMetadata
from barnabas.admin.offsets import Offsets
from barnabas.client import Producer
from barnabas.client.types import MAX_TIMESTAMP
from barnabas.core.errors import KafkaError
from barnabas.core.ids import TopicPartition
from waiting import until

PARTITIONS = 5
FIRST_MS = 1_900_000_000_000
NUMBERS = itertools.count()


class Measured:
    """A topic, and a group of its name that has read nothing of it, with what a console knows of both."""

    def __init__(self, cluster, open_console):
        self.name = f"measured-{next(NUMBERS)}"
        self.cluster = cluster
        self.fill(FIRST_MS)
        self.place()
        self.site = open_console(cluster.bootstrap_servers)
        self.look()
        until(lambda: self.look() or set(self.seconds().values()) == {60.0}, "all times to be read")

    def of(self, number):
        return TopicPartition(self.name, number)

    def look(self):
        self.site.look()

    def fill(self, first_ms):
        """Makes the topic, with two records in each partition, a minute apart."""
        placed = {number: [0] for number in range(PARTITIONS)}

        def made():
            (error,) = self.cluster.admin.topics.try_create([NewTopic(self.name, assignment=placed)]).values()
            return not isinstance(error, KafkaError)  # the one before may still be going

        until(made, "the topic")
        for at in (0, 60_000):
            self.produce(range(PARTITIONS), first_ms + at)

    def produce(self, numbers, at_ms):
        with Producer(self.cluster.bootstrap_servers) as producer:
            for number in numbers:
                producer.send_and_wait(self.name, "x", partition=number, timestamp_ms=at_ms)

    def place(self):
        """Has the group stand in front of the first records."""
        positions = {self.of(number): OffsetAndMetadata(0) for number in range(PARTITIONS)}
        self.cluster.admin.groups.alter_offsets(self.name, positions)

    def seconds(self):
        rows = self.site.get(f"/groups/{self.name}")["partitions"]
        return {one["partition"]: one["seconds"]["value"] for one in rows}

    def newest(self):
        known = self.site.watched.snapshot.newest_ms
        return {known[self.of(number)].value for number in range(PARTITIONS)}

    def is_known(self, number):
        """Whether all brokers have heard of a partition as it is now."""
        stations = dict(self.site.get(f"/explain/partition/{self.name}-{number}")["stations"])
        return stations["UpdateMetadata"] == "brokers 0,1 know this"


@pytest.fixture
def measured(cluster, open_console):
    return Measured(cluster, open_console)


@pytest.fixture
def asked(measured, monkeypatch):
    """For each question for newest times, the partitions of the topic that it was about."""
    found, real = [], Offsets.try_list

    async def noted(self, wanted, **more):
        if MAX_TIMESTAMP in wanted.values():
            found.append({tp for tp in wanted if tp.topic == measured.name})
        return await real(self, wanted, **more)

    monkeypatch.setattr(Offsets, "try_list", noted)
    return found


def test_brokers_are_asked_for_the_newest_times_of_logs_that_have_moved(measured, asked):
    # One of all logs in each round, the one that was read the longest ago: compaction leaves no other trace.
    every = {measured.of(number) for number in range(PARTITIONS)}
    until(lambda: measured.look() or set().union(*asked) == every, "each to be asked of in its turn")
    assert max(map(len, asked)) == 1

    measured.produce((1, 3), FIRST_MS + 90_000)
    del asked[:]
    measured.look()
    (at_once,) = asked
    assert at_once >= {measured.of(1), measured.of(3)}
    assert len(at_once) <= 3
    assert measured.seconds() == {0: 60.0, 1: 90.0, 2: 60.0, 3: 90.0, 4: 60.0}


def test_a_topic_that_was_made_again_has_times_of_its_own(measured):
    measured.cluster.admin.topics.delete(measured.name)
    measured.fill(FIRST_MS + 3_600_000)
    until(lambda: all(map(measured.is_known, range(PARTITIONS))), "all brokers to know the new topic")
    # With the old topic its coordinator has let the group's positions go.
    measured.place()
    measured.look()
    # By one look: what is asked by turns would have been asked by some later one, too.
    assert measured.newest() == {FIRST_MS + 3_660_000}
    # From its own first record to its own last one.
    assert set(measured.seconds().values()) == {60.0}


def test_a_log_with_another_leader_is_looked_at_again(measured, asked):
    measured.cluster.admin.partitions.reassign({measured.of(2): [1]})

    def has_moved():
        measured.look()
        return measured.site.get(f"/topics/{measured.name}")["partitions"][2]["leader"]["value"] == 1

    until(has_moved, "the partition to have its other leader")
    assert measured.of(2) in asked[-1]
