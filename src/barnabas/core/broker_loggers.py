"""The loggers of the broker, whose levels clients may read and change (KIP-412, ``Log4jController``).

A logger goes by the name that its lines have, ``barnabas.log.cleaner``, and by that of Kafka's logger for the
same part, ``kafka.log.LogCleaner`` (`core.kafka_words`), which may stand for several. What is set for
``barnabas.log`` holds for ``barnabas.log.cleaner`` too, unless that has a level of its own. Levels go by
Kafka's names. A level that is set holds until the broker ends; it is written nowhere.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from barnabas.core.eventlog import KAFKA_LOGGERS
from barnabas.core.kafka_words import LOGGERS, our_loggers

ROOT: Final = "root"

LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "DEBUG": logging.DEBUG,
        "ERROR": logging.ERROR,
        "FATAL": logging.CRITICAL,
        "INFO": logging.INFO,
        "TRACE": logging.DEBUG // 2,
        "WARN": logging.WARNING,
    }
)
"""Names and numbers of levels, in the order of Kafka's messages (``LogLevelConfig.VALID_LOG_LEVELS``)."""

_FAMILIES: Final[Mapping[str, str]] = MappingProxyType(
    {"kafka": "barnabas", "kafka.controller": "barnabas.cluster.controller"}
)
"""Names in Kafka's ``log4j.properties`` that stand for more than one class."""


def levels() -> dict[str, str]:
    """All loggers that there are, by each of their names, with the level that holds for them."""
    ours = [name for name in logging.root.manager.loggerDict if _is_ours(name)]
    names = [ROOT, *ours, *_FAMILIES, *KAFKA_LOGGERS, *LOGGERS.values()]
    return {name: _level_of(_loggers(name)[0]) for name in names}


def exists(name: str) -> bool:
    """Whether there is a logger of this name."""
    return bool(_loggers(name))


def set_level(name: str, level: str | None) -> None:
    """Gives a logger a level of its own; with None it has that of the next one above."""
    number = logging.NOTSET if level is None else LEVELS[level]
    for logger in _loggers(name):
        logger.setLevel(number)


def _loggers(name: str) -> list[logging.Logger]:
    """The loggers of a name; none is made for a name that no logger has."""
    if name == ROOT:
        return [logging.getLogger()]
    if name in _FAMILIES:
        return [logging.getLogger(_FAMILIES[name])]
    ours = [name] if _is_ours(name) else our_loggers(name)
    return [logging.getLogger(each) for each in ours]


def _is_ours(name: str) -> bool:
    """Whether a part of the broker has this logger; a name between two dots need not be one."""
    known = isinstance(logging.root.manager.loggerDict.get(name), logging.Logger)
    return known and name.partition(".")[0] == "barnabas"


def _level_of(logger: logging.Logger) -> str:
    """The name of the level that holds, or of the next lower one that Kafka has."""
    level = max(logger.getEffectiveLevel(), LEVELS["TRACE"])
    return max((number, name) for name, number in LEVELS.items() if number <= level)[1]
