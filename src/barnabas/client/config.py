"""The options of producer, consumer and admin client: one table entry a key, with Kafka's names.

In Python an option is a keyword with underscores (``linger_ms=5``), in a properties file it is Kafka's own
key (``linger.ms=5``). Both end in the same table, so a bad value gives the same one-line error. Keys and
defaults are those of ``ProducerConfig``, ``ConsumerConfig`` and ``AdminClientConfig`` of Kafka 3.9; a key
that this client has no use for yet is not in the table.
"""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from barnabas.client.channel_security import PLAINTEXT, SECURITY_KEYS, security_asked_for
from barnabas.core.config import (
    INT_MAX,
    Check,
    Config,
    ConfigKey,
    ConfigTable,
    ConfigType,
    Source,
    at_least,
    between,
    one_of,
)
from barnabas.core.errors import ConfigError

Address = tuple[str, int]
BootstrapServers = str | Sequence[str]
Given = BootstrapServers | Mapping[str, Any]
"""What a client may be given without a name: where its brokers are, or all its options with Kafka's keys."""

_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _LIST = ConfigType.LONG, ConfigType.LIST

REBOOTSTRAP: Final = "rebootstrap"
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""The values of ``group.protocol``."""


def _acks(value: Any) -> str | None:
    return None if value in {"all", "-1", "0", "1"} else "String must be one of: all, -1, 0, 1"


_COMMON: Final = (
    ConfigKey("bootstrap.servers", _LIST, None, "Brokers to ask first, host:port each.", required=True),
    *SECURITY_KEYS,
    ConfigKey("client.id", _STRING, "", "A name for this client in the broker's logs and quotas."),
    ConfigKey("metadata.max.age.ms", _LONG, 300_000, "How old metadata may become.", at_least(0)),
    ConfigKey(
        "metadata.recovery.strategy",
        _STRING,
        REBOOTSTRAP,
        "Where no known broker answers: start again from bootstrap.servers, or not (KIP-899).",
        one_of("none", REBOOTSTRAP),
    ),
    ConfigKey(
        "metadata.recovery.rebootstrap.trigger.ms",
        _LONG,
        300_000,
        "How long no broker may answer before that.",
        at_least(0),
    ),
    ConfigKey(
        "enable.metrics.push",
        _BOOLEAN,
        True,
        "Whether this client pushes its metrics to a broker that asks for them (KIP-714).",
    ),
    ConfigKey("request.timeout.ms", _INT, 30_000, "How long to wait for one answer.", at_least(1)),
    ConfigKey("retry.backoff.ms", _LONG, 100, "The first pause before trying again.", at_least(0)),
    ConfigKey("retry.backoff.max.ms", _LONG, 1_000, "The longest pause before trying again.", at_least(0)),
    ConfigKey("default.api.timeout.ms", _INT, 60_000, "How long a whole call may take.", at_least(1)),
)

PRODUCER_CONFIG: Final = ConfigTable(
    [
        *_COMMON,
        ConfigKey(
            "acks",
            _STRING,
            "all",
            "Which replicas must have a record: none (0), the leader (1), all in sync (all).",
            _acks,
        ),
        ConfigKey("enable.idempotence", _BOOLEAN, True, "No duplicates, and order kept, through retries."),
        ConfigKey("linger.ms", _LONG, 0, "How long a batch may wait for more records.", at_least(0)),
        ConfigKey(
            "batch.size",
            _INT,
            16_384,
            "Bytes at which a batch is sent at once. Where this is set, no batch grows beyond it; where not,"
            " one takes records until the sender comes to it, up to 256 KB, except with acks=0.",
            at_least(1),
        ),
        ConfigKey("buffer.memory", _LONG, 33_554_432, "Bytes of records that may wait.", at_least(1)),
        ConfigKey(
            "compression.type",
            _STRING,
            "none",
            "How batches are compressed.",
            one_of("none", "gzip", "snappy", "lz4", "zstd"),
        ),
        ConfigKey(
            "partitioner.ignore.keys",
            _BOOLEAN,
            False,
            "Whether records with a key are spread as those without one.",
        ),
        ConfigKey(
            "partitioner.adaptive.partitioning.enable",
            _BOOLEAN,
            True,
            "Whether a partition for which less waits gets more of the records without a key (KIP-794).",
        ),
        ConfigKey(
            "partitioner.availability.timeout.ms",
            _LONG,
            0,
            "How long a broker may take nothing before those records avoid it; 0: it is never avoided.",
            at_least(0),
        ),
        ConfigKey(
            "transactional.id",
            _STRING,
            None,
            "A name under which a producer's transactions are known; a newer producer of the name fences it.",
        ),
        ConfigKey(
            "transaction.timeout.ms",
            _INT,
            60_000,
            "How long a transaction may be open before the coordinator aborts it.",
            at_least(1),
        ),
        ConfigKey("max.request.size", _INT, 1_048_576, "The largest request, in bytes.", at_least(1)),
        ConfigKey(
            "max.in.flight.requests.per.connection", _INT, 5, "Unanswered requests a broker.", at_least(1)
        ),
        ConfigKey("delivery.timeout.ms", _INT, 120_000, "How long a record may take in all.", at_least(1)),
        ConfigKey(
            "metadata.max.idle.ms",
            _LONG,
            300_000,
            "How long a topic that nothing is sent to stays in the metadata; a record for it has it asked for"
            " again.",
            at_least(5_000),
        ),
        ConfigKey(
            "max.block.ms", _LONG, 60_000, "How long `send` may wait for room or metadata.", at_least(0)
        ),
    ]
)

CONSUMER_CONFIG: Final = ConfigTable(
    [
        *_COMMON,
        ConfigKey(
            "auto.offset.reset",
            _STRING,
            "latest",
            "Where to begin when there is no valid position.",
            one_of("latest", "earliest", "none"),
        ),
        ConfigKey(
            "isolation.level",
            _STRING,
            "read_uncommitted",
            "Whether records of open and aborted transactions are seen.",
            one_of("read_uncommitted", "read_committed"),
        ),
        ConfigKey("fetch.min.bytes", _INT, 1, "Bytes that make a fetch worth answering.", at_least(0)),
        ConfigKey("fetch.max.wait.ms", _INT, 500, "How long a broker may wait for them.", at_least(0)),
        ConfigKey("fetch.max.bytes", _INT, 52_428_800, "Bytes in one fetch.", at_least(0)),
        ConfigKey("max.partition.fetch.bytes", _INT, 1_048_576, "Bytes of one partition.", at_least(0)),
        ConfigKey("max.poll.records", _INT, 500, "Records in one `poll`.", between(1, INT_MAX)),
        ConfigKey("group.id", _STRING, None, "The group to read as a member of."),
        ConfigKey(
            "group.protocol",
            _STRING,
            CLASSIC,
            "Who divides the partitions: a member (classic), or the coordinator (consumer, KIP-848).",
            lambda value: one_of(CLASSIC, CONSUMER)(value.lower()),
        ),
        ConfigKey("group.remote.assignor", _STRING, None, "How the coordinator is to divide partitions."),
        ConfigKey("group.instance.id", _STRING, None, "A name that makes the member a static one."),
        ConfigKey(
            "session.timeout.ms", _INT, 45_000, "Silence after which a member is given up.", at_least(1)
        ),
        ConfigKey(
            "heartbeat.interval.ms", _INT, 3_000, "How often a member says that it lives.", at_least(1)
        ),
        ConfigKey("max.poll.interval.ms", _INT, 300_000, "The longest time between two polls.", at_least(1)),
        ConfigKey(
            "partition.assignment.strategy",
            _LIST,
            ["range", "cooperative-sticky"],
            "How a group may divide partitions, the preferred way first.",
        ),
        ConfigKey("enable.auto.commit", _BOOLEAN, True, "Whether positions are committed now and then."),
        ConfigKey("auto.commit.interval.ms", _INT, 5_000, "How often they are.", at_least(0)),
        ConfigKey(
            "client.rack", _STRING, "", "Where this client is, for assignments and replicas near to it."
        ),
        ConfigKey("check.crcs", _BOOLEAN, True, "Whether each batch's checksum is verified."),
    ]
)

ADMIN_CONFIG: Final = ConfigTable(_COMMON)


def _function(value: Any) -> str | None:
    return None if callable(value) else "it must be a function"


def _serializer(value: Any) -> str | None:
    if callable(value) or callable(getattr(value, "serialize", None)):
        return None
    return "it must be a function of the value, or have serialize(topic, value)"


def _deserializer(value: Any) -> str | None:
    if callable(value) or callable(getattr(value, "deserialize", None)):
        return None
    return "it must be a function of the bytes, or have deserialize(topic, value)"


def _objects_with(*methods: str) -> Check:
    def check(value: Any) -> str | None:
        if isinstance(value, list) and all(any(hasattr(one, name) for name in methods) for one in value):
            return None
        return f"it must be a list of objects that have {' or '.join(methods)}"

    return check


_CLASS: Final = ConfigType.CLASS

PRODUCER_OBJECTS: Final = ConfigTable(
    [
        ConfigKey("key.serializer", _CLASS, None, "Makes bytes of a record's key.", _serializer),
        ConfigKey("value.serializer", _CLASS, None, "Makes bytes of a record's value.", _serializer),
        ConfigKey(
            "partitioner",
            _CLASS,
            None,
            "Chooses partitions: partitioner(key, partitions, available); None leaves it to the producer.",
            _function,
        ),
        ConfigKey(
            "on.delivery", _CLASS, None, "on_delivery(error, metadata) is called for every record.", _function
        ),
        ConfigKey(
            "interceptors",
            _CLASS,
            None,
            "See and change records before they are sent, and see what became of them.",
            _objects_with("on_send", "on_acknowledgement"),
        ),
    ]
)
"""What a program alone can give: functions and objects, not texts of a file."""

CONSUMER_OBJECTS: Final = ConfigTable(
    [
        ConfigKey("key.deserializer", _CLASS, None, "Makes an object of a record's key.", _deserializer),
        ConfigKey("value.deserializer", _CLASS, None, "Makes an object of a record's value.", _deserializer),
        ConfigKey(
            "deserialization.errors",
            _STRING,
            "raise",
            "What becomes of a record that does not parse: poll raises, it is left out with a line in the"
            " log, or the error stands in it.",
            one_of("raise", "skip", "keep"),
        ),
        ConfigKey(
            "interceptors",
            _CLASS,
            None,
            "See and change what polls give, and see what is committed.",
            _objects_with("on_consume", "on_commit"),
        ),
    ]
)
"""The same of a consumer."""

ISOLATION_LEVELS: Final = {"read_uncommitted": 0, "read_committed": 1}

_INSTEAD: Final = {
    "api.version": "each broker is asked for its versions",
    "consumer.timeout.ms": "write poll(timeout_ms=...)",
    "dr.cb": "write on_delivery=...",
    "enable.auto.offset.store": "write commit_async({partition: offset}) with enable_auto_commit=False",
    "error.cb": "calls raise what goes wrong, and the log has the rest",
    "interceptor.classes": "write interceptors=[...], a list of objects",
    "logger": "the loggers are those below 'barnabas'",
    "metadata.broker.list": "write bootstrap_servers=...",
    "partitioner.class": "write partitioner=..., a function of key, partitions and available partitions",
    "queue.buffering.max.kbytes": "write buffer_memory=..., in bytes",
    "queue.buffering.max.messages": "write buffer_memory=..., in bytes",
    "retries": "delivery_timeout_ms bounds all tries together",
    "statistics.interval.ms": "metrics() has them at any time",
    "stats.cb": "metrics() has them at any time",
}
"""What to write for options that other clients for Python have."""


def given_options(kind: str, first: Given | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with Kafka's keys, whether the servers came first or by name, or all options came as one
    mapping (as confluent-kafka takes them). `kind` is the client's. Raises TypeError for servers given twice.
    """
    named = {name.replace("_", "."): value for name, value in options.items()}
    defaults = {"client.id": f"barnabas-{kind}"}
    if first is None:
        return {**defaults, **named}
    if isinstance(first, Mapping):
        return {**defaults, **first, **named}
    if "bootstrap.servers" in named:
        # What comes first in other clients is a topic.
        topics = f", and then subscribe([{first!r}])" if kind == "consumer" else ""
        raise TypeError(
            f"the {kind} takes its servers first or by name, not both:"
            f" write bootstrap_servers={named['bootstrap.servers']!r} alone{topics}"
        )
    return {**defaults, "bootstrap.servers": first, **named}


