"""The options of the data source, checked in the order and with the words of the official connector.

Option names are case-insensitive, as everywhere in Spark. What begins with ``kafka.`` is meant for the
client. `source_options` and `sink_options` turn the texts into values once; nothing below reads a text.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from barnabas.client.channel_security import security_asked_for, with_stores
from barnabas.client.config import (
    ADMIN_CONFIG,
    CONSUMER_CONFIG,
    PRODUCER_CONFIG,
    bootstrap_addresses,
)
from barnabas.core.config import LONG_MAX, ConfigTable, parse_value
from barnabas.core.errors import ConfigError
from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import OptionError
from barnabas.spark.offsets import (
    EARLIEST,
    LATEST,
    OffsetSpec,
    SpecKind,
    parse_partitions,
    parse_positions,
    parse_timestamps,
)

_log = logging.getLogger("barnabas.spark")

BOOTSTRAP_SERVERS: Final = "kafka.bootstrap.servers"
STRATEGIES: Final = ("subscribe", "subscribepattern", "assign")
_POLL_TIMEOUT_MS: Final = 120_000
_DELAY_DEFAULT: Final = "15m"
_DURATION_MAX_MS: Final = LONG_MAX // 1000
"""Spark counts times in microseconds of 64 bits."""
_GROUP: Final = "group:"

SOURCE_OPTIONS: Final = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "failOnDataLoss", "includeHeaders", "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition", "tasksPerBatch",
    "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix",
    "corruptBatches", "backfillLogs",
)  # fmt: skip
"""Each option of the source but those of the client, which begin with ``kafka.``."""

_UNSUPPORTED_READING: Final = {
    "kafka.auto.offset.reset": (
        "Kafka option 'auto.offset.reset' is not supported. Instead set the source option 'startingoffsets' "
        "to 'earliest' or 'latest' to specify where to start. Structured Streaming manages which offsets "
        "are consumed internally, rather than relying on the kafkaConsumer to do it. This will ensure that "
        "no data is missed when new topics/partitions are dynamically subscribed. Note that "
        "'startingoffsets' only applies when a new Streaming query is started, and that resuming will "
        "always pick up from where the query left off. See the docs for more details."
    ),
    "kafka.key.deserializer": (
        "Kafka option 'key.deserializer' is not supported as keys are deserialized as byte arrays with "
        "ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the keys."
    ),
    "kafka.value.deserializer": (
        "Kafka option 'value.deserializer' is not supported as values are deserialized as byte arrays with "
        "ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the values."
    ),
    "kafka.enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
    "kafka.interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
}
_UNSUPPORTED_WRITING: Final = {
    "kafka.key.serializer": "Kafka option 'key.serializer' is not supported as keys are serialized with "
    "ByteArraySerializer.",
    "kafka.value.serializer": "Kafka option 'value.serializer' is not supported as value are serialized with "
    "ByteArraySerializer.",
}
TIME_UNITS_MS: Final = {
    "us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Everything that a read needs to know; plain values, so it travels to the workers."""

    client: dict[str, str] = field(repr=False)
    """The ``kafka.*`` options without their prefix; passwords and keys are among them."""
    topics: tuple[str, ...]
    pattern: str | None
    assigned: tuple[TopicPartition, ...]
    starting: OffsetSpec
    ending: OffsetSpec
    fail_on_data_loss: bool = True
    include_headers: bool = False
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    tasks_per_batch: int | None = None
    """Into how many tasks the partitions are packed; None for a task each (ours)."""
    poll_timeout_ms: int = _POLL_TIMEOUT_MS
    fetch_retries: int = 3
    fetch_retry_interval_ms: int = 1000
    skip_corrupt: bool = False
    """Whether batches that cannot be read are left out (ours); else they end the query."""
    backfill: tuple[str, ...] = ()
    """Log directories that have older records (ours)."""

    def asks_for(self, tp: TopicPartition) -> bool:
        """Whether a partition is among those that the strategy names, be it there or not."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, tp.topic) is not None
        return tp in self.assigned if self.assigned else tp.topic in self.topics


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Everything that a write needs to know."""

    client: dict[str, str] = field(repr=False)
    topic: str | None
    """Where all rows go; None to let each row's column say."""


