"""A writer, or what it talks to, is killed at the call of a step that one chooses."""

from collections.abc import Callable
from typing import Any


class Died(BaseException):
    """The process is killed here, at the call that this names; nothing may catch it."""


def _die(name: str) -> None:
    raise Died(name)


def deaths(
    monkeypatch: Any, *places: tuple[Any, str], kill: Callable[[str], None] = _die
) -> list[int | None]:
    """How many calls of these places (owner, name) are made before one kills; None: nothing kills."""
    left: list[int | None] = [None]

    def dying(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if left[0] is not None:
                left[0] -= 1
                if left[0] < 0:
                    left[0] = None
                    kill(name)
            return original(*args, **kwargs)

        return call

    for owner, name in places:
        monkeypatch.setattr(owner, name, dying(name, getattr(owner, name)))
    return left
