"""cordoned.log.dirs (KIP-1066): what it may be, in the words of a genuine Kafka 4.4.0."""

import pytest

from barnabas.core.broker_config import broker_config, cordoned_log_directories
from barnabas.core.dynamic_broker_config import DynamicBrokerConfig
from barnabas.core.errors import ConfigError

MISSING = (
    "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
    "Missing entries : "
)


def config(value, **others):
    return broker_config({"log.dirs": "/a,/b", "cordoned.log.dirs": value, **others})


@pytest.mark.parametrize(
    ("value", "cordoned"),
    [("", set()), ("/a", {"/a"}), (" /b ", {"/b"}), ("/a,/b", {"/a", "/b"}), ("*", {"/a", "/b"})],
)
def test_directories_or_all_of_them(value, cordoned):
    assert cordoned_log_directories(config(value)) == cordoned


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("/c,/a,/d", f"{MISSING}/c,/d"),
        ("/a/", f"{MISSING}/a/"),
        ("/a,/a", "Configuration 'cordoned.log.dirs' values must not be duplicated."),
        ("*,/a", "requirement failed: When cordoned.log.dirs is set to *, it must not contain other values"),
    ],
)
def test_what_it_may_not_be(value, words):
    with pytest.raises(ConfigError) as refused:
        config(value)
    assert str(refused.value) == words


def test_it_is_set_for_one_broker_while_it_runs_and_not_for_all():
    dynamic = DynamicBrokerConfig(config(""))
    dynamic.validate({"cordoned.log.dirs": "/a"}, per_broker=True)

    with pytest.raises(ConfigError, match="All entries in"):
        dynamic.validate({"cordoned.log.dirs": "/nowhere"}, per_broker=True)
    with pytest.raises(ConfigError, match="broker id must be specified"):
        dynamic.validate({"cordoned.log.dirs": "/a"}, per_broker=False)
