"""Protobuf: messages by a descriptor set, which ``protoc --include_imports --descriptor_set_out`` writes.

Spark's type of each field is that of Spark's own ``from_protobuf``, with its ``upcast.unsigned.ints`` and
``emit.default.values``: an unsigned number stays one, and a field that cannot be absent has its default.
Messages are read by protobuf's own C code and put into Arrow column by column.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, chain
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from pyspark.sql import types as spark

from barnabas.operations.schemas.protobuf import frame_indexes
from barnabas.operations.schemas.registry import RegisteredSchema, unframed
from barnabas.spark.errors import FormatError
from barnabas.spark.pipeline.formats.decoder import arrow_type, reason, require_columns_bounded
from barnabas.spark.pipeline.formats.proto_text import message_name

_Build = Callable[[Sequence[Any]], pa.Array]
"""An array of the values of one field, or of the items of a repeated one."""

_SCALARS: Final[dict[int, spark.DataType]] = {
    FieldDescriptor.TYPE_BOOL: spark.BooleanType(),
    FieldDescriptor.TYPE_INT32: spark.IntegerType(),
    FieldDescriptor.TYPE_SINT32: spark.IntegerType(),
    FieldDescriptor.TYPE_SFIXED32: spark.IntegerType(),
    FieldDescriptor.TYPE_UINT32: spark.LongType(),
    FieldDescriptor.TYPE_FIXED32: spark.LongType(),
    FieldDescriptor.TYPE_INT64: spark.LongType(),
    FieldDescriptor.TYPE_SINT64: spark.LongType(),
    FieldDescriptor.TYPE_SFIXED64: spark.LongType(),
    FieldDescriptor.TYPE_UINT64: spark.DecimalType(20, 0),
    FieldDescriptor.TYPE_FIXED64: spark.DecimalType(20, 0),
    FieldDescriptor.TYPE_FLOAT: spark.FloatType(),
    FieldDescriptor.TYPE_DOUBLE: spark.DoubleType(),
    FieldDescriptor.TYPE_STRING: spark.StringType(),
    FieldDescriptor.TYPE_BYTES: spark.BinaryType(),
}
_TIMES: Final[dict[str, spark.DataType]] = {
    "google.protobuf.Timestamp": spark.TimestampType(),
    "google.protobuf.Duration": spark.DayTimeIntervalType(),
}


@dataclass(frozen=True, slots=True)
class ProtobufDecoder:
    """Values of one message. Raises FormatError for descriptors that there can be no columns for."""

    descriptors: bytes
    """A ``FileDescriptorSet`` with all that the message needs."""
    message: str
    """Its full name."""
    confluent: bool = False
    """Whether a schema registry's frame is before each value."""

    def __post_init__(self) -> None:
        self._plan()

    @property
    def type(self) -> spark.StructType:
        """What a value becomes."""
        return self._plan().struct

    def parse(self, value: bytes) -> Message:
        """A message. Raises an exception for a malformed one, and for one without a field that is
        required.
        """
        return self._read(_body(value, self._plan().path) if self.confluent else value)

    def _read(self, body: bytes) -> Message:
        found = self._plan().message.FromString(body)
        if not found.IsInitialized():
            raise DecodeError(f"{', '.join(found.FindInitializationErrors())} is missing")
        return found

    def parse_by(self, writer: RegisteredSchema, body: bytes) -> Message:
        """A message that was written by another version of the file: fields are found by their numbers, and
        the frame names the message by its place in that version. Raises an exception for a malformed one.
        """
        if writer.kind != "PROTOBUF":
            raise ValueError(f"its schema is of the kind {writer.kind}, not PROTOBUF")
        indexes, rest = frame_indexes(body)
        name = _name(writer.text, indexes)
        if name != self.message:
            raise ValueError(f"it is a {name}, not a {self.message}")
        return self._read(rest)

    def column(self, parsed: Sequence[Message | None]) -> pa.StructArray:
        """Messages as one array."""
        plan = self._plan()
        empty = plan.message()
        column = plan.build([empty if one is None else one for one in parsed])
        nulls = pa.array([one is None for one in parsed], pa.bool_())
        return pa.StructArray.from_arrays(column.flatten(), fields=list(column.type), mask=nulls)

    def _plan(self) -> "_ProtobufPlan":
        return _plan(self.descriptors, self.message)


_name = cache(message_name)


@dataclass(frozen=True, slots=True)
class _ProtobufPlan:
    struct: spark.StructType
    message: type[Message]
    build: _Build
    path: tuple[int, ...]
    """How a frame may name the message."""


@cache
def _plan(descriptors: bytes, message: str) -> _ProtobufPlan:
    descriptor = _find(descriptors, message)
    try:
        kind = _Types().struct(descriptor)
        if not kind.fields:
            raise FormatError(f"is {message}, which has no fields", "message")
        require_columns_bounded(kind)
        cls = message_factory.GetMessageClass(descriptor)
        return _ProtobufPlan(kind, cls, _structs(descriptor, kind), _path(descriptor))
    except RecursionError:
        raise FormatError("has messages in messages too deep for Spark", "message") from None


def _find(descriptors: bytes, message: str) -> Descriptor:
    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
        for file in files:
            pool.Add(file)
        found = [pool.FindFileByName(file.name) for file in files]
    except Exception as error:  # what is no descriptor set fails in many ways
        raise FormatError(f"is no descriptor set of protoc --include_imports: {reason(error)}") from None
    try:
        return pool.FindMessageTypeByName(message)
    except KeyError:
        names = sorted(
            f"{file.package}.{name}".lstrip(".") for file in found for name in file.message_types_by_name
        )
        raise FormatError(
            f"is {message}, which is not in the schema; it has {', '.join(names) or 'none'}", "message"
        ) from None


