"""A key or a value as text and as fields. Its bytes say what it is: the id of a schema before it, JSON,
UTF-8; all else is bytes.
"""

import base64
import datetime as dt
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any, Final, Literal, NoReturn, TypeAlias

from barnabas.core.errors import BarnabasError
from barnabas.operations.schemas.source import SchemaSource

DECODED_MAX: Final = 1 << 20
"""Bytes up to which fields are looked at."""
Choice: TypeAlias = Literal["auto", "text", "json", "hex", "schema"]
"""How a reader wants to see it; `auto` takes what it says of itself."""


class Form(StrEnum):
    """What bytes were read as."""

    NULL = "null"
    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    COORDINATOR = "coordinator"
    """A record of one of the cluster's own topics."""
    HIDDEN = "hidden"


class Nothing(Enum):
    """No fields."""

    NOTHING = 0


NOTHING: Final = Nothing.NOTHING
Internal: TypeAlias = Callable[[bytes], Any]
"""Reads a key or value of a topic of the cluster's own."""


@dataclass(frozen=True, slots=True)
class DecodedPart:
    """What bytes were read as."""

    form: Form
    tree: Any = NOTHING
    """Objects of JSON."""
    text: str | None = None
    """The whole text of what has no fields, None where it is bytes."""
    why: str | None = None
    """Why it was not read as what it seems, or was asked for."""


def decoded(
    data: bytes, choice: Choice, schemas: SchemaSource | None, internal: Internal | None
) -> DecodedPart:
    """What the bytes say. Raises nothing: what cannot be read is bytes, with the reason."""
    if len(data) > DECODED_MAX:
        return DecodedPart(
            Form.HEX, why=f"its fields are not looked at: it has more than {DECODED_MAX:,} bytes"
        )
    why = None
    if internal is not None and choice == "auto":
        try:
            return DecodedPart(Form.COORDINATOR, internal(data))
        except (BarnabasError, ValueError, IndexError) as error:
            why = _line(error)
    if choice == "schema" and schemas is None:
        why = "no schema registry was named"
    if schemas is not None and choice in {"auto", "schema"} and is_framed(data):
        try:
            kind, value = schemas.value(data)
            return DecodedPart(_KINDS[kind], plain(value))
        except Exception as error:  # any client wrote it: each error of a library says that it is malformed
            why = _line(error)
    if choice == "hex":
        return DecodedPart(Form.HEX)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return DecodedPart(Form.HEX, why=why or (None if choice == "auto" else "it is no text"))
    if choice == "json" or (choice == "auto" and text.lstrip()[:1] in {"{", "["}):
        try:
            return DecodedPart(Form.JSON, json.loads(text, parse_constant=_refused), text)
        except (ValueError, RecursionError) as error:
            why = why or (_line(error) if choice == "json" else None)
    return DecodedPart(Form.TEXT, text=text, why=why)


def json_problem(text: str) -> str | None:
    """Why a text is no JSON; None where it is."""
    try:
        json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        return _line(error)
    return None


def is_framed(data: bytes) -> bool:
    """Whether it may begin with the id of a schema."""
    return len(data) > 4 and data[0] == 0


_KINDS: Final = {"AVRO": Form.AVRO, "PROTOBUF": Form.PROTOBUF, "JSON": Form.JSON}


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def plain(value: Any) -> Any:
    """What a library gave, as objects of JSON. Raises RecursionError for what is too deep."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, Decimal | uuid.UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no value of JSON")


def _line(error: Exception) -> str:
    words = " ".join(str(error).split())[:500]
    return words or type(error).__name__
