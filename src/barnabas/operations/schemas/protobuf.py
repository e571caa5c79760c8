"""Protobuf values by the compiled schema that a registry gives, as plain objects.

A value is a list of numbers that say which message of the file it is (its place, then that of the message
inside it, and so on), then the message. protobuf's own code bounds how deep messages may be in messages.
"""

import base64
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    json_format,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.message import Message

from barnabas.core.errors import BarnabasError
from barnabas.operations.schemas.registry import RegisteredSchema

_WELL_KNOWN: Final = (
    any_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2,
)  # fmt: skip
"""What schemas import without being given it."""
_SCHEMAS_KEPT: Final = 1_000
_DEPTH_MAX: Final = 100


class ProtobufSchemaError(BarnabasError, ValueError):
    """A schema that is none, or that has no such message."""


def protobuf_value(writer: RegisteredSchema, body: bytes) -> Any:
    """The message without its frame, fields by the names of the file. Raises ProtobufSchemaError, and some
    exception for a malformed value.
    """
    indexes, rest = frame_indexes(body)
    cls = _message(writer.text, tuple(writer.references), tuple(writer.names), indexes)
    return json_format.MessageToDict(
        cls.FromString(rest), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def frame_indexes(body: bytes) -> tuple[tuple[int, ...], bytes]:
    """Which message of the file it is, and the message: a count and so many places, as zigzag varints; a 0
    alone is the first one. Raises ValueError.
    """
    count, at = _zigzag(body, 0)
    if not count:  # the first message has a short form
        return (0,), body[at:]
    if not 0 < count <= _DEPTH_MAX:
        raise ValueError(f"{count} is no number of indexes")
    found = []
    for _ in range(count):
        index, at = _zigzag(body, at)
        found.append(index)
    return tuple(found), body[at:]


def _zigzag(body: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(body) or shift > 28:
            raise ValueError("it does not say which message it is")
        number |= (body[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not body[at - 1] & 0x80:
            return (number >> 1) ^ -(number & 1), at


@lru_cache(_SCHEMAS_KEPT)
def _message(
    text: str, references: Sequence[str], names: Sequence[str], indexes: Sequence[int]
) -> type[Message]:
    try:
        pool = descriptor_pool.DescriptorPool()
        for module in _WELL_KNOWN:
            pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        for name, reference in zip(names, references, strict=True):
            pool.Add(_file(reference, name))
        file = _file(text, "")
        pool.Add(file)
        one = file.message_type[indexes[0]]
        path = [file.package, one.name] if file.package else [one.name]
        for index in indexes[1:]:
            one = one.nested_type[index]
            path.append(one.name)
        cls: type[Message] = message_factory.GetMessageClass(pool.FindMessageTypeByName(".".join(path)))
        return cls
    except Exception as error:  # what is no schema fails in many ways
        words = " ".join(str(error).split())
        raise ProtobufSchemaError(f"is no Protobuf schema with such a message: {words}") from None


def _file(text: str, name: str) -> descriptor_pb2.FileDescriptorProto:
    found = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    if name:
        found.name = name
    return found
