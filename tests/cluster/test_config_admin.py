"""Settings of topics and brokers are changed:
what may be set, in Kafka's words, and what is in the store then.
"""

import pytest

from barnabas.cluster.metadata.config_admin import ConfigOp, OpType
from barnabas.cluster.store.znodes import ConfigChange
from barnabas.core.broker_config import broker_config
from barnabas.core.config import Source
from barnabas.core.dynamic_broker_config import DynamicBrokerConfig
from barnabas.core.errors import ConfigError, ErrorCode, KafkaError


@pytest.fixture
def cluster(make_cluster):
    made = make_cluster(0, 1)
    made.create("t", {0: [0]}, configs={"retention.ms": "5000"})
    return made


def set_to(name, value):
    return ConfigOp(name, 0, value)  # as it comes from the wire


def alter_topic(cluster, change, topic="t", **options):
    cluster.wait(
        cluster.brokers[1].config_admin.alter_topic(topic, change, **{"validate_only": False, **options})
    )
    cluster.settle()


def alter_broker(cluster, name, change, **options):
    cluster.wait(
        cluster.brokers[1].config_admin.alter_broker(name, change, **{"validate_only": False, **options})
    )
    cluster.settle()


def stored(cluster, kind, entity):
    return cluster.wait(cluster.brokers[0].configs.read(kind, entity))


def test_single_settings_of_a_topic_change_and_every_broker_hears_of_it(cluster):
    alter_topic(cluster, [set_to("segment.bytes", "2000"), ConfigOp("retention.ms", OpType.DELETE, "")])

    assert stored(cluster, "topics", "t") == {"segment.bytes": "2000"}
    for broker in cluster.brokers.values():
        assert broker.changes == [(ConfigChange("topics", "t"), {"segment.bytes": "2000"})]
        assert broker.configs.topic("t") == {"segment.bytes": "2000"}


def test_all_settings_of_a_topic_are_replaced(cluster):
    alter_topic(cluster, {"segment.bytes": "2000"})

    assert stored(cluster, "topics", "t") == {"segment.bytes": "2000"}


def test_a_broker_that_changes_a_topic_knows_it_at_once(cluster):
    cluster.wait(cluster.brokers[1].config_admin.alter_topic("t", {"segment.ms": "7"}, validate_only=False))

    assert cluster.brokers[1].configs.topic("t") == {"segment.ms": "7"}


def test_items_are_added_to_a_list_and_taken_from_it(cluster):
    add = ConfigOp("cleanup.policy", OpType.APPEND, "compact")
    alter_topic(cluster, [add])
    assert stored(cluster, "topics", "t")["cleanup.policy"] == "delete,compact", "behind the default"
    alter_topic(cluster, [add])
    assert stored(cluster, "topics", "t")["cleanup.policy"] == "delete,compact"
    alter_topic(cluster, [ConfigOp("cleanup.policy", OpType.SUBTRACT, "delete")])
    assert stored(cluster, "topics", "t")["cleanup.policy"] == "compact"


@pytest.mark.parametrize("kind", [9, -1])
@pytest.mark.parametrize("topic", ["t", "nowhere"])
def test_an_operation_that_there_is_not_fails_as_in_kafka(cluster, kind, topic):
    with pytest.raises(KafkaError) as refused:
        alter_topic(cluster, [set_to("segment.bytes", "2000"), ConfigOp("retention.ms", kind, "1")], topic)

    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert refused.value.own_message is None
    assert stored(cluster, "topics", "t") == {"retention.ms": "5000"}


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (ConfigOp("cleanup.policy", OpType.APPEND, "burn"), "burn"),
        (ConfigOp("cleanup.policy", OpType.APPEND, "compact,burn,sink"), "burn"),
        (set_to("cleanup.policy", "delete, burn"), "burn"),
        (ConfigOp("cleanup.policy", OpType.APPEND, ""), ""),
        (set_to("leader.replication.throttled.replicas", "0:0, x"), "[0:0, x]"),
        (set_to("segment.bytes", " +3 "), "3"),
        (set_to("segment.bytes", " x "), " x "),
        (set_to("min.cleanable.dirty.ratio", "2"), "2.0"),
    ],
)
def test_a_refusal_names_the_value_as_kafka_does(cluster, change, shown):
    with pytest.raises(KafkaError) as refused:
        alter_topic(cluster, [change])

    assert f": Invalid value {shown} for configuration {change.name}: " in str(refused.value)


