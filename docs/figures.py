"""Draws the figures of the documentation from the code's own tables (`make docs`).

A page holds a figure between two marks, and any page may hold any of them::

    <!-- figure: classic-group-states -->
    <!-- end of figure -->

A test compares the pages with what this would write, so a figure cannot show what the code does not do.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from barnabas.coordinator.classic.states import TRANSITIONS, GroupState

DOCS = Path(__file__).parent
_FIGURE = re.compile(r"(<!-- figure: ([\w-]+) -->\n).*?(<!-- end of figure -->)", re.DOTALL)


def classic_group_states() -> str:
    """The states of a classic group, with what leads from one to another."""
    lines = ["stateDiagram-v2", f"    [*] --> {GroupState.EMPTY.value}"]
    for target, ways in TRANSITIONS.items():
        lines += [f"    {start.value} --> {target.value} : {reason}" for start, reason in ways.items()]
    return "\n".join(lines)


FIGURES: Final[dict[str, Callable[[], str]]] = {"classic-group-states": classic_group_states}


def drawn(text: str) -> str:
    """The page with its figures as they should be. KeyError for a figure that there is not."""
    return _FIGURE.sub(lambda found: f"{found[1]}```mermaid\n{FIGURES[found[2]]()}\n```\n{found[3]}", text)


def pages() -> Iterator[Path]:
    """Every page that holds a figure."""
    return (page for page in sorted(DOCS.rglob("*.md")) if _FIGURE.search(page.read_text()))


if __name__ == "__main__":
    for page in pages():
        page.write_text(drawn(page.read_text()))
