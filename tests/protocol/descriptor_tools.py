"""Kafka's message descriptors (JSON with comments) and our classes, told in the same words."""

import json
import re
from collections.abc import Iterator
from functools import cache

from message_tools import all_messages, message_layout

from barnabas.core.ids import ZERO_UUID
from barnabas.protocol.layout import Layout
from barnabas.protocol.message import Message
from barnabas.protocol.schema import Field
from barnabas.protocol.versions import Versions
from barnabas.protocol.wire import Wire

RENAMED_IN_4 = {
    "ListClientMetricsResourcesRequest": "ListConfigResourcesRequest",
    "ListClientMetricsResourcesResponse": "ListConfigResourcesResponse",
}
"""KIP-1142 made one API of key 74 for all kinds of resources; version 0 kept its bytes."""
IMPLIED = {"bool": False, "string": "", "bytes": b"", "uuid": ZERO_UUID, "float64": 0.0, "records": None}


def parse(text: str) -> dict:
    """A descriptor; its comments are lines of their own."""
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


def class_of(descriptor: dict) -> type[Message] | None:
    """Our class for a descriptor, None when we have none."""
    return _classes().get(RENAMED_IN_4.get(descriptor["name"], descriptor["name"]))


@cache
def _classes() -> dict[str, type[Message]]:
    return {cls.__name__: cls for cls in all_messages()}


def versions_in(descriptor: dict) -> range:
    if descriptor["validVersions"] == "none":
        return range(0)
    first, last = Versions.parse(descriptor["validVersions"])
    return range(first, last + 1)


def flexible_from(descriptor: dict) -> int | None:
    text = descriptor.get("flexibleVersions", "none")
    return None if text == "none" else Versions.parse(text).first


def their_fields(descriptor: dict, version: int) -> list[tuple]:
    """What a descriptor says of one version: (name, type, nullable, tag, default, ignorable, children)."""
    common = {struct["name"]: struct["fields"] for struct in descriptor.get("commonStructs", [])}
    return list(_their_fields(descriptor["fields"], version, common))


def exists(field: dict, version: int) -> bool:
    """Whether a version has a field; one that is always tagged need not name its versions twice."""
    return version in Versions.parse(field.get("versions") or field["taggedVersions"])


def is_in(field: dict, what: str, version: int) -> bool:
    """Whether a version is among the `taggedVersions` or `nullableVersions` of a field."""
    return what in field and version in Versions.parse(field[what])


def _their_fields(fields: list[dict], version: int, common: dict[str, list[dict]]) -> Iterator[tuple]:
    for field in fields:
        if not exists(field, version):
            continue
        kind = field["type"].removeprefix("[]")
        children = field.get("fields") or common.get(kind)
        nullable = is_in(field, "nullableVersions", version)
        tagged = is_in(field, "taggedVersions", version)
        yield (
            field["name"].lower(),
            "[]" * field["type"].startswith("[]") + ("struct" if children else kind),
            nullable,
            int(field["tag"]) if tagged else None,
            _their_default(field, tagged=tagged, nullable=nullable),
            str(field.get("ignorable", False)).lower() == "true",
            list(_their_fields(children, version, common)) if children else None,
        )


def _their_default(field: dict, *, tagged: bool, nullable: bool) -> object:
    kind, default = field["type"], field.get("default")
    if default == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind[0].isupper():
        return None if tagged and not nullable else "struct"
    if default is None:
        return IMPLIED.get(kind, 0)
    if kind == "bool":
        return str(default).lower() == "true"
    return default if kind == "string" else int(str(default), 0)


def our_fields(cls: type[Message], version: int) -> list[tuple]:
    """The same of one of our classes."""
    return _our_fields(message_layout(cls, version))


def _our_fields(layout: Layout) -> list[tuple]:
    present = {field.name for field in (*layout.fields, *layout.tagged)}
    return [_our_field(layout, field) for name, field in layout.cls.__fields__.items() if name in present]


def _our_field(layout: Layout, field: Field) -> tuple:
    default = field.default
    if isinstance(default, type):
        default = [] if default is list else "struct"
    kind = field.kind.name if isinstance(field.kind, Wire) else "struct"
    return (
        field.name.replace("_", ""),
        "[]" * field.is_array + kind,
        field.is_nullable(layout.version),
        field.tag,
        default,
        field.ignorable,
        _our_fields(layout.of(field)) if field.struct else None,
    )


def without_ignorable(fields):
    return [(*one[:5], one[6] and without_ignorable(one[6])) for one in fields]