# Types


class _Types:
    """Of messages, each looked at once, in however many fields it is."""

    def __init__(self) -> None:
        self._named: dict[str, spark.StructType | None] = {}
        """By full names, None while their own fields are looked at."""

    def struct(self, descriptor: Descriptor) -> spark.StructType:
        """The type of a message, without fields that could have no columns:
        those of messages that have none.
        """
        name = descriptor.full_name
        if name not in self._named:
            self._named[name] = None
            fields = [(field.name, self._type(field)) for field in descriptor.fields]
            self._named[name] = spark.StructType(
                [spark.StructField(key, kind) for key, kind in fields if kind is not None]
            )
        found = self._named[name]
        if found is None:
            raise FormatError(f"is recursive: {name} has a field of {name}, and Spark has no such type")
        return found

    def _type(self, field: FieldDescriptor) -> spark.DataType | None:
        if _is_map(field):
            key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            kind, item = self._single(key), self._single(value)
            return None if item is None else spark.MapType(kind, item)
        item = self._single(field)
        return spark.ArrayType(item) if field.is_repeated and item is not None else item

    def _single(self, field: FieldDescriptor) -> spark.DataType | None:
        if field.enum_type is not None:
            return spark.StringType()
        if field.message_type is None:
            return _SCALARS[field.type]
        time = _TIMES.get(field.message_type.full_name)
        if time is not None:
            return time
        kind = self.struct(field.message_type)
        return kind if kind.fields else None


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


# Columns


def _structs(descriptor: Descriptor, kind: spark.StructType) -> _Build:
    fields = list(arrow_type(kind))
    children = [_field(descriptor.fields_by_name[field.name], field.dataType) for field in kind.fields]

    def build(messages: Sequence[Message]) -> pa.Array:
        return pa.StructArray.from_arrays([child(messages) for child in children], fields=fields)

    return build


def _field(field: FieldDescriptor, kind: spark.DataType) -> _Build:
    """What makes the column of a field of these messages."""
    if isinstance(kind, spark.MapType):
        return _maps(field, kind)
    if isinstance(kind, spark.ArrayType):
        return _lists(field, kind)
    name, items = field.name, _items(field, kind)
    if isinstance(kind, spark.StructType):
        return _nested(name, items)
    # As in Spark, a default that a schema of proto2 names stands for an absent value.
    if field.has_presence and not field.has_default_value:
        return lambda messages: items(
            [getattr(one, name) if one.HasField(name) else None for one in messages]
        )
    return lambda messages: items([getattr(one, name) for one in messages])


def _nested(name: str, items: _Build) -> _Build:
    def build(messages: Sequence[Message]) -> pa.Array:
        column = items([getattr(one, name) for one in messages])
        absent = pa.array([not one.HasField(name) for one in messages], pa.bool_())
        return pa.StructArray.from_arrays(column.flatten(), fields=list(column.type), mask=absent)

    return build


def _lists(field: FieldDescriptor, kind: spark.ArrayType) -> _Build:
    name, items, arrow = field.name, _items(field, kind.elementType), arrow_type(kind)

    def build(messages: Sequence[Message]) -> pa.Array:
        lists = [getattr(one, name) for one in messages]
        flat = items(list(chain.from_iterable(lists)))
        return pa.ListArray.from_arrays(_offsets(lists), flat, type=arrow)

    return build


def _maps(field: FieldDescriptor, kind: spark.MapType) -> _Build:
    name, entry = field.name, field.message_type.fields_by_name
    keys, values = _items(entry["key"], kind.keyType), _items(entry["value"], kind.valueType)

    def build(messages: Sequence[Message]) -> pa.Array:
        maps = [getattr(one, name) for one in messages]
        entries = [item for one in maps for item in one.items()]
        flat = keys([key for key, _ in entries]), values([value for _, value in entries])
        return pa.MapArray.from_arrays(_offsets(maps), *flat)

    return build


def _offsets(lists: Iterable[Any]) -> pa.Array:
    return pa.array(accumulate(map(len, lists), initial=0), pa.int32())


def _items(field: FieldDescriptor, kind: spark.DataType) -> _Build:
    """What makes an array of single values of a field, None for absent ones; of messages none is absent."""
    if isinstance(kind, spark.StructType):
        return _structs(field.message_type, kind)
    arrow = arrow_type(kind)
    if field.message_type is not None:
        return lambda times: pa.array([None if one is None else _micros(one) for one in times], arrow)
    if field.enum_type is not None:
        # A number that the schema has no name for is its digits, as a newer writer may have named it.
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda numbers: pa.array(
            [None if one is None else names.get(one, str(one)) for one in numbers], arrow
        )
    return lambda values: pa.array(values, arrow)


def _micros(time: Any) -> int:
    """Microseconds of a Timestamp or a Duration."""
    return int(time.seconds * 1_000_000 + time.nanos // 1000)


def _body(value: bytes, path: tuple[int, ...]) -> bytes:
    """What is behind a registry's frame. Raises ValueError for a message of another place in the file."""
    indexes, rest = frame_indexes(unframed(value))
    if indexes != path:
        raise ValueError("its frame names another message of the schema's file")
    return rest


def _path(descriptor: Descriptor) -> tuple[int, ...]:
    """The place of a message in its file: among the file's, then among those of each outer one."""
    path: list[int] = []
    inner: Descriptor | None = descriptor
    while inner is not None:
        outer = inner.containing_type
        siblings = outer.nested_types if outer is not None else inner.file.message_types_by_name.values()
        path.insert(0, [one.full_name for one in siblings].index(inner.full_name))
        inner = outer
    return tuple(path)
