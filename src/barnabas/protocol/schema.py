"""The class is the schema: messages and structs are declared once, for all their versions.

::

    class FindCoordinatorRequest(Request, api=10, versions="0-6", flexible="3+"):
        key: str = field("0-3")
        key_type: int8 = field("1+")
        coordinator_keys: list[str] = field("4+")

Theory of operation
-------------------
The metaclass takes the `Field`s out of the class body and turns their names into slots; nothing else
happens on import. The constructor of a class is compiled when its first instance is made, the codec of a
version when that version is first used, because a process uses few of all the classes and versions.

A field that a version lacks holds its default after decoding. Encoding it with another value is an error
unless the field is `ignorable`, as in Kafka's generated code. An optional struct that travels as a tagged
field is None while all of it is at its defaults, which is when Kafka does not send it.
"""

import inspect
from collections.abc import Mapping
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Any, Final, Union, dataclass_transform, get_args, get_origin

from barnabas.core.ids import ZERO_UUID
from barnabas.protocol.versions import Versions
from barnabas.protocol.wire import BUILTIN, Wire

UNSET: Final[Any] = type("Unset", (), {"__repr__": lambda _: "unset"})()


class Field:
    """One field of a schema: where it exists, its default, its type (resolved from the annotation)."""

    __slots__ = (
        "default",
        "ignorable",
        "is_array",
        "kind",
        "name",
        "nullable",
        "tag",
        "takes_encoded",
        "versions",
    )

    def __init__(
        self,
        versions: Versions,
        default: Any,
        nullable: Versions | None,
        tag: int | None,
        *,
        ignorable: bool,
        takes_encoded: bool = False,
    ) -> None:
        self.versions = versions
        self.default = default
        self.nullable = nullable
        self.tag = tag
        self.ignorable = ignorable
        self.takes_encoded = takes_encoded
        self.name = ""
        self.is_array = False
        self.kind: Wire | type[Struct] = BUILTIN[bool]

    def resolve(self, annotation: Any) -> None:
        """Learns the type of the field from its annotation, and with it the implied default."""
        kind = _without_none(annotation)
        if get_origin(kind) is list:
            self.is_array = True
            (kind,) = get_args(kind)
        self.kind = _kind_of(kind)
        if self.default is UNSET:
            self.default = self._implied_default()

    def _implied_default(self) -> Any:
        if self.is_array:
            return list
        if not isinstance(self.kind, Wire):
            return self.kind
        return _IMPLIED[self.kind.name]

    @property
    def struct(self) -> "type[Struct] | None":
        """The class of the field's struct, or of its elements; None for a primitive."""
        return None if isinstance(self.kind, Wire) else self.kind

    def is_nullable(self, version: int) -> bool:
        """Whether null may be written in this version."""
        return self.nullable is not None and version in self.nullable

    def __repr__(self) -> str:
        tag = "" if self.tag is None else f" tag={self.tag}"
        return f"<Field {self.name} {self.versions}{tag}>"


_IMPLIED: Final[Mapping[str, Any]] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "uuid": ZERO_UUID,
    "float64": 0.0,
    "records": None,
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint16", "uint32"), 0),
}


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in {Union, UnionType}:
        (annotation,) = (kind for kind in get_args(annotation) if kind is not type(None))
    return annotation


def _kind_of(annotation: Any) -> "Wire | type[Struct]":
    if metadata := getattr(annotation, "__metadata__", None):
        wire: Wire = metadata[0]
        return wire
    if annotation in BUILTIN:
        return BUILTIN[annotation]
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation
    raise TypeError(f"{annotation!r} is not a type of Kafka's protocol")


def field(
    versions: str,
    *,
    default: Any = UNSET,
    nullable: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
    takes_encoded: bool = False,
) -> Any:
    """Declares a field. `versions` and `nullable` are ranges (``0-6``, ``4+``), `tag` makes it a tagged
    field, `ignorable` lets a value be dropped silently in versions that lack the field. An array that
    `takes_encoded` may also hold elements as `Message.encode_element` gave them, in the version that the
    message is encoded in.
    """
    nullable_versions = Versions.parse(nullable) if nullable else None
    return Field(
        Versions.parse(versions),
        default,
        nullable_versions,
        tag,
        ignorable=ignorable,
        takes_encoded=takes_encoded,
    )


