import re
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas.core.broker_config import (
    BROKER_CONFIG,
    broker_config,
    log_directories,
    not_obeyed,
    read_properties,
)
from barnabas.core.config import ConfigType, Source, config_text, neighbour, parse_value
from barnabas.core.dynamic_broker_config import DynamicBrokerConfig
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


class Described(NamedTuple):
    """One key as Kafka prints it."""

    table: str
    name: str
    type: str
    default: str
    valid: str
    mode: str

    @property
    def key(self):
        return (BROKER_CONFIG if self.table == "broker" else TOPIC_CONFIG)[self.name]


def described():
    lines = (GOLDEN / "config-keys-3.9.2.txt").read_text().splitlines()[2:]
    return [Described(*(each.strip() for each in f"{line} ".split(" | "))) for line in lines]


INTERNAL = {name for name, key in BROKER_CONFIG.items() if key.internal}
"""Keys that Kafka shows only where they are set."""


def test_the_broker_knows_every_key_of_kafkas():
    ours = {name for name in BROKER_CONFIG if not name.startswith("barnabas.")}
    ours -= {f"metrics.{name}" for name in ("host", "port", "user", "password", "tls")}

    assert ours - INTERNAL == {each.name for each in described() if each.table == "broker"}
    assert set(golden_defaults("describe-configs-broker-all.txt")) <= ours


def test_type_default_and_update_mode_of_each_key_equal_kafkas():
    for each in described():
        default = config_text(each.key, each.key.default)
        assert ("null" if default is None else default) == each.default.replace('""', ""), each.name
        assert each.key.type.name.lower() == each.type, each.name
        assert not each.mode or each.key.scope.value == each.mode, each.name


def test_the_range_of_each_number_equals_kafkas():
    ranges = 0
    for each in described():
        match = re.fullmatch(r"\[(-?[\d.]+),\.\.\.(?:,(-?\d+))?\]", each.valid)
        if not match or each.name in STRICTER:
            continue
        ranges += 1
        low, high = match[1], match[2]
        assert is_refused(each, str(int(float(low)) - 1), f"Value must be at least {low}")
        assert not is_refused(each, low) or is_refused(each, low, each.key.not_obeyed)
        if high:
            assert is_refused(each, str(int(high) + 1), f"Value must be no more than {high}")
            assert not is_refused(each, high) or is_refused(each, high, each.key.not_obeyed)
    assert ranges > 120


STRICTER = {"log.cleaner.threads"}
"""Keys of which this broker takes less; docs/compatibility.md has them."""


def is_refused(described, value, reason=""):
    try:
        parse_value(described.key, value)
    except ConfigError as error:
        return reason in str(error)
    return False


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("ssl.provider", "x", "no class or provider of Java"),
        ("listener.name.outside.ssl.provider", "x", "no class or provider of Java"),
        ("ssl.client.auth", "maybe", "String must be one of: required, requested, none"),
        ("sasl.login.class", "x.Login", "parts of security"),
        ("authorizer.class.name", "org.example.Authorizer", "must be one of"),
        ("process.roles", "broker", "no KRaft mode"),
        ("zookeeper.ssl.ocsp.enable", "true", "was revoked is not asked for"),
        ("remote.log.storage.system.enable", "true", "Tiered storage is not available"),
        ("transactional.id.expiration.ms", "0", "Value must be at least 1"),
        ("queued.max.request.bytes", "1000000000", "bounded for each connection"),
        ("create.topic.policy.class.name", "x.Policy", "loads no classes of Java"),
    ],
)
def test_what_would_mislead_is_refused_with_the_reason(key, value, reason):
    with pytest.raises(ConfigError, match=reason) as refused:
        broker_config({key: value})
    shown = f"[{value}]" if key in {"sasl.enabled.mechanisms", "process.roles"} else value
    assert str(refused.value).startswith(f"Invalid value {shown} for configuration {key}: ")


def test_the_defaults_of_what_is_refused_are_taken():
    given = {name: config_text(key, key.default) for name, key in BROKER_CONFIG.items() if key.not_obeyed}
    config = broker_config({name: value for name, value in given.items() if value is not None})
    assert not_obeyed(config) == []


def test_what_is_not_obeyed_is_named_with_the_reason():
    config = broker_config({"broker.heartbeat.interval.ms": "3000", "metrics.num.samples": "2"})
    assert [(name, "KRaft" in reason) for name, reason in not_obeyed(config)] == [
        ("broker.heartbeat.interval.ms", True)
    ]


def test_a_misspelt_key_has_a_neighbour():
    assert neighbour("log.retention.hour", BROKER_CONFIG) == "log.retention.hours"
    assert neighbour("no.such.key", BROKER_CONFIG) is None
    with pytest.raises(
        ConfigError, match=r"^Unknown topic config name: retention\.m\. Did you mean retention\.ms\?$"
    ):
        topic_config(topic_defaults(broker_config({})), {"retention.m": "1"})


@pytest.mark.parametrize("text", ["1_0", "0x10", "1.0", "", "9" * 5000, "2147483648"])
def test_numbers_are_read_as_java_reads_them(text):
    with pytest.raises(ConfigError, match="Not a number of type INT"):
        broker_config({"num.partitions": text})
    assert broker_config({"num.partitions": "+007"})["num.partitions"] == 7


def test_doubles_are_read_as_java_reads_them():
    read = {text: parse_value(BROKER_CONFIG[RATE], text) for text in ("1e3", "5.", "2d", "Infinity", ".5")}
    assert read == {"1e3": 1000.0, "5.": 5.0, "2d": 2.0, "Infinity": float("inf"), ".5": 0.5}
    for text in ("inf", "1_0", "e3", "nan"):
        with pytest.raises(ConfigError, match="Not a number of type DOUBLE"):
            parse_value(BROKER_CONFIG[RATE], text)


