"""What a topic holds, by its newest records: the format, the columns, and whether they are changes."""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import PipelineError
from barnabas.spark.kafka import consumer_client
from barnabas.spark.pipeline.drafts import types

_POLL_MS: Final = 1000
_POLLS_MAX: Final = 20
_LIMITS: Final = {"default.api.timeout.ms": "10000"}
"""How long a topic is waited for: one that has just been made is known to all brokers by then."""
_DELIMITERS: Final = (",", ";", "\t", "|")
_FRAME_BYTES: Final = 5
_BYTES_MAX: Final = 1 << 20
"""Of one value: from a larger one no type is guessed."""

Sample = list[tuple[bytes | None, bytes | None]]
"""Keys and values."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What the file will say of a topic."""

    topic: str
    records: int
    """Those that were looked at."""
    kind: str
    """``json``, ``csv`` or ``binary``."""
    columns: dict[str, str] = field(default_factory=dict)
    """Their types, as Spark's DDL has them."""
    delimiter: str = ","
    debezium: bool = False
    """Whether the values are changes as Debezium writes them."""
    decimals: str = "precise"
    times: str = "micros"
    key_kind: str = ""
    """``json`` or ``text``; empty where the records have no keys that could be columns."""
    key: dict[str, str] = field(default_factory=dict)
    registry: str = ""
    """The address of the registry that has the schema of the values."""


def look(client: Mapping[str, str], topic: str, records: int, registry: str = "") -> Draft:
    """Reads about as many of the newest records, and asks the registry for the schema of values that have its
    frame. Raises PipelineError where there are none.
    """
    sample = newest(client, topic, records)
    values = [value for _, value in sample if value is not None and len(value) <= _BYTES_MAX]
    if not values:
        raise PipelineError(f"the topic {topic} has no records yet whose values could be looked at")
    found = _objects(values)
    if found is not None:
        return _of_json(topic, sample, found)
    if all(len(value) > _FRAME_BYTES and value[0] == 0 for value in values):
        return _of_registry(topic, sample, values, registry)
    delimiter, width = _csv(values)
    kind, key = _key(sample, {})
    if width:
        columns = {f"column{number}": types.STRING for number in range(1, width + 1)}
        return Draft(topic, len(sample), "csv", columns, delimiter, key_kind=kind, key=key)
    return Draft(topic, len(sample), "binary", key_kind=kind, key=key)