def declared(
    name: str,
    kind: Any,
    versions: str,
    *,
    default: Any,
    nullable: str | None,
    tag: int | None,
    ignorable: bool,
    is_array: bool,
) -> Field:
    """A field whose type is known already: one of a native class."""
    known: Field = field(versions, default=default, nullable=nullable, tag=tag, ignorable=ignorable)
    known.name, known.kind, known.is_array = name, kind, is_array
    return known


@dataclass_transform(kw_only_default=True)
class Schema(type):
    """The metaclass: fields become slots."""

    __fields__: Mapping[str, Field]
    __resolved__: bool

    def __subclasscheck__(cls, other: type) -> bool:
        """Also true of a native class that stands for a subclass (`native.adopt`)."""
        return super().__subclasscheck__(other) or cls in getattr(other, "__stands_for__", ())

    def __instancecheck__(cls, instance: object) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any) -> "Schema":
        """Makes the class; `options` go to ``__init_subclass__``."""
        fields = {key: value for key, value in body.items() if isinstance(value, Field)}
        for key, declared in fields.items():
            declared.name = key
            del body[key]
        body.setdefault("__slots__", tuple(fields))
        body["__fields__"] = MappingProxyType(fields)
        body["__resolved__"] = False
        return super().__new__(mcs, name, bases, body, **options)


class Struct(metaclass=Schema):
    """A part of a message: a mutable object with one slot a field, built with keywords."""

    __slots__ = ("unknown_tags",)

    if TYPE_CHECKING:
        unknown_tags: dict[int, bytes] | None = None
    """Tagged fields that the schema does not know; kept, and written again by flexible versions."""

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        _compile_constructor(cls)
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        return same(self, other) if type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return text_of(self)


def same(one: Any, other: Any) -> bool:
    """Whether two structs of one class are equal in all fields."""
    return (one.unknown_tags or None) == (other.unknown_tags or None) and all(
        getattr(one, name) == getattr(other, name) for name in type(one).__fields__
    )


def text_of(struct: Any) -> str:
    """A struct for people: what is not at its default."""
    shown = [
        f"{name}={_show(value)}"
        for name, declared in resolved(type(struct)).items()
        if not is_default(declared, value := getattr(struct, name))
    ]
    if struct.unknown_tags:
        shown.append(f"unknown_tags={struct.unknown_tags!r}")
    return f"{type(struct).__name__}({', '.join(shown)})"


def _show(value: Any) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)) and len(value) > 16:
        return f"<{len(value)} bytes>"
    return repr(value)


def is_default(declared: Field, value: Any) -> bool:
    """Whether a value of a resolved field is the field's default."""
    default: Any = declared.default
    return bool(value == (default() if isinstance(default, type) else default))


def resolved(cls: type[Struct]) -> Mapping[str, Field]:
    """The fields of a class in the order of the wire, with their types known."""
    fields = cls.__fields__
    if fields and not cls.__resolved__:
        annotations = inspect.get_annotations(cls)
        for name, declared in fields.items():
            declared.resolve(annotations[name])
        cls.__resolved__ = True
    return fields


def _compile_constructor(cls: type[Struct]) -> None:
    """Writes ``__init__`` of a class: keywords only, each with the default of its field."""
    scope: dict[str, Any] = {"UNSET": UNSET}
    parameters, lines = ["unknown_tags=None"], ["self.unknown_tags = unknown_tags"]
    for name, declared in resolved(cls).items():
        default = declared.default
        if isinstance(default, type):
            scope[f"new_{name}"] = default
            parameters.append(f"{name}=UNSET")
            lines.append(f"self.{name} = new_{name}() if {name} is UNSET else {name}")
        else:
            scope[f"default_{name}"] = default
            parameters.append(f"{name}=default_{name}")
            lines.append(f"self.{name} = {name}")
    text = f"def __init__(self, *, {', '.join(parameters)}):\n    " + "\n    ".join(lines)
    exec(compile(text, f"<{cls.__name__} constructor>", "exec"), scope)  # noqa: S102 - our own text
    cls.__init__ = scope["__init__"]  # type: ignore[method-assign]