RATE = "log.cleaner.io.max.bytes.per.second"


def test_node_id_is_another_name_of_broker_id():
    config = broker_config({"node.id": "7"})
    assert (config["broker.id"], config["node.id"]) == (7, 7)
    assert broker_config({"broker.id": "7"})["node.id"] == 7
    with pytest.raises(ConfigError, match=r"You must set `node\.id` to the same value as `broker\.id`"):
        broker_config({"node.id": "7", "broker.id": "8"})


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("log.cleaner.io.buffer.load.factor", ("0", "0.001", "1.01", "9")),
        ("log.cleaner.threads", ("0", "-1")),
    ],
)
def test_values_that_kafkas_cleaner_ends_with(key, values):
    for value in values:
        with pytest.raises(ConfigError, match="Value must be"):
            broker_config({key: value})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"log.retention.ms": "0"}, r"log\.retention\.ms must be unlimited \(-1\)"),
        ({"log.retention.minutes": "0"}, r"log\.retention\.ms must be unlimited \(-1\)"),
        ({"max.connections.per.ip": "0"}, "can be set to zero only if"),
        ({"log.message.format.version": "9.9"}, r"Version 9\.9 is not a valid version"),
        ({"compression.gzip.level": "0"}, "between 1 and 9 or equal to -1"),
    ],
)
def test_values_that_kafka_refuses(given, words):
    with pytest.raises(ConfigError, match=words):
        broker_config(given)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("num.partitions", "many", "Not a number of type INT"),
        ("num.partitions", "0", "Value must be at least 1"),
        ("num.partitions", "99999999999", "Not a number of type INT"),
        ("auto.create.topics.enable", "yes", "Expected value to be either true or false"),
        ("log.cleanup.policy", "shred", "String must be one of: compact, delete"),
        ("inter.broker.protocol.version", "3.8", "String must be one of: 3.9-IV0, 3.9"),
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
    with pytest.raises(ConfigError, match="line 2") as refused:
        read_properties("a=1\nbm9uc2Vuc2U\n")
    assert "bm9u" not in str(refused.value)  # it may be a piece of a private key


def test_backslashes_in_properties_are_javas():
    text = r"pem=BEGIN\nMIIB\nEND" + "\n" + r"path=C:\\a\b" + "\n" + r"name=\u00e9\=1" + "\n" + r"end=x\\"
    assert read_properties(text + "\nlast=1\n") == {
        "pem": "BEGIN\nMIIB\nEND",
        "path": "C:\\ab",
        "name": "é=1",
        "end": "x\\",
        "last": "1",
    }


def test_log_directories():
    assert log_directories(broker_config({"log.dirs": "/a, /b"})) == ["/a", "/b"]
    assert log_directories(broker_config({"log.dir": "/c"})) == ["/c"]
    with pytest.raises(ConfigError, match=r"log\.dirs: at least one directory"):
        log_directories(broker_config({"log.dirs": " ,, "}))


def test_a_file_with_a_nul_is_refused():
    with pytest.raises(ConfigError, match="line 2 has a NUL"):
        read_properties("broker.id=1\nlog.dirs=/data\0\n")
    with pytest.raises(ConfigError, match="line 1 has a NUL"):
        read_properties("log.dirs=/data\\u0000\n")


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


def test_doubles_have_the_text_that_java_gives_them():
    key = BROKER_CONFIG["log.cleaner.io.max.bytes.per.second"]
    texts = {0.9: "0.9", 1e6: "1000000.0", 1e7: "1.0E7", 1.5e9: "1.5E9", 0.00025: "2.5E-4", -3e20: "-3.0E20"}

    assert {value: config_text(key, value) for value in texts} == texts
    assert config_text(key, key.default) == "1.7976931348623157E308"
    assert [config_text(key, float(value)) for value in ("inf", "nan")] == ["Infinity", "NaN"]


def test_cleaners_have_memory_enough():
    with pytest.raises(ConfigError, match="at least 1MB per cleaner thread"):
        broker_config({"log.cleaner.threads": "200"})


def test_the_number_of_cleaners_changes_by_steps_while_a_broker_runs():
    dynamic = DynamicBrokerConfig(broker_config({"log.cleaner.threads": "4"}))
    for threads in (2, 8):
        dynamic.validate({"log.cleaner.threads": str(threads)}, per_broker=False)
    for threads, words in (
        (1, "less than half the current value 4"),
        (9, "more than double the current value 4"),
    ):
        with pytest.raises(ConfigError, match=words):
            dynamic.validate({"log.cleaner.threads": str(threads)}, per_broker=False)
    # What was set in steps is taken as it is by a broker that starts.
    dynamic.update({"log.cleaner.threads": "32"}, per_broker=False)
    assert dynamic.current["log.cleaner.threads"] == 32


def test_a_class_of_java_that_was_set_elsewhere_does_not_hinder_other_changes():
    of_file = {"metric.reporters": "com.example.OfTheFile"}
    of_a_broker_on_java = {"metric.reporters": "com.example.Set"}
    dynamic = DynamicBrokerConfig(broker_config(of_file))
    dynamic.validate(of_file, per_broker=False)
    with pytest.raises(ConfigError, match=r"Class com\.example\.Set could not be found"):
        dynamic.validate(of_a_broker_on_java, per_broker=False)

    dynamic.update(of_a_broker_on_java, per_broker=False)

    assert dynamic.current["metric.reporters"] == ["com.example.Set"]
    dynamic.validate(of_a_broker_on_java | {"log.retention.ms": "1"}, per_broker=False)