def client_options(given: Mapping[str, str], table: ConfigTable) -> dict[str, str]:
    """The ``kafka.*`` options that our client has;
    those of Java's client alone change nothing and are left out.
    """
    return {name: value for name, value in given.items() if name in table}


def source_options(
    given: Mapping[str, str], *, streaming: bool, quiet: bool = False, of_table: bool = False
) -> SourceOptions:
    """The checked options of a read; warns of those without effect unless it is to be quiet. Those of a table
    have no secrets yet, which statements add, and are not used. Raises OptionError.
    """
    texts = {name.lower(): value for name, value in given.items()}
    topics, pattern, assigned = _strategy(texts)
    _refuse_unsupported(texts, _UNSUPPORTED_READING)
    if "kafka.group.id" in texts and not quiet:
        _log.warning("kafka.group.id is set: queries that share a group id disturb each other's monitoring")
    starting = _starting(texts, streaming=streaming)
    ending = _ending(texts, streaming=streaming)
    most, least = _positive(texts, "maxoffsetspertrigger"), _positive(texts, "minoffsetspertrigger")
    if most is not None and least is not None and least > most:
        raise OptionError(
            f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most})."
        )
    if not streaming and not quiet:
        _warn_ignored(texts)
    return SourceOptions(
        client=_with_group(_kafka_options(texts, CONSUMER_CONFIG, ADMIN_CONFIG, of_table=of_table), texts),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        starting=starting,
        ending=ending,
        fail_on_data_loss=boolean(texts, "failondataloss", default=True),
        include_headers=boolean(texts, "includeheaders", default=False),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=parse_duration_ms(texts.get("maxtriggerdelay", _DELAY_DEFAULT)),
        min_partitions=_positive(texts, "minpartitions", shown="minPartitions"),
        max_records_per_partition=_positive(texts, "maxrecordsperpartition", shown="maxRecordsPerPartition"),
        tasks_per_batch=_positive(texts, "tasksperbatch", shown="tasksPerBatch"),
        poll_timeout_ms=_positive(texts, "kafkaconsumer.polltimeoutms") or _POLL_TIMEOUT_MS,
        fetch_retries=_whole(texts, "fetchoffset.numretries", 3),
        fetch_retry_interval_ms=_whole(texts, "fetchoffset.retryintervalms", 1000),
        skip_corrupt=_skip_corrupt(texts),
        backfill=_backfill(texts, starting),
    )


def check_reading(given: Mapping[str, str], *, of_table: bool = False) -> bool:
    """Whether headers are asked for. Raises OptionError for options that are wrong in a batch and in a
    stream.

    Spark makes a data source without saying which of the two it will be.
    """
    problems = []
    for streaming in (False, True):
        try:
            found = source_options(given, streaming=streaming, quiet=True, of_table=of_table)
            return found.include_headers
        except OptionError as error:
            problems.append(str(error))
    batch, stream = problems
    raise OptionError(batch if batch == stream else f"as a batch: {batch}; as a stream: {stream}")


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """The checked options of a write. Raises OptionError."""
    texts = {name.lower(): value for name, value in given.items()}
    _refuse_unsupported(texts, _UNSUPPORTED_WRITING)
    return SinkOptions(client=_kafka_options(texts, PRODUCER_CONFIG), topic=texts.get("topic"))


def _strategy(texts: Mapping[str, str]) -> tuple[tuple[str, ...], str | None, tuple[TopicPartition, ...]]:
    chosen = [name for name in STRATEGIES if name in texts]
    names = ", ".join(STRATEGIES)
    if not chosen:
        raise OptionError(
            f"One of the following options must be specified for Kafka source: {names}. See the docs for "
            "more details."
        )
    if len(chosen) > 1:
        raise OptionError(
            f"Only one of the following options can be specified for Kafka source: {names}. "
            "See the docs for more details."
        )
    value = texts[chosen[0]].strip()
    if chosen[0] == "assign":
        return (), None, _assigned(value)
    if chosen[0] == "subscribe":
        return _subscribed(value), None, ()
    return (), _pattern(value), ()


def _assigned(value: str) -> tuple[TopicPartition, ...]:
    if not value.startswith("{"):
        raise OptionError(f"No topicpartitions to assign as specified value for option 'assign' is '{value}'")
    return tuple(parse_partitions(value))


