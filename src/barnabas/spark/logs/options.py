"""The options of ``barnabas-log``, checked at ``load()``."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import OptionError
from barnabas.spark.options import boolean, check_pattern

_KNOWN: Final = {
    "path": "path",
    "paths": "paths",
    "view": "view",
    "subscribe": "subscribe",
    "subscribepattern": "subscribePattern",
    "includeheaders": "includeHeaders",
    "uncompressedbytes": "uncompressedBytes",
    "corruptbatches": "corruptBatches",
    "bytespertask": "bytesPerTask",
}
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class View(Enum):
    """What a row is."""

    RECORDS = "records"
    BATCHES = "batches"
    SEGMENTS = "segments"


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Everything that a read needs to know; plain values, so it travels to the workers."""

    paths: tuple[str, ...]
    view: View = View.RECORDS
    topics: tuple[str, ...] = ()
    """Only these; all of them when neither they nor a pattern are given."""
    pattern: str | None = None
    include_headers: bool = False
    uncompressed_bytes: bool = False
    """Whether `batches` says how large each one is without its compression, for which it has to be
    decompressed.
    """
    skip_corrupt: bool = False
    bytes_per_task: int | None = None

    def wants(self, tp: TopicPartition) -> bool:
        """Whether the partition is among those that were asked for."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, tp.topic) is not None
        return not self.topics or tp.topic in self.topics


def log_options(given: Mapping[str, str]) -> LogOptions:
    """The checked options. Raises OptionError, for a name that there is not too:
    a misspelt one would change nothing.
    """
    texts = {name.lower(): value for name, value in given.items()}
    for name in texts.keys() - _KNOWN.keys():
        raise OptionError(f"barnabas-log has no option {name}; it has {', '.join(sorted(_KNOWN.values()))}")
    if "subscribe" in texts and "subscribepattern" in texts:
        raise OptionError("Only one of subscribe and subscribePattern can be specified")
    pattern = texts.get("subscribepattern")
    if pattern is not None:
        check_pattern(pattern)
    return LogOptions(
        paths=_paths(texts),
        view=View(_one_of(texts, "view", [view.value for view in View])),
        topics=tuple(name.strip() for name in texts.get("subscribe", "").split(",") if name.strip()),
        pattern=pattern,
        include_headers=boolean(texts, "includeheaders", default=False),
        uncompressed_bytes=boolean(texts, "uncompressedbytes", default=False),
        skip_corrupt=_one_of(texts, "corruptbatches", ["fail", "skip"]) == "skip",
        bytes_per_task=_bytes(texts.get("bytespertask")),
    )


def _paths(texts: Mapping[str, str]) -> tuple[str, ...]:
    """Of ``load(path)``, where commas separate directories as in ``log.dirs``, or of ``load([path,
    ...])``.
    """
    if "paths" in texts:
        return tuple(json.loads(texts["paths"]))
    found = tuple(path.strip() for path in texts.get("path", "").split(",") if path.strip())
    if not found:
        raise OptionError('barnabas-log needs the log directories: load("/var/lib/kafka")')
    return found


def _one_of(texts: Mapping[str, str], name: str, allowed: list[str]) -> str:
    value = texts.get(name, allowed[0]).strip().lower()
    if value not in allowed:
        raise OptionError(
            f"Invalid value {value} for option {_KNOWN[name]}: it must be {' or '.join(allowed)}"
        )
    return value


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)\s*([kmg]?)b?", text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise OptionError(f"Invalid value {text} for option bytesPerTask: expected bytes, such as 64m")
    return int(match[1]) * _UNITS[match[2]]
