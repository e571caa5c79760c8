"""Which feature levels a release of Kafka has: what ``kafka-features.sh`` of 4.3.1 knows itself (KIP-1022).

A release is named by its metadata.version: ``4.0-IV3``, or ``4.0`` for the last of its release. The other
features have a level from some of them on.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from barnabas.cli.options import ToolError

METADATA: Final = "metadata.version"
_FIRST: Final = 7
"""The level of 3.3-IV3, the first with which KRaft was for production."""
_COUNTS: Final = {
    "3.4": 1,
    "3.5": 3,
    "3.6": 3,
    "3.7": 5,
    "3.8": 1,
    "3.9": 1,
    "4.0": 4,
    "4.1": 2,
    "4.2": 2,
    "4.3": 1,
}
_COUNTS_OF_NEXT: Final = {"4.4": 1}
"""What 4.3.1 knows of the release that comes: it takes it, and goes up to it for nobody by itself."""
_NAMES: Final = [
    "3.3-IV3",
    *(f"{one}-IV{number}" for one, count in (_COUNTS | _COUNTS_OF_NEXT).items() for number in range(count)),
]
_LATEST: Final = "4.3-IV0"
_SINCE: Final = {
    "kraft.version": (1, "3.9-IV0"),
    "transaction.version": (2, "4.0-IV2"),
    "group.version": (1, "4.0-IV0"),
    "eligible.leader.replicas.version": (1, "4.1-IV0"),
    "share.version": (1, "4.2-IV0"),
    "streams.version": (1, "4.2-IV1"),
}
"""The highest level of each feature, and with which release it comes."""
_NEEDS: Final = {("eligible.leader.replicas.version", 1): "4.0-IV1"}


def _index(text: str) -> int:
    release = ".".join(text.split(".")[:2])
    for at in range(len(_NAMES) - 1, -1, -1):
        if release in {_NAMES[at], _NAMES[at].partition("-")[0]}:
            return at
    raise ToolError(f"Unknown metadata.version '{text}'. Supported metadata.version are: {', '.join(_NAMES)}")


def levels_of_release(text: str) -> dict[str, int]:
    """The level of each feature in a release. Raises ToolError where there is none of the name."""
    at = _index(text)
    levels = {name: level if at >= _NAMES.index(since) else 0 for name, (level, since) in _SINCE.items()}
    return {**levels, METADATA: at + _FIRST}


def mapping_lines(text: str | None) -> Iterator[str]:
    """What ``version-mapping`` prints. Raises ToolError."""
    shown = _LATEST if text is None else text
    levels = levels_of_release(shown)
    yield f"{METADATA}={levels.pop(METADATA)} ({shown})"
    yield from (f"{name}={level}" for name, level in levels.items())


def dependency_lines(wanted: Iterable[tuple[str, int]]) -> Iterator[str]:
    """What ``feature-dependencies`` prints of each feature and level. Raises ToolError."""
    for name, level in wanted:
        if name == METADATA:
            if not _FIRST <= level < _FIRST + len(_NAMES):
                raise ToolError(f"Unknown {METADATA} {level}")
            yield f"{name}={level} ({_NAMES[level - _FIRST]}) has no dependencies."
            continue
        if name not in _SINCE:
            raise ToolError(f"Unknown feature: {name}")
        if not 0 <= level <= _SINCE[name][0]:
            raise ToolError(f"No feature:{name} with feature level {level}")
        needed = _NEEDS.get((name, level))
        if needed is None:
            yield f"{name}={level} has no dependencies."
        else:
            yield f"{name}={level} requires:"
            yield f"    {METADATA}={_index(needed) + _FIRST} ({needed})"
