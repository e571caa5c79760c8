"""KIP-73 on the leader: a throttled replica that is not in sync gets nothing while the quota is exceeded."""

import pytest

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.replica.quota import FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS, ReplicationQuotas

TOPIC_ID = b"\7" * 16
IN_SYNC, BEHIND = 2, 3
WAIT_MS = 500


def fetch(replica, offset=0, partitions=(0,), max_wait_ms=WAIT_MS):
    entries = [
        FetchPartition(
            partition=each, fetch_offset=offset, current_leader_epoch=0, partition_max_bytes=1 << 20
        )
        for each in partitions
    ]
    return FetchRequest(
        replica_state=ReplicaState(replica_id=replica, replica_epoch=-1),
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=entries)],
    )


def sizes(response):
    assert all(each.error_code == 0 for topic in response.responses for each in topic.partitions)
    return {
        each.partition_index: len(each.records) for topic in response.responses for each in topic.partitions
    }


@pytest.fixture
def quotas(world, make_batch):
    """Two partitions with records; the first is throttled, and its quota exceeded."""
    world.create(partitions=2, isr=(1, IN_SYNC), replicas=(1, IN_SYNC, BEHIND), topic_id=TOPIC_ID)
    for partition in (0, 1):
        world.produce(partition=partition, records=make_batch(10))
    quotas = world.replicas.quotas
    quotas.topic_configured("orders", {LEADER_REPLICAS: "0:1,1:2"})
    quotas.broker_configured({LEADER_RATE: 10})
    quotas.leader.record(10_000)
    return quotas


@pytest.mark.usefixtures("quotas")
def test_a_replica_in_sync_is_never_throttled(world):
    assert sizes(world.send(fetch(IN_SYNC), 15))[0] > 0


@pytest.mark.usefixtures("quotas")
def test_a_throttled_partition_is_left_out_and_another_is_not(world):
    found = sizes(world.send(fetch(BEHIND, partitions=(0, 1)), 15))
    assert found[0] == 0
    assert found[1] > 0


def test_the_broker_with_the_id_0_is_throttled_like_any(world, make_batch):
    world.create(isr=(1,), replicas=(1, 0), topic_id=TOPIC_ID)
    world.produce(records=make_batch(10))
    quotas = world.replicas.quotas
    quotas.topic_configured("orders", {LEADER_REPLICAS: "*"})
    quotas.broker_configured({LEADER_RATE: 10})
    before = world.replicas.topic_stats.total().bytes_out

    assert sizes(world.send(fetch(0), 15))[0] > 0
    assert world.replicas.topic_stats.total().bytes_out == before, "what a replica gets is no consumer's"
    assert quotas.leader.is_exceeded()
    answer = world.start(fetch(0), 15)
    world.produce()
    assert answer() is None


@pytest.mark.usefixtures("quotas")
def test_a_throttled_fetch_waits_its_time(world):
    answer = world.start(fetch(BEHIND), 15)
    world.produce()
    assert answer() is None, "an append does not wake what may not have it"
    world.clock.advance(WAIT_MS)
    assert sizes(answer()) == {0: 0}


@pytest.mark.parametrize("many", [1, 120])
def test_it_goes_on_when_the_quota_is_there_again(world, make_batch, many):
    world.create(partitions=many, isr=(1,), replicas=(1, BEHIND), topic_id=TOPIC_ID)
    world.produce(records=make_batch(10))
    quotas = world.replicas.quotas
    quotas.topic_configured("orders", {LEADER_REPLICAS: "*"})
    quotas.broker_configured({LEADER_RATE: 1000})
    quotas.leader.record(1200)
    answer = world.start(fetch(BEHIND, partitions=range(many), max_wait_ms=2000), 15)
    assert answer() is None
    world.clock.advance(2000)
    assert sizes(answer())[0] > 0


def test_what_is_sent_counts(world, quotas):
    quotas.broker_configured({LEADER_RATE: 10_000 + 10})
    assert not quotas.leader.is_exceeded()
    world.send(fetch(IN_SYNC, partitions=(1,)), 15)
    assert not quotas.leader.is_exceeded(), "this one is not throttled"
    world.send(fetch(IN_SYNC), 15)
    assert quotas.leader.is_exceeded(), "in sync or not"


def test_consumers_count_for_nothing(world, quotas):
    quotas.broker_configured({LEADER_RATE: 10_000 + 10})
    partitions = [FetchPartition(partition=0, partition_max_bytes=1 << 20)]
    world.partition().log.high_watermark = 10
    request = FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(topic="orders", partitions=partitions)])
    assert sizes(world.send(request, 12))[0] > 0
    assert not quotas.leader.is_exceeded()


def test_a_throttle_that_is_taken_back_holds_nothing(world, quotas):
    quotas.topic_configured("orders", {})
    assert sizes(world.send(fetch(BEHIND), 15))[0] > 0
    assert not quotas.leader.active


def test_a_fetch_out_of_range_is_an_error_though_it_is_throttled(world, quotas):
    assert quotas.leader.is_exceeded()
    answer = world.send(fetch(BEHIND, offset=99), 15)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("value", "throttled"),
    [("*", {0, 1, 2}), ("0:1,2:1,1:2", {0, 2}), (" 1:1 , 2:7", {1}), ("1:7", set()), ("", set())],
)
def test_the_list_of_a_topic_names_brokers(world, value, throttled):
    quotas = ReplicationQuotas(1, world.config, world.clock)
    quotas.topic_configured("orders", {FOLLOWER_REPLICAS: value})
    found = {number for number in range(3) if quotas.follower.is_throttled(TopicPartition("orders", number))}
    assert found == throttled
    assert not quotas.leader.active
