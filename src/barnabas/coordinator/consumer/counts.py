"""How many members share something: a topic, an expression, an assignor, a protocol."""

from collections.abc import Iterable


class Counts(dict[str, int]):
    """A number for each name; a name that nobody has any more is not in it."""

    def add(self, names: Iterable[str]) -> None:
        """One more has each of the names."""
        for name in names:
            self[name] = self.get(name, 0) + 1

    def take(self, names: Iterable[str]) -> None:
        """One fewer has each of the names."""
        for name in names:
            left = self.get(name, 0) - 1
            if left > 0:
                self[name] = left
            else:
                self.pop(name, None)

    def copy(self) -> "Counts":
        """The same numbers, to plan with."""
        return Counts(self)
