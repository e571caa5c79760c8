"""The differences that are meant: `allowed.toml` and `allowed_4_4.toml`, each entry with its reason.

An entry names step and field, and what either side says there; `*` stands for anything. It is used up by the
differences that it fits; an entry that fits none is a promise that nobody needs any more.
"""

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parity.compare import Difference
from parity.wire import SILENCE

EVERYWHERE: Final = ("plain", "denied", "secure")


@dataclass(frozen=True, slots=True)
class Allowed:
    """One kind of difference and why it is meant."""

    where: str
    field: str
    theirs: str
    ours: str
    reason: str
    modes: Sequence[str] = EVERYWHERE
    """Where it may be met; in the first of them it has to be."""

    def fits(self, difference: Difference) -> bool:
        """Whether this is the entry of a difference."""
        return (
            _matches(self.where, difference.where)
            and _matches(self.field, difference.field)
            and _matches(self.theirs, difference.theirs)
            and _matches(self.ours, difference.ours)
        )


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


def entries(file: Path, mode: str | None = None) -> list[Allowed]:
    """An allow-list; with `mode` that of one mode."""
    listed = tomllib.loads(file.read_text()).get("difference", [])
    found = [Allowed(**{**entry, "modes": tuple(entry.get("modes", EVERYWHERE))}) for entry in listed]
    return [entry for entry in found if mode is None or mode in entry.modes]


def never_answers(allowed: Iterable[Allowed], where: str) -> bool:
    """Whether a list says that Kafka leaves this question without an answer."""
    return any(entry.theirs == repr(SILENCE) and _matches(entry.where, where) for entry in allowed)


def judge(found: Iterable[Difference], allowed: list[Allowed]) -> tuple[list[Difference], list[Allowed]]:
    """The differences that no entry explains, and the entries that explain none."""
    unused = set(allowed)
    unexplained = []
    for difference in found:
        fitting = {entry for entry in allowed if entry.fits(difference)}
        unused -= fitting
        if not fitting:
            unexplained.append(difference)
    return unexplained, [entry for entry in allowed if entry in unused]


def missed(unused: Iterable[Allowed], mode: str) -> list[Allowed]:
    """The unused entries that this mode should have used."""
    return [entry for entry in unused if entry.modes[0] == mode]


def table(kafka: str, file: Path) -> str:
    """An allow-list as a table for the compatibility page."""
    lines = [f"| asked | field | Kafka {kafka} | Barnabas | why |", "|---|---|---|---|---|"]
    for entry in entries(file):
        cells = (entry.where, entry.field, entry.theirs, entry.ours)
        where = "" if entry.modes == EVERYWHERE else f" (mode {', '.join(entry.modes)})"
        lines.append(f"| {' | '.join(map(_cell, cells))} | {entry.reason}{where} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"
