"""The configuration of a topic: every key of Kafka 3.9's ``LogConfig``, and where its default comes from.

Three sources, the later wins: the table's default, the broker's value of the key's synonym, the topic's own
setting (``/config/topics/<topic>``). Keys of tiered storage and of the old message formats are accepted and
reported as Kafka does; this broker has neither, and says so where one is switched on.
"""

from collections.abc import Mapping
from typing import Any, Final

from barnabas.core.config import (
    INT_MAX,
    LONG_MAX,
    Config,
    ConfigKey,
    ConfigTable,
    ConfigType,
    Source,
    at_least,
    between,
    each_of,
    gzip_level,
    neighbour,
    one_of,
    replicas_of,
)
from barnabas.core.errors import ConfigError
from barnabas.core.version_names import version_name

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000


# One row a key, however long: name, type, default, what it does, what is allowed.
# fmt: off
TOPIC_CONFIG: Final = ConfigTable(
    [
        ConfigKey("cleanup.policy", LIST, ["delete"],
            "What happens to old segments: delete them, compact them to the last record of each key, or "
            "both.", each_of("compact", "delete"), synonym="log.cleanup.policy"),
        ConfigKey("compression.gzip.level", INT, -1,
            "The gzip level where the broker compresses; -1 is the library's own default.", gzip_level,
            synonym="compression.gzip.level"),
        ConfigKey("compression.lz4.level", INT, 9, "The lz4 level where the broker compresses.",
            between(1, 17), synonym="compression.lz4.level"),
        ConfigKey("compression.type", STRING, "producer",
            "The codec on disk; 'producer' keeps whatever the producer chose.", one_of(*COMPRESSION_TYPES),
            synonym="compression.type"),
        ConfigKey("compression.zstd.level", INT, 3, "The zstd level where the broker compresses.",
            between(-131072, 22), synonym="compression.zstd.level"),
        ConfigKey("delete.retention.ms", LONG, 86_400_000,
            "How long tombstones and transaction markers of a compacted topic stay readable.", at_least(0),
            synonym="log.cleaner.delete.retention.ms"),
        ConfigKey("file.delete.delay.ms", LONG, 60_000,
            "How long a deleted segment's files stay on disk, for readers that are still at it.", at_least(0),
            synonym="log.segment.delete.delay.ms"),
        ConfigKey("flush.messages", LONG, LONG_MAX,
            "Force the log to disk after this many records; 1 syncs before every acknowledgement (group "
            "commit).", at_least(1), synonym="log.flush.interval.messages"),
        ConfigKey("flush.ms", LONG, LONG_MAX, "Force the log to disk when records have waited this long.",
            at_least(0), synonym="log.flush.interval.ms"),
        ConfigKey("follower.replication.throttled.replicas", LIST, [],
            "Replicas whose fetching counts against the follower replication quota.",
            replicas_of("follower.replication.throttled.replicas")),
        ConfigKey("index.interval.bytes", INT, 4096,
            "How many bytes of records lie between two entries of the offset index.", at_least(0),
            synonym="log.index.interval.bytes"),
        ConfigKey("leader.replication.throttled.replicas", LIST, [],
            "Replicas whose serving counts against the leader replication quota.",
            replicas_of("leader.replication.throttled.replicas")),
        ConfigKey("local.retention.bytes", LONG, -2,
            "Tiered storage: bytes kept on local disk; -2 follows retention.bytes.", at_least(-2),
            synonym="log.local.retention.bytes"),
        ConfigKey("local.retention.ms", LONG, -2,
            "Tiered storage: time kept on local disk; -2 follows retention.ms.", at_least(-2),
            synonym="log.local.retention.ms"),
        ConfigKey("max.compaction.lag.ms", LONG, LONG_MAX, "The longest that a record may escape compaction.",
            at_least(1), synonym="log.cleaner.max.compaction.lag.ms"),
        ConfigKey("max.message.bytes", INT, 1_048_588, "The largest record batch, in bytes as stored.",
            at_least(0), synonym="message.max.bytes"),
        ConfigKey("message.downconversion.enable", BOOLEAN, True,
            "Whether consumers of old message formats are served; this broker stores magic 2 only.",
            synonym="log.message.downconversion.enable"),
        ConfigKey("message.format.version", STRING, "3.0-IV1",
            "The message format; ignored since 3.0, as in Kafka.", version_name,
            synonym="log.message.format.version"),
        ConfigKey("message.timestamp.after.max.ms", LONG, LONG_MAX,
            "How far a record's time may lie after the broker's.", at_least(0),
            synonym="log.message.timestamp.after.max.ms"),
        ConfigKey("message.timestamp.before.max.ms", LONG, LONG_MAX,
            "How far a record's time may lie before the broker's.", at_least(0),
            synonym="log.message.timestamp.before.max.ms"),
        ConfigKey("message.timestamp.difference.max.ms", LONG, LONG_MAX,
            "The older form of the two limits above, for both directions.", at_least(0),
            synonym="log.message.timestamp.difference.max.ms"),
        ConfigKey("message.timestamp.type", STRING, "CreateTime",
            "Whether a record keeps its producer's time or gets the broker's.",
            one_of("CreateTime", "LogAppendTime"), synonym="log.message.timestamp.type"),
        ConfigKey("min.cleanable.dirty.ratio", DOUBLE, 0.5,
            "The share of a log that must be dirty before it is compacted.", between(0, 1),
            synonym="log.cleaner.min.cleanable.ratio"),
        ConfigKey("min.compaction.lag.ms", LONG, 0, "How long a record stays uncompacted at least.",
            at_least(0), synonym="log.cleaner.min.compaction.lag.ms"),
        ConfigKey("min.insync.replicas", INT, 1,
            "How many replicas must have a record before acks=all is answered.", at_least(1),
            synonym="min.insync.replicas"),
        ConfigKey("preallocate", BOOLEAN, False,
            "Whether a new segment's file is given its full size at once.", synonym="log.preallocate"),
        ConfigKey("remote.log.copy.disable", BOOLEAN, False, "Tiered storage: stop copying segments."),
        ConfigKey("remote.log.delete.on.disable", BOOLEAN, False,
            "Tiered storage: delete remote data when disabled."),
        ConfigKey("remote.storage.enable", BOOLEAN, False, "Tiered storage; this broker has none.",
            lambda value: "Tiered storage is not available in this broker" if value else None),
        ConfigKey("retention.bytes", LONG, -1,
            "How large a partition may grow before its oldest segments go; -1 is no limit.",
            synonym="log.retention.bytes"),
        ConfigKey("retention.ms", LONG, 604_800_000,
            "How old a segment may get before it goes; -1 is no limit.", at_least(-1),
            synonym="log.retention.ms"),
        ConfigKey("segment.bytes", INT, 1 << 30, "The size at which a segment is closed and the next begins.",
            at_least(14), synonym="log.segment.bytes"),
        ConfigKey("segment.index.bytes", INT, 10_485_760,
            "The size that an offset index is given; full means a new segment.", at_least(4),
            synonym="log.index.size.max.bytes"),
        ConfigKey("segment.jitter.ms", LONG, 0,
            "A random part taken off segment.ms, so that partitions do not all roll at once.", at_least(0),
            synonym="log.roll.jitter.ms"),
        ConfigKey("segment.ms", LONG, 604_800_000,
            "The time after which a segment is closed though it is not full.", at_least(1),
            synonym="log.roll.ms"),
        ConfigKey("unclean.leader.election.enable", BOOLEAN, False,
            "Whether a replica outside the ISR may lead, at the price of lost records.",
            synonym="unclean.leader.election.enable"),
    ]
)
# fmt: on

