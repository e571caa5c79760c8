"""Writes the modules of the hot messages as native classes with typed codecs, for the compiler.

    python -m barnabas.protocol.ahead FOLDER

puts them under FOLDER, in the place and with the names of the modules that declare the schemas, and prints
their paths. The build does that in its copy of the sources; nothing of it is ever committed, and where
nothing is compiled the schemas are used as they are.

Theory of operation
-------------------
A message of a hot module becomes a class that the compiler gives a C structure: an attribute for each field,
a constructor with the same keywords and defaults. Everything that a message has besides, it has from
`message.adopt`, which lends it the methods of `Message`: so the codecs that are made at first use work with
such a class as with any other.

For the versions in `HOT`, ``decode`` and ``encode`` have a function of straight-line code each. It knows what
is right and frequent, and gives up on everything else (unknown tags, a length that points behind the end, a
value that does not fit its type, an array of thousands): then the codec that is made at first use starts
over. It alone knows what is wrong, and where; both forms raise the same errors because the same code raises
them.

A message with records is read from a window: bytes copied from the view, as bytes are read many times faster.
The records themselves stay where they are; behind them the next window begins.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from barnabas.core.ids import ZERO_UUID
from barnabas.protocol.api import ApiKey
from barnabas.protocol.encoder import ARRAY_MAX, COPY_MAX, PIECES_MAX
from barnabas.protocol.layout import Layout, layout_of
from barnabas.protocol.message import Message, Request
from barnabas.protocol.schema import Field, Schema, resolved
from barnabas.protocol.source import Text
from barnabas.protocol.wire import ELEMENTS_MAX, TAGS_MAX, Wire

HOT: Final = {
    "produce": (3, 13),
    "fetch": (4, 18),
    "heartbeat": (0, 4),
    "find_coordinator": (0, 6),
}
"""Modules of hot messages, and the versions that clients use today."""

PACKAGE: Final = "barnabas.protocol.messages"

_HEAD: Final = '''"""{doc}"""

# Written by barnabas.protocol.ahead.

from typing import TYPE_CHECKING, ClassVar, final

from barnabas.core.chunks import Buffer, Chunk, Chunks, FileSlice
from barnabas.core.ids import ZERO_UUID
from barnabas.protocol.message import Message, Request, Response
from barnabas.protocol.native import (
    UNSET,
    WINDOW,
    WINDOW_REST,
    GiveUp,
    NativeMessage,
    NativeStruct,
    adopt,
    bool_bytes,
    bytes_at,
    classic_bytes,
    classic_text,
    compact,
    compact_bytes,
    compact_text,
    decode_otherwise,
    finished,
    framed,
    int8_at,
    int8_bytes,
    int16_at,
    int16_bytes,
    int32_at,
    int32_bytes,
    int64_at,
    int64_bytes,
    join,
    text_at,
    uuid,
    uvarint_at,
    view_of,
)
from barnabas.protocol.schema import declared
from barnabas.protocol.wire import Wire

if TYPE_CHECKING:
    from mypy_extensions import i64
'''


class VersionRun(NamedTuple):
    """A function for some versions in a row, which look the same."""

    function: str
    body: str
    first: int
    last: int

    @property
    def condition(self) -> str:
        """That the version is one of them."""
        return (
            f"version == {self.first}"
            if self.first == self.last
            else f"{self.first} <= version <= {self.last}"
        )


def module_text(name: str) -> str:
    """The text of one module of messages."""
    module = import_module(f"{PACKAGE}.{name}")
    classes: list[Any] = [
        each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__
    ]
    for each in classes:
        if not isinstance(each, Schema):
            raise TypeError(
                f"{module.__name__} may declare messages only: {each!r} would be missing in the compiled form"
            )
    text = Text()
    text.line(_HEAD.format(doc=module.__doc__))
    functions = Text()
    for cls in classes:
        first, last = HOT[name]
        codecs = _codecs(cls, first, last) if issubclass(cls, Message) else None
        text.line()
        _write_class(text, cls, codecs)
        for way, codec in codecs or ():
            functions.line(f"\n\ndef {codec.function}({_PARAMETERS[way].format(cls.__name__)}")
            functions.line(codec.body)
    return f"{text}{functions}\n"


_PARAMETERS: Final = {
    "decode": 'buffer: Buffer, offset: "i64") -> tuple[{}, int]:',
    "encode": "message: {}, pieces: list[bytes], chunks: Chunks) -> None:",
}


def _codecs(cls: type[Message], first: int, last: int) -> list[tuple[str, VersionRun]]:
    """The functions of a message, for each way the newest first."""
    codecs: list[tuple[str, VersionRun]] = []
    for way in ("decode",) if issubclass(cls, Request) else ("encode",):
        earlier: list[VersionRun] = []
        for version in range(max(first, cls.min_version), min(last, cls.max_version) + 1):
            layout = layout_of(cls, version, flexible=cls.is_flexible(version))
            body = Text()
            with body.block(""):
                if way == "decode":
                    _NativeDecoderWriter(body, layout, keeps_unknown_tags=cls.keeps_unknown_tags).write()
                else:
                    _NativeEncoderWriter(body, layout).write()
            if earlier and earlier[-1].body == str(body):
                earlier[-1] = earlier[-1]._replace(last=version)
            else:
                earlier.append(VersionRun(f"_{way}_{cls.__name__}_{version}", str(body), version, version))
        codecs += [(way, codec) for codec in reversed(earlier)]
    return codecs


def _write_class(text: Text, cls: Any, codecs: list[tuple[str, VersionRun]] | None) -> None:
    """A native class, and what makes it known as one with these fields."""
    fields = list(resolved(cls).values())
    text.line("\n@final")
    with text.block(f"class {cls.__name__}({'NativeStruct' if codecs is None else 'NativeMessage'}):"):
        text.line(f'"""{cls.__doc__}"""\n')
        with text.block("def __init__("):
            text.line("self,")
            text.line("*,")
            for field in fields:
                text.line(f'{field.name}: "{_type_of(field)}" = {_default_of(field)},')
            text.line("unknown_tags: dict[int, bytes] | None = None,")
        with text.block(") -> None:"):
            for field in fields:
                name = field.name
                value = f"[] if {name} is UNSET else {name}" if field.default is list else name
                text.line(f'self.{name}: "{_type_of(field)}" = {value}')
            text.line("self.unknown_tags = unknown_tags")
        if codecs is not None:
            _write_faces(text, cls, codecs)
    text.line()
    text.line()
    text.line(f"adopt({cls.__name__}, [{', '.join(map(_declaration, fields))}]")
    if issubclass(cls, Message):
        base = "Request" if issubclass(cls, Request) else "Response"
        flexible = None if cls.flexible_from is None else f"{cls.flexible_from}+"
        text.line(f"    , {base}, api={int(cls.api or 0)}, versions='{cls.min_version}-{cls.max_version}',")
        text.line(f"    flexible={flexible!r}")
    text.line(")")


def _write_faces(text: Text, cls: Any, codecs: list[tuple[str, VersionRun]]) -> None:
    """The methods that look for a function of the version, and go the other way where it gives up."""
    name = cls.__name__
    if issubclass(cls, Request):
        text.line()
        text.line("@classmethod")
        with text.block(
            f'def decode(cls, buffer: Buffer, version: int, offset: int = 0) -> "tuple[{name}, int]":'
        ):
            with text.block("try:"):
                for _, codec in codecs:
                    with text.block(f"if {codec.condition}:"):
                        text.line(f"return {codec.function}(buffer, offset)")
            with text.block("except (GiveUp, IndexError):"):
                text.line("pass")
            text.line(f"return decode_otherwise({name}, buffer, version, offset)")
        return
    for face, otherwise, parameters, result in _ENCODERS:
        tags = "b''"
        if cls.api is not ApiKey.API_VERSIONS and cls.flexible_from is not None:
            tags = f"b'\\0' if version >= {cls.flexible_from} else b''"
        text.line()
        with text.block(f"def {face}(self, {parameters}version: int) -> Chunks | None:"):
            text.line("pieces: list[bytes] = []")
            text.line("chunks: Chunks = []")
            with text.block("try:"):
                opening = "if"
                for way, codec in codecs:
                    if way == "encode":
                        with text.block(f"{opening} {codec.condition}:"):
                            text.line(f"{codec.function}(self, pieces, chunks)")
                        opening = "elif"
                with text.block("else:"):
                    text.line("raise GiveUp")
                text.line(f"return {result.format(tags)}")
            with text.block("except (GiveUp, OverflowError, TypeError, ValueError):"):
                text.line("pass")
            names = parameters.partition(":")[0]
            text.line(f"return self.{otherwise}({names and names + ', '}version)")


_ENCODERS: Final = (
    ("encode_small", "encode_otherwise", "", "finished(pieces, chunks)"),
    ("small_frame", "frame_otherwise", "correlation_id: int, ", "framed(pieces, chunks, correlation_id, {})"),
)


def _type_of(field: Field) -> str:
    kind = field.kind.python if isinstance(field.kind, Wire) else field.kind.__name__
    if field.is_array:
        kind = f"list[{kind}]"
    optional = field.nullable is not None or field.default is None
    return f"{kind} | None" if optional else kind


def _default_of(field: Field) -> str:
    if field.default is list:
        return "UNSET"
    if field.default == ZERO_UUID:
        return "ZERO_UUID"
    assert not isinstance(field.default, type), f"{field} starts as a new struct"
    return repr(field.default)


def _declaration(field: Field) -> str:
    kind = repr(field.kind) if isinstance(field.kind, Wire) else field.kind.__name__
    default = "list" if field.default is list else _default_of(field)
    nullable = None if field.nullable is None else str(field.nullable)
    return (
        f"declared({field.name!r}, {kind}, {str(field.versions)!r}, default={default}, "
        f"nullable={nullable!r}, "
        f"tag={field.tag!r}, ignorable={field.ignorable!r}, is_array={field.is_array!r})"
    )


class _NativeDecoderWriter:
    """Writes the function that decodes one version of a message:
    ``(buffer, offset) -> (message, offset behind it)``.
    """

    def __init__(self, text: Text, layout: Layout, *, keeps_unknown_tags: bool) -> None:
        self.text = text
        self.line = text.line
        self.layout = layout
        self.keeps_unknown_tags = keeps_unknown_tags
        self.flexible = layout.flexible
        self.views = layout.carries_records()
        self.structs = 0
        self.declared: set[str] = set()
        self.read = 0
        """Bytes at ``p`` and behind it that were read, and ``p`` does not know of it yet."""

    def write(self) -> None:
        """Writes the body."""
        if self.views:
            self.line("view = view_of(buffer)")
            self.line("end: i64 = len(view)")
            # A small frame is copied whole: a slice of a view is one more object.
            self.line("o: i64 = 0")
            self.line("p: i64 = offset")
            with self.text.block("if end > WINDOW:"):
                self.line("o = offset")
                self.line("p = 0")
            self.line("b: bytes = view.tobytes() if end <= WINDOW else view[o : o + WINDOW].tobytes()")
        else:
            self.line("b: bytes = buffer if isinstance(buffer, bytes) else bytes(buffer)")
            self.line("end: i64 = len(b)")
            self.line("o: i64 = 0")
            self.line("p: i64 = offset")
        self.line("e: i64 = len(b)")
        self.line("n: i64 = 0")
        message = self.struct(self.layout)
        self.move()
        self.line(f"return {message}, o + p")

    def struct(self, layout: Layout) -> str:
        """Reads the fields into variables, then makes the struct of them; gives its name."""
        self.structs += 1
        number = self.structs
        for field in layout.tagged:
            default = "[]" if field.default is list else _default_of(field)
            self.assign(f"{field.name}_{number}", _variable_of(field), default)
        for field in layout.fields:
            self.field(field, f"{field.name}_{number}")
        if layout.flexible:
            self.tags(layout, number)
        given = [f"{field.name}={field.name}_{number}" for field in (*layout.fields, *layout.tagged)]
        self.line(f"o_{number} = {layout.cls.__name__}({', '.join(given)})")
        return f"o_{number}"

    def assign(self, target: str, kind: str, value: str) -> None:
        """Gives a variable a value, and its type where it is new."""
        self.line(f"{target} = {value}" if target in self.declared else f"{target}: {kind} = {value}")
        self.declared.add(target)

    def declare(self, target: str, kind: str) -> None:
        """Says the type of a variable that gets its value in several branches."""
        if target not in self.declared:
            self.line(f"{target}: {kind}")
            self.declared.add(target)

    def field(self, field: Field, target: str) -> None:
        """Reads one field into a variable."""
        nullable = field.is_nullable(self.layout.version)
        if field.is_array:
            self.array(field, target, nullable=nullable)
        elif isinstance(field.kind, Wire):
            self.primitive(field.kind, target, _variable_of(field), nullable=nullable)
        elif nullable:
            self.nullable_struct(field, target)
        else:
            self.assign(target, _variable_of(field), self.struct(self.layout.of(field)))

    def nullable_struct(self, field: Field, target: str) -> None:
        """A byte says whether the struct follows. Kafka writes -1 for null, but 0 inside a tagged field."""
        self.declare(target, _variable_of(field))
        self.line(f"n = int8_at(b, {self.here()})")
        self.read += 1
        self.move()
        with self.text.block("if n < 0:" if field.tag is None else "if n <= 0:"):
            self.line(f"{target} = None")
        with self.text.block("else:"):
            struct = self.struct(self.layout.of(field))
            self.move()
            self.line(f"{target} = {struct}")

    def primitive(self, kind: Wire, target: str, variable: str, *, nullable: bool) -> None:
        """A number, a UUID, a string, bytes or records."""
        here = self.here()
        if kind.python == "int":
            self.assign(target, variable, f"{kind.name}_at(b, {here})")
            self.read += kind.size
        elif kind.name == "bool":
            self.assign(target, variable, f"b[{here}] != 0")
            self.read += 1
        elif kind.name == "uuid":
            self.assign(target, variable, f"bytes_at(b, {here}, 16)")
            self.read += 16
        else:
            self.sized(kind, target, variable, nullable=nullable)

    def sized(self, kind: Wire, target: str, variable: str, *, nullable: bool) -> None:
        """A string, bytes or records."""
        self.length("int16" if kind.name == "string" else "int32")
        self.declare(target, variable)
        with self.text.block("if n < 0:"):
            self.line(f"{target} = None" if nullable else "raise GiveUp")
        with self.text.block("else:"):
            if kind.name == "records":
                self.records(target)
                return
            self.line(f"{target} = {'text' if kind.name == 'string' else 'bytes'}_at(b, p, n)")
            self.line("p += n")

    def records(self, target: str) -> None:
        """A view of ``n`` bytes, and the next window where this one is nearly used up."""
        with self.text.block("if o + p + n > end:"):
            self.line("raise GiveUp")
        self.line(f"{target} = view[o + p : o + p + n]")
        self.line("p += n")
        with self.text.block("if e - p < WINDOW_REST and o + e < end:"):
            self.line("o += p")
            self.line("p = 0")
            self.line("b = view[o : o + WINDOW].tobytes()")
            self.line("e = len(b)")

    def length(self, classic: str) -> None:
        """Reads a length or count into ``n``, -1 for null; then ``p`` is behind it."""
        if not self.flexible:
            self.line(f"n = {classic}_at(b, {self.here()})")
            self.read += 2 if classic == "int16" else 4
            self.move()
            return
        self.varint("n")
        self.line("n -= 1")

    def varint(self, name: str) -> None:
        """Reads an unsigned varint; then ``p`` is behind it."""
        self.line(f"{name} = b[{self.here()}]")
        self.read += 1
        self.move()
        with self.text.block(f"if {name} > 127:"):
            self.line(f"{name} = uvarint_at(b, p - 1)")
            self.line(f"p += ({name} & 7) - 1")
            self.line(f"{name} >>= 3")

    def array(self, field: Field, target: str, *, nullable: bool) -> None:
        """An array of primitives or structs."""
        self.length("int32")
        self.declare(target, _variable_of(field))
        with self.text.block("if n < 0:"):
            self.line(f"{target} = None" if nullable else "raise GiveUp")
        with self.text.block("else:"):
            size = self.layout.element_size_min(field)
            with self.text.block(f"if n > {ELEMENTS_MAX} or n * {size} > end - o - p:"):
                self.line("raise GiveUp")
            self.elements(field, target)

    def elements(self, field: Field, target: str) -> None:
        """The ``n`` elements of an array."""
        self.assign(f"left_{target}", "i64", "n")
        self.line(f"{target} = []")
        with self.text.block(f"while left_{target} > 0:"):
            self.line(f"left_{target} -= 1")
            if isinstance(field.kind, Wire):
                element = f"one_{target}"
                self.primitive(field.kind, element, _element_of(field.kind), nullable=False)
            else:
                element = self.struct(self.layout.of(field))
            self.move()
            self.line(f"{target}.append({element})")

    def tags(self, layout: Layout, number: int) -> None:
        """The tagged fields that follow a struct: none, nearly always."""
        self.line(f"n = b[{self.here()}]")
        self.read += 1
        self.move()
        with self.text.block("if n > 0:"):
            if not layout.tagged and self.keeps_unknown_tags:
                self.line("raise GiveUp")
                return
            with self.text.block(f"if n > {TAGS_MAX}:"):
                self.line("raise GiveUp")
            tag, left, end = f"tag_{number}", f"tags_{number}", f"end_{number}"
            self.assign(left, "i64", "n")
            self.declare(tag, "i64")
            self.declare(end, "i64")
            with self.text.block(f"while {left} > 0:"):
                self.line(f"{left} -= 1")
                self.varint(tag)
                self.varint("n")
                self.line(f"{end} = p + n")
                for field in layout.tagged:
                    with self.text.block(f"if {tag} == {field.tag}:"):
                        self.field(field, f"{field.name}_{number}")
                        self.move()
                        with self.text.block(f"if p != {end}:"):
                            self.line("raise GiveUp")
                        self.line("continue")
                if self.keeps_unknown_tags:
                    self.line("raise GiveUp")
                else:
                    with self.text.block(f"if {end} > e:"):
                        self.line("raise GiveUp")
                    self.line(f"p = {end}")

    def here(self) -> str:
        """Where the next byte is read."""
        return f"p + {self.read}" if self.read else "p"

    def move(self) -> None:
        """Moves ``p`` behind what was read."""
        if self.read:
            self.line(f"p += {self.read}")
            self.read = 0


def _element_of(kind: Wire) -> str:
    return "i64" if kind.python == "int" else kind.python


def _variable_of(field: Field) -> str:
    """The type of a variable with a field's value."""
    kind = _type_of(field)
    return "i64" if kind == "int" else kind


