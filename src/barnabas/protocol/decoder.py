"""Writes the decoder of one version of a message as straight-line Python and compiles it.

Theory of operation
-------------------
The function reads from the buffer ``b`` at position ``p`` up to ``e``. Fixed-size fields that lie side by
side are collected in a `Batch` and read by one ``unpack_from`` straight into their slots, together with the
length of the string or array that follows them: ``o0.error_code, o0.node_id, n = unpack_from_hih(b, p)``.
Arrays of structs are loops in the same function, so depth is in the names (``o1``, ``l1``), not in calls.

No length is trusted: a string's end is compared with ``e`` before the string is cut out, and a count with the
bytes that its elements take at least.

A message with records reads from a memoryview, so that records stay where they are; any other reads from
bytes, whose slices decode faster than those of a view.

A large message would hold the event loop for as long as it takes to decode. For those the same text is
written once more as a generator (`compile_step_decoder`): it yields after every `STEP_ELEMENTS` elements of
arrays, or what costs as much, counts them all against a limit (``k``), and reads from a memoryview, as a copy
of 100 MB takes long too.

Tagged fields that the schema does not know are kept, and written again, except those of a request: it comes
from a stranger, and nothing that the broker does depends on them.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from io import BytesIO
from struct import Struct as Packer
from struct import error as StructError  # noqa: N812 - it is an exception
from typing import Any, Final, TypeAlias

from barnabas.core.chunks import Buffer
from barnabas.protocol import wire
from barnabas.protocol.errors import Malformed, ProtocolError, TooManyElementsError
from barnabas.protocol.layout import Layout
from barnabas.protocol.schema import Field, Struct
from barnabas.protocol.source import CodecText, FieldPlace
from barnabas.protocol.wire import (
    ARRAY_STRUCTS,
    ELEMENTS_MAX,
    STRING_LENGTH_MAX,
    TABLE_SIZE,
    TAGS_MAX,
    Wire,
)

Decoder: TypeAlias = Callable[[Buffer, int], tuple[Struct, int]]
StepDecoder: TypeAlias = Callable[[Buffer, int, int], Generator[None, None, tuple[Struct, int]]]

STEP_ELEMENTS: Final = 64
"""Elements of arrays between two places where a decoder in steps yields: about 0.1 ms."""
STEP_NUMBERS: Final = 4096
"""Numbers of an array that such a decoder unpacks at once."""
NUMBERS_SHIFT: Final = 3
"""Eight numbers of an array count as one element, by their cost in memory and time."""
_STRING_SHIFT: Final = 9
"""Bytes of a string that cost as much as an element, as a power of two; decoding bad UTF-8 is the dearest."""
_COPY_SHIFT: Final = 12
"""The same for bytes that are only copied."""
_COPY_BYTES: Final = 1 << 20
"""Bytes that a decoder in steps copies at once: 0.7 ms into fresh memory."""

_ERRORS: Final = (Malformed, StructError, IndexError)
_ARRAYS: Final = {
    f"array_{code}": [one.unpack_from for one in table] for code, table in ARRAY_STRUCTS.items()
}


def compile_decoder(layout: Layout, *, keep_unknown_tags: bool = True) -> Decoder:
    """The decoder of a message in one version: (buffer, offset) -> (message, offset behind it)."""
    writer = _DecoderWriter(layout, keep_unknown_tags=keep_unknown_tags)
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


def compile_step_decoder(layout: Layout, *, keep_unknown_tags: bool = True) -> StepDecoder:
    """The same decoder as a generator: (buffer, offset, elements allowed).
    Raises TooManyElementsError besides.
    """
    writer = _DecoderWriter(layout, keep_unknown_tags=keep_unknown_tags, in_steps=True)
    decode, code = writer.compile()

    def decoder(buffer: Buffer, offset: int, elements_max: int) -> Generator[None, None, tuple[Struct, int]]:
        view = memoryview(buffer)
        end = len(view)
        try:
            found: tuple[Struct, int] = yield from decode(view, offset, end, elements_max)
        except _ERRORS as error:
            field, at = writer.source.locate(error.__traceback__, code, end)
            failure, reason = ProtocolError, _reason(error, end - at)
            if isinstance(error, _TooMany):
                failure, reason = (
                    TooManyElementsError,
                    f"{elements_max - error.left} elements, more than {elements_max}",
                )
            raise failure(
                reason, message=layout.cls.__name__, version=layout.version, field=field, offset=at
            ) from error
        return found

    return decoder


class _TooMany(Malformed):
    """Raised where the elements that are left to a message fall below zero."""

    def __init__(self, left: int) -> None:
        super().__init__(left)
        self.left = left


def _too_many_elements(left: int) -> None:
    raise _TooMany(left)


def _reason(error: Exception, left: int) -> str:
    if isinstance(error, (StructError, IndexError)):
        return f"the bytes end here, {left} are left"
    return str(error)


class _DecoderWriter:
    """Writes the text of one decoder."""

    def __init__(self, layout: Layout, *, keep_unknown_tags: bool, in_steps: bool = False) -> None:
        self.in_steps = in_steps
        self.keeps_unknown_tags = keep_unknown_tags
        self.layout = layout
        self.flexible = layout.flexible
        self.version = layout.version
        self.views = in_steps or layout.carries_records()
        self.source = CodecText()
        self.batch: list[tuple[str, FieldPlace]] = []
        self.source.scope.update(
            uvarint=wire.read_uvarint,
            unknown_tags=wire.read_unknown_tags,
            skip_tags=wire.skip_unknown_tags,
            too_long=wire.too_long,
            too_many=wire.too_many,
            too_many_elements=_too_many_elements,
            too_many_tags=wire.too_many_tags,
            string_too_long=wire.string_too_long,
            must_not_be_null=wire.must_not_be_null,
            wrong_size=wire.wrong_size,
            Packer=Packer,
            BytesIO=BytesIO,
            **_ARRAYS,
        )

    def compile(self) -> tuple[Callable[..., Any], Any]:
        """Writes and compiles ``decode(b, p, e)``, or ``decode(b, p, e, k)`` in steps."""
        with self.source.block("def decode(b, p, e, k):" if self.in_steps else "def decode(b, p, e):"):
            if self.in_steps:
                self.source.line("t = 0")
                with self.source.block("if False:"):
                    self.source.line("yield")  # a generator, also where the schema has no array
            self.struct(self.layout, 0)
            self.flush()
            self.source.line("return o0, p")
        way = "step decoder" if self.in_steps else "decoder"
        return self.source.compile(f"{self.layout.cls.__name__} v{self.version} {way}", "decode")

    def struct(self, layout: Layout, depth: int) -> None:
        """Makes ``o{depth}`` and reads its fields; may leave the last of them in the batch."""
        target = f"o{depth}"
        new = self.source.constant("new", layout.cls.__new__)
        self.source.line(f"{target} = {new}({self.source.constant('C', layout.cls)})")
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
        count = self.length("h" if kind.name == "string" else "i", is_string=kind.name == "string")
        with self.present(target, nullable=nullable):
            self.source.line(f"x = p + {count}")
            with self.source.block("if x > e:"):
                self.source.line(f"too_long({count}, e - p)")
            if self.in_steps and kind.name == "bytes":
                self.copy_in_steps(target)
                return
            self.source.line(f"{target} = {self.cut(kind)}")
            if self.in_steps and kind.name == "string":
                self.source.line(f"t += n >> {_STRING_SHIFT}")
            self.source.line("p = x")

    def copy_in_steps(self, target: str) -> None:
        """Bytes between ``p`` and ``x``; ``BytesIO`` gives what it collected without another copy."""
        with self.source.block(f"if x - p <= {_COPY_BYTES}:"):
            self.source.line(f"{target} = b[p:x].tobytes()")
            self.source.line(f"t += n >> {_COPY_SHIFT}")
            self.source.line("p = x")
        with self.source.block("else:"):
            self.source.line("f = BytesIO()")
            with self.source.block("while p < x:"):
                self.source.line(f"p += f.write(b[p:min(x, p + {_COPY_BYTES})])")
                self.source.line("yield")
            self.source.line(f"{target} = f.getvalue()")
            self.source.line("f = None")

    def cut(self, kind: Wire) -> str:
        """The text of a value that lies between ``p`` and ``x``. Java replaces what is not UTF-8."""
        if kind.name == "string":
            return f"b[p:x]{'.tobytes()' * self.views}.decode('utf-8', 'replace')"
        return "b[p:x].tobytes()" if self.views and kind.name == "bytes" else "b[p:x]"

    def length(self, classic: str, *, is_string: bool = False) -> str:
        """Reads a length or count into ``n``; gives the text of its value for what is not null."""
        self.add("B" if self.flexible else classic, "n")
        self.flush()
        if self.flexible:
            with self.source.block("if n > 127:"):
                self.source.line("n, p = uvarint(b, p, n)")
                if is_string:
                    with self.source.block(f"if n > {STRING_LENGTH_MAX + 1}:"):
                        self.source.line("string_too_long(n - 1)")
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
            bound = "" if self.in_steps else f"n > {ELEMENTS_MAX} or "
            with self.source.block(f"if {bound}({count}) * {size} > e - p:"):
                self.source.line(f"too_many({count}, e - p)")
            if self.in_steps:
                is_numbers = isinstance(field.kind, Wire) and bool(field.kind.code)
                self.allow(f"({count}) >> {NUMBERS_SHIFT}" if is_numbers else count)
            if isinstance(field.kind, Wire) and field.kind.code:
                self.numbers(field.kind, target, count)
            else:
                self.elements(field, target, depth + 1)

    def allow(self, count: str) -> None:
        """Counts elements against what the message may carry."""
        self.source.line(f"k -= {count}")
        with self.source.block("if k < 0:"):
            self.source.line("too_many_elements(k)")

    def pause(self, weight: str = "1") -> None:
        """Yields when enough was decoded since the last time."""
        self.source.line(f"t += {weight}")
        with self.source.block(f"if t >= {STEP_ELEMENTS}:"):
            self.source.line("t = 0")
            self.source.line("yield")

    def numbers(self, kind: Wire, target: str, count: str) -> None:
        """Fixed-size elements, unpacked at once."""
        if self.in_steps:
            self.numbers_in_steps(kind, target, count)
            return
        unpack = f"Packer(f'>{{{count}}}{kind.code}').unpack_from"
        if kind.name == "uuid":
            unpack = f"Packer('>' + '16s' * ({count})).unpack_from"
        elif kind.code in ARRAY_STRUCTS:
            unpack = f"(array_{kind.code}[{count}] if n < {TABLE_SIZE} else {unpack})"
        self.source.line(f"{target} = [*{unpack}(b, p)] if {count} else []")
        self.source.line(f"p += ({count}) * {kind.size}")

    def numbers_in_steps(self, kind: Wire, target: str, count: str) -> None:
        """Fixed-size elements, as many at once as may hold up the rest of the frame."""
        unpack = "'>' + '16s' * n" if kind.name == "uuid" else f"f'>{{n}}{kind.code}'"
        self.source.line(f"l = {target} = []")
        self.source.line(f"x = p + ({count}) * {kind.size}")
        with self.source.block("while p < x:"):
            self.source.line(f"n = min((x - p) // {kind.size}, {STEP_NUMBERS})")
            self.source.line(f"l += Packer({unpack}).unpack_from(b, p)")
            self.source.line(f"p += n * {kind.size}")
            self.pause(f"n >> {NUMBERS_SHIFT}")

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
            if self.in_steps:
                self.pause()

    def tags(self, layout: Layout, depth: int) -> None:
        """The tagged fields that follow a struct: none, nearly always."""
        self.add("B", "n")
        self.flush()
        with self.source.block("if n:"):
            self.more_of_varint("n")
            if self.in_steps:
                self.allow("n")
                self.source.line("t += n")
            if layout.tagged:
                self.known_tags(layout, depth)
            elif not self.keeps_unknown_tags:
                self.source.line("p = skip_tags(b, p, e, n)")
            else:
                self.source.line(f"o{depth}.unknown_tags, p = unknown_tags(b, p, e, n)")

    def known_tags(self, layout: Layout, depth: int) -> None:
        """Reads ``n`` tagged fields, each of which (``g``) ends at ``x{depth}``."""
        with self.source.block(f"if n > {TAGS_MAX}:"):
            self.source.line("too_many_tags(n)")
        with self.source.block("for _ in range(n):"):
            self.varint("g")
            self.varint("n")
            self.source.line(f"x{depth} = p + n")
            with self.source.block(f"if x{depth} > e:"):
                self.source.line("too_long(n, e - p)")
            for field in layout.tagged:
                with self.source.block(f"if g == {field.tag}:"), self.source.field(field.name):
                    self.field(field, f"o{depth}.{field.name}", depth)
                    self.flush()
                    with self.source.block(f"if p != x{depth}:"):
                        self.source.line("wrong_size()")
                    self.source.line("continue")
            if self.keeps_unknown_tags:
                with self.source.block(f"if o{depth}.unknown_tags is None:"):
                    self.source.line(f"o{depth}.unknown_tags = {{}}")
                self.source.line(f"o{depth}.unknown_tags[g] = bytes(b[p:x{depth}])")
            self.source.line(f"p = x{depth}")

    def varint(self, name: str) -> None:
        """Reads an unsigned varint."""
        self.source.line(f"{name} = b[p]")
        self.source.line("p += 1")
        self.more_of_varint(name)

    def add(self, code: str, target: str) -> None:
        """Puts a fixed-size value into the batch."""
        self.batch.append((target, FieldPlace(self.source.path, code)))

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
