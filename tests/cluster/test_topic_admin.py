"""Creating and deleting topics, with Kafka's words where it is refused; configuration and its notices."""

import random

import pytest

from barnabas.cluster.leadership import ReplicaAssignment, TopicAssignment
from barnabas.cluster.metadata.topics import NewTopic
from barnabas.cluster.store import znodes
from barnabas.cluster.store.znodes import ConfigChange
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import ZERO_UUID, random_uuid, uuid_text


@pytest.fixture
def cluster(make_cluster):
    return make_cluster(0, 1, 2)


def create(cluster, topic, **options):
    return cluster.wait(cluster.controller.topics.create(topic, **options))


def test_defaults_are_the_brokers(cluster):
    created = create(cluster, NewTopic("t"))

    assert (created.num_partitions, created.replication_factor) == (1, 1)
    assert created.config["retention.ms"] == 604_800_000


def test_numbers_and_configs(cluster):
    created = create(cluster, NewTopic("t", 6, 3, configs={"segment.bytes": "1000"}))

    assert (created.num_partitions, created.replication_factor) == (6, 3)
    assert created.config["segment.bytes"] == 1000
    data, _ = cluster.wait(cluster.brokers[0].store.get("/brokers/topics/t"))
    assert znodes.decode_topic(data).topic_id == created.topic_id
    assert cluster.wait(cluster.brokers[0].configs.read("topics", "t")) == {"segment.bytes": "1000"}


def test_racks_are_kept_apart(make_cluster):
    cluster = make_cluster(0, 1, 2, 3, racks={0: "a", 1: "a", 2: "b", 3: "b"})
    created = create(cluster, NewTopic("t", 8, 2))

    assert all(len({broker < 2 for broker in replicas}) == 2 for replicas in created.assignments.values())


def test_validation_only_writes_nothing(cluster):
    before = cluster.paths()
    created = create(cluster, NewTopic("t", 3, 2), validate_only=True)

    assert (created.num_partitions, created.topic_id) == (3, ZERO_UUID)
    assert cluster.paths() == before


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (NewTopic("there"), "TOPIC_ALREADY_EXISTS", "Topic 'there' already exists."),
        (NewTopic("a/b"), "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: 'a/b' contains one or more"),
        (NewTopic(""), "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: the empty string is not allowed"),
        (NewTopic("there", configs={"a": None}), "TOPIC_ALREADY_EXISTS", "Topic 'there' already exists."),
        (
            NewTopic("x_y"),
            "INVALID_TOPIC_EXCEPTION",
            "Topic 'x_y' collides with existing topics: x.y",
        ),
        (NewTopic("t", 0), "INVALID_PARTITIONS", "Number of partitions must be larger than 0."),
        (
            NewTopic("t", 1, 4),
            "INVALID_REPLICATION_FACTOR",
            "Replication factor: 4 larger than available brokers: 3.",
        ),
        (
            NewTopic("t", 1, assignments={0: [1]}),
            "INVALID_REQUEST",
            (
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time."
            ),
        ),
        (
            NewTopic("t", assignments={0: [1], 1: [1, 2]}),
            "INVALID_REPLICA_ASSIGNMENT",
            "All partitions should have the same number of replicas",
        ),
        (
            NewTopic("t", assignments={0: [1, 1]}),
            "INVALID_REPLICA_ASSIGNMENT",
            "Duplicate replica assignment found: HashMap(0 -> ArrayBuffer(1, 1))",
        ),
        (
            NewTopic("t", assignments={0: [1], 2: [1]}),
            "INVALID_REPLICA_ASSIGNMENT",
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            NewTopic("t", assignments={0: [1], 1: [-1]}),
            "INVALID_REPLICA_ASSIGNMENT",
            "Unknown broker(s) in replica assignment: -1.",
        ),
        (
            NewTopic("t", configs={"a": None, "b": None}),
            "INVALID_CONFIG",
            "Null value not supported for topic configs: a,b",
        ),
        (NewTopic("t", configs={"nope": "1"}), "INVALID_CONFIG", "Unknown topic config name: nope"),
        (
            NewTopic("t", configs={"segment.bytes": "x"}),
            "INVALID_CONFIG",
            "Invalid value x for configuration segment.bytes: Not a number of type INT",
        ),
    ],
)
def test_refusals(cluster, topic, code, message):
    for name in ("there", "x.y"):
        create(cluster, NewTopic(name))
    cluster.settle()
    before = cluster.paths()
    with pytest.raises(KafkaError) as caught:
        create(cluster, topic)

    assert caught.value.code is ErrorCode[code]
    assert caught.value.message.startswith(message)
    assert cluster.paths() == before


