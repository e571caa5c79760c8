"""Writes the decoder of one version of a message as straight-line Python and compiles it.

Theory of operation
-------------------
The function reads from the buffer ``b`` at position ``p`` up to ``e``. Fixed-size fields that lie side by
side are collected in a `Batch` and read by one ``unpack_from`` straight into their slots, together with the
length of the string or array that follows them: ``o0.error_code, o0.node_id, n = unpack_from_hih(b, p)``.
Arrays of structs are loops in the same function, so depth is in the names (``o1``, ``l1``), not in calls.

Nothing is allocated on the word of a length: a string's end is compared with ``e`` before it is cut out, and
a count with the bytes that so many of the smallest possible elements would take.

A message with records reads from a memoryview, so that records stay where they are; any other reads from
bytes, whose slices decode faster than those of a view.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct as Packer
from struct import error as StructError  # noqa: N812 - it is an exception
from typing import Any, Final, TypeAlias

from barnabas.core.chunks import Buffer
from barnabas.protocol import wire
from barnabas.protocol.errors import Malformed, ProtocolError
from barnabas.protocol.layout import Layout
from barnabas.protocol.schema import Field, Struct
from barnabas.protocol.source import Place, Source
from barnabas.protocol.wire import ARRAY_STRUCTS, ELEMENTS_MAX, TABLE_SIZE, Wire

Decoder: TypeAlias = Callable[[Buffer, int], tuple[Struct, int]]
_ERRORS: Final = (Malformed, StructError, IndexError)
_ARRAYS: Final = {
    f"array_{code}": [one.unpack_from for one in table] for code, table in ARRAY_STRUCTS.items()
}


def compile_decoder(layout: Layout) -> Decoder:
    """The decoder of a message in one version: (buffer, offset) -> (message, offset behind it)."""
    writer = _DecoderWriter(layout)
    decode, code = writer.compile()
    to_buffer: Any = memoryview if layout.carries_records() else bytes

    def decoder(buffer: Buffer, offset: int) -> tuple[Struct, int]:
        if type(buffer) is not to_buffer:
            buffer = to_buffer(buffer)
        end = len(buffer)
        try:
            message, offset = decode(buffer, offset, end)
        except _ERRORS as error:
            field, at = writer.source.locate(error.__traceback__, code, end)
            reason = _reason(error, end - at)
            raise ProtocolError(
                reason, message=layout.cls.__name__, version=layout.version, field=field, offset=at
            ) from error
        return message, offset

    return decoder


def _reason(error: Exception, left: int) -> str:
    if isinstance(error, (StructError, IndexError)):
        return f"the bytes end here, {left} are left"
    return str(error)


class _DecoderWriter:
    """Writes the text of one decoder."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.flexible = layout.flexible
        self.version = layout.version
        self.views = layout.carries_records()
        self.source = Source()
        self.batch: list[tuple[str, Place]] = []
        self.source.scope.update(
            new=object.__new__,
            uvarint=wire.read_uvarint,
            unknown_tags=wire.read_unknown_tags,
            too_long=wire.too_long,
            too_many=wire.too_many,
            must_not_be_null=wire.must_not_be_null,
            wrong_size=wire.wrong_size,
            Packer=Packer,
            **_ARRAYS,
        )

    def compile(self) -> tuple[Callable[..., Any], Any]:
        """Writes and compiles ``decode(b, p, e)``."""
        with self.source.block("def decode(b, p, e):"):
            self.struct(self.layout, 0)
            self.flush()
            self.source.line("return o0, p")
        return self.source.compile(f"{self.layout.cls.__name__} v{self.version} decoder", "decode")

    def struct(self, layout: Layout, depth: int) -> None:
        """Makes ``o{depth}`` and reads its fields; may leave the last of them in the batch."""
        target = f"o{depth}"
        self.source.line(f"{target} = new({self.source.constant('C', layout.cls)})")
        for field in layout.fields:
            with self.source.field(field.name):
                self.field(field, f"{target}.{field.name}", depth)
        for field in (*layout.absent, *layout.tagged):
            self.source.line(f"{target}.{field.name} = {self.default(field)}")
        self.source.line(f"{target}.unknown_tags = None")
        if layout.flexible:
            self.tags(layout, depth)

    def default(self, field: Field) -> str:
        """The text of a field's default."""
        if field.default is list:
            return "[]"
        if isinstance(field.default, type):
            return f"{self.source.constant('C', field.default)}()"
        if field.default is None or type(field.default) in {bool, int, str}:
            return repr(field.default)
        return self.source.constant("D", field.default)

    def field(self, field: Field, target: str, depth: int) -> None:
        """Reads one field into `target`."""
        nullable = field.is_nullable(self.version)
        if field.is_array:
            self.array(field, target, depth, nullable=nullable)
        elif isinstance(field.kind, Wire):
            self.primitive(field.kind, target, nullable=nullable)
        elif nullable:
            self.nullable_struct(field, target, depth)
        else:
            self.struct(self.layout.of(field), depth + 1)
            self.flush()
            self.source.line(f"{target} = o{depth + 1}")

    def nullable_struct(self, field: Field, target: str, depth: int) -> None:
        """A byte says whether the struct follows. Kafka writes -1 for null, but 0 inside a tagged field."""
        self.add("b", "n")
        self.flush()
        with self.source.block("if n < 0:" if field.tag is None else "if n <= 0:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self.struct(self.layout.of(field), depth + 1)
            self.flush()
            self.source.line(f"{target} = o{depth + 1}")

    def primitive(self, kind: Wire, target: str, *, nullable: bool) -> None:
        """A number, a UUID, a string, bytes or records."""
        if kind.code:
            self.add(kind.code, target)
            return
        count = self.length("h" if kind.name == "string" else "i")
        with self.present(target, nullable=nullable):
            self.source.line(f"x = p + {count}")
            with self.source.block("if x > e:"):
                self.source.line(f"too_long({count}, e - p)")
            self.source.line(f"{target} = {self.cut(kind)}")
            self.source.line("p = x")

    def cut(self, kind: Wire) -> str:
        """The text of a value that lies between ``p`` and ``x``. Java replaces what is not UTF-8."""
        if kind.name == "string":
            return f"b[p:x]{'.tobytes()' * self.views}.decode('utf-8', 'replace')"
        return "b[p:x].tobytes()" if self.views and kind.name == "bytes" else "b[p:x]"

    def length(self, classic: str) -> str:
        """Reads a length or count into ``n``; gives the text of its value for what is not null."""
        self.add("B" if self.flexible else classic, "n")
        self.flush()
        if self.flexible:
            self.more_of_varint("n")
        return "n - 1" if self.flexible else "n"

    @contextmanager
    def present(self, target: str, *, nullable: bool) -> Iterator[None]:
        """The lines for a value whose length is not that of null."""
        with self.source.block("if n:" if self.flexible else "if n >= 0:"):
            yield
        with self.source.block("else:"):
            self.source.line(f"{target} = None" if nullable else "must_not_be_null()")

    def more_of_varint(self, name: str) -> None:
        """Goes on with a varint when its first byte says so."""
        with self.source.block(f"if {name} > 127:"):
            self.source.line(f"{name}, p = uvarint(b, p, {name})")

    def array(self, field: Field, target: str, depth: int, *, nullable: bool) -> None:
        """An array of primitives or structs."""
        count = self.length("i")
        size = self.layout.element_size_min(field)
        assert size > 0, f"{field} has elements without bytes"
        with self.present(target, nullable=nullable):
            with self.source.block(f"if n > {ELEMENTS_MAX} or ({count}) * {size} > e - p:"):
                self.source.line(f"too_many({count}, e - p)")
            if isinstance(field.kind, Wire) and field.kind.code:
                self.numbers(field.kind, target, count)
            else:
                self.elements(field, target, depth + 1)

    def numbers(self, kind: Wire, target: str, count: str) -> None:
        """Fixed-size elements, unpacked at once."""
        unpack = f"Packer(f'>{{{count}}}{kind.code}').unpack_from"
        if kind.name == "uuid":
            unpack = f"Packer('>' + '16s' * ({count})).unpack_from"
        elif kind.code in ARRAY_STRUCTS:
            unpack = f"(array_{kind.code}[{count}] if n < {TABLE_SIZE} else {unpack})"
        self.source.line(f"{target} = [*{unpack}(b, p)] if {count} else []")
        self.source.line(f"p += ({count}) * {kind.size}")

    def elements(self, field: Field, target: str, depth: int) -> None:
        """Elements whose size varies, in a loop."""
        self.source.line(f"l{depth} = {target} = []")
        with self.source.block("for _ in range(1, n):" if self.flexible else "for _ in range(n):"):
            if isinstance(field.kind, Wire):
                self.primitive(field.kind, f"s{depth}", nullable=False)
                self.source.line(f"l{depth}.append(s{depth})")
            else:
                self.struct(self.layout.of(field), depth)
                self.flush()
                self.source.line(f"l{depth}.append(o{depth})")

    def tags(self, layout: Layout, depth: int) -> None:
        """The tagged fields that follow a struct: none, nearly always."""
        self.add("B", "n")
        self.flush()
        with self.source.block("if n:"):
            self.more_of_varint("n")
            if layout.tagged:
                self.known_tags(layout, depth)
            else:
                self.source.line(f"o{depth}.unknown_tags, p = unknown_tags(b, p, e, n)")

    def known_tags(self, layout: Layout, depth: int) -> None:
        """Reads ``n`` tagged fields, each of which (``t``) ends at ``x{depth}``."""
        with self.source.block("for _ in range(n):"):
            self.varint("t")
            self.varint("n")
            self.source.line(f"x{depth} = p + n")
            with self.source.block(f"if x{depth} > e:"):
                self.source.line("too_long(n, e - p)")
            for field in layout.tagged:
                with self.source.block(f"if t == {field.tag}:"), self.source.field(field.name):
                    self.field(field, f"o{depth}.{field.name}", depth)
                    self.flush()
                    with self.source.block(f"if p != x{depth}:"):
                        self.source.line("wrong_size()")
                    self.source.line("continue")
            with self.source.block(f"if o{depth}.unknown_tags is None:"):
                self.source.line(f"o{depth}.unknown_tags = {{}}")
            self.source.line(f"o{depth}.unknown_tags[t] = bytes(b[p:x{depth}])")
            self.source.line(f"p = x{depth}")

    def varint(self, name: str) -> None:
        """Reads an unsigned varint."""
        self.source.line(f"{name} = b[p]")
        self.source.line("p += 1")
        self.more_of_varint(name)

    def add(self, code: str, target: str) -> None:
        """Puts a fixed-size value into the batch."""
        self.batch.append((target, Place(self.source.path, code)))

    def flush(self) -> None:
        """Reads the batch with one call."""
        if not self.batch:
            return
        places = [place for _, place in self.batch]
        codes = "".join(place.code for place in places)
        targets = [target for target, _ in self.batch]
        self.batch.clear()
        if codes in {"B", "?"}:
            self.source.line(f"{targets[0]} = b[p]" + (" != 0" if codes == "?" else ""), places)
        else:
            unpack = self.source.struct_method(codes, "unpack_from")
            self.source.line(f"{', '.join(targets)}{',' * (len(targets) == 1)} = {unpack}(b, p)", places)
        self.source.line(f"p += {Packer('>' + codes).size}")
