"""Fair shares among users: `FairPlaces` for what runs now, `make_room` for what is kept."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")


class FairPlaces:
    """Places for whoever does something that costs: who has some already gets one more only while more than
    as many are left. Of six one user gets three, the next two, a third one the last.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._taken: Counter[str] = Counter()

    def take(self, user: str) -> bool:
        """Takes a place, if there is one for this user; without a name, where users are not told apart, any
        that is left.
        """
        if self.left <= (self._taken[user] if user else 0):
            return False
        self._taken[user] += 1
        return True

    def leave(self, user: str) -> None:
        """Gives one back."""
        self._taken[user] -= 1
        self._taken += Counter()  # who has none is forgotten

    @property
    def left(self) -> int:
        """How many nobody has."""
        return self._total - self._taken.total()

    def of(self, user: str) -> int:
        """How many a user has."""
        return self._taken[user]

    def __repr__(self) -> str:
        return f"<FairPlaces {self._taken.total()} of {self._total}>"


def make_room(
    kept: dict[K, T], owner_of: Callable[[T], str], owner: str, *, each_max: int, total_max: int
) -> list[T]:
    """Lets the oldest thing of `owner` go, or of whoever has the most, until one more of `owner` fits.
    Returns what has gone.
    """
    gone = []
    counts = Counter(map(owner_of, kept.values()))
    while counts[owner] >= each_max or counts.total() >= total_max:
        loser = owner if counts[owner] >= each_max else counts.most_common(1)[0][0]
        gone.append(kept.pop(next(key for key, one in kept.items() if owner_of(one) == loser)))
        counts[loser] -= 1
    return gone
