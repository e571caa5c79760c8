"""Configurations as DescribeConfigs shows them:
value, source, where else it could come from (``ConfigHelper``).
"""

from collections.abc import Container, Iterable, Mapping
from functools import lru_cache
from itertools import dropwhile
from typing import Any, Final, TypeAlias

from barnabas.core import broker_loggers
from barnabas.core.client_metrics_config import CLIENT_METRICS_CONFIG
from barnabas.core.config import Config, ConfigKey, ConfigType, Scope, Source, base_name, config_text
from barnabas.core.group_config import GROUP_CONFIG
from barnabas.core.ids import java_hash
from barnabas.core.topic_config import TOPIC_CONFIG
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsSynonym,
)

# Kinds of resources that have a configuration (``ConfigResource.Type``).
TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32

_GROUPS: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
"""Keys for one thing in different units, the one that wins first (``brokerConfigSynonyms``)."""

_SYNONYMS: Final = {name: group for group in _GROUPS for name in group} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}

Entries: TypeAlias = list[DescribeConfigsResourceResult]


def in_order(entries: Iterable[DescribeConfigsResourceResult]) -> Entries:
    """Entries as Kafka answers them, which collects them in a hash map of Scala: a bucket after the other.

    The map has twice as many buckets whenever it is three quarters full. Tools print what they are sent in
    this order.
    """
    entries = list(entries)
    buckets = 16
    while len(entries) >= buckets * 3 // 4:
        buckets *= 2

    def place(entry: DescribeConfigsResourceResult) -> tuple[int, int]:
        hashed = _hashed(entry.name)
        return hashed & (buckets - 1), hashed

    return sorted(entries, key=place)


@lru_cache(maxsize=1024)
def _hashed(name: str) -> int:
    """The hash of a name as Scala folds it; there are few names, and all topics have the same."""
    hashed = java_hash(name)
    return hashed ^ (hashed & 0xFFFFFFFF) >> 16


def topic_entries(
    broker: Config, config: Config, *, docs: bool = False, wanted: Container[str] | None = None
) -> Entries:
    """The keys of a topic that has this configuration on this broker: all, or those that are wanted."""
    return [
        _topic_entry(broker, config, key, docs=docs)
        for name, key in TOPIC_CONFIG.items()
        if wanted is None or name in wanted
    ]


def _topic_entry(
    broker: Config, config: Config, key: ConfigKey, *, docs: bool
) -> DescribeConfigsResourceResult:
    value = config_text(key, config[key.name])
    synonyms = _broker_synonyms(broker, key.synonym) if key.synonym else []
    if config.source(key.name) is Source.TOPIC:
        synonyms.insert(0, DescribeConfigsSynonym(name=key.name, value=value, source=Source.TOPIC))
    return _entry(key, value, synonyms, docs=docs, read_only=False)


def logger_entries() -> Entries:
    """The levels of the broker's loggers."""
    return [
        DescribeConfigsResourceResult(
            name=name, value=level, config_source=Source.DYNAMIC_BROKER_LOGGER, documentation=""
        )
        for name, level in broker_loggers.levels().items()
    ]


def client_metrics_entries(values: Mapping[str, str], *, docs: bool) -> Entries:
    """All keys of a subscription of client metrics with these settings (``ConfigHelper``)."""
    config = CLIENT_METRICS_CONFIG.parse(values)
    entries = []
    for key in CLIENT_METRICS_CONFIG.values():
        value = config_text(key, config[key.name])
        if key.type is ConfigType.LIST:
            # Kafka shows each item of a list once.
            value = ",".join(dict.fromkeys(config[key.name]))
        synonyms = []
        if key.name in values:
            synonyms = [DescribeConfigsSynonym(name=key.name, value=value, source=Source.CLIENT_METRICS)]
        entries.append(_entry(key, value, synonyms, docs=docs, read_only=False))
    return entries


