"""Last stable offsets that stand still below the end of a log: a transaction is open there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.client.types import OffsetAndTimestamp
from barnabas.console.reading import Observation, known
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class HeldOffset:
    """A last stable offset below the end: a transaction is open there, at this offset, since."""

    offset: int
    since_ms: int


def held_of(
    before: Mapping[TopicPartition, HeldOffset],
    ends: Mapping[TopicPartition, Observation[int]],
    stable: Mapping[TopicPartition, Any],
    now_ms: int,
) -> dict[TopicPartition, HeldOffset]:
    """Partitions whose last stable offset is below an end that was read before it. One that did not answer
    stays as it was.
    """
    found: dict[TopicPartition, HeldOffset] = {}
    for tp, answer in stable.items():
        was, end = before.get(tp), known(ends, tp)
        if isinstance(answer, BarnabasError):
            if was is not None:
                found[tp] = was
        elif isinstance(answer, OffsetAndTimestamp) and end is not None and answer.offset < end:
            stands = was is not None and was.offset == answer.offset
            found[tp] = was if was is not None and stands else HeldOffset(answer.offset, now_ms)
    return found
