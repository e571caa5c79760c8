"""Arbitrary values of a message, made from Kafka's descriptor alone, in the JSON that its converters take.

The generator knows nothing of our schemas, so a field that ours lack or misplace shows in the bytes.
`message_of` then builds our object from the same JSON.
"""

import base64
import random
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from descriptor_tools import exists, is_in

from barnabas.protocol.layout import Layout
from barnabas.protocol.schema import Field, Struct
from barnabas.protocol.wire import Wire

BITS: Final = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
UNSIGNED: Final = {"uint16": 16, "uint32": 32}
TEXTS: Final = ("", "a", "flights", "é", "日本", "🛫 off", '"\\\t\n\x00', "x" * 126, "x" * 127, "y" * 300)
SIZES: Final = (0, 1, 5, 126, 127, 128, 3000)
NULLS: Final = 0.5
"""A fill that makes every field null that may be."""
LONG_LIST: Final = 130
"""More elements than one byte of compact length can count."""
RENAMED: Final = {"clientmetricsresources": "configresources", "name": "resourcename"}
"""Fields of ListClientMetricsResourcesResponse, which is ListConfigResources since Kafka 4.1."""
RENAMED_IN_TXN: Final = {"generationidormemberepoch": "generationid"}
"""One of TxnOffsetCommitRequest, whose new name is of Kafka 4.4."""


class Values:
    """Values of one message in one version; the same ones in every run."""

    def __init__(self, descriptor: dict, version: int) -> None:
        self.version = version
        self.fields = descriptor["fields"]
        self.common = {struct["name"]: struct["fields"] for struct in descriptor.get("commonStructs", [])}
        self.random = random.Random(f"{descriptor['name']} {version}")

    def take(self, count: int) -> Iterator[dict]:
        """The emptiest value, one with every null that may be, the fullest, then arbitrary ones."""
        return islice(self._all(), count)

    def _all(self) -> Iterator[dict]:
        yield self.struct(self.fields, fill=0.0)
        yield self.struct(self.fields, fill=NULLS)
        yield self.struct(self.fields, fill=1.0)
        while True:
            yield self.struct(self.fields, fill=self.random.choice((0.3, 0.6, 0.9)))

    def struct(self, fields: list[dict], fill: float, depth: int = 0) -> dict:
        """A struct; `fill` is how likely a field is to hold something."""
        return {
            field["name"][0].lower() + field["name"][1:]: self.value(field, fill, depth)
            for field in fields
            if exists(field, self.version) and not self.left_out(field, fill)
        }

    def left_out(self, field: dict, fill: float) -> bool:
        """Tagged fields, and only those, may be missing."""
        if fill == NULLS:
            return False
        return is_in(field, "taggedVersions", self.version) and self.random.random() >= fill

    def value(self, field: dict, fill: float, depth: int) -> Any:
        """A value of a field, null where it may be."""
        if is_in(field, "nullableVersions", self.version) and (fill == NULLS or self.random.random() >= fill):
            return None
        kind = field["type"].removeprefix("[]")
        fields = field.get("fields") or self.common.get(kind)
        if not field["type"].startswith("[]"):
            return self.struct(fields, fill, depth) if fields else self.primitive(kind, fill)
        if fields:
            return [self.struct(fields, fill, depth + 1) for _ in range(self.count(fill, depth))]
        count = LONG_LIST if kind in BITS and self.random.random() < fill / 5 else self.count(fill, depth)
        return [self.primitive(kind, fill) for _ in range(count)]

    def count(self, fill: float, depth: int) -> int:
        """The number of elements; fewer in the depth, where each counts many times."""
        most = 3 if depth == 0 else 2
        return most if fill == 1.0 else sum(self.random.random() < fill for _ in range(most))

    def primitive(self, kind: str, fill: float) -> Any:
        """A value of a primitive type in JSON; the borders of its range more often than anything else."""
        choose = self.random
        if kind in BITS:
            top = 1 << BITS[kind]
            return choose.choice((0, -1, 1, -top, top - 1, choose.randrange(-top, top))) if fill else 0
        if kind in UNSIGNED:
            top = 1 << UNSIGNED[kind]
            return choose.choice((0, 1, top - 1, choose.randrange(top))) if fill else 0
        if kind == "bool":
            return choose.random() < fill
        if kind == "float64":
            return choose.choice((0.0, -1.5, 1e300, choose.uniform(-1e6, 1e6))) if fill else 0.0
        if kind == "string":
            return choose.choice(TEXTS) if fill else ""
        if kind == "uuid":
            return base64.urlsafe_b64encode(choose.randbytes(16) if fill else bytes(16)).decode().rstrip("=")
        assert kind in {"bytes", "records"}, kind
        return base64.b64encode(choose.randbytes(choose.choice(SIZES) if fill else 0)).decode()


def message_of(layout: Layout, value: dict, *, sizes: bool = False) -> Struct:
    """Our object for a value. With `sizes`, record batches are told by how many bytes they are: Kafka's JSON
    does not say more of them.
    """
    by_name = {field.name.replace("_", ""): field for field in (*layout.fields, *layout.tagged)}
    values = {}
    for key, one in value.items():
        name = key.lower().removesuffix("sizeinbytes")
        field = by_name.get(name) or by_name[{**RENAMED, **RENAMED_IN_TXN}[name]]
        values[field.name] = _field_of(layout, field, one, sizes=sizes)
    return layout.cls(**values)


def _field_of(layout: Layout, field: Field, value: Any, *, sizes: bool) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [_element_of(layout, field, one, sizes=sizes) for one in value]
    built = _element_of(layout, field, value, sizes=sizes)
    # A struct that travels as a tagged field and cannot be null is None while it is at its defaults.
    absent = field.struct and field.tag is not None and not field.is_nullable(layout.version)
    return None if absent and built == type(built)() else built


def _element_of(layout: Layout, field: Field, value: Any, *, sizes: bool) -> Any:
    if not isinstance(field.kind, Wire):
        return message_of(layout.of(field), value, sizes=sizes)
    if field.kind.name == "uuid":
        return base64.urlsafe_b64decode(value + "==")
    if field.kind.name == "bytes":
        return base64.b64decode(value)
    if field.kind.name == "records":
        data = base64.b64decode(value) if isinstance(value, str) else value
        return len(data) if sizes and isinstance(data, bytes) else data
    return value


def sprinkle_tags(message: Struct, layout: Layout, choose: random.Random) -> None:
    """Adds tagged fields that no release knows, to the message and to structs in it."""
    if choose.random() < 0.7:
        message.unknown_tags = {
            tag: choose.randbytes(choose.choice((0, 3, 130))) for tag in (50, 127, 70_000)
        }
    for field in (*layout.fields, *layout.tagged):
        value = getattr(message, field.name)
        if field.struct and value is not None:
            for one in value if field.is_array else [value]:
                sprinkle_tags(one, layout.of(field), choose)