def group_entries(broker: Config, values: Mapping[str, str], *, docs: bool) -> Entries:
    """All keys of a group with these settings of its own (``ConfigHelper.createGroupConfigEntry``)."""
    own = GROUP_CONFIG.parse(values)
    entries = []
    for key in GROUP_CONFIG.values():
        synonym = key.synonym or ""
        value = config_text(key, broker[synonym] if own[key.name] is None else own[key.name])
        synonyms = _broker_synonyms(broker, synonym)
        if key.name in values:
            synonyms.insert(0, DescribeConfigsSynonym(name=key.name, value=value, source=Source.GROUP))
        entries.append(_entry(key, value, synonyms, docs=docs, read_only=False))
    return entries


def broker_entries(broker: Config, *, docs: bool) -> Entries:
    """All keys of the broker itself, those of single listeners, and what is set though no key has that
    name.
    """
    entries = []
    for name in dict.fromkeys([*broker.table, *sorted(broker.explicit())]):
        key = broker.table.find(name)
        assert key is not None, "what is set has a key"
        if key.internal and broker.source(name) is Source.DEFAULT:
            continue
        value = config_text(key, broker[name])
        synonyms = _broker_synonyms(broker, name)
        # By its name, as in Kafka: a key of one listener counts as read-only, though it may be dynamic.
        read_only = name not in broker.table or key.scope is Scope.READ_ONLY
        entries.append(_entry(key, value, synonyms, docs=docs, read_only=read_only))
    return entries + [_unknown_entry(broker, name) for name in sorted(broker.unknown)]


def _unknown_entry(broker: Config, name: str) -> DescribeConfigsResourceResult:
    """What the value of an unknown key is for is unknown too, so it is not shown."""
    source = broker.source(name)
    return DescribeConfigsResourceResult(
        name=name,
        value=None,
        read_only=True,
        config_source=source,
        is_sensitive=True,
        synonyms=[DescribeConfigsSynonym(name=name, value=None, source=source)],
    )


def cluster_default_entries(broker: Config, *, docs: bool) -> Entries:
    """The values that were set for all brokers while they run, also where this one has its own."""
    entries = []
    for entry in broker_entries(broker, docs=docs):
        entry.synonyms = [each for each in entry.synonyms if each.source == Source.DYNAMIC_DEFAULT_BROKER]
        if entry.synonyms:
            entry.value, entry.config_source = entry.synonyms[0].value, Source.DYNAMIC_DEFAULT_BROKER
            entries.append(entry)
    return entries


def _broker_synonyms(broker: Config, name: str) -> list[DescribeConfigsSynonym]:
    """Where a value of the broker could come from: what is set, in order of precedence, then defaults.

    What comes before the key itself is left out, so that a key without a value has no synonyms.
    """
    names = _SYNONYMS.get(name, dict.fromkeys((name, base_name(name))))
    keys = [key for each in names if (key := broker.table.find(each)) is not None]
    given = [
        DescribeConfigsSynonym(name=key.name, value=config_text(key, value), source=source)
        for key in keys
        for source, value in broker.layers(key.name)
        if source is not Source.DEFAULT
    ]
    given.sort(key=lambda synonym: synonym.source)
    defaults = [
        DescribeConfigsSynonym(name=key.name, value=config_text(key, default), source=Source.DEFAULT)
        for key in keys
        if (default := _default(broker, key)) is not None
    ]
    return list(dropwhile(lambda synonym: synonym.name != name, given + defaults))


def _default(broker: Config, key: ConfigKey) -> Any:
    # A profile has defaults of its own; they are known where nothing was set.
    unset = key.name in broker and broker.source(key.name) is Source.DEFAULT
    return broker[key.name] if unset else key.default


def _entry(
    key: ConfigKey,
    value: str | None,
    synonyms: list[DescribeConfigsSynonym],
    *,
    docs: bool,
    read_only: bool,
) -> DescribeConfigsResourceResult:
    source = synonyms[0].source if synonyms else Source.DEFAULT
    return DescribeConfigsResourceResult(
        name=key.name,
        value=value,
        read_only=read_only,
        config_source=source,
        is_sensitive=key.type is ConfigType.PASSWORD,
        synonyms=synonyms,
        config_type=key.type,
        documentation=key.doc if docs else None,
    )