class _NativeEncoderWriter:
    """Writes the function that encodes one version of a message:
    ``(message, pieces, chunks)``, appends to both.
    """

    def __init__(self, text: Text, layout: Layout) -> None:
        self.text = text
        self.line = text.line
        self.layout = layout
        self.flexible = layout.flexible
        self.null_length = r"b'\0'" if layout.flexible else r"b'\xff\xff\xff\xff'"
        self.structs = 0
        self.waiting: list[str] = []
        """Pieces of bytes for the next append."""

    def write(self) -> None:
        """Writes the body."""
        self.line("n: i64 = 0")
        self.struct(self.layout, "message", depth=0)
        self.flush()

    def struct(self, layout: Layout, me: str, *, depth: int) -> None:
        """Writes the fields of a struct; may leave the last of them waiting."""
        unlike = [
            _differs(field, f"{me}.{field.name}")
            for field in (*layout.absent, *layout.tagged)
            if field in layout.tagged or not field.ignorable
        ]
        if layout.flexible:
            unlike.append(f"{me}.unknown_tags")
        if unlike:
            with self.text.block(f"if {' or '.join(unlike)}:"):
                self.line("raise GiveUp")
        for field in layout.fields:
            self.field(field, f"{me}.{field.name}", depth)
        if layout.flexible:
            self.add(r"b'\0'")

    def field(self, field: Field, value: str, depth: int) -> None:
        """Writes one field."""
        nullable = field.is_nullable(self.layout.version)
        if not field.is_array and isinstance(field.kind, Wire):
            if "None" in _type_of(field) and not nullable and field.kind.name != "records":
                value = self.there(value)
            self.primitive(field.kind, value, nullable=nullable)
            return
        self.structs += 1
        name = f"o_{self.structs}"
        self.flush()
        self.line(f"{name} = {value}")
        if "None" in _type_of(field):
            null = self.null_length if field.is_array else r"b'\xff'"
            with self.text.block(f"if {name} is None:"):
                self.line(f"pieces.append({null})" if nullable else "raise GiveUp")
            with self.text.block("else:"):
                self.compound(field, name, depth, nullable=nullable)
        else:
            self.compound(field, name, depth, nullable=nullable)

    def there(self, value: str) -> str:
        """A variable with a value that must not be null."""
        self.structs += 1
        self.line(f"v_{self.structs} = {value}")
        with self.text.block(f"if v_{self.structs} is None:"):
            self.line("raise GiveUp")
        return f"v_{self.structs}"

    def compound(self, field: Field, name: str, depth: int, *, nullable: bool) -> None:
        """An array or a struct that is there."""
        if field.is_array:
            self.array(field, name, depth)
            return
        if nullable:
            self.add(r"b'\1'")
        self.struct(self.layout.of(field), name, depth=depth)
        self.flush()

    def primitive(self, kind: Wire, value: str, *, nullable: bool) -> None:
        """A number, a UUID, a string, bytes or records."""
        if kind.python in {"int", "bool"}:
            self.add(f"{kind.name}_bytes({value})")
        elif kind.name == "uuid":
            self.add(f"uuid({value})")
        elif kind.name == "records":
            self.records(value, nullable=nullable)
        else:
            way = "compact" if self.flexible else "classic"
            what = "text" if kind.name == "string" else "bytes"
            self.add(f"{way}_{what}({value})")

    def records(self, value: str, *, nullable: bool) -> None:
        """Record batches: a chunk of their own unless they are small."""
        self.flush()
        self.line(f"records = {value}")
        with self.text.block("if records is None:"):
            self.line(f"pieces.append({self.null_length})" if nullable else "raise GiveUp")
        with self.text.block("else:"):
            self.line("n = len(records)")
            self.line(f"pieces.append({self.length('n')})")
            with self.text.block(f"if n > {COPY_MAX} or isinstance(records, FileSlice):"):
                self.line("chunks.append(join(pieces))")
                self.line("pieces.clear()")
                self.line("chunks.append(records)")
            with self.text.block("else:"):
                self.line("pieces.append(records if isinstance(records, bytes) else bytes(records))")

    def length(self, n: str) -> str:
        """The piece for a length or count."""
        return f"compact({n})" if self.flexible else f"int32_bytes({n})"

    def array(self, field: Field, items: str, depth: int) -> None:
        """An array of primitives or structs."""
        self.line(f"n = len({items})")
        with self.text.block(f"if n > {ARRAY_MAX}:"):
            self.line("raise GiveUp")
        self.add(self.length("n"))
        self.flush()
        self.structs += 1
        name = f"e_{self.structs}"
        with self.text.block(f"for {name} in {items}:"):
            if isinstance(field.kind, Wire):
                self.primitive(field.kind, name, nullable=False)
            else:
                self.struct(self.layout.of(field), name, depth=depth + 1)
            self.flush()
            if not depth and field.struct:
                with self.text.block(f"if len(pieces) > {PIECES_MAX} or len(chunks) > {PIECES_MAX}:"):
                    self.line("raise GiveUp")

    def add(self, piece: str) -> None:
        """Puts a piece behind those that wait."""
        self.waiting.append(piece)

    def flush(self) -> None:
        """Appends what waits as one piece."""
        pieces, self.waiting = self.waiting, []
        if len(pieces) == 1:
            self.line(f"pieces.append({pieces[0]})")
        elif pieces:
            self.line(f'pieces.append(b"{"%b" * len(pieces)}" % ({", ".join(pieces)}))')


def _differs(field: Field, value: str) -> str:
    """The condition that a value is not the field's default."""
    default = field.default
    if default is None:
        return f"{value} is not None"
    if default is list:
        return f"len({value}) > 0" if field.nullable is None else f"{value} != []"
    return f"{value} != {_default_of(field)}"


def main() -> None:
    folder = Path(sys.argv[1])
    for name in HOT:
        path = Path(*PACKAGE.split("."), f"{name}.py")
        (folder / path).write_text(module_text(name))
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
