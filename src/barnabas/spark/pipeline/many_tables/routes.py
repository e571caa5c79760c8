"""How rows name their table: ``path = "lake/{carrier}"`` has one for each value of the column in braces."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

TABLES_MAX: Final = 500
"""Each has a lock of its own, which is an open file."""
_COLUMN: Final = re.compile(r"\{([^{}/]+)\}")
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}"
"""A value that is a name for a folder, in a store too, and in a catalog: it leads nowhere else, and readers
leave out names that begin with a dot or a line.
"""
_UNDOTTED: Final = _NAME.replace(".", "")
"""The same in the name of an Iceberg table, of which dots part the namespaces: SQL catalogs refuse such a
name, and two lists of values might mean one table.
"""


@dataclass(frozen=True, slots=True)
class TableRoute:
    """How the values of some columns name a table."""

    columns: tuple[str, ...]
    path: str
    """Of a folder or an address, with the columns in braces; at most one in each of its parts, so that no
    two lists of values mean one table.
    """
    table: str = ""
    """The name in Iceberg's catalog, with the same columns."""

    @property
    def name(self) -> str:
        """What a value must be to name a table, as a regular expression."""
        return _UNDOTTED if self.table else _NAME

    def filled(self, text: str, values: Sequence[str]) -> str:
        """The text with values of the columns in their places."""
        given = dict(zip(self.columns, values, strict=True))
        return _COLUMN.sub(lambda found: given.get(found[1], found[0]), text)


def columns_of(text: str) -> tuple[str, ...]:
    """The columns in braces, each once. Raises ValueError for braces that are no column's."""
    if set(_COLUMN.sub("", text)) & set("{}"):
        raise ValueError("has a brace that is no column's: it must be as {carrier}")
    return tuple(dict.fromkeys(_COLUMN.findall(text)))


def require_apart(path: str, between: str = "/") -> None:
    """Raises ValueError for two columns in one folder's name, which two lists of values may fill alike.
    `between` is a dot for a name in a catalog.
    """
    parts = path.split(between)
    if any(len(_COLUMN.findall(part)) > 1 for part in parts):
        what = "folder's name" if between == "/" else "part"
        raise ValueError(f"has two columns in one {what}: it must be as {{schema}}{between}{{table}}")


def is_name(value: str | None, route: TableRoute) -> bool:
    """Whether a value can name a table."""
    return value is not None and re.fullmatch(route.name, value) is not None


def may_be(part: str, name: str) -> bool:
    """Whether a part of a path becomes a folder of that name by some value."""
    texts = _COLUMN.split(part)[::2]
    return re.fullmatch(_NAME.join(map(re.escape, texts)), name) is not None
