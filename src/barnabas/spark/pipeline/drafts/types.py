"""Columns of values of JSON, guessed from a sample of them.

A guess must hold for records that were not seen, so it is wide: numbers are BIGINT or DOUBLE, and what is of
two kinds is a text, which Spark's reader of JSON takes for any value.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from barnabas.spark.ddl import quoted

STRING: Final = "STRING"
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_DEPTH_MAX: Final = 20
_LONG_MAX: Final = 2**63 - 1
_CONNECT: Final = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT", "float": "FLOAT",
    "float32": "FLOAT", "double": "DOUBLE", "float64": "DOUBLE", "boolean": "BOOLEAN", "string": "STRING",
    "bytes": "BINARY",
}  # fmt: skip
_LOGICAL: Final = {
    "io.debezium.time.Date": "DATE",
    "org.apache.kafka.connect.data.Date": "DATE",
    "io.debezium.time.Timestamp": "TIMESTAMP",
    "io.debezium.time.MicroTimestamp": "TIMESTAMP",
    "io.debezium.time.NanoTimestamp": "TIMESTAMP",
    "io.debezium.time.ZonedTimestamp": "TIMESTAMP",
    "org.apache.kafka.connect.data.Timestamp": "TIMESTAMP",
}
"""Connect's names of types that JSON does not have, which converters write behind ``schema``."""


def columns(values: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The type of each field, in the order in which they were first seen."""
    found: dict[str, list[Any]] = {}
    for value in values:
        for name, one in value.items():
            found.setdefault(name, []).append(one)
    return {name: kind(ones) for name, ones in found.items()}


def kind(values: Sequence[Any], depth: int = 0) -> str:
    """The type that holds all of some values; null is of any."""
    there = [one for one in values if one is not None]
    if not there or depth > _DEPTH_MAX:
        return STRING
    if all(isinstance(one, bool) for one in there):
        return "BOOLEAN"
    if all(type(one) is int for one in there):
        return "BIGINT" if all(abs(one) <= _LONG_MAX for one in there) else "DECIMAL(38,0)"
    if all(type(one) in {int, float} for one in there):
        return "DOUBLE"
    if all(isinstance(one, str) for one in there):
        if all(_TIME.fullmatch(one) for one in there):
            return "TIMESTAMP"
        return "DATE" if all(_DATE.fullmatch(one) for one in there) else STRING
    if all(isinstance(one, list) for one in there):
        return f"ARRAY<{kind([item for one in there for item in one], depth + 1)}>"
    if all(isinstance(one, dict) for one in there):
        fields: dict[str, list[Any]] = {}
        for one in there:
            for name, item in one.items():
                fields.setdefault(name, []).append(item)
        inside = ", ".join(f"{quoted(name)}: {kind(items, depth + 1)}" for name, items in fields.items())
        return f"STRUCT<{inside}>" if inside else STRING
    return STRING


def connect_columns(schema: Mapping[str, Any]) -> dict[str, str]:
    """The columns of a struct as Connect's JSON describes it."""
    return {str(one["field"]): _connect_kind(one) for one in schema.get("fields", ())}


def _connect_kind(schema: Mapping[str, Any]) -> str:
    name = schema.get("name")
    if name == "org.apache.kafka.connect.data.Decimal":
        digits = schema.get("parameters", {})
        return f"DECIMAL({digits.get('connect.decimal.precision', 38)},{digits.get('scale', 0)})"
    if name in _LOGICAL:
        return _LOGICAL[name]
    if schema.get("type") == "array":
        return f"ARRAY<{_connect_kind(schema['items'])}>"
    if schema.get("type") == "struct":
        fields = connect_columns(schema).items()
        return f"STRUCT<{', '.join(f'{quoted(name)}: {one}' for name, one in fields)}>"
    return _CONNECT.get(str(schema.get("type")), STRING)


def ddl(found: Mapping[str, str]) -> str:
    """The columns as Spark's DDL."""
    return ", ".join(f"{quoted(name)} {one}" for name, one in found.items())