def newest(client: Mapping[str, str], topic: str, records: int) -> Sample:
    """About as many of the newest records of a topic. Raises PipelineError."""
    try:
        with closing(consumer_client({**_LIMITS, **client})) as consumer:
            numbers = consumer.partitions_for(topic)
            partitions = [TopicPartition(topic, one) for one in numbers]
            if not partitions:
                raise PipelineError(f"the topic {topic} does not exist")
            begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
            filled = [tp for tp in partitions if ends[tp] > begins[tp]]
            consumer.assign(filled)
            for tp in filled:
                consumer.seek(tp, max(begins[tp], ends[tp] - -(-records // len(filled))))
            found: Sample = []
            for _ in range(_POLLS_MAX if filled else 0):
                if all(consumer.position(tp) >= ends[tp] for tp in filled):
                    break
                found += [
                    (one.key, one.value)
                    for one in consumer.poll(_POLL_MS)
                    if one.offset < ends[TopicPartition(one.topic, one.partition)]
                ]
            return found[-records:]
    except (BarnabasError, OSError) as error:
        raise PipelineError(f"the topic {topic} cannot be read: {error}") from error


def _objects(values: Sequence[bytes]) -> list[dict[str, Any]] | None:
    """The values as objects of JSON, None where one is something else."""
    found = []
    for value in values:
        try:
            one = json.loads(value)
        except (ValueError, RecursionError):
            return None
        if not isinstance(one, dict):
            return None
        found.append(one)
    return found


def _of_json(topic: str, sample: Sample, values: list[dict[str, Any]]) -> Draft:
    schemas = [one["schema"] for one in values if isinstance(one.get("schema"), dict) and "payload" in one]
    rows = [one["payload"] if "payload" in one and "schema" in one else one for one in values]
    rows = [one for one in rows if isinstance(one, dict)]
    if not all("op" in one and ("after" in one or "before" in one) for one in rows):
        columns = types.columns(values)
        kind, key = _key(sample, columns)
        return Draft(topic, len(sample), "json", columns, key_kind=kind, key=key)
    sides = [one[side] for one in rows for side in ("before", "after") if isinstance(one.get(side), dict)]
    columns = types.columns(sides)
    times = "micros"
    for schema in schemas[-1:]:
        after: dict[str, Any] = next(
            (one for one in schema.get("fields", ()) if one.get("field") == "after"), {}
        )
        columns |= types.connect_columns(after)
        times = _times(after)
    kind, key = _key(sample, columns)
    if kind != "json":
        raise PipelineError(
            f"the records of {topic} are changes without keys: a table of them needs one (a primary key of "
            "the database's table, or message.key.columns of the connector)"
        )
    return Draft(topic, len(sample), "json", columns, debezium=True, times=times, key_kind=kind, key=key)


def _of_registry(topic: str, sample: Sample, values: Sequence[bytes], address: str) -> Draft:
    from barnabas.operations.schemas.registry import RegistryClient, schema_id

    if not address:
        raise PipelineError(
            f"the values of {topic} begin with the frame of a schema registry: give its address with "
            "--registry"
        )
    number = schema_id(values[-1])
    schema = RegistryClient(address.rstrip("/")).schema(number)
    if schema is None:
        raise PipelineError(f"the registry {address} has no schema with the id {number}, as {topic} has")
    debezium = schema.kind == "AVRO" and all(f'"{name}"' in schema.text for name in ("before", "after", "op"))
    kind, key = _key(sample, {})
    return Draft(
        topic, len(sample), schema.kind.lower(), debezium=debezium, key_kind=kind, key=key, registry=address
    )


def _times(after: Mapping[str, Any]) -> str:
    """The unit of times as the connector writes them."""
    names = [str(one.get("name")) for one in after.get("fields", ())]
    if "io.debezium.time.NanoTimestamp" in names:
        return "nanos"
    millis = ("io.debezium.time.Timestamp", "org.apache.kafka.connect.data.Timestamp")
    return "millis" if any(one in names for one in millis) else "micros"


def _key(sample: Sample, columns: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """How the keys become columns."""
    keys = [key for key, _ in sample]
    if not keys or any(key is None for key in keys):
        return "", {}
    found = _objects([key for key in keys if key is not None])
    if found is not None:
        rows = [one["payload"] if isinstance(one.get("payload"), dict) else one for one in found]
        key = types.columns(rows)
        for one in found[-1:]:
            if isinstance(one.get("schema"), dict):
                key |= types.connect_columns(one["schema"])
        return "json", {name: columns.get(name, kind) for name, kind in key.items()}
    try:
        texts = [key.decode() for key in keys if key is not None]
    except UnicodeDecodeError:
        return "", {}
    whole = all(text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() for text in texts)
    return "text", {_named(sample, columns, texts): "BIGINT" if whole else types.STRING}


def _named(sample: Sample, columns: Mapping[str, str], texts: Sequence[str]) -> str:
    """The field of the values that has what the keys have, or a name of its own."""
    values = [json.loads(value) if columns and value is not None else {} for _, value in sample]
    for name in columns:
        pairs = [(text, str(one[name])) for text, one in zip(texts, values, strict=True) if name in one]
        if pairs and all(text == same for text, same in pairs):
            return name
    return "record_key" if "record_key" not in columns else "record_key_1"


def _csv(values: Sequence[bytes]) -> tuple[str, int]:
    """The delimiter of lines of as many columns, and how many; no columns where there is none."""
    try:
        lines = [value.decode() for value in values]
    except UnicodeDecodeError:
        return ",", 0
    for delimiter in _DELIMITERS:
        counts = {line.count(delimiter) for line in lines}
        if len(counts) == 1 and 0 not in counts:
            return delimiter, counts.pop() + 1
    return ",", 0
