"""The columns of a JSON Schema, as Spark's DDL: what a schema registry has of a topic in JSON.

What has no type of Spark's is a text, which Spark's reader of JSON takes for any value. Connect's hints
(``connect.type``, ``title``) make narrower types of numbers.
"""

import json
from typing import Any, Final

from barnabas.spark.ddl import quoted
from barnabas.spark.errors import FormatError

_PLAIN: Final = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN", "string": "STRING"}
_FORMATS: Final = {"date-time": "TIMESTAMP", "date": "DATE"}
_CONNECT: Final = {"int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "float32": "FLOAT"}
_DEPTH_MAX: Final = 30
_FIELDS_MAX: Final = 10_000


def columns_of(text: str) -> str:
    """The columns as DDL. Raises FormatError for a schema that is none, or not of an object with fields."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        raise FormatError("is no JSON Schema: it is no JSON") from None
    walk = _SchemaWalk(schema)
    found = walk.resolved(schema)
    fields = walk.fields(found, 0) if isinstance(found, dict) else []
    if not fields:
        raise FormatError("must be of an object with properties")
    return ", ".join(f"{name} {kind}" for name, kind in fields)


class _SchemaWalk:
    """Through a schema, from the outside to the inside."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole
        self._fields = 0

    def resolved(self, schema: Any) -> Any:
        """What a ``$ref`` within the schema names."""
        for _ in range(_DEPTH_MAX):
            if not isinstance(schema, dict) or "$ref" not in schema:
                return schema
            place = str(schema["$ref"])
            if not place.startswith("#"):
                raise FormatError(f"refers to {place}, and only references within it are followed")
            found = self._whole
            for part in filter(None, place[1:].split("/")):
                name = part.replace("~1", "/").replace("~0", "~")
                if not isinstance(found, dict) or name not in found:
                    raise FormatError(f"refers to {place}, which it does not have")
                found = found[name]
            schema = found
        raise FormatError("refers to itself")

    def fields(self, schema: dict[str, Any], depth: int) -> list[tuple[str, str]]:
        """The properties of an object."""
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            return []
        self._fields += len(properties)
        if self._fields > _FIELDS_MAX or depth > _DEPTH_MAX:
            raise FormatError(f"is recursive, or has more than {_FIELDS_MAX:,} properties")
        return [(quoted(name), self.kind(one, depth + 1)) for name, one in properties.items()]

    def kind(self, given: Any, depth: int) -> str:
        """The type of a property."""
        schema = self.resolved(given)
        if not isinstance(schema, dict):
            return "STRING"
        for word in ("oneOf", "anyOf"):
            branches = schema.get(word)
            if isinstance(branches, list):
                there = [one for one in branches if self.resolved(one) != {"type": "null"}]
                return self.kind(there[0], depth + 1) if len(there) == 1 and depth < _DEPTH_MAX else "STRING"
        names = schema.get("type")
        listed = [one for one in names if one != "null"] if isinstance(names, list) else [names]
        if len(listed) != 1:
            return "STRING"
        (name,) = listed
        if name == "object" or (name is None and "properties" in schema):
            inside = ", ".join(f"{key}: {kind}" for key, kind in self.fields(schema, depth))
            return f"STRUCT<{inside}>" if inside else "STRING"
        if name == "array":
            return f"ARRAY<{self.kind(schema.get('items'), depth + 1)}>" if depth < _DEPTH_MAX else "STRING"
        if name == "string":
            return _FORMATS.get(str(schema.get("format")), "STRING")
        return _CONNECT.get(str(schema.get("connect.type")), _PLAIN.get(str(name), "STRING"))