def _subscribed(value: str) -> tuple[str, ...]:
    topics = tuple(topic.strip() for topic in value.split(",") if topic.strip())
    if not topics:
        raise OptionError(f"No topics to subscribe to as specified value for option 'subscribe' is '{value}'")
    return topics


def check_pattern(value: str) -> None:
    """Raises OptionError for a subscribePattern that is no regular expression."""
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise OptionError(f"subscribePattern '{value}' is not a regular expression: {error}") from None


def _pattern(value: str) -> str:
    if not value:
        raise OptionError(
            f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{value}'"
        )
    check_pattern(value)
    return value


def _refuse_unsupported(texts: Mapping[str, str], unsupported: Mapping[str, str]) -> None:
    for name, words in unsupported.items():
        if name in texts:
            raise OptionError(words)
    if BOOTSTRAP_SERVERS not in texts:
        raise OptionError(
            "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer"
            if unsupported is _UNSUPPORTED_READING
            else "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer"
        )


def _starting(texts: Mapping[str, str], *, streaming: bool) -> OffsetSpec:
    strategy = texts.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if strategy not in {"error", "latest"}:
        raise OptionError(
            f"Invalid value {strategy} for startingOffsetsByTimestampStrategy: it must be error or latest"
        )
    default = OffsetSpec(SpecKind.LATEST if streaming else SpecKind.EARLIEST)
    spec = _spec(texts, "starting", default, no_match_is_latest=strategy == "latest")
    if not streaming and spec.kind is SpecKind.LATEST:
        raise OptionError("starting offset can't be latest for batch queries on Kafka")
    if not streaming and spec.kind is SpecKind.OFFSETS:
        for tp, offset in spec.values.items():
            if offset == LATEST:
                raise OptionError(f"startingOffsets for {tp} can't be latest for batch queries on Kafka")
    return spec


def _ending(texts: Mapping[str, str], *, streaming: bool) -> OffsetSpec:
    if streaming:
        for name in ("endingoffsets", "endingoffsetsbytimestamp"):
            if name in texts:
                raise OptionError("ending offset not valid in streaming queries")
        if "endingtimestamp" in texts:
            raise OptionError("ending timestamp not valid in streaming queries")
    spec = _spec(texts, "ending", OffsetSpec(SpecKind.LATEST), no_match_is_latest=True)
    if spec.kind is SpecKind.EARLIEST:
        raise OptionError("ending offset can't be earliest for batch queries on Kafka")
    if spec.kind is SpecKind.OFFSETS:
        for tp, offset in spec.values.items():
            if offset == EARLIEST:
                raise OptionError(f"ending offset for {tp} can't be earliest for batch queries on Kafka")
    return spec


def _spec(
    texts: Mapping[str, str], edge: str, default: OffsetSpec, *, no_match_is_latest: bool
) -> OffsetSpec:
    """Of three ways to say it the first one wins: one timestamp, timestamps by partition, offsets."""
    if f"{edge}timestamp" in texts:
        timestamp = _long(texts[f"{edge}timestamp"])
        if not EARLIEST <= timestamp <= LONG_MAX:
            raise OptionError(f"{edge}Timestamp is {timestamp}: it must be milliseconds since 1970")
        return OffsetSpec(SpecKind.TIMESTAMP, timestamp=timestamp, no_match_is_latest=no_match_is_latest)
    if f"{edge}offsetsbytimestamp" in texts:
        times = parse_timestamps(texts[f"{edge}offsetsbytimestamp"].strip(), edge)
        return OffsetSpec(SpecKind.TIMESTAMPS, times, no_match_is_latest=no_match_is_latest)
    text = texts.get(f"{edge}offsets", "").strip()
    if not text:
        return default
    if text.lower() in {"earliest", "latest"}:
        return OffsetSpec(SpecKind(text.lower()))
    if edge == "starting" and text.lower().startswith(_GROUP):
        if not text[len(_GROUP) :].strip():
            raise OptionError("startingOffsets names no group: expected group:NAME")
        return OffsetSpec(SpecKind.GROUP, group=text[len(_GROUP) :].strip())
    return OffsetSpec(SpecKind.OFFSETS, parse_positions(text, edge))


