import re
from pathlib import Path

import pytest

from barnabas.core.broker_config import BROKER_CONFIG, broker_config, log_directories, read_properties
from barnabas.core.config import ConfigType, Source, config_text
from barnabas.core.errors import ConfigError
from barnabas.core.topic_config import TOPIC_CONFIG, topic_config, topic_defaults

GOLDEN = Path(__file__).parents[1] / "golden"


def golden_defaults(name):
    """Key -> (value, synonym) as a genuine broker's DescribeConfigs prints them."""
    lines = (GOLDEN / name).read_text().splitlines()[1:]
    pattern = re.compile(r"^\s+(\S+?)=(.*?) sensitive=\w+ synonyms=\{(.*)\}$")
    return {match[1]: (match[2], match[3]) for line in lines if (match := pattern.match(line))}


def test_topic_table_equals_kafkas_key_for_key():
    golden = golden_defaults("describe-configs-topic-all.txt")
    changed_there = {"retention.ms"}

    assert set(TOPIC_CONFIG) == set(golden)
    for name, (value, _) in golden.items():
        if name not in changed_there:
            assert (config_text(TOPIC_CONFIG[name], TOPIC_CONFIG[name].default) or "") == value, name


def test_topic_synonyms_equal_kafkas():
    for name, (_, synonyms) in golden_defaults("describe-configs-topic-all.txt").items():
        match = re.search(r"DEFAULT_CONFIG:([\w.]+)=", synonyms)
        if match:
            assert TOPIC_CONFIG[name].synonym == match[1]


def test_broker_defaults_equal_kafkas():
    golden = golden_defaults("describe-configs-broker-all.txt")
    set_there = {
        "broker.id", "broker.rack", "listeners", "log.dir", "log.dirs", "num.partitions", "zookeeper.connect",
        "default.replication.factor", "group.initial.rebalance.delay.ms", "group.min.session.timeout.ms",
        "offsets.topic.num.partitions",
        "replica.selector.class",
        "transaction.state.log.num.partitions", "listener.security.protocol.map",
    }  # fmt: skip
    internal = {
        "group.consumer.migration.policy",
        "log.initial.task.delay.ms",
        "producer.id.expiration.check.interval.ms",
    }
    ours = {name for name in BROKER_CONFIG if not name.startswith("barnabas.")}

    assert ours - internal <= set(golden)
    for name in ours - set_there - internal:
        text = config_text(BROKER_CONFIG[name], BROKER_CONFIG[name].default)
        assert ("null" if text is None else text) == golden[name][0], name


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("num.partitions", "many", "Not a number of type INT"),
        ("num.partitions", "0", "Value must be at least 1"),
        ("num.partitions", "99999999999", "32-bit"),
        ("auto.create.topics.enable", "yes", "Expected value to be either true or false"),
        ("log.cleanup.policy", "shred", "String must be one of: compact, delete"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "Value must be no more than 1"),
    ],
)
def test_a_bad_value_names_key_value_and_what_is_allowed(name, value, reason):
    with pytest.raises(ConfigError) as refused:
        broker_config({name: value})
    text = str(refused.value)
    assert name in text
    assert value in text
    assert reason in text
    assert "\n" not in text


def test_unknown_keys_are_kept_for_a_warning():
    assert broker_config({"no.such.key": "1"}).unknown == {"no.such.key": "1"}


def test_an_unknown_topic_key_is_refused_in_kafkas_words():
    with pytest.raises(ConfigError, match=r"^Unknown topic config name: no\.such\.key$"):
        topic_config(topic_defaults(broker_config({})), {"no.such.key": "1"})


def test_topic_values_come_from_table_broker_and_topic_in_this_order():
    defaults = topic_defaults(broker_config({"log.retention.hours": "2", "log.segment.bytes": "4096"}))
    config = topic_config(defaults, {"segment.bytes": "8192"})

    assert (config["segment.bytes"], config.source("segment.bytes")) == (8192, Source.TOPIC)
    assert (config["retention.ms"], config.source("retention.ms")) == (7_200_000, Source.STATIC_BROKER)
    assert (config["flush.messages"], config.source("flush.messages")) == (2**63 - 1, Source.DEFAULT)


def test_the_finer_unit_of_time_wins():
    given = {"log.retention.ms": "5", "log.retention.minutes": "6", "log.retention.hours": "7"}
    assert topic_defaults(broker_config(given))["retention.ms"] == 5
    del given["log.retention.ms"]
    assert topic_defaults(broker_config(given))["retention.ms"] == 360_000
    assert topic_defaults(broker_config({"log.retention.hours": "-1"}))["retention.ms"] == -1


def test_compaction_lags_must_not_cross():
    with pytest.raises(
        ConfigError, match=r"min\.compaction\.lag\.ms \(10\) > max\.compaction\.lag\.ms \(5\)"
    ):
        topic_config(
            topic_defaults(broker_config({})), {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}
        )


def test_properties_files():
    text = "# comment\n! also\n a = 1 \nb:2\nlong=x,\\\n   y\nurl=PLAINTEXT://:9092\n\n"
    assert read_properties(text) == {"a": "1", "b": "2", "long": "x,y", "url": "PLAINTEXT://:9092"}
    with pytest.raises(ConfigError, match="line 2"):
        read_properties("a=1\nnonsense\n")


def test_log_directories():
    assert log_directories(broker_config({"log.dirs": "/a, /b"})) == ["/a", "/b"]
    assert log_directories(broker_config({"log.dir": "/c"})) == ["/c"]
    with pytest.raises(ConfigError, match=r"log\.dirs: at least one directory"):
        log_directories(broker_config({"log.dirs": " ,, "}))


def test_a_file_with_a_nul_is_refused():
    with pytest.raises(ConfigError, match="line 2 has a NUL"):
        read_properties("broker.id=1\nlog.dirs=/data\0\n")


def test_passwords_are_never_printed():
    key = BROKER_CONFIG["broker.rack"]
    secret = type(key)("x", ConfigType.PASSWORD, None, "")
    assert config_text(secret, "hunter2") is None


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("replica.socket.timeout.ms", "499", "replica.socket.timeout.ms should always be at least"),
        ("replica.lag.time.max.ms", "499", "less than or equal to replica.lag.time.max.ms"),
    ],
)
def test_a_fetch_of_a_follower_may_not_wait_longer_than_what_ends_it(key, value, reason):
    assert broker_config({key: "500"})[key] == 500
    with pytest.raises(ConfigError, match=reason):
        broker_config({key: value})
