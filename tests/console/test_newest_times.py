"""The times that lag in seconds is made of are read where a log is not as it was, and only there."""

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


@pytest.fixture
def asked(monkeypatch):
    """For each question for newest times, the partitions that it was about."""
    found, real = [], Offsets.try_list

    async def noted(self, wanted, **more):
        if MAX_TIMESTAMP in wanted.values():
            found.append({tp for tp in wanted if tp.topic == "measured"})
        return await real(self, wanted, **more)

    monkeypatch.setattr(Offsets, "try_list", noted)
    return found


def measured(number):
    return TopicPartition("measured", number)


def fill(cluster, first_ms):
    """Two records in each partition, a minute apart, of which a group has read none."""
    placed = {number: [0] for number in range(PARTITIONS)}

    def made():
        (error,) = cluster.admin.topics.try_create([NewTopic("measured", assignment=placed)]).values()
        return not isinstance(error, KafkaError)  # the one before may still be going

    until(made, "the topic")
    with Producer(cluster.bootstrap_servers) as producer:
        for number in range(PARTITIONS):
            for at in (0, 60_000):
                producer.send_and_wait("measured", "x", partition=number, timestamp_ms=first_ms + at)
    positions = {measured(number): OffsetAndMetadata(0) for number in range(PARTITIONS)}
    cluster.admin.groups.alter_offsets("measuring", positions)


@pytest.fixture
def site(cluster, open_console):
    fill(cluster, FIRST_MS)
    site = open_console(cluster.bootstrap_servers)
    site.look()
    until(lambda: site.look() or set(seconds(site).values()) == {60.0}, "all times to be read")
    yield site
    cluster.admin.topics.delete("measured")
    cluster.admin.groups.delete("measuring")


def seconds(site):
    return {one["partition"]: one["seconds"]["value"] for one in site.get("/groups/measuring")["partitions"]}


def newest(site):
    return {number: site.watched.snapshot.newest_ms[measured(number)].value for number in range(PARTITIONS)}


def test_brokers_are_asked_for_the_newest_times_of_logs_that_have_moved(site, cluster, asked):
    del asked[:]
    for _ in range(2 * PARTITIONS):
        site.look()
    # One of all logs in each round, the one that was read the longest ago: compaction leaves no other trace.
    assert max(map(len, asked)) == 1
    assert set().union(*asked) == {measured(number) for number in range(PARTITIONS)}

    with Producer(cluster.bootstrap_servers) as producer:
        for number in (1, 3):
            producer.send_and_wait("measured", "y", partition=number, timestamp_ms=FIRST_MS + 90_000)
    del asked[:]
    site.look()
    assert asked[0] >= {measured(1), measured(3)}
    assert len(asked[0]) <= 3
    assert seconds(site) == {0: 60.0, 1: 90.0, 2: 60.0, 3: 90.0, 4: 60.0}


def test_a_topic_that_was_made_again_has_times_of_its_own(site, cluster):
    cluster.admin.topics.delete("measured")
    cluster.admin.groups.delete("measuring")
    fill(cluster, FIRST_MS + 3_600_000)
    until(
        lambda: site.look() or set(newest(site).values()) == {FIRST_MS + 3_660_000},
        "the newest times of the new topic",
    )
    # From its own first record to its own last one.
    until(lambda: site.look() or set(seconds(site).values()) == {60.0}, "the times of the new records")


def test_a_log_with_another_leader_is_looked_at_again(site, cluster, asked):
    cluster.admin.partitions.reassign({measured(2): [1]})

    def has_moved():
        site.look()
        return site.get("/topics/measured")["partitions"][2]["leader"]["value"] == 1

    # Whatever is asked for by turns is asked by now.
    del asked[:]
    until(has_moved, "the partition to have its other leader")
    assert measured(2) in asked[-1]
