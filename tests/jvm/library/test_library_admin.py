"""Topics, configurations, records, groups and their offsets, by the admin client."""

import pytest

from barnabas.admin import Admin, ConfigResource, GroupState, NewPartitions, NewTopic
from barnabas.client import Consumer, Producer, TopicPartition
from barnabas.core.config import Source
from barnabas.core.errors import ErrorCode, KafkaError
from waiting import until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def topic(bootstrap, topic_name):
    name = topic_name("admin")
    with Admin(bootstrap) as admin:
        admin.topics.create(NewTopic(name, partitions=3, configs={"retention.ms": "-1"}))
    return name


def code_of(call, *arguments):
    with pytest.raises(KafkaError) as refused:
        call(*arguments)
    return refused.value.code


def test_admin_errors_are_those_of_kafka(bootstrap, topic):
    with Admin(bootstrap) as admin:
        results = admin.topics.try_create(
            [
                NewTopic(topic),
                NewTopic("bad name"),
                NewTopic("many", 1, 9),
                NewTopic("cfg", configs={"x": "y"}),
            ]
        )
        assert {name: result.code for name, result in results.items()} == {
            topic: ErrorCode.TOPIC_ALREADY_EXISTS,
            "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
            "many": ErrorCode.INVALID_REPLICATION_FACTOR,
            "cfg": ErrorCode.INVALID_CONFIG,
        }
        config = admin.configs.describe(ConfigResource.topic(topic))[ConfigResource.topic(topic)]
        assert config["retention.ms"].source is Source.TOPIC
        assert config["segment.bytes"].source is Source.DEFAULT
        assert admin.cluster.describe().controller is not None


def test_a_topic_from_its_creation_to_its_end(bootstrap, topic):
    with Admin(bootstrap) as admin:
        admin.topics.create_partitions({topic: NewPartitions(5)})
        until(lambda: len(admin.topics.describe([topic])[topic].partitions) == 5, "two more partitions")
        assert (
            code_of(admin.topics.create_partitions, {topic: NewPartitions(4)}) is ErrorCode.INVALID_PARTITIONS
        )
        (described,) = admin.topics.describe([topic]).values()
        assert [one.partition for one in described.partitions] == list(range(5))
        assert topic in {one.name for one in admin.topics.list()}
        admin.topics.delete([topic])
        until(lambda: topic not in {one.name for one in admin.topics.list()}, "it is gone")
        assert code_of(admin.topics.delete, [topic]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert code_of(admin.topics.describe, [topic]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_configurations_are_set_deleted_and_checked(bootstrap, topic):
    resource = ConfigResource.topic(topic)
    with Admin(bootstrap) as admin:

        def value(key):
            return admin.configs.describe(resource)[resource][key].value

        default = value("segment.bytes")
        admin.configs.alter({resource: {"segment.bytes": "2097152", "cleanup.policy": "compact"}})
        until(lambda: value("segment.bytes") == "2097152", "it is set")
        assert value("cleanup.policy") == "compact"
        admin.configs.alter({resource: {"segment.bytes": None}})
        until(lambda: value("segment.bytes") == default, "it is the default again")
        for wrong in ({"segment.bytes": "many"}, {"no.such.key": "1"}, {"cleanup.policy": "burn"}):
            assert code_of(admin.configs.alter, {resource: wrong}) is ErrorCode.INVALID_CONFIG
        assert value("cleanup.policy") == "compact"


def test_records_are_deleted_up_to_an_offset(bootstrap, topic):
    tp = TopicPartition(topic, 0)
    with Producer(bootstrap) as producer:
        for number in range(10):
            producer.send(topic, str(number), partition=0)
    with Admin(bootstrap) as admin:
        assert admin.partitions.delete_records({tp: 4}) == {tp: 4}
        assert code_of(admin.partitions.delete_records, {tp: 11}) is ErrorCode.OFFSET_OUT_OF_RANGE
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        records = until(lambda: consumer.poll(1000), "what is left")
    assert records[0].offset == 4


def test_offsets_of_a_group_are_altered_and_deleted(bootstrap, topic):
    group, first, second = f"{topic}-group", TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Admin(bootstrap) as admin:
        admin.groups.alter_offsets(group, {first: 0, second: 0})
        assert {tp: one.offset for tp, one in admin.groups.offsets([group])[group].items()} == {
            first: 0,
            second: 0,
        }
        admin.groups.delete_offsets(group, [second])
        assert admin.groups.offsets([group])[group].keys() == {first}
        described = admin.groups.describe([group])[group]
        assert (described.state, list(described.members)) == (GroupState.EMPTY, [])
        admin.groups.delete([group])
        assert group not in {one.group_id for one in admin.groups.list()}
        assert code_of(admin.groups.delete, [group]) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_with_members_is_described_and_kept(bootstrap, topic):
    group = f"{topic}-living"
    with Consumer(bootstrap, group_id=group, client_id="reader") as consumer, Admin(bootstrap) as admin:
        consumer.subscribe([topic])
        until(lambda: consumer.poll(100) is not None and len(consumer.assignment()) == 3, "it joins")
        consumer.commit({TopicPartition(topic, 0): 0})
        described = admin.groups.describe([group])[group]
        assert (described.state, described.assignor) == (GroupState.STABLE, "range")
        (member,) = described.members
        assert (member.client_id, set(member.assignment)) == ("reader", set(consumer.assignment()))
        assert code_of(admin.groups.delete, [group]) is ErrorCode.NON_EMPTY_GROUP
        refused = admin.groups.try_delete_offsets(group, [TopicPartition(topic, 0)])
        assert [error.code for error in refused.values()] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
