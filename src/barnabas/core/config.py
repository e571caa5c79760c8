"""The config engine: one table entry a key; parsing, validation and documentation all come from it.

A `ConfigTable` knows its keys; `ConfigTable.parse` turns texts (a ``server.properties`` file, ``--set``,
a znode, an AlterConfigs request) into a `Config`, a read-only mapping from Kafka's key to a typed value.
A bad value raises `ConfigError` with one line that names the key, the value and what is allowed
(``org.apache.kafka.common.config.ConfigDef`` says it the same way). The tables themselves are
`barnabas.core.broker_config` and `barnabas.core.topic_config`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum, IntEnum
from math import isfinite
from typing import Any, Final, NamedTuple, TypeAlias

from barnabas.core.errors import ConfigError

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


_DIGITS_MAX: Final = 19
NAME_MAX: Final = 100
"""No key has a longer name; finding the like of one takes as long as it is."""


class ConfigType(IntEnum):
    """The type of a value, numbered as DescribeConfigs v3+ reports it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(Enum):
    """Whether and how a value may change while the broker runs (``DynamicConfig``)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Source(IntEnum):
    """Where a value came from, numbered as DescribeConfigs reports it."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class BadItem(NamedTuple):
    """What is wrong with one item of a list."""

    item: str
    problem: str


Check: TypeAlias = Callable[[Any], str | BadItem | None]


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key: its type, default, what is allowed, what it does, and how it may change."""

    name: str
    type: ConfigType
    default: Any
    doc: str
    check: "Check | None" = None
    """Says what is wrong with a parsed value, or None; the words follow ConfigDef's validators."""
    scope: Scope = Scope.READ_ONLY
    synonym: str | None = None
    """For a topic key: the broker key whose value is its default."""
    required: bool = False
    internal: bool = False
    """Whether it is shown only where it is set (``ConfigDef.defineInternal``)."""
    not_obeyed: str | None = None
    """Why this broker does not obey it, where it does not."""


_RANGES: Final = {ConfigType.SHORT: 2**15, ConfigType.INT: 2**31, ConfigType.LONG: 2**63}
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DOUBLE: Final = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?)")


def _refuse(name: str, value: Any, reason: str) -> ConfigError:
    return ConfigError(f"Invalid value {value} for configuration {name}: {reason}")


def parse_value(key: ConfigKey, value: Any) -> Any:
    """The typed value of a text (or of a value that is typed already), checked; raises ConfigError."""
    parsed = _convert(key, value)
    problem = key.check(parsed) if key.check and parsed is not None else None
    if isinstance(problem, BadItem):
        raise _refuse(key.name, problem.item, problem.problem)
    if problem:
        raise _refuse(key.name, _shown(key, parsed), problem)
    return parsed


def _shown(key: ConfigKey, value: Any) -> str | None:
    """A value that was parsed, as a refusal names it."""
    if key.type is ConfigType.PASSWORD:
        return "[hidden]"
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else config_text(key, value)


def _convert(key: ConfigKey, value: Any) -> Any:
    if not isinstance(value, str):
        if key.type is not ConfigType.LIST or value is None:
            return value
        if not isinstance(value, Iterable):
            raise _refuse(key.name, value, "Expected a text or a list of texts")
        return list(value)
    text = value.strip()
    if key.type is ConfigType.BOOLEAN:
        if text.lower() not in {"true", "false"}:
            raise _refuse(key.name, value, "Expected value to be either true or false")
        return text.lower() == "true"
    if key.type in _RANGES:
        # By length first: Python refuses to read numbers of thousands of digits.
        if not _INTEGER.fullmatch(text) or len(text.lstrip("+-0")) > _DIGITS_MAX:
            raise _refuse(key.name, value, f"Not a number of type {key.type.name}")
        number = int(text)
        if not -_RANGES[key.type] <= number < _RANGES[key.type]:
            raise _refuse(key.name, value, f"Not a number of type {key.type.name}")
        return number
    if key.type is ConfigType.DOUBLE:
        if not _DOUBLE.fullmatch(text):
            raise _refuse(key.name, value, "Not a number of type DOUBLE")
        return float(text.rstrip("dDfF"))
    if key.type is ConfigType.LIST:
        return [item.strip() for item in text.split(",")] if text else []
    return text


