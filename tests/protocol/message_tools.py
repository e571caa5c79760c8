"""What the tests of the protocol share: all message classes, and a strategy for any of them."""

from functools import cache

from hypothesis import strategies as st

from barnabas.protocol.api import ApiKey
from barnabas.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from barnabas.protocol.layout import Layout, layout_of
from barnabas.protocol.message import Message
from barnabas.protocol.messages.envelope import DefaultPrincipalData
from barnabas.protocol.registry import REQUESTS, RESPONSES
from barnabas.protocol.schema import Field, Struct
from barnabas.protocol.wire import Wire

TOPICS = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)
INSIDE_OTHERS = (ConsumerProtocolSubscription, ConsumerProtocolAssignment, DefaultPrincipalData)
RANGES = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
SIMPLE = {
    "bool": st.booleans(),
    "uint16": st.integers(0, 0xFFFF),
    "uint32": st.integers(0, 0xFFFFFFFF),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": st.text(max_size=6) | st.just("é" * 70),
    "bytes": st.binary(max_size=6) | st.just(bytes(130)),
    "records": st.binary(max_size=6) | st.just(bytes(3000)),
}


def known_keys() -> list[ApiKey]:
    """The keys that have messages."""
    return [key for key in ApiKey if has_messages(key)]


def has_messages(key: ApiKey) -> bool:
    try:
        REQUESTS[key]
    except KeyError:
        return False
    return True


def all_messages() -> list[type[Message]]:
    """Every class with a version of its own:
    requests, responses, coordinators' records, what travels in others.
    """
    apis = [table[key] for key in known_keys() for table in (REQUESTS, RESPONSES)]
    return [*apis, *coordinator_records(), *INSIDE_OTHERS]


def coordinator_records() -> list[type[Message]]:
    """Every key and value in the internal topics."""
    return [cls for topic in TOPICS for record_type in topic for cls in topic.classes(record_type)]


def versions_of(cls: type[Message]) -> range:
    return range(cls.min_version, cls.max_version + 1)


def message_layout(cls: type[Message], version: int) -> Layout:
    return layout_of(cls, version, flexible=cls.is_flexible(version))


@cache
def messages(cls: type[Message], version: int) -> st.SearchStrategy[Message]:
    """Messages whose every field of this version has an arbitrary value."""
    return _structs(message_layout(cls, version))


def _structs(layout: Layout) -> st.SearchStrategy[Struct]:
    fields = {field.name: _values(layout, field) for field in (*layout.fields, *layout.tagged)}
    if layout.flexible:
        unknown = st.dictionaries(st.integers(100, 300), st.binary(max_size=3), min_size=1, max_size=2)
        fields["unknown_tags"] = st.none() | unknown
    return st.builds(layout.cls, **fields)


def _values(layout: Layout, field: Field) -> st.SearchStrategy[object]:
    if isinstance(field.kind, Wire):
        values = _primitives(field.kind)
    else:
        values = _structs(layout.of(field))
        if field.tag is not None and not field.is_array:
            values = st.none() | values.filter(lambda value: value != type(value)())
    if field.is_array:
        values = st.lists(values, max_size=2) | (_long_lists(field.kind))
    return st.none() | values if field.is_nullable(layout.version) else values


def _long_lists(kind: Wire | type[Struct]) -> st.SearchStrategy[list[object]]:
    return st.just([7] * 130) if isinstance(kind, Wire) and kind.name in RANGES else st.just([])


def _primitives(kind: Wire) -> st.SearchStrategy[object]:
    if bits := RANGES.get(kind.name):
        return st.integers(-(1 << bits), (1 << bits) - 1)
    return SIMPLE[kind.name]


@cache
def filled(cls: type[Message], version: int) -> Message:
    """A message with something in every field of this version."""
    return _fill(message_layout(cls, version))  # type: ignore[return-value]


def _fill(layout: Layout) -> Struct:
    values = {field.name: _filling(layout, field) for field in (*layout.fields, *layout.tagged)}
    return layout.cls(**values, unknown_tags={77: b"unknown"} if layout.flexible else None)


def as_decoded(message: Message) -> Message:
    """The message that decoding gives: that of a request has no unknown tags, wherever they were."""
    return message if message.keeps_unknown_tags else _without_unknown_tags(message)


def _without_unknown_tags(value: object) -> object:
    if isinstance(value, list):
        return [_without_unknown_tags(each) for each in value]
    if not isinstance(value, Struct):
        return value
    cls = type(value)
    return cls(**{name: _without_unknown_tags(getattr(value, name)) for name in cls.__fields__})


def _filling(layout: Layout, field: Field) -> object:
    if isinstance(field.kind, Wire):
        samples = {
            "bool": True,
            "float64": 2.5,
            "uuid": bytes(range(16)),
            "string": "text",
            "bytes": b"bytes",
        }
        value = samples.get(field.kind.name, b"records" if field.kind.name == "records" else 3)
    else:
        value = _fill(layout.of(field))
    return [value, value] if field.is_array else value
