"""``--json``: what commands say of a cluster, as one JSON object on standard output (docs/tools.md).

The style is the same everywhere. Names are Kafka's, in ``snake_case``, with the unit last. What is listed
stands under its plural noun, in an order that does not change between two looks at the same. Enumerations are
words in small letters, topic ids the text of Kafka's tools, and what is not known is null: no key comes and
goes.
"""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum, IntEnum
from typing import Any, Final, TypeVar

import click

from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition

F = TypeVar("F", bound=Callable[..., Any])

json_option: Final = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of lines; see docs/tools.md."
)


def refuse_json(given: Mapping[str, Any], *actions: str) -> None:
    """Raises UsageError for ``--json`` with an action that shows nothing; `given` is by Kafka's names."""
    if given["as-json"] and not any(given[action] for action in actions):
        raise click.UsageError(f"--json is for {' and '.join(f'--{action}' for action in actions)}")


def partition_facts(tp: TopicPartition, **more: Any) -> dict[str, Any]:
    """A partition and what is said of it."""
    return {"topic": tp.topic, "partition": tp.partition, **more}


def print_facts(facts: Mapping[str, Any]) -> None:
    """Prints the object. Values may be what the admin client gives: see `plain`."""
    click.echo(json.dumps(plain(facts), indent=2, ensure_ascii=False))


def plain(value: Any) -> Any:
    """A value as JSON has it: objects of named tuples and dataclasses, words of enumerations."""
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, BarnabasError):
        return error_facts(value)
    if isinstance(value, Enum):
        return value.name.lower() if isinstance(value, IntEnum) else str(value.value).lower()
    if isinstance(value, (int, str)):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {_key(key): plain(each) for key, each in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    if isinstance(value, AbstractSet):
        return sorted(plain(each) for each in value)
    if isinstance(value, Iterable):
        return [plain(each) for each in value]
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def error_facts(error: BarnabasError) -> dict[str, Any]:
    """What went wrong with one thing among several: the name of the code, and the words."""
    code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
    return {"code": code.name, "message": str(error)}


def _key(key: object) -> str:
    if isinstance(key, Enum):
        return str(plain(key))
    if not isinstance(key, (str, int)):
        raise TypeError(f"{key!r} is no name in JSON: list such things under a noun")
    return str(key)
