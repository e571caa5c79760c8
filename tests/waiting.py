"""`until` and `eventually`: wait for a condition, never for a time.

The deadlines are long because a test may run beside others on a slow machine; one that fails says what it
waited for.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
SECONDS = 50
"""Below the limit of a test, so that the failure says more than that limit would."""


def until(
    condition: Callable[[], T],
    what: str | Callable[[], str] = "it did not come about",
    seconds: float = SECONDS,
) -> T:
    """Waits until a condition holds, and returns its value.
    `what` says what is waited for, or is a function that does.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what() if callable(what) else what}"
        time.sleep(0.02)
    return value


def eventually(look: Callable[[], T], expected: T, seconds: float = SECONDS) -> None:
    """Looks until it sees what is expected; fails with what it saw last."""
    deadline = time.monotonic() + seconds
    while (seen := look()) != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    assert seen == expected