JMX = "org.apache.kafka.common.metrics.JmxReporter"


@pytest.mark.parametrize("name", ["", "1"])
@pytest.mark.parametrize(
    "value", ["org.nowhere.Reporter", "java.lang.String", f"{JMX}, org.nowhere.Reporter"]
)
def test_a_class_that_brokers_on_java_would_not_find_is_not_written(cluster, name, value):
    with pytest.raises(KafkaError) as refused:
        alter_broker(cluster, name, [set_to("metric.reporters", value)])

    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert str(refused.value).endswith("could not be found.")
    assert stored(cluster, "brokers", name or "<default>") == {}


def test_a_class_of_kafka_may_be_set(cluster):
    alter_broker(cluster, "", [set_to("metric.reporters", JMX)])

    assert stored(cluster, "brokers", "<default>") == {"metric.reporters": JMX}


@pytest.mark.parametrize("size", [999_900, 1_000_000])
def test_settings_that_no_znode_can_hold_are_refused(cluster, size):
    change = [set_to("leader.replication.throttled.replicas", ",".join(["0:0"] * (size // 4)))]
    if size < 1_000_000:
        alter_topic(cluster, change)
        return
    with pytest.raises(KafkaError, match="larger than the 1000000 bytes") as refused:
        alter_topic(cluster, change)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_validation_only_changes_nothing(cluster):
    before = cluster.paths()
    alter_topic(cluster, {"segment.bytes": "2000"}, validate_only=True)
    alter_broker(cluster, "", {"log.retention.ms": "2000"}, validate_only=True)

    assert stored(cluster, "topics", "t") == {"retention.ms": "5000"}
    assert cluster.paths() == before


@pytest.mark.parametrize(
    ("topic", "change", "code", "message"),
    [
        ("", {}, "INVALID_REQUEST", "Default topic resources are not allowed."),
        ("nope", {}, "UNKNOWN_TOPIC_OR_PARTITION", "The topic 'nope' does not exist."),
        ("t", {"nope": "1"}, "INVALID_CONFIG", "Unknown topic config name: nope"),
        (
            "t",
            {"retention.ms": "soon"},
            "INVALID_CONFIG",
            (
                "Invalid config value for resource ConfigResource(type=TOPIC, name='t'): Invalid value soon "
                "for configuration retention.ms: Not a number of type LONG"
            ),
        ),
        (
            "t",
            [ConfigOp("retention.ms", OpType.APPEND, "1")],
            "INVALID_CONFIG",
            "Config value append is not allowed for config key: retention.ms",
        ),
        (
            "t",
            [ConfigOp("nope", OpType.SUBTRACT, "1")],
            "INVALID_CONFIG",
            "Unknown config name: nope",
        ),
    ],
)
def test_refusals_for_topics(cluster, topic, change, code, message):
    with pytest.raises(KafkaError) as caught:
        alter_topic(cluster, change, topic)
    assert (caught.value.code, caught.value.message) == (ErrorCode[code], message)
    assert stored(cluster, "topics", "t") == {"retention.ms": "5000"}


def test_settings_of_a_broker_and_of_all(cluster):
    alter_broker(cluster, "1", [set_to("log.retention.ms", "1000")])
    alter_broker(cluster, "", [set_to("log.retention.ms", "2000"), set_to("custom", "x")])

    assert stored(cluster, "brokers", "1") == {"log.retention.ms": "1000"}
    assert stored(cluster, "brokers", "<default>") == {"log.retention.ms": "2000", "custom": "x"}
    assert [change for change, _ in cluster.brokers[0].changes] == [
        ConfigChange("brokers", "1"),
        ConfigChange("brokers", "<default>"),
    ]


def test_the_first_settings_of_a_broker_are_never_seen_empty(cluster):
    """A znode that is made and then written could be read in between, or stay empty after a crash."""
    alter_broker(cluster, "1", [set_to("log.retention.ms", "1000")])

    _, stat = cluster.wait(cluster.brokers[0].store.get("/config/brokers/1"))
    assert stat.version == 0


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("7", "log.retention.ms", "1", "Unexpected broker id, expected 1, but received 7"),
        ("one", "log.retention.ms", "1", "Node id must be an integer, but it is: one"),
        ("1", "log.dir", "/x", "Cannot update these configs dynamically: Set(log.dir)"),
        (
            "1",
            "log.retention.ms",
            "x",
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            "",
            "leader.replication.throttled.rate",
            "-1",
            "Invalid value -1 for configuration leader.replication.throttled.rate: Value must be at least 0",
        ),
    ],
)
def test_refusals_for_brokers(cluster, name, key, value, message):
    with pytest.raises(KafkaError) as caught:
        alter_broker(cluster, name, {key: value})

    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_REQUEST, message)


# --------------------------------------------------------------------------------- the layers


def test_a_brokers_value_wins_over_that_of_all_and_that_over_the_file():
    dynamic = DynamicBrokerConfig(broker_config({"log.retention.ms": "1"}))
    assert dynamic.update({"log.retention.ms": "2"}, per_broker=False) == {"log.retention.ms"}
    assert dynamic.update({"log.retention.ms": "3"}, per_broker=True) == {"log.retention.ms"}

    config = dynamic.current
    assert config["log.retention.ms"] == 3
    assert config.layers("log.retention.ms") == [
        (Source.DYNAMIC_BROKER, 3),
        (Source.DYNAMIC_DEFAULT_BROKER, 2),
        (Source.STATIC_BROKER, 1),
    ]
    assert dynamic.update({}, per_broker=False) == frozenset()
    assert dynamic.update({}, per_broker=True) == {"log.retention.ms"}
    assert dynamic.current["log.retention.ms"] == 1
    assert dynamic.current.layers("log.retention.ms") == [(Source.STATIC_BROKER, 1)]


def test_what_may_not_be_set_is_left_out_of_a_znode(caplog):
    dynamic = DynamicBrokerConfig(broker_config({}))
    dynamic.update(
        {"log.dir": "/x", "log.retention.ms": "soon", "log.segment.bytes": "2000"}, per_broker=True
    )

    assert dynamic.current["log.segment.bytes"] == 2000
    assert dynamic.current["log.retention.ms"] is None
    assert caplog.text.count("config.ignored") == 2
    with pytest.raises(ConfigError, match="Cannot update these configs dynamically"):
        dynamic.validate({"log.dir": "/x"}, per_broker=True)


@pytest.mark.parametrize("value", ["0:1," * 300_000, "€" * 400_000], ids=["letters", "bytes"])
def test_settings_that_no_znode_takes_are_refused(cluster, value):
    """ZooKeeper ends the connection on which they come, again and again:
    the broker would write nothing any more.
    """
    name = "leader.replication.throttled.replicas"
    for refused in (
        lambda: alter_topic(cluster, [set_to(name, value)]),
        lambda: alter_topic(cluster, {name: value}),
        lambda: alter_broker(cluster, "", {"some.key": value}),
        lambda: cluster.create("large", {0: [0]}, configs={name: value}),
    ):
        with pytest.raises(KafkaError, match="larger than the 1000000 bytes") as error:
            refused()
        assert error.value.code is ErrorCode.INVALID_CONFIG


def test_a_list_does_not_grow_beyond_what_a_znode_takes(cluster):
    """Quadratic work on lists as long as these would hold up the broker for minutes."""
    name, half = "leader.replication.throttled.replicas", ",".join(f"{each}:1" for each in range(70_000))
    alter_topic(cluster, [set_to(name, half)])
    with pytest.raises(KafkaError, match="larger than the 1000000 bytes"):
        alter_topic(cluster, [ConfigOp(name, OpType.APPEND, half.replace(":1", ":2"))])
    alter_topic(cluster, [ConfigOp(name, OpType.SUBTRACT, half.removesuffix(",69999:1"))])
    assert stored(cluster, "topics", "t")[name] == "69999:1"