def test_a_name_that_exists_in_the_store_only(cluster):
    create(cluster, NewTopic("t"))  # this broker was not told yet
    with pytest.raises(KafkaError, match=r"Topic 't' already exists\."):
        create(cluster, NewTopic("t"))


def test_two_creators_of_one_name(cluster):
    first = cluster.brokers[0].topics.create(NewTopic("t", configs={"retention.ms": "1"}))
    second = cluster.brokers[1].topics.create(NewTopic("t", configs={"retention.ms": "2"}))
    cluster.settle()

    assert [pending.error is None for pending in (first, second)].count(True) == 1
    failed = first if first.error else second
    assert failed.error.code is ErrorCode.TOPIC_ALREADY_EXISTS
    configs = cluster.wait(cluster.brokers[0].configs.read("topics", "t"))
    assert configs == {"retention.ms": "1" if failed is second else "2"}


def test_names_that_collide_and_are_created_at_once(cluster):
    topics = cluster.brokers[0].topics
    pending = [topics.create(NewTopic(name)) for name in ("a.b", "a_b", "other", "a.b")]
    cluster.settle()

    assert [each.error and str(each.error) for each in pending] == [
        None,
        "Topic 'a_b' collides with existing topics: a.b",
        None,
        "Topic 'a.b' already exists.",
    ]
    with pytest.raises(KafkaError, match=r"collides with existing topics: a\.b"):
        create(cluster, NewTopic("a_b"))


def test_names_that_collide_are_both_valid_while_neither_is_there(cluster):
    topics = cluster.brokers[0].topics
    pending = [topics.create(NewTopic(name), validate_only=True) for name in ("a.b", "a_b")]
    cluster.settle()

    assert [each.error for each in pending] == [None, None]


def test_a_name_that_is_being_deleted(cluster):
    cluster.create("t", {0: [0, 2]})
    cluster.brokers[2].stop()
    cluster.delete("t")
    with pytest.raises(KafkaError, match=r"Topic 't' is marked for deletion\."):
        create(cluster, NewTopic("t"))
    cluster.delete("t")  # once more is no error


def test_deleting_what_is_not_there(cluster):
    with pytest.raises(KafkaError) as caught:
        cluster.delete("t")

    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert caught.value.message == "Topic `t` to delete does not exist"


def test_topic_ids_are_fit_for_kafka():
    chooser = random.Random(1)
    texts = [uuid_text(random_uuid(chooser)) for _ in range(2000)]

    assert not [text for text in texts if text.startswith("-")]
    assert len(set(texts)) == 2000
    value = random_uuid(chooser)
    assert (value[6] >> 4, value[8] >> 6) == (4, 2)


# ---------------------------------------------------------------------------------- more partitions


@pytest.mark.parametrize(("replicas", "throttled"), [(200_000, 0), (100_000, 200_000)])
def test_a_topic_that_zookeeper_does_not_take_is_refused(cluster, replicas, throttled):
    """It would end the connection on which the topic comes, again and again."""
    configs = {"leader.replication.throttled.replicas": "0:1," * throttled}
    wanted = NewTopic("wide", assignments={0: list(range(replicas))}, configs=configs)
    with pytest.raises(KafkaError, match="larger than the 1000000 bytes") as error:
        cluster.wait(cluster.controller.topics.create(wanted))
    assert error.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def grow(cluster, topic, total, assignments=None, **options):
    return cluster.wait(cluster.controller.topics.create_partitions(topic, total, assignments, **options))


def assignment_of(cluster, topic):
    data, _ = cluster.wait(cluster.brokers[0].store.get(znodes.topic_path(topic)))
    return {partition: each.replicas for partition, each in znodes.decode_topic(data).partitions.items()}


def test_more_partitions_go_on_behind_the_first_leader(cluster):
    created = cluster.create("t", {0: [1, 2], 1: [2, 0]})
    assert grow(cluster, "t", 5) == 5
    cluster.settle()

    assert assignment_of(cluster, "t") == {0: (1, 2), 1: (2, 0), 2: (0, 2), 3: (1, 2), 4: (2, 0)}
    leaders = {
        partition: state.leader for partition, state in cluster.brokers[0].cache.partitions("t").items()
    }
    assert leaders == {0: 1, 1: 2, 2: 0, 3: 1, 4: 2}
    assert cluster.brokers[1].cache.topic_id("t") == created.topic_id, "it is the same topic"


