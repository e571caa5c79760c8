"""Names that other Kafka clients for Python have: one line instead of an AttributeError that says nothing."""

from collections.abc import Callable, Mapping
from typing import TypeVar

C = TypeVar("C", bound=type)


class _Instead:
    """An attribute that is not there, and says what to write for it.

    It stands in the class: a `__getattr__` would make every other attribute of it slower to read.
    """

    __slots__ = ("_line", "_name")

    def __init__(self, name: str, line: str) -> None:
        self._name = name
        self._line = line

    def __get__(self, instance: object, owner: type) -> object:
        raise AttributeError(f"{owner.__name__!r} object has no attribute {self._name!r}: {self._line}")


def knows(habits: Mapping[str, str]) -> Callable[[C], C]:
    """A decorator of a class that answers these names, each with its line."""

    def decorated(client: C) -> C:
        for name, line in habits.items():
            setattr(client, name, _Instead(name, line))
        return client

    return decorated
