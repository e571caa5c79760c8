"""Checks of topic names as callers give them: is it a text, can a request carry it, can a topic have it."""

from typing import Any, Final

from barnabas.client.errors import InvalidRecordError
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import validate_topic_name

_STRING_BYTES_MAX: Final = 2**15 - 1
"""The longest text that every version of a request can carry."""


def plain_topic(name: Any, what: str = "a topic's name") -> str:
    """The name as a plain text; raises TypeError."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be str, not {type(name).__name__}")
    return str(name)


def check_sendable(name: Any) -> None:
    """Raises TypeError, and KafkaError (INVALID_TOPIC_EXCEPTION) for a text that no request can carry."""
    try:
        size = len(plain_topic(name).encode())
    except UnicodeEncodeError:
        size = -1
    if not 0 <= size <= _STRING_BYTES_MAX:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {name[:80]!r} cannot be sent"
        )


def check_valid(name: str) -> None:
    """Raises InvalidRecordError for a name that no topic can have."""
    try:
        validate_topic_name(name)
    except KafkaError as error:
        raise InvalidRecordError(f"a record's topic cannot be {name[:300]!r}: {error}") from None