assert all(key.type is not INT or key.default <= INT_MAX for key in TOPIC_CONFIG.values())


def topic_defaults(broker: Config) -> Config:
    """The configuration that a topic without settings of its own has on this broker
    (``extractLogConfigMap``).
    """
    given = {
        key.name: broker[key.synonym]
        for key in TOPIC_CONFIG.values()
        if key.synonym and key.synonym in broker and broker.source(key.synonym) is not Source.DEFAULT
    }
    given |= {
        name: value
        for name, value in _coarser_times(broker).items()
        if value is not None and any(broker.source(key) is not Source.DEFAULT for key in _COARSER[name])
    }
    return TOPIC_CONFIG.parse(given)


_COARSER: Final = {
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}


def _coarser_times(broker: Config) -> dict[str, int | None]:
    """Times that the broker also takes in minutes or hours; the finer unit wins."""
    retention = _first(
        broker["log.retention.ms"],
        _times(broker["log.retention.minutes"], _MINUTE_MS),
        _times(broker["log.retention.hours"], _HOUR_MS),
    )
    return {
        "retention.ms": -1 if retention is not None and retention < 0 else retention,
        "segment.ms": _first(broker["log.roll.ms"], _times(broker["log.roll.hours"], _HOUR_MS)),
        "segment.jitter.ms": _first(
            broker["log.roll.jitter.ms"], _times(broker["log.roll.jitter.hours"], _HOUR_MS)
        ),
        "flush.ms": _first(broker["log.flush.interval.ms"], broker["log.flush.scheduler.interval.ms"]),
    }


def _times(value: int | None, unit_ms: int) -> int | None:
    return None if value is None else value * unit_ms


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def topic_config(defaults: Config, own: Mapping[str, Any]) -> Config:
    """A topic's configuration: its own settings over the broker's defaults. Raises ConfigError.

    A key that Kafka does not know is refused with Kafka's words (``LogConfig.validateNames``).
    """
    for name in own:
        if name not in TOPIC_CONFIG:
            meant = neighbour(name, TOPIC_CONFIG)
            hint = f". Did you mean {meant}?" if meant else ""
            raise ConfigError(f"Unknown topic config name: {name}{hint}")
    config = defaults.with_values(own, Source.TOPIC)
    if config["min.compaction.lag.ms"] > config["max.compaction.lag.ms"]:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({config['min.compaction.lag.ms']}) > "
            f"max.compaction.lag.ms ({config['max.compaction.lag.ms']})"
        )
    return config