def test_more_partitions_where_the_caller_says(cluster):
    cluster.create("t", {0: [1, 2]})
    grow(cluster, "t", 3, [[0, 1], [2, 0]])

    assert assignment_of(cluster, "t") == {0: (1, 2), 1: (0, 1), 2: (2, 0)}


def test_validating_more_partitions_writes_nothing(cluster):
    cluster.create("t", {0: [1, 2]})

    assert grow(cluster, "t", 3, validate_only=True) == 3
    assert assignment_of(cluster, "t") == {0: (1, 2)}


def test_two_who_add_partitions_at_once(cluster):
    cluster.create("t", {0: [1, 2]})
    first = cluster.brokers[0].topics.create_partitions("t", 2, None)
    second = cluster.brokers[1].topics.create_partitions("t", 2, None)
    cluster.settle()

    assert first.result() == 2
    assert second.error.message == "Topic already has 2 partitions.", "judged again by what the first wrote"


@pytest.mark.parametrize(
    ("topic", "count", "assignments", "code", "message"),
    [
        ("nope", 3, None, "UNKNOWN_TOPIC_OR_PARTITION", "The topic 'nope' does not exist."),
        ("a/b", 3, None, "UNKNOWN_TOPIC_OR_PARTITION", "The topic 'a/b' does not exist."),
        ("t", 2, None, "INVALID_PARTITIONS", "Topic already has 2 partitions."),
        (
            "t",
            -1,
            None,
            "INVALID_PARTITIONS",
            "Topic currently has 2 partitions, which is higher than the requested -1.",
        ),
        ("t", 3, [[7, 0, 9]], "INVALID_REPLICA_ASSIGNMENT", "Unknown broker(s) in replica assignment: 7, 9."),
        (
            "t",
            4,
            [[0, 1]],
            "INVALID_REPLICA_ASSIGNMENT",
            "Increasing the number of partitions by 2 but 1 assignments provided.",
        ),
        (
            "t",
            3,
            [[]],
            "INVALID_REPLICA_ASSIGNMENT",
            "Cannot have replication factor of 0 for partition id 2.",
        ),
        (
            "t",
            3,
            [[1, 1]],
            "INVALID_REPLICA_ASSIGNMENT",
            "Duplicate brokers not allowed in replica assignment: 1, 1 for partition id 2.",
        ),
        (
            "t",
            4,
            [[1], [0, 1, 2]],
            "INVALID_REPLICA_ASSIGNMENT",
            (
                "Inconsistent replication factor between partitions, partition 0 has 2 while partitions [2, "
                "3] have replication factors [1, 3], respectively."
            ),
        ),
        (
            "moving",
            4,
            None,
            "REASSIGNMENT_IN_PROGRESS",
            "A partition reassignment is in progress for the topic 'moving'.",
        ),
    ],
)
def test_refusals_of_more_partitions(cluster, topic, count, assignments, code, message):
    cluster.create("t", {0: [1, 2], 1: [2, 0]})
    moving = TopicAssignment(None, {0: ReplicaAssignment((1, 2), adding=(1,))})
    cluster.wait(cluster.brokers[0].store.create(znodes.topic_path("moving"), znodes.encode_topic(moving)))
    with pytest.raises(KafkaError) as caught:
        grow(cluster, topic, count, assignments)

    assert (caught.value.code, caught.value.message) == (ErrorCode[code], message)
    assert len(assignment_of(cluster, "t")) == 2


# --------------------------------------------------------------------------------- configuration


def test_every_broker_hears_of_a_change(cluster):
    cluster.create("t")
    cluster.wait(cluster.brokers[1].configs.write("topics", "t", {"retention.ms": "5"}))
    cluster.settle()

    for broker in cluster.brokers.values():
        assert broker.changes == [(ConfigChange("topics", "t"), {"retention.ms": "5"})]
        assert broker.configs.topic("t") == {"retention.ms": "5"}
    assert cluster.paths("/config/changes/") == {"/config/changes/config_change_0000000000"}


def test_changes_arrive_in_order_and_once(cluster):
    cluster.create("t")
    writer = cluster.brokers[0].configs
    writes = [writer.write("topics", "t", {"retention.ms": str(number)}) for number in range(5)]
    for write in writes:
        cluster.wait(write)
    cluster.settle()

    for broker in cluster.brokers.values():
        assert [change for change, _ in broker.changes] == [ConfigChange("topics", "t")] * 5
        assert broker.changes[-1][1] == {"retention.ms": "4"}


