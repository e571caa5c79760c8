"""The admin client: verbs by noun, an error for each part, controllers and leaders that move."""

import pytest

from barnabas.admin import Admin, AsyncAdmin, ConfigResource, NewTopic
from barnabas.client import ClientTimeoutError, OffsetAndTimestamp, TopicPartition
from barnabas.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP
from barnabas.core.config import Source
from barnabas.core.errors import ConfigError, ErrorCode, KafkaError
from barnabas.network.errors import UnsupportedVersionError
from barnabas.protocol.api import ApiKey
from barnabas.records.batch import build_batch
from barnabas.records.record import Record

FAST = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20}


def with_admin(fake, body, nodes=1, **options):
    async def scenario():
        async with fake(nodes) as cluster, AsyncAdmin(cluster.bootstrap, **FAST, **options) as admin:
            await body(cluster, admin)

    return scenario()


def test_topics_come_and_go(run, fake):
    async def body(cluster, admin):
        made = await admin.topics.create(
            [NewTopic("a", partitions=3), NewTopic("b", assignment={0: [1], 1: [1]})]
        )
        assert (made["a"].partitions, made["a"].topic_id) == (3, cluster.topic_id("a"))
        assert [one.name for one in await admin.topics.list()] == ["a", "b"]
        described = await admin.topics.describe(["a", "b"])
        assert [one.leader for one in described["a"].partitions] == [1, 1, 1]
        assert len(described["b"].partitions) == 2
        await admin.topics.delete("a")
        assert list(await admin.topics.describe_all()) == ["b"]

    run(with_admin(fake, body))


def test_a_topic_may_be_named_without_a_list(run, fake):
    async def body(cluster, admin):
        cluster.add_topic("trap")
        assert list(await admin.topics.describe("trap")) == ["trap"]
        assert list(await admin.topics.try_describe("t")) == ["t"]
        assert (await admin.topics.try_create(NewTopic("one")))["one"].name == "one"
        await admin.topics.try_delete("trap")
        assert list(await admin.topics.describe_all()) == ["one"]

    run(with_admin(fake, body))


def test_options_reach_the_broker(run, fake):
    async def body(cluster, admin):
        await admin.topics.create(NewTopic("a", configs={"retention.ms": "5"}), validate_only=True)
        assert cluster.topics == {}
        (request,) = cluster.requests(ApiKey.CREATE_TOPICS)
        topic = request.topics[0]
        assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
        assert [(one.name, one.value) for one in topic.configs] == [("retention.ms", "5")]

    run(with_admin(fake, body))


