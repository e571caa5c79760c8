"""Avro values by the schema that they were written with, as plain objects.

Any client wrote the value, so a schema that a few bytes could blow up by is refused: one that is
recursive (each level is a call of fastavro's C code, and enough of them end the process), and arrays of
items that take no bytes (two bytes could say that there are 2**62). Decimals and enums have readers of
our own.
"""

import io
import json
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, Final

import fastavro

from barnabas.core.errors import BarnabasError
from barnabas.operations.schemas.registry import RegisteredSchema

DIGITS_MAX: Final = 38
DECIMAL: Final = "barnabas-decimal"
"""Our name of the logical type decimal: fastavro's own reader takes minutes for a megabyte of digits."""
_DECIMAL_BITS_MAX: Final = 127
ENUM: Final = "barnabas-enum"
"""Our name of enums, which are read as whole numbers:
fastavro's own reader counts a negative one from the last symbol.
"""
_EXACT: Final = Context(prec=2 * DIGITS_MAX)
_SCHEMAS_KEPT: Final = 1_000
_NODES_MAX: Final = 10_000
_LOGICAL: Final = frozenset(
    {"date", "time-millis", "time-micros", "timestamp-millis", "timestamp-micros", "uuid"}
    | {"local-timestamp-millis", "local-timestamp-micros"}
)
"""Logical types that are read as what they mean."""


class AvroSchemaError(BarnabasError, ValueError):
    """A schema that is none, or that values cannot be read by; the words begin with a verb."""


def decimal_of(data: bytes, writer_schema: Any, _reader_schema: Any = None) -> Decimal:
    """A decimal by the scale of its schema. Raises ValueError for one with too many digits."""
    unscaled = int.from_bytes(data, signed=True)
    if unscaled.bit_length() > _DECIMAL_BITS_MAX:
        raise ValueError(f"a decimal has more than {DIGITS_MAX} digits")
    return _EXACT.scaleb(Decimal(unscaled), -writer_schema["scale"])


def _symbol(index: int, writer_schema: Any, _reader_schema: Any = None) -> str:
    if index < 0:
        raise ValueError(f"an enum has no symbol {index}")
    symbol: str = writer_schema["names"][index]
    return symbol


fastavro.read.LOGICAL_READERS.update(
    {f"bytes-{DECIMAL}": decimal_of, f"fixed-{DECIMAL}": decimal_of, f"int-{ENUM}": _symbol}
)


@lru_cache(_SCHEMAS_KEPT)
def whole(schema: str, references: tuple[str, ...]) -> str:
    """The schema with those that it refers to in their places. Raises AvroSchemaError."""
    if not references:
        return schema
    try:
        names: dict[str, Any] = {}
        for text in references:
            fastavro.parse_schema(json.loads(text), names)
        found = fastavro.parse_schema(json.loads(schema), names)
        return json.dumps(_inlined(found, names, set()))
    except Exception as error:  # what is no schema fails in many ways
        raise AvroSchemaError(f"is no Avro schema: {_reason(error)}") from None


def _inlined(schema: Any, names: dict[str, Any], seen: set[str]) -> Any:
    """The schema with each named type at its first mention."""
    if isinstance(schema, list):
        return [_inlined(branch, names, seen) for branch in schema]
    if isinstance(schema, str):
        return _inlined(names[schema], names, seen) if schema in names and schema not in seen else schema
    found = {key: value for key, value in schema.items() if not key.startswith("__")}
    if "name" in found:
        if found["name"] in seen:
            return found["name"]
        seen.add(found["name"])
    if "fields" in found:
        found["fields"] = [{**one, "type": _inlined(one["type"], names, seen)} for one in found["fields"]]
    for key in ("type", "items", "values"):
        if key in found and found[key] not in {"record", "enum", "fixed"}:
            found[key] = _inlined(found[key], names, seen)
    return found


def avro_value(writer: RegisteredSchema, body: bytes) -> Any:
    """The value without its frame. Raises AvroSchemaError, and some exception for a malformed value, trailing
    bytes among them.
    """
    return read_whole(body, _reader(whole(writer.text, tuple(writer.references))))