def at_least(low: float) -> Callable[[Any], str | None]:
    """A check: not below `low`."""
    return lambda value: f"Value must be at least {low}" if value < low else None


def between(low: float, high: float) -> Callable[[Any], str | None]:
    """A check: from `low` to `high`, both allowed."""

    def check(value: Any) -> str | None:
        if value < low:
            return f"Value must be at least {low}"
        return f"Value must be no more than {high}" if value > high else None

    return check


@dataclass(frozen=True, slots=True)
class OneOf:
    """A check: one of these strings."""

    allowed: tuple[str, ...]

    def __call__(self, value: Any) -> str | None:
        return None if value in self.allowed else f"String must be one of: {', '.join(self.allowed)}"


def one_of(*allowed: str) -> OneOf:
    """A check: one of these strings."""
    return OneOf(allowed)


def octal(high: int) -> Callable[[Any], str | None]:
    """A check: the octal digits of a number from 0 to `high`."""

    def check(value: Any) -> str | None:
        digits = bool(value) and all(digit in "01234567" for digit in value)
        return None if digits and int(value, 8) <= high else f"Value must be octal digits up to {high:o}"

    return check


def gzip_level(value: int) -> str | None:
    """A check: 1 to 9, or -1 for the library's own default."""
    return None if value == -1 or 1 <= value <= 9 else "Value must be between 1 and 9 or equal to -1"


def each_of(*allowed: str, may_be_empty: bool = True) -> Check:
    """A check: a list with items of these strings only (``ValidList``); the first other one is named."""
    problem = f"String must be one of: {', '.join(allowed)}"

    def check(value: Any) -> str | BadItem | None:
        for item in value:
            if item not in allowed:
                return BadItem(item, problem)
        return None if value or may_be_empty else problem

    return check


def replicas_of(name: str) -> Callable[[Any], str | None]:
    """A check: a list of `partition:broker`, or ``*`` alone (``ThrottledReplicaListValidator``)."""

    def is_replica(item: str) -> bool:
        numbers = item.split(":")
        return len(numbers) == 2 and all(each.isascii() and each.isdigit() for each in numbers)

    def check(value: Any) -> str | None:
        items = [item for item in value if item]
        if items == ["*"] or all(map(is_replica, items)):
            return None
        return (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )

    return check


_LISTENER_KEY: Final = re.compile(
    r"listener\.name\.[^.]*\.(?:[a-z0-9-]+\.(?=(?:sasl\.(?:jaas\.config|login\.[a-z.]+|oauthbearer\.[a-z.]+"
    r"|server\.callback\.handler\.class)|connections\.max\.reauth\.ms)$))?(.*)"
)
"""With the name of a mechanism where the key may be one of a mechanism."""
_OF_ANY_LISTENER: Final = {"max.connections", "max.connection.creation.rate", "num.network.threads"}
"""Keys of one listener that may be set for all brokers at once (``ClusterLevelListenerConfigs``)."""


