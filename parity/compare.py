"""Two transcripts, step by step and field by field."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from parity.normal import key_of

ABSENT: Final = "absent"


@dataclass(frozen=True, slots=True)
class Step:
    """One request and what became of it, normalised."""

    where: str
    """Scenario, what was asked, version: the name of the step in reports and in the allow-list."""
    answer: Any


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where the sides do not say the same."""

    where: str
    field: str
    theirs: str
    ours: str

    def __str__(self) -> str:
        return f"{self.where}: {self.field}\n    Kafka    {self.theirs}\n    Barnabas {self.ours}"


def compare(theirs: Sequence[Step], ours: Sequence[Step]) -> list[Difference]:
    """Every difference between two transcripts of the same scenarios."""
    found = []
    answers = {step.where: step.answer for step in ours}
    for step in theirs:
        answer = answers.pop(step.where, ABSENT)
        found += [Difference(step.where, *each) for each in _differences("", step.answer, answer)]
    found += [Difference(where, "", ABSENT, _shown(answer)) for where, answer in answers.items()]
    return found


def _differences(path: str, theirs: Any, ours: Any) -> Iterator[tuple[str, str, str]]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        yield from _entries(theirs, ours, lambda name: f"{path}.{name}" if path else name)
    elif isinstance(theirs, list) and isinstance(ours, list):
        yield from _entries(_by_key(theirs), _by_key(ours), lambda key: f"{path}[{key}]")
    elif theirs != ours or type(theirs) is not type(ours):
        yield path, _shown(theirs), _shown(ours)


def _entries(
    theirs: Mapping[str, Any], ours: Mapping[str, Any], place: Any
) -> Iterator[tuple[str, str, str]]:
    for name in [*theirs, *(name for name in ours if name not in theirs)]:
        yield from _differences(place(name), theirs.get(name, ABSENT), ours.get(name, ABSENT))


def _by_key(entries: list[Any]) -> dict[str, Any]:
    """Entries by what names them, else by their place."""
    if all(isinstance(each, dict) for each in entries):
        keyed = {key_of(each): each for each in entries}
        # One that has an empty name is told from the others all the same.
        if len(keyed) == len(entries) and ("" not in keyed or len(entries) > 1):
            return keyed
    return {str(place): each for place, each in enumerate(entries)}


def _shown(value: Any) -> str:
    text = value if value == ABSENT else repr(value)
    return text if len(text) <= 300 else f"{text[:300]}..."
