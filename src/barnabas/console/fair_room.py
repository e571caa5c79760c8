"""Room among things that are kept for a while, each for somebody: nobody pushes out what others have."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def make_room(
    kept: dict[str, T], owner_of: Callable[[T], str], owner: str, *, each_max: int, total_max: int
) -> None:
    """Lets the oldest thing of `owner` go, or of whoever has the most, until one more of `owner` fits."""
    counts = Counter(map(owner_of, kept.values()))
    while counts[owner] >= each_max or counts.total() >= total_max:
        loser = owner if counts[owner] >= each_max else counts.most_common(1)[0][0]
        del kept[next(key for key, one in kept.items() if owner_of(one) == loser)]
        counts[loser] -= 1
