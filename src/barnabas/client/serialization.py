"""Serializers and deserializers: what callers have for keys and values, and bytes.

A serializer is a function of the value, or an object with ``serialize(topic, value)``; a deserializer a
function of the bytes, or an object with ``deserialize(topic, value)``. None, the value of a deleted key, is
never given to either: it means the same on both sides.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from barnabas.client.errors import InvalidRecordError

Convert: TypeAlias = Callable[[str, Any], Any]
"""Topic and value to value."""


def serializer_of(given: Any, what: str) -> Convert | None:
    """The serializer as a function that raises InvalidRecordError with what it was; None for none."""
    if given is None:
        return None
    plain = converter(given, "serialize")

    def serialize(topic: str, value: Any) -> Any:
        if value is None:
            return None
        try:
            return plain(topic, value)
        except Exception as error:
            raise InvalidRecordError(
                f"a record's {what} cannot be serialized: {type(error).__name__}: {error}"
            ) from error

    return serialize


def converter(given: Any, method: str) -> Convert:
    """A function of topic and value out of what an option has."""
    bound = getattr(given, method, None)
    if callable(bound):
        named: Convert = bound
        return named

    def convert(_topic: str, value: Any) -> Any:
        return given(value)

    return convert
