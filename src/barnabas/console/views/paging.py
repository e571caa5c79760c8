"""A part of a long table: the server searches, sorts and cuts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")

SIZE_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Paging:
    """Which part is shown, of how many rows."""

    page: int
    size: int
    rows: int
    """After the search."""

    @property
    def pages(self) -> int:
        """How many pages there are, at least one."""
        return max(1, -(-self.rows // self.size))


def cut(rows: Sequence[T], page: int, size: int) -> tuple[Sequence[T], Paging]:
    """The rows of a page, counted from 1; the last page for a number that is too large."""
    size = min(max(size, 1), SIZE_MAX)
    paging = Paging(min(max(page, 1), max(1, -(-len(rows) // size))), size, len(rows))
    start = (paging.page - 1) * size
    return rows[start : start + size], paging
