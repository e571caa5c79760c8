"""Which messages the text of a ``.proto`` file has, by the indexes that a schema registry's frame has.

A value that was written by another version of the file may name its message by another index. Nothing else is
read: fields are found by their numbers.
"""

import re
from collections.abc import Sequence
from typing import Final

_TOKEN: Final = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[{};]|[A-Za-z_][\w.]*""", re.DOTALL
)


def message_name(text: str, indexes: Sequence[int]) -> str:
    """The full name of the message. Raises ValueError where the file has none there."""
    tokens = [one for one in _TOKEN.findall(text) if not one.startswith(("//", "/*"))]
    package = ""
    names: dict[tuple[int, ...], str] = {}
    open_: list[tuple[int, ...] | None] = []
    counts: dict[tuple[int, ...], int] = {}
    for at, word in enumerate(tokens):
        if word == "}":
            if open_:
                open_.pop()
        elif word == "{":
            outer = _outer(open_)
            if at >= 2 and tokens[at - 2] == "message" and outer is not None:
                path = (*outer, counts.get(outer, 0))
                counts[outer] = path[-1] + 1
                names[path] = ".".join(filter(None, [names.get(outer, package), tokens[at - 1]]))
                open_.append(path)
            else:
                open_.append(None)
        elif word == "package" and not open_ and at + 1 < len(tokens):
            package = tokens[at + 1]
    try:
        return names[tuple(indexes)]
    except KeyError:
        raise ValueError(f"its frame names message {list(indexes)}, which its schema does not have") from None


def _outer(open_: Sequence[tuple[int, ...] | None]) -> tuple[int, ...] | None:
    """The message that is open, empty for the file, None in what can have no messages, such as an enum."""
    return open_[-1] if open_ else ()