def read_whole(body: bytes, writer: Any, reader: Any = None) -> Any:
    """The value by the parsed schema that it was written with, as `reader` has it where there is one. Raises
    some exception for a malformed value, and ValueError for trailing bytes.
    """
    file = io.BytesIO(body)
    found = fastavro.schemaless_reader(file, writer, reader)
    if file.tell() != len(body):
        raise ValueError(f"{len(body) - file.tell()} bytes are behind the record")
    return found


@lru_cache(_SCHEMAS_KEPT)
def _reader(schema: str) -> Any:
    """The schema that values are read by: the same bytes, none of the dangers."""
    try:
        return fastavro.parse_schema(harmless(fastavro.parse_schema(json.loads(schema))))
    except AvroSchemaError:
        raise
    except Exception as error:  # what is no schema fails in many ways
        raise AvroSchemaError(f"is no Avro schema: {_reason(error)}") from None


def harmless(schema: Any) -> Any:
    """What values of a schema are read by, whose names fastavro has made whole.
    Raises AvroSchemaError for one that a few bytes could blow up by.
    """
    return _Harmless().of(schema)[0]


class _Harmless:
    """Goes through a schema whose names fastavro has made whole."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[Any, bool] | None] = {}
        """Types with a name, None while their own fields are looked at."""
        self._nodes = 0

    def of(self, schema: Any) -> tuple[Any, bool]:
        """What a type is read by, and whether a value of it may take no bytes. Raises AvroSchemaError."""
        self._nodes += 1
        if self._nodes > _NODES_MAX:
            raise AvroSchemaError(f"has more than {_NODES_MAX:,} parts")
        if isinstance(schema, list):
            return [self.of(branch)[0] for branch in schema], False
        if isinstance(schema, str):
            return self._mention(schema) if schema in self._named else (schema, schema == "null")
        kind = schema["type"]
        if kind == "array":
            items, is_empty = self.of(schema["items"])
            if is_empty:
                raise AvroSchemaError("has an array of items without bytes")
            return {"type": "array", "items": items}, False
        if kind == "map":
            return {"type": "map", "values": self.of(schema["values"])[0]}, False
        if kind in {"record", "error", "enum", "fixed"}:
            self._named[schema["name"]] = None
            found = self._named[schema["name"]] = self._definition(schema)
            return found
        if isinstance(kind, str):
            return self._primitive(schema)
        return self.of(kind)

    def _mention(self, name: str) -> tuple[Any, bool]:
        found = self._named[name]
        if found is None:
            raise AvroSchemaError(f"is recursive: {name} has a field of {name}")
        by_name = isinstance(found[0], dict) and "name" in found[0]
        return (name if by_name else found[0]), found[1]

    def _definition(self, schema: Any) -> tuple[Any, bool]:
        name, kind = schema["name"], schema["type"]
        if kind == "enum":
            return {"type": "int", "logicalType": ENUM, "names": list(schema["symbols"])}, False
        if kind == "fixed":
            plain = {"type": "fixed", "name": name, "size": schema["size"]}
            return self._decimal(schema, plain), schema["size"] == 0
        read = {one["name"]: self.of(one["type"]) for one in schema["fields"]}
        fields = [{"name": each, "type": found} for each, (found, _) in read.items()]
        return {"type": "record", "name": name, "fields": fields}, all(empty for _, empty in read.values())

    def _primitive(self, schema: Any) -> tuple[Any, bool]:
        kind, logical = schema["type"], schema.get("logicalType")
        if kind == "bytes":
            return self._decimal(schema, {"type": kind}), False
        if logical in _LOGICAL:
            return {"type": kind, "logicalType": logical}, False
        return kind, kind == "null"

    def _decimal(self, schema: Any, plain: dict[str, Any]) -> Any:
        if schema.get("logicalType") != "decimal":
            return plain
        scale = schema.get("scale", 0)
        if type(scale) is not int or not 0 <= scale <= DIGITS_MAX:
            return plain
        return {**plain, "logicalType": DECIMAL, "scale": scale}


def _reason(error: Exception) -> str:
    """What a library says, in one line."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