def neighbour(name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant by one that does not exist."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    return next(iter(get_close_matches(name[:NAME_MAX], list(names), 1, 0.8)), None)


def base_name(name: str) -> str:
    """The key that ``listener.name.x.KEY`` (or ``listener.name.x.MECHANISM.KEY``) sets for listener x;
    any other name as it is.
    """
    match = _LISTENER_KEY.fullmatch(name)
    return match[1] if match else name


class ConfigTable(Mapping[str, ConfigKey]):
    """All keys of one kind of resource."""

    def __init__(self, keys: Iterable[ConfigKey]) -> None:
        self._keys = {key.name: key for key in keys}

    def __getitem__(self, name: str) -> ConfigKey:
        return self._keys[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, name: str) -> ConfigKey | None:
        """The key of this name, also of one for a single listener: ``listener.name.x.KEY`` is parsed as
        ``KEY``.

        What is set for a listener is set for each broker by itself, but for its limits
        (``perBrokerConfigs``).
        """
        key, base = self._keys.get(name), base_name(name)
        if key is not None or base not in self._keys:
            return key
        scope = Scope.CLUSTER_WIDE if base in _OF_ANY_LISTENER else Scope.PER_BROKER
        return replace(self._keys[base], name=name, default=None, scope=scope, required=False)

    def parse(self, given: Mapping[str, Any], source: Source = Source.STATIC_BROKER) -> "Config":
        """A `Config` of the given texts over the defaults. Keys that are not in the table are left in
        `Config.unknown` for the caller to warn about. Raises ConfigError for a bad or missing value.
        """
        values = {name: key.default for name, key in self._keys.items()}
        explicit = {}
        unknown = {}
        for name, value in given.items():
            known = self.find(name)
            if known is None:
                unknown[name] = value
            else:
                values[name] = explicit[name] = parse_value(known, value)
        for key in self._keys.values():
            if key.required and values[key.name] is None:
                raise ConfigError(f'Missing required configuration "{key.name}" which has no default value.')
        return Config(self, values, dict.fromkeys([*explicit, *unknown], source), unknown)


class Config(Mapping[str, Any]):
    """Typed values by Kafka's key; immutable."""

    __slots__ = ("_below", "_sources", "_values", "table", "unknown")

    def __init__(
        self,
        table: ConfigTable,
        values: dict[str, Any],
        sources: dict[str, Source],
        unknown: dict[str, Any],
        below: "Config | None" = None,
    ) -> None:
        self.table = table
        self.unknown = unknown
        self._values = values
        self._sources = sources
        self._below = below

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def source(self, name: str) -> Source:
        """Where the value of this key came from."""
        return self._sources.get(name, Source.DEFAULT)

    def layers(self, name: str) -> list[tuple[Source, Any]]:
        """The values that were set for this key, the one that wins first, then those that it hides."""
        below = [] if self._below is None else self._below.layers(name)
        source = self._sources.get(name)
        return (
            below if source is None or (below and below[0][0] is source) else [(source, self[name]), *below]
        )

    def explicit(self) -> frozenset[str]:
        """The known keys that were set, by file, option or client."""
        return frozenset(name for name in self._sources if name in self._values)

    def with_values(self, given: Mapping[str, Any], source: Source) -> "Config":
        """A copy in which these texts win; raises ConfigError."""
        keys = {name: key for name in given if (key := self.table.find(name)) is not None}
        parsed = {name: parse_value(key, given[name]) for name, key in keys.items()}
        unknown = {**self.unknown, **{name: value for name, value in given.items() if name not in keys}}
        sources = {**self._sources, **dict.fromkeys(given, source)}
        return Config(self.table, {**self._values, **parsed}, sources, unknown, self)

    def with_defaults(self, given: Mapping[str, Any]) -> "Config":
        """A copy in which these texts are the values of keys that were not set."""
        parsed = {
            name: parse_value(self.table[name], given[name]) for name in given if name not in self._sources
        }
        return Config(self.table, {**self._values, **parsed}, self._sources, self.unknown, self._below)


def config_text(key: ConfigKey, value: Any) -> str | None:
    """The text of a typed value as Kafka prints it; None for one that is not set.
    Passwords are not printed.
    """
    if value is None or key.type is ConfigType.PASSWORD:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    return ",".join(value) if isinstance(value, list) else str(value)


def double_text(value: float) -> str:
    """As ``Double.toString`` writes it: with an exponent from 10^7 on, and below 10^-3."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    if not isfinite(value):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), "NaN")
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "a finite number has an exponent"
    first, *rest = map(str, digits)
    return f"{'-' * sign}{first}.{''.join(rest) or '0'}E{exponent + len(rest)}"
