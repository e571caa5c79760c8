"""Where a connector differed, and the differences that are meant:
`differences.toml`, each with its reason.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

ENTRIES: Final = Path(__file__).with_name("differences.toml")
_SHOWN: Final = 400


class Difference(NamedTuple):
    """A result that is not the official connector's on the first broker."""

    job: str
    name: str
    connector: str
    theirs: object
    ours: object

    def __str__(self) -> str:
        return (
            f"{self.job} / {self.name} ({self.connector})\n"
            f"    theirs: {_short(self.theirs)}\n    ours:   {_short(self.ours)}"
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """A job on one broker."""

    job: str
    broker: str
    compared: list[tuple[str, str]]
    """The connector and the name of each result that was compared."""
    differences: list[Difference]
    seconds: float

    @property
    def results(self) -> int:
        """How many results were compared."""
        return len(self.compared)


@dataclass(frozen=True, slots=True)
class Entry:
    """What may differ, and why; `*` stands for anything.

    `theirs` and `ours` are what either says, so that a difference which becomes another one is seen.
    """

    job: str
    name: str
    connector: str
    theirs: str
    ours: str
    reason: str

    def fits(self, found: Difference) -> bool:
        """Whether this is the entry of a difference."""
        return (
            fnmatchcase(found.job, self.job)
            and fnmatchcase(found.name, self.name)
            and found.connector == self.connector
            and _matches(found.theirs, self.theirs)
            and _matches(found.ours, self.ours)
        )


def entries() -> list[Entry]:
    """The allow-list."""
    return [Entry(**entry) for entry in tomllib.loads(ENTRIES.read_text()).get("difference", [])]


def unused(explained: Iterable[Entry], outcomes: Iterable[Outcome]) -> list[Entry]:
    """The entries that explain nothing on a broker where their result was compared."""
    outcomes = list(outcomes)
    return [entry for entry in explained if any(_idle(entry, outcome) for outcome in outcomes)]


def _idle(entry: Entry, outcome: Outcome) -> bool:
    asked = any(
        fnmatchcase(outcome.job, entry.job) and fnmatchcase(name, entry.name) and connector == entry.connector
        for connector, name in outcome.compared
    )
    return asked and not any(entry.fits(found) for found in outcome.differences)


def _matches(value: object, pattern: str) -> bool:
    # Brackets are the text's own: rows and conditions are full of them.
    return fnmatchcase(str(value), pattern.replace("[", "[[]"))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"
