"""The options of the clients, out of their tables (`barnabas.client.config`): as types for editors and type
checkers (`src/barnabas/client/options.py`), and as a page (docs/client-reference.md).
"""

import textwrap
from collections.abc import Iterable
from typing import Any, Final

from barnabas.client import config
from barnabas.client.consumer_metrics import ConsumerMetrics
from barnabas.client.producer_batch import ProducerBatch
from barnabas.client.producer_metrics import NAMES_LOOKED_UP, ProducerMetrics
from barnabas.client.subscription_state import AssignedPartition
from barnabas.core.config import ConfigKey, ConfigType, OneOf
from barnabas.core.ids import TopicPartition
from barnabas.records.compression import Codec

_PARTITION: Final = TopicPartition("of-a-topic", 0)
_KINDS: Final = {
    "Producer": (config.PRODUCER_CONFIG, config.PRODUCER_OBJECTS),
    "Consumer": (config.CONSUMER_CONFIG, config.CONSUMER_OBJECTS),
    "Admin": (config.ADMIN_CONFIG, {}),
}
_TYPES: Final = {
    "acks": 'Literal["all", "0", "1", "-1", 0, 1, -1]',
    "group.protocol": 'Literal["classic", "consumer"]',
    "key.deserializer": "Deserializer",
    "key.serializer": "Serializer",
    "on.delivery": "OnDelivery",
    "partitioner": "Partitioner",
    "value.deserializer": "Deserializer",
    "value.serializer": "Serializer",
    "interceptors": "Sequence[Any]",
}
_OF_TYPE: Final = {
    ConfigType.BOOLEAN: "bool",
    ConfigType.INT: "int",
    ConfigType.LONG: "int",
    ConfigType.LIST: "str | Sequence[str]",
    ConfigType.STRING: "str",
    ConfigType.PASSWORD: "str",
    ConfigType.CLASS: "Any",
    ConfigType.DOUBLE: "float",
    ConfigType.SHORT: "int",
}
_HEAD: Final = '''"""The options of the clients as types: what an editor offers, and a type checker refuses.

Written by docs/generate.py (`make docs`) out of the tables in `barnabas.client.config`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

from barnabas.client.types import RecordMetadata

OnDelivery: TypeAlias = Callable[[Exception | None, RecordMetadata | None], object]
"""Gets why a record was not stored (None where it was), and where it was, as confluent-kafka has it."""

Partitioner: TypeAlias = Callable[[Any, Sequence[int], Sequence[int]], int | None]
"""Chooses a partition for a key (as bytes) out of all partitions and those that have a leader; None leaves it
to the producer.
"""


class SerializerObject(Protocol):
    """A serializer that wants to know the topic."""

    def serialize(self, topic: str, value: Any) -> bytes | str | None:
        """The bytes of a key or value."""


class DeserializerObject(Protocol):
    """A deserializer that wants to know the topic."""

    def deserialize(self, topic: str, value: bytes) -> Any:
        """The object of these bytes."""


Serializer: TypeAlias = Callable[[Any], bytes | str | None] | SerializerObject
Deserializer: TypeAlias = Callable[[bytes], Any] | DeserializerObject
'''


def _keys(kind: str) -> list[ConfigKey]:
    table, objects = _KINDS[kind]
    return sorted([*table.values(), *objects.values()], key=lambda key: key.name)


def _type(key: ConfigKey) -> str:
    if key.name in _TYPES:
        kind = _TYPES[key.name]
    elif isinstance(key.check, OneOf):
        kind = f"Literal[{', '.join(_quoted(each) for each in key.check.allowed)}]"
    else:
        kind = _OF_TYPE[key.type]
    return f"{kind} | None" if key.default is None and not key.required else kind


def _quoted(text: str) -> str:
    return '"' + text + '"'


def _default(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _documented(key: ConfigKey) -> str:
    if key.required or key.default is None:
        return key.doc
    return f"{key.doc} Default: {_default(key.default) or 'empty'}."


def _lines_of(key: ConfigKey) -> Iterable[str]:
    name, kind = key.name.replace(".", "_"), _type(key)
    yield f"    {name}: {kind}"
    text = _documented(key)
    if len(text) <= 98:
        yield f'    """{text}"""'
    else:
        wrapped = textwrap.wrap('"""' + text, 104)
        yield from (f"    {line}" for line in wrapped)
        yield '    """'


def options_module() -> str:
    """The module of types, as it should be but for how its lines are broken."""
    classes = []
    for kind in _KINDS:
        lines = [f"class {kind}Options(TypedDict, total=False):"]
        lines += [f'    """The options of `{kind}` and `Async{kind}`."""', ""]
        for key in _keys(kind):
            lines += _lines_of(key)
        classes.append("\n".join(lines))
    return "\n\n\n".join([_HEAD.rstrip(), *classes]) + "\n"


def _row(key: ConfigKey) -> str:
    kind = _type(key).replace("|", "\\|").replace('"', "")
    default = "" if key.default is None else f"`{_default(key.default)}`" if _default(key.default) else ""
    return f"| `{key.name.replace('.', '_')}` | `{kind}` | {default} | {key.doc} |"


def tables() -> str:
    """The tables of the page: what all clients have, then what each has alone."""
    common = set.intersection(*({key.name for key in _keys(kind)} for kind in _KINDS))
    parts = [_table("Options of every client", [key for key in _keys("Admin") if key.name in common])]
    parts += [
        _table(f"Options of the {kind.lower()}", own)
        for kind in _KINDS
        if (own := [key for key in _keys(kind) if key.name not in common])
    ]
    return "\n\n".join([*parts, _metrics()])


def _metrics() -> str:
    """The names in what `metrics()` gives, by group."""
    counts = ProducerMetrics()
    batch = ProducerBatch(_PARTITION, Codec.NONE, 0.0)
    batch.builder.append(0, None, b"v", (), 100)
    counts.failed(batch)
    consumed = ConsumerMetrics()
    consumed.consumed(_PARTITION.topic, 1)
    state = AssignedPartition(_PARTITION)
    state.seek(0)
    state.high_watermark = 1
    looked_up = dict.fromkeys(NAMES_LOOKED_UP, 0.0)
    groups = {**counts.shown(looked_up), **consumed.shown([state], 0)}
    rows = [
        f"| `{group.replace(_PARTITION.topic, 'TOPIC').replace(':0', ':PARTITION')}` |"
        f" {', '.join(f'`{name}`' for name in sorted(names))} |"
        for group, names in groups.items()
    ]
    head = (
        "What `metrics()` of a producer and of a consumer gives: numbers by Kafka's names, in these groups."
    )
    return "\n".join(["## Metrics", head, "", "| group | names |", "|---|---|", *rows])


def _table(title: str, keys: Iterable[ConfigKey]) -> str:
    return "\n".join(
        [f"## {title}", "| option | type | default | what it does |", "|---|---|---|---|", *map(_row, keys)]
    )
