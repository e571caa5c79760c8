"""Ranges of versions as Kafka's schemas write them: ``3``, ``0-6``, ``4+``."""

from typing import Final, NamedTuple

VERSION_MAX: Final = 0x7FFF


class Versions(NamedTuple):
    """From the first to the last version, both included."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """The range that a schema's text names; raises ValueError."""
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_MAX)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __str__(self) -> str:
        if self.last == VERSION_MAX:
            return f"{self.first}+"
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"
