"""Avro: records by one schema, which is the one that they were written with.

Spark's type of each Avro type is that of Spark's own ``from_avro``. The schema that values are read by is a
variant of the given one with the same bytes, in which

- a union of several types is of records with one field each (``member0`` and so on): Avro writes a record as
  its fields, so the bytes are those of the member, and what comes back says which one it was;
- logical types that Arrow makes of plain numbers are left out, which saves a Python object a value.
"""

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import fastavro
import pyarrow as pa
from pyspark.sql import types as spark

from barnabas.operations.schemas.avro import (
    DECIMAL,
    DIGITS_MAX,
    ENUM,
    AvroSchemaError,
    decimal_of,
    harmless,
    read_whole,
    whole,
)
from barnabas.operations.schemas.registry import RegisteredSchema, unframed
from barnabas.spark.errors import FormatError
from barnabas.spark.pipeline.formats.decoder import arrow_type, reason, require_columns_bounded

_PRIMITIVES: Final[dict[str, spark.DataType]] = {
    "null": spark.NullType(),
    "boolean": spark.BooleanType(),
    "int": spark.IntegerType(),
    "long": spark.LongType(),
    "float": spark.FloatType(),
    "double": spark.DoubleType(),
    "bytes": spark.BinaryType(),
    "string": spark.StringType(),
}
_LOGICAL: Final[dict[tuple[str, str], spark.DataType]] = {
    ("int", "date"): spark.DateType(),
    ("long", "timestamp-millis"): spark.TimestampType(),
    ("long", "timestamp-micros"): spark.TimestampType(),
    ("long", "local-timestamp-millis"): spark.TimestampNTZType(),
    ("long", "local-timestamp-micros"): spark.TimestampNTZType(),
}
_READ_AS_PYTHON: Final = ("timestamp-millis", "local-timestamp-millis")
"""Logical types whose numbers are not those of Spark's type."""
_WIDER: Final[dict[frozenset[str], spark.DataType]] = {
    frozenset({"int", "long"}): spark.LongType(),
    frozenset({"float", "double"}): spark.DoubleType(),
}
_DEFAULT: Final = "barnabas-default"
_MEMBER: Final = "barnabas.union.Member"


@dataclass(frozen=True, slots=True)
class AvroDecoder:
    """Values of one Avro record. Raises FormatError for a schema that is none, or has no columns."""

    schema: str
    """Its JSON."""
    confluent: bool = False
    """Whether a schema registry's frame is before each value."""

    def __post_init__(self) -> None:
        _plan(self.schema)

    @property
    def type(self) -> spark.StructType:
        """What a value becomes."""
        return _plan(self.schema).type

    def parse(self, value: bytes) -> dict[str, Any]:
        """A record by the names of its fields.
        Raises an exception for a malformed one, trailing bytes among them.
        """
        body = unframed(value) if self.confluent else value
        found: dict[str, Any] = read_whole(body, _plan(self.schema).reader)
        return found

    def parse_by(self, writer: RegisteredSchema, body: bytes) -> dict[str, Any]:
        """A record that was written by another schema, as this one has it (Avro's schema resolution: fields
        by name or alias, defaults, wider numbers). Raises an exception where it cannot be.
        """
        if writer.kind != "AVRO":
            raise ValueError(f"its schema is of the kind {writer.kind}, not AVRO")
        plan = _plan(whole_schema(writer))
        found: dict[str, Any] = read_whole(body, plan.reader, _plan(self.schema).reader)
        return found

    def column(self, parsed: Sequence[dict[str, Any] | None]) -> pa.StructArray:
        """Records as one array."""
        return pa.array(parsed, _plan(self.schema).arrow)


@dataclass(frozen=True, slots=True)
class _AvroPlan:
    type: spark.StructType
    arrow: pa.DataType
    reader: Any


@cache
def _plan(schema: str) -> _AvroPlan:
    try:
        given = fastavro.parse_schema(json.loads(schema))
        harmless(given)  # what follows reads each type of it once
        found = _Walk().read(given)
        if not isinstance(found.type, spark.StructType) or not found.type.fields:
            raise FormatError("must be of an Avro record with fields")
        require_columns_bounded(found.type)
        reader = _with_defaults(fastavro.parse_schema(found.reader))
        return _AvroPlan(found.type, arrow_type(found.type), reader)
    except FormatError:
        raise
    except AvroSchemaError as error:
        raise FormatError(str(error)) from None
    except Exception as error:  # what is no schema fails in many ways
        raise FormatError(f"is no Avro schema: {reason(error)}") from None


def whole_schema(writer: RegisteredSchema) -> str:
    """Its JSON, with the schemas that it refers to in their places. Raises FormatError."""
    try:
        return whole(writer.text, tuple(writer.references))
    except AvroSchemaError as error:
        raise FormatError(str(error)) from None


@dataclass(frozen=True, slots=True)
class _Read:
    """An Avro type: Spark's, and the schema that its values are read by."""

    type: spark.DataType
    reader: Any


