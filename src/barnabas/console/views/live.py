"""What all views have in common that ask the cluster when they are opened."""

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

from barnabas.admin import AsyncAdmin
from barnabas.console.figure import Figure, figure, unknown
from barnabas.console.questions import LiveAnswer
from barnabas.console.watched import WatchedCluster
from barnabas.core.errors import BarnabasError
from barnabas.operations.clock import now_ms

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LiveView:
    """What is known of an answer."""

    state: Figure
    """How many things there are, or why that is not known, or not newer."""
    is_pending: bool
    """Whether the question goes on: who asks again may get the answer."""


def state_of(answer: LiveAnswer[T], count: int) -> Figure:
    """How far an answer can be relied on, with how many things it has."""
    return figure(answer.reading, now_ms(), count)


async def asked(
    watched: WatchedCluster, key: Hashable, work: Callable[[AsyncAdmin], Awaitable[list[T]]]
) -> tuple[Figure, bool, list[T]]:
    """The fields of a view with one list: what the cluster says, or that it is not known, and why: a page of
    what cannot be read is a page.
    """
    try:
        answer = await watched.ask(key, work)
    except BarnabasError as error:
        return unknown(str(error)), False, []
    found = answer.reading.value or []
    return state_of(answer, len(found)), answer.is_pending, found