def test_each_part_has_its_own_error(run, fake):
    async def body(cluster, admin):
        cluster.add_topic("old")
        results = await admin.topics.try_create([NewTopic("old"), NewTopic("new")])
        assert results["old"].code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert results["new"].name == "new"
        with pytest.raises(
            KafkaError,
            match="Topic 'old' already exists",
            check=lambda error: error.code is ErrorCode.TOPIC_ALREADY_EXISTS,
        ):
            await admin.topics.create(NewTopic("old"))
        deleted = await admin.topics.try_delete(["new", "never"])
        assert (deleted["new"], deleted["never"].code) == (None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        with pytest.raises(
            KafkaError,
            match=r"topic never",
            check=lambda error: error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ):
            await admin.topics.describe(["old", "never"])

    run(with_admin(fake, body))


def test_the_controller_is_looked_up_again_when_it_moves(run, fake):
    async def body(cluster, admin):
        await admin.topics.create(NewTopic("a"))
        cluster.controller = 2
        await admin.topics.create(NewTopic("b"))
        await admin.topics.delete("a")
        assert list(cluster.topics) == ["b"]

    run(with_admin(fake, body, nodes=2))


def test_a_cluster_without_a_controller_is_an_error_in_time(run, fake):
    async def body(cluster, admin):
        cluster.controller = -1
        cluster.hidden.add(9)
        admin._cluster.metadata = type(admin._cluster.metadata)()
        with pytest.raises(ClientTimeoutError, match=r"The controller did not answer in 100 ms"):
            await admin.topics.create(NewTopic("a"), timeout_ms=100)

    run(with_admin(fake, body))


def filled(cluster):
    cluster.add_topic("t", 4)
    for partition in range(4):
        records = [Record(index, 1000 + index, None, b"v", ()) for index in range(partition)]
        if records:
            cluster.append("t", partition, build_batch(records))


def test_offsets_are_asked_of_each_leader_once(run, fake):
    async def body(cluster, admin):
        filled(cluster)
        wanted = {TopicPartition("t", number): LATEST_TIMESTAMP for number in range(4)}
        found = await admin.offsets.list(wanted)
        assert {tp.partition: one.offset for tp, one in found.items()} == {0: 0, 1: 1, 2: 2, 3: 3}
        assert len(cluster.requests(ApiKey.LIST_OFFSETS)) == 2
        assert await admin.offsets.list({TopicPartition("t", 3): 1001}) == {
            TopicPartition("t", 3): OffsetAndTimestamp(1, 1001, -1)
        }

    run(with_admin(fake, body, nodes=2))


def test_only_the_partition_whose_leader_moved_is_asked_again(run, fake):
    async def body(cluster, admin):
        filled(cluster)
        wanted = {TopicPartition("t", number): EARLIEST_TIMESTAMP for number in range(4)}
        await admin.offsets.list(wanted)
        cluster.leaders["t", 0] = 2
        cluster.epochs["t", 0] += 1
        cluster.seen.clear()
        assert len(await admin.offsets.list(wanted)) == 4
        asked = [
            [(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions]
            for request in cluster.requests(ApiKey.LIST_OFFSETS)
        ]
        assert sorted(map(len, asked)) == [1, 2, 2]
        assert [("t", 0)] in asked

    run(with_admin(fake, body, nodes=2))


def test_errors_of_offsets_are_per_partition_and_in_time(run, fake):
    async def body(cluster, admin):
        filled(cluster)
        results = await admin.offsets.try_list(
            {TopicPartition("t", 1): LATEST_TIMESTAMP, TopicPartition("never", 0): LATEST_TIMESTAMP},
            timeout_ms=100,
        )
        assert results[TopicPartition("t", 1)].offset == 1
        assert results[TopicPartition("never", 0)].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(with_admin(fake, body))


def test_an_old_broker_is_not_asked_for_a_special_time_it_does_not_know(run, fake):
    async def body(cluster, admin):
        filled(cluster)
        cluster.versions[ApiKey.LIST_OFFSETS] = (1, 6)
        results = await admin.offsets.try_list({TopicPartition("t", 1): MAX_TIMESTAMP})
        assert isinstance(results[TopicPartition("t", 1)], UnsupportedVersionError)
        assert cluster.requests(ApiKey.LIST_OFFSETS) == []

    run(with_admin(fake, body))


def test_each_broker_speaks_for_its_own_configuration(run, fake):
    async def body(cluster, admin):
        cluster.add_topic("t")
        configs = await admin.configs.describe(
            [ConfigResource.topic("t"), ConfigResource.broker(1), ConfigResource.broker(2)]
        )
        assert configs[ConfigResource.broker(2)]["answered.by"].value == "2"
        assert configs[ConfigResource.broker(1)]["answered.by"].value == "1"
        entry = configs[ConfigResource.topic("t")]["retention.ms"]
        assert (entry.value, entry.source, entry.is_default) == ("1000", Source.TOPIC, False)

    run(with_admin(fake, body, nodes=2))


def test_the_cluster_describes_itself(run, fake):
    async def body(cluster, admin):
        described = await admin.cluster.describe()
        assert described.cluster_id == "fake"
        assert described.controller.node_id == 1
        assert [broker.port for broker in described.brokers] == [cluster.ports[1], cluster.ports[2]]

    run(with_admin(fake, body, nodes=2))


def test_a_call_must_outlast_a_request():
    with pytest.raises(ConfigError, match=r"must be no smaller than the value of request.timeout.ms"):
        AsyncAdmin("127.0.0.1:1", default_api_timeout_ms=10, request_timeout_ms=20)
    assert AsyncAdmin("127.0.0.1:1", request_timeout_ms=90_000)._context.timeout_ms == 90_000


def test_the_blocking_face_has_the_same_verbs():
    with (
        pytest.raises(ClientTimeoutError, match=r"No broker of 127.0.0.1:1 answered"),
        Admin("127.0.0.1:1", default_api_timeout_ms=100, request_timeout_ms=100),
    ):
        pass