def _warn_ignored(texts: Mapping[str, str]) -> None:
    for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
        if name.lower() in texts:
            _log.warning("%s option ignored in batch queries", name)


def _kafka_options(texts: Mapping[str, str], *tables: ConfigTable, of_table: bool = False) -> dict[str, str]:
    """The options without their prefix. Raises OptionError for a value that the clients with these tables do
    not take, and for an option that asks for security: were it left out without a word, a job would run
    without the protection it asks for.
    """
    prefix = "kafka."
    given = {name.removeprefix(prefix): value for name, value in texts.items() if name.startswith(prefix)}
    problem = security_asked_for(given)
    if problem:
        raise OptionError(f"Kafka option {problem}")
    try:
        for table in tables:
            for name, value in client_options(given, table).items():
                parse_value(table[name], value)
        bootstrap_addresses(given["bootstrap.servers"].split(","))
        # Keys and certificates travel themselves: their files are the driver's.
        return given if of_table else with_stores(given)
    except ConfigError as error:
        raise OptionError(str(error)) from None


def _with_group(client: dict[str, str], texts: Mapping[str, str]) -> dict[str, str]:
    """The options with the client id that Java's consumer has under a group id: it names the query in the
    brokers' logs, quotas and metrics. No group is joined and nothing is committed to it, by the official
    connector neither.
    """
    group = client.pop("group.id", None) or texts.get("groupidprefix")
    return {"client.id": f"consumer-{group}-1", **client} if group else client


def boolean(texts: Mapping[str, str], name: str, *, default: bool) -> bool:
    """The value of an option that is true or false. Raises OptionError."""
    text = texts.get(name, str(default)).strip().lower()
    if text not in {"true", "false"}:
        raise OptionError(f"Invalid value {texts[name]} for option {name}: it must be true or false")
    return text == "true"


def _skip_corrupt(texts: Mapping[str, str]) -> bool:
    text = texts.get("corruptbatches", "fail").strip().lower()
    if text not in {"fail", "skip"}:
        raise OptionError(
            f"Invalid value {texts['corruptbatches']} for option corruptBatches: it must be fail or skip"
        )
    return text == "skip"


def _backfill(texts: Mapping[str, str], starting: OffsetSpec) -> tuple[str, ...]:
    paths = tuple(path.strip() for path in texts.get("backfilllogs", "").split(",") if path.strip())
    if "backfilllogs" in texts and not paths:
        raise OptionError("Invalid value for option backfillLogs: it must be log directories, as in log.dirs")
    if paths and starting.kind is not SpecKind.EARLIEST:
        raise OptionError(
            "The option backfillLogs reads from the first record on: startingOffsets must be earliest"
        )
    if paths and texts.get("kafka.isolation.level") == "read_committed":
        raise OptionError(
            "The option backfillLogs does not go with kafka.isolation.level=read_committed: which "
            "transactions were aborted is not read from log directories"
        )
    return paths


def _long(text: str) -> int:
    try:
        return int(text.strip())
    except ValueError:
        raise OptionError(f"Expected a single long value, got {text}") from None


def _positive(texts: Mapping[str, str], name: str, *, shown: str | None = None) -> int | None:
    if name not in texts:
        return None
    value = _long(texts[name])
    if value <= 0:
        raise OptionError(f"{shown or name} must be positive")
    return value


def _whole(texts: Mapping[str, str], name: str, default: int) -> int:
    value = _long(texts.get(name, str(default)))
    if value < 0:
        raise OptionError(f"{name} must not be negative")
    return value


def parse_duration_ms(text: str) -> int:
    """Milliseconds of Spark's form of a time, such as ``15m`` or ``90s``; ms without a unit.
    Raises OptionError.
    """
    match = re.fullmatch(r"(\d{1,18})\s*([a-z]*)", text.strip().lower())
    unit = (match.group(2) or "ms") if match else ""
    if match is None or unit not in TIME_UNITS_MS:
        raise OptionError(f"Invalid time {text!r}: expected a number and one of {', '.join(TIME_UNITS_MS)}")
    duration_ms = int(int(match.group(1)) * TIME_UNITS_MS[unit])
    if duration_ms > _DURATION_MAX_MS:
        raise OptionError(f"Invalid time {text!r}: it must be at most {_DURATION_MAX_MS} ms")
    return duration_ms
