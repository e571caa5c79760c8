"""Messages of the protocol as JSON, in the shape of Kafka's generated ``...JsonConverter`` classes.

A field is there in the versions that have it; one with a tag only when it says more than its default. Bytes
are base64, UUIDs 22 characters, names camelCase.
"""

import base64
import json
import re
from typing import Any

from barnabas.core.ids import uuid_text
from barnabas.protocol.schema import Field, Struct, is_default, resolved

_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|.)")


def message_node(message: Struct, version: int) -> dict[str, Any]:
    """The message in one version, made of what `json` can write."""
    return {
        _camel_case(name): _node(field, getattr(message, name), version)
        for name, field in resolved(type(message)).items()
        if version in field.versions
        and not (field.tag is not None and is_default(field, getattr(message, name)))
    }


def _node(field: Field, value: Any, version: int) -> Any:
    if field.is_array and value is not None:
        return [_single_node(field, element, version) for element in value]
    return _single_node(field, value, version)


def _single_node(field: Field, value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return message_node(value, version)
    if isinstance(value, (bytes, bytearray, memoryview)):
        is_uuid = field.struct is None and getattr(field.kind, "name", "") == "uuid"
        return uuid_text(bytes(value)) if is_uuid else base64.b64encode(value).decode()
    return value


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def json_text(node: Any) -> str:
    """The text that Jackson writes: no blanks, no escapes but the necessary ones, those in capitals."""
    text = json.dumps(node, ensure_ascii=False, separators=(",", ":"))
    return _ESCAPE.sub(lambda found: rf"\u{found[1].upper()}" if found[1] else found[0], text)