class _Walk:
    """Through a schema whose names fastavro has made whole, from the outside to the inside."""

    def __init__(self) -> None:
        self._named: dict[str, _Read] = {}
        """Types with a name."""
        self._members = 0

    def read(self, schema: Any) -> _Read:
        """What becomes of a type. Raises FormatError."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return self._reference(schema) if schema in self._named else self._primitive({"type": schema})
        kind = schema["type"]
        if kind == "array":
            items = self.read(schema["items"])
            return _Read(spark.ArrayType(items.type), {"type": "array", "items": items.reader})
        if kind == "map":
            values = self.read(schema["values"])
            return _Read(
                spark.MapType(spark.StringType(), values.type), {"type": "map", "values": values.reader}
            )
        if kind in {"record", "enum", "fixed"}:
            found = self._named[schema["name"]] = self._definition(schema)
            return found
        return self._primitive(schema) if isinstance(kind, str) else self.read(kind)

    def _reference(self, name: str) -> _Read:
        found = self._named[name]
        by_name = isinstance(found.reader, dict) and "name" in found.reader
        return _Read(found.type, name if by_name else found.reader)

    def _definition(self, schema: Any) -> _Read:
        name = schema["name"]
        if schema["type"] == "enum":
            reader = {"type": "int", "logicalType": ENUM, "names": list(schema["symbols"])}
            return _Read(spark.StringType(), reader)
        if schema["type"] == "fixed":
            size = schema["size"]
            if type(size) is not int or size < 0:
                raise FormatError(f"is no Avro schema: the size of {name} is {size!r}")
            plain = {"type": "fixed", "name": name, "size": size}
            return self._decimal(schema, plain) or _Read(spark.BinaryType(), plain)
        fields = {field["name"]: self.read(field["type"]) for field in schema["fields"]}
        if len(fields) < len(schema["fields"]):
            raise FormatError(f"is no Avro schema: {name} has two fields of one name")
        return _Read(
            spark.StructType([spark.StructField(key, found.type) for key, found in fields.items()]),
            _record(name, {key: found.reader for key, found in fields.items()}, schema),
        )

    def _primitive(self, schema: Any) -> _Read:
        kind, logical = schema["type"], str(schema.get("logicalType"))
        if kind == "bytes" and (decimal := self._decimal(schema, {"type": kind})):
            return decimal
        reader = {"type": kind, "logicalType": logical} if logical in _READ_AS_PYTHON else kind
        return _Read(_LOGICAL.get((kind, logical), _PRIMITIVES[kind]), reader)

    def _decimal(self, schema: Any, plain: dict[str, Any]) -> _Read | None:
        if schema.get("logicalType") != "decimal":
            return None
        precision, scale = schema["precision"], schema.get("scale", 0)
        if not 0 <= scale <= precision <= DIGITS_MAX:
            raise FormatError(
                f"has a decimal of {precision} digits, {scale} of them behind the point: "
                f"Spark's have up to {DIGITS_MAX}"
            )
        reader = {**plain, "logicalType": DECIMAL, "scale": scale}
        return _Read(spark.DecimalType(precision, scale), reader)

    def _union(self, schema: list[Any]) -> _Read:
        branches = [self.read(branch) for branch in schema]
        members = [branch for branch in branches if not isinstance(branch.type, spark.NullType)]
        if len(members) <= 1:
            kind = members[0].type if members else spark.NullType()
            return _Read(kind, [branch.reader for branch in branches])
        if all(isinstance(member.reader, str) for member in members):
            wider = _WIDER.get(frozenset(member.reader for member in members))
            if wider is not None and all(member.type == _PRIMITIVES[member.reader] for member in members):
                return _Read(wider, [branch.reader for branch in branches])
        names = iter(f"member{number}" for number in range(len(members)))
        fields: list[spark.StructField] = []
        reader: list[Any] = []
        for branch in branches:
            if isinstance(branch.type, spark.NullType):
                reader.append("null")
                continue
            name = next(names)
            self._members += 1
            fields.append(spark.StructField(name, branch.type))
            reader.append(_record(f"{_MEMBER}{self._members}", {name: branch.reader}))
        return _Read(spark.StructType(fields), reader)


def _record(name: str, fields: dict[str, Any], given: Any = None) -> dict[str, Any]:
    """A record, with the aliases and defaults of the given one, by which values of other schemas are read."""
    more = {one["name"]: one for one in given["fields"]} if given is not None else {}
    return {
        "type": "record",
        "name": name,
        **({"aliases": given["aliases"]} if given is not None and "aliases" in given else {}),
        "fields": [
            {"name": key, "type": kind, **_resolved(more.get(key, {}), kind)} for key, kind in fields.items()
        ],
    }


def _resolved(field: Any, reader: Any) -> dict[str, Any]:
    """What Avro's resolution needs of a field."""
    found = {"aliases": field["aliases"]} if "aliases" in field else {}
    if "default" in field:
        found[_DEFAULT] = _as_read(field["default"], reader)
    return found


def _as_read(default: Any, reader: Any) -> Any:
    """A default as a value that was read: fastavro hands it out as it stands."""
    if isinstance(reader, list):
        first = reader[0]
        if isinstance(first, dict) and str(first.get("name", "")).startswith(_MEMBER):
            (member,) = first["fields"]
            return {member["name"]: _as_read(default, member["type"])}
        return _as_read(default, first) if default is not None else None
    kind, logical = (
        (reader["type"], reader.get("logicalType")) if isinstance(reader, dict) else (reader, None)
    )
    if kind in {"bytes", "fixed"}:
        data = default.encode("latin-1")
        return decimal_of(data, reader) if logical == DECIMAL else data
    if logical in _READ_AS_PYTHON:
        time = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=default)
        return time if logical == "timestamp-millis" else time.replace(tzinfo=None)
    return default


def _with_defaults(schema: Any) -> Any:
    """The schema as fastavro has read it, with the defaults: it takes none that is a value of Python's."""
    if isinstance(schema, list):
        for branch in schema:
            _with_defaults(branch)
    elif isinstance(schema, dict):
        for field in schema.get("fields", ()):
            if _DEFAULT in field:
                field["default"] = field.pop(_DEFAULT)
        for inner in (
            *(one["type"] for one in schema.get("fields", ())),
            schema.get("items"),
            schema.get("values"),
        ):
            _with_defaults(inner)
    return schema