def test_settings_of_other_entities_are_passed_on(cluster):
    cluster.wait(cluster.brokers[0].configs.write("brokers", "<default>", {"log.cleaner.threads": "2"}))
    cluster.settle()

    assert cluster.brokers[2].changes == [
        (ConfigChange("brokers", "<default>"), {"log.cleaner.threads": "2"})
    ]


def test_a_new_topics_settings_are_read_when_its_replicas_come(cluster):
    cluster.create("t", configs={"retention.ms": "5"})
    configs = cluster.brokers[1].configs
    assert configs.topic("t") == {}

    cluster.wait(configs.ensure(["t", "unknown"]))
    assert configs.topic("t") == {"retention.ms": "5"}
    assert configs.topic("unknown") == {}
    configs.forget(["t"])
    assert configs.topic("t") == {}


def test_a_restarted_broker_reads_what_it_missed(cluster):
    cluster.create("t")
    cluster.brokers[2].stop()
    cluster.wait(cluster.brokers[0].configs.write("topics", "t", {"retention.ms": "5"}))
    cluster.brokers[2].start()

    assert cluster.brokers[2].configs.topic("t") == {"retention.ms": "5"}
    assert cluster.brokers[2].changes == []


def test_changes_during_an_expired_session_are_not_missed(cluster):
    cluster.create("t")
    broker = cluster.brokers[2]
    cluster.ensemble.expire(broker.store.session_id)
    cluster.wait(cluster.brokers[0].configs.write("topics", "t", {"retention.ms": "5"}))
    cluster.settle()

    assert broker.configs.topic("t") == {"retention.ms": "5"}


def test_old_notices_are_purged(cluster):
    cluster.create("t")
    writer = cluster.brokers[0].configs
    cluster.wait(writer.write("topics", "t", {}))
    cluster.clock.advance(16 * 60 * 1000)
    cluster.wait(writer.write("topics", "t", {"retention.ms": "5"}))
    cluster.settle()

    assert "/config/changes/config_change_0000000000" not in cluster.paths()
    assert cluster.brokers[1].configs.topic("t") == {"retention.ms": "5"}


def test_a_notice_that_cannot_be_read_does_not_stop_the_next(cluster):
    cluster.create("t")
    store = cluster.brokers[0].store
    cluster.wait(store.create("/config/changes/config_change_", b"{", sequence=True))
    cluster.wait(cluster.brokers[0].configs.write("topics", "t", {"retention.ms": "5"}))
    cluster.settle()

    assert cluster.brokers[1].configs.topic("t") == {"retention.ms": "5"}


def test_a_configuration_left_by_another_topic_is_replaced(cluster):
    cluster.wait(cluster.brokers[0].configs.write("topics", "t", {"retention.ms": "5"}))
    create(cluster, NewTopic("t", configs={"segment.bytes": "1000"}))

    assert cluster.wait(cluster.brokers[0].configs.read("topics", "t")) == {"segment.bytes": "1000"}


# ------------------------------------------------------------------------------------------- quotas


def test_what_is_made_and_removed_is_counted_and_what_is_only_validated_is_not(cluster):
    topics, counted = cluster.controller.topics, []
    cluster.wait(topics.create(NewTopic("t", 3, 1), validate_only=True, count=counted.append))
    assert counted == []
    cluster.wait(topics.create(NewTopic("t", 3, 1), count=counted.append))
    cluster.settle()
    grow(cluster, "t", 7, validate_only=True, count=counted.append)
    grow(cluster, "t", 7, count=counted.append)
    cluster.settle()
    cluster.wait(topics.delete("t", count=counted.append))
    assert counted == [3, 4, 7]


def test_what_a_quota_refuses_is_not_written(cluster):
    def refuse(_partitions):
        raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    topics = cluster.controller.topics
    create(cluster, NewTopic("t", 3, 1))
    cluster.settle()
    for attempt in (
        lambda: cluster.wait(topics.create(NewTopic("u", 3, 1), count=refuse)),
        lambda: grow(cluster, "t", 7, count=refuse),
        lambda: cluster.wait(topics.delete("t", count=refuse)),
    ):
        with pytest.raises(KafkaError) as refused:
            attempt()
        assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    cluster.settle()
    assert len(assignment_of(cluster, "t")) == 3
    store = cluster.brokers[0].store
    assert cluster.wait(store.exists(znodes.topic_path("u"))) is None
    assert cluster.wait(store.exists(znodes.delete_topic_path("t"))) is None