def client_config(
    table: ConfigTable, options: Mapping[str, Any], objects: ConfigTable | None = None
) -> Config:
    """The config of these options (keywords or Kafka's keys); raises ConfigError, also for an unknown one."""
    given = {name.replace("_", "."): value for name, value in options.items()}
    refuse_security(given)
    if objects is not None:
        table = ConfigTable([*table.values(), *objects.values()])
    for name in given:
        if name not in table:
            close = difflib.get_close_matches(name, list(table), n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            hint = f": {_INSTEAD[name]}" if name in _INSTEAD else hint
            raise ConfigError(f"Unknown configuration {name}{hint}")
    return table.parse({name: _plain(value) for name, value in given.items()})


def refuse_security(options: Mapping[str, Any]) -> None:
    """Raises ConfigError for the first of these options (with Kafka's keys) that asks for security."""
    problem = security_asked_for(options)
    if problem:
        raise ConfigError(problem)


def producer_config(options: Mapping[str, Any]) -> Config:
    """The config of a producer, with Kafka's rules for what goes with idempotence."""
    config = client_config(PRODUCER_CONFIG, options, PRODUCER_OBJECTS)
    asked_for = config.source("enable.idempotence") is not Source.DEFAULT
    obstacle = _idempotence_obstacle(config) if config["enable.idempotence"] else None
    if config["transactional.id"] is not None:
        if obstacle:
            raise ConfigError(f"Must set {obstacle} in order to use a transactional.id.")
        if not config["enable.idempotence"]:
            raise ConfigError("Cannot set a transactional.id without also enabling idempotence.")
        if not config["transactional.id"]:
            raise ConfigError("Invalid value for configuration transactional.id: it must not be empty")
    if obstacle and asked_for:
        raise ConfigError(f"Must set {obstacle} in order to use the idempotent producer.")
    return config.with_values({"enable.idempotence": "false"}, Source.DEFAULT) if obstacle else config


def _idempotence_obstacle(config: Config) -> str | None:
    if config["acks"] in {"0", "1"}:
        return "acks to all"
    in_flight = config["max.in.flight.requests.per.connection"]
    return "max.in.flight.requests.per.connection to at most 5" if in_flight > 5 else None


def _plain(value: Any) -> Any:
    """``acks=1`` and ``group_id=7`` read naturally in Python; the table knows texts."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def bootstrap_addresses(servers: Sequence[str]) -> list[Address]:
    """Hosts and ports of ``bootstrap.servers``; raises ConfigError for a text that is not host:port."""
    addresses = [_address(server.strip()) for server in servers]
    if not addresses:
        raise ConfigError("No bootstrap servers were given: name at least one as host:port")
    return addresses


def _address(server: str) -> Address:
    protocol, _, server = server.rpartition("://")
    if protocol.strip().lower() in ("http", "https"):
        raise ConfigError(f"bootstrap.servers are host:port, without {protocol.strip().lower()}://")
    if protocol.strip().upper() not in ("", PLAINTEXT):
        raise ConfigError(
            f"security.protocol={protocol[:40]!r} asks for security, which is not said in bootstrap.servers: "
            "set security.protocol"
        )
    host, colon, port = server.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"Invalid value {server} for configuration bootstrap.servers: expected host:port")
    return host.strip("[]"), int(port)
