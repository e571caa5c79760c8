"""An answer as a tree of plain values:
every field of the message, and the bytes that no field accounts for.
"""

from typing import Any, Final

from barnabas.core.chunks import materialize
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.framing import decode_correlation_id, encode_response
from barnabas.protocol.message import Response
from barnabas.protocol.registry import RESPONSES
from barnabas.protocol.schema import Struct, resolved
from barnabas.records.batch import batch_headers

Tree = dict[str, Any] | list[Any] | str | int | float | bool | None

_UNSUPPORTED_VERSION: Final = 35
_HEADER_FIELDS: Final = (
    "base_offset",
    "length",
    "leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
    "position",
)


def decode(api: ApiKey, version: int, frame: bytes) -> tuple[Response | None, Tree]:
    """The response of an answer (None where it is none) and its tree."""
    cls = RESPONSES[api]
    if api is ApiKey.API_VERSIONS and frame[4:6] == _UNSUPPORTED_VERSION.to_bytes(2, "big"):
        version = 0  # whatever was asked for (KIP-511)
    tags = cls.is_flexible(version) and api is not ApiKey.API_VERSIONS
    try:
        response, end = cls.decode(memoryview(frame), version, 5 if tags else 4)
    except ProtocolError as error:
        return None, {"undecodable": f"{error}: {frame.hex()}"}
    again = materialize(encode_response(decode_correlation_id(frame), response, version))[4:]
    return response, {
        "correlation_id": decode_correlation_id(frame),
        "header_tags": frame[4] if tags else None,
        **_struct(response),
        "rest": frame[end:].hex(),
        # What a field cannot show: the order of tagged fields, a length in more bytes than it needs.
        "canonical": again == frame[:end],
    }


def _struct(struct: Struct) -> dict[str, Any]:
    tree = {name: _value(getattr(struct, name)) for name in resolved(type(struct))}
    if struct.unknown_tags:
        tree["unknown_tags"] = {str(tag): value.hex() for tag, value in struct.unknown_tags.items()}
    return tree


def _value(value: Any) -> Any:
    if isinstance(value, Struct):
        return _struct(value)
    if isinstance(value, list):
        return [_value(each) for each in value]
    if isinstance(value, memoryview):
        return _records(value)
    return value


def _records(data: memoryview) -> list[dict[str, Any]]:
    """Batches by the fields of their headers, with their insides as they are; then what is no whole batch."""
    found, end = [], 0
    for header in batch_headers(data):
        end = header.position + header.size
        body = bytes(data[header.position + 61 : end]).hex()
        # The checksum covers the time that the broker may have stamped.
        stamped = header.attributes & 8
        fields = {name: getattr(header, name) for name in _HEADER_FIELDS}
        found.append(fields | {"crc": "stamped" if stamped else header.crc, "body": body})
    if end < len(data):
        found.append({"position": end, "no_whole_batch": bytes(data[end:]).hex()})
    return found
