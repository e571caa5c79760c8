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

from barnabas.client.group.membership import NEXT_STATE
from barnabas.coordinator.classic.states import TRANSITIONS, ClassicGroupState
from barnabas.coordinator.consumer.reconciliation import TRANSITIONS as MEMBER_TRANSITIONS
from barnabas.coordinator.transaction.states import TRANSITIONS as TRANSACTION_TRANSITIONS
from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS

DOCS = Path(__file__).parent
_FIGURE = re.compile(r"(<!-- figure: ([\w-]+) -->\n).*?(<!-- end of figure -->)", re.DOTALL)


def classic_group_states() -> str:
    """The states of a classic group, with what leads from one to another."""
    lines = ["stateDiagram-v2", f"    [*] --> {ClassicGroupState.EMPTY.value}"]
    for target, ways in TRANSITIONS.items():
        lines += [f"    {start.value} --> {target.value} : {reason}" for start, reason in ways.items()]
    return _mermaid(lines)


def consumer_member_states() -> str:
    """The states of a member of a consumer group (KIP-848), with what a heartbeat of it comes to."""
    lines = ["stateDiagram-v2"]
    for start, ways in MEMBER_TRANSITIONS.items():
        lines += [f"    {start.name} --> {target.name} : {outcome.value}" for outcome, target in ways.items()]
    return _mermaid(lines)


def transaction_states() -> str:
    """The states of a transaction, with what leads from one to another."""
    lines = ["stateDiagram-v2", "    [*] --> Empty"]
    for target, ways in TRANSACTION_TRANSITIONS.items():
        lines += [f"    {start.label} --> {target.label} : {reason}" for start, reason in ways.items()]
    return _mermaid(lines)


def client_member_states() -> str:
    """The states of a consumer of `barnabas.client` in its group, with what changes them."""
    lines = ["stateDiagram-v2"]
    for start, ways in NEXT_STATE.items():
        lines += [f"    {start.name} --> {target.name} : {event.value}" for event, target in ways.items()]
    return _mermaid(lines)


def consumer_offsets_records() -> str:
    """What is written to ``__consumer_offsets``: the types, and the versions that their values may have."""
    lines = ["| key | record | versions of the value |", "|---|---|---|"]
    for number in CONSUMER_OFFSETS:
        key, value = CONSUMER_OFFSETS.classes(number)
        versions = " to ".join(dict.fromkeys([str(value.min_version), str(value.max_version)]))
        lines.append(f"| {number} | {key.__name__.removesuffix('Key')} | {versions} |")
    return "\n".join(lines)


def _mermaid(lines: list[str]) -> str:
    return "\n".join(["```mermaid", *lines, "```"])


FIGURES: Final[dict[str, Callable[[], str]]] = {
    "classic-group-states": classic_group_states,
    "client-member-states": client_member_states,
    "consumer-member-states": consumer_member_states,
    "consumer-offsets-records": consumer_offsets_records,
    "transaction-states": transaction_states,
}


def drawn(text: str) -> str:
    """The page with its figures as they should be. KeyError for a figure that there is not."""
    return _FIGURE.sub(lambda found: f"{found[1]}{FIGURES[found[2]]()}\n{found[3]}", text)


def pages() -> Iterator[Path]:
    """Every page that holds a figure."""
    return (page for page in sorted(DOCS.rglob("*.md")) if _FIGURE.search(page.read_text()))


if __name__ == "__main__":
    for page in pages():
        page.write_text(drawn(page.read_text()))
