"""Writes the encoder of one version of a message as straight-line Python and compiles it.

Theory of operation
-------------------
The function appends pieces of bytes to the list ``w``. Fixed-size fields that lie side by side are collected
in a batch and written by one ``pack``, together with the length of the string or array that follows them.
A compact length takes one byte nearly always, so it joins the batch too; the rare longer one has a branch.

Record batches go into ``w`` as they are when small; otherwise what ``w`` holds becomes a chunk, and the
records (bytes, a view, a range of a file) the next: they are not copied.

Tagged fields are written only when they differ from their default. Each is encoded into a list of its own,
because its size comes before it.

A large message would hold the event loop for as long as it takes to encode. The function gives up on one,
returning None: an array with more than `ARRAY_MAX` elements, or `PIECES_MAX` pieces so far when an element of
an outermost array is done. The same text, written once more as a generator (`compile_step_encoder`), is for
those: it yields after every `STEP_ELEMENTS` elements, and joins its pieces into several chunks on the way.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from struct import Struct as Packer
from struct import error as StructError  # noqa: N812 - it is an exception
from typing import Any, Final, TypeAlias

from barnabas.core.chunks import Chunks, FileSlice
from barnabas.protocol import wire
from barnabas.protocol.errors import Malformed, ProtocolError
from barnabas.protocol.layout import Layout
from barnabas.protocol.schema import Field
from barnabas.protocol.source import CodecText, FieldPlace
from barnabas.protocol.wire import ARRAY_STRUCTS, TABLE_SIZE, Wire

Encoder: TypeAlias = Callable[[Any], Chunks | None]
"""None for a message that is large: it is left to the `StepEncoder`."""
StepEncoder: TypeAlias = Callable[[Any], Generator[None, None, Chunks]]

COPY_MAX: Final = 2048
"""Records up to this many bytes are copied beside their header: cheaper than one more chunk."""
ARRAY_MAX: Final = 2048
"""Elements of one array that are encoded at once, which takes 2 ms or less."""
PIECES_MAX: Final = 8192
"""The same for the pieces of a message that has many small arrays."""
STEP_ELEMENTS: Final = 64
"""Elements between two places where an encoder in steps yields: about 0.1 ms."""
JOIN_PIECES: Final = 2048
"""Pieces that such an encoder joins into one chunk."""
_ERRORS: Final = (Malformed, StructError, AttributeError, TypeError, ValueError, OverflowError)
_ARRAYS: Final = {f"array_{code}": [one.pack for one in table] for code, table in ARRAY_STRUCTS.items()}
_BYTES: Final = [bytes((value,)) for value in range(256)]


def compile_encoder(layout: Layout) -> Encoder:
    """The encoder of a message in one version."""
    writer = _EncoderWriter(layout)
    encode, code = writer.compile()

    def encoder(message: Any) -> Chunks | None:
        try:
            chunks: Chunks | None = encode(message)
        except _ERRORS as error:
            raise writer.refusal(error, code) from error
        return chunks

    return encoder


def compile_step_encoder(layout: Layout) -> StepEncoder:
    """The same encoder as a generator, which gives up on nothing."""
    writer = _EncoderWriter(layout, in_steps=True)
    encode, code = writer.compile()

    def encoder(message: Any) -> Generator[None, None, Chunks]:
        try:
            chunks: Chunks = yield from encode(message)
        except _ERRORS as error:
            raise writer.refusal(error, code) from error
        return chunks

    return encoder


class _EncoderWriter:
    """Writes the text of one encoder."""

    def __init__(self, layout: Layout, *, in_steps: bool = False) -> None:
        self.in_steps = in_steps
        self.in_chunks = in_steps or layout.carries_records()
        self.layout = layout
        self.flexible = layout.flexible
        self.version = layout.version
        self.source = CodecText()
        self.batch: list[FieldPlace] = []
        self.sink = "w"
        self.source.scope.update(
            uvarint=wire.uvarint,
            string_length=wire.string_length,
            data_length=wire.data_length,
            uuid=wire.uuid,
            tag_section=wire.tag_section,
            join=b"".join,
            byte=_BYTES,
            Malformed=Malformed,
            Packer=Packer,
            FileSlice=FileSlice,
            **_ARRAYS,
        )

    def compile(self) -> tuple[Callable[..., Any], Any]:
        """Writes and compiles ``encode(o0) -> chunks``."""
        with self.source.block("def encode(o0):"):
            self.source.line("w = []")
            if self.in_chunks:
                self.source.line("chunks = []")
            if self.in_steps:
                self.source.line("t = 0")
                with self.source.block("if False:"):
                    self.source.line("yield")  # a generator, also where the schema has no array
            self.struct(self.layout, 0)
            self.flush()
            if self.in_chunks:
                with self.source.block("if w or not chunks:"):
                    self.source.line("chunks.append(join(w))")
                self.source.line("return chunks")
            else:
                self.source.line("return [join(w)]")
        way = "step encoder" if self.in_steps else "encoder"
        return self.source.compile(f"{self.layout.cls.__name__} v{self.version} {way}", "encode")

    def refusal(self, error: Exception, code: Any) -> ProtocolError:
        """The error for the caller: what cannot be written, and in which field."""
        field, _ = self.source.locate(error.__traceback__, code, 0)
        return ProtocolError(str(error), message=self.layout.cls.__name__, version=self.version, field=field)

    def give_up(self, condition: str) -> None:
        """Leaves a message that is too large for one go to the encoder in steps."""
        if not self.in_steps:
            with self.source.block(f"if {condition}:"):
                self.source.line("return None")

    def pause(self, weight: str = "1") -> None:
        """Yields when enough was encoded since the last time."""
        self.source.line(f"t += {weight}")
        with self.source.block(f"if t >= {STEP_ELEMENTS}:"):
            self.source.line("t = 0")
            with self.source.block(f"if len(w) > {JOIN_PIECES}:"):
                self.source.line("chunks.append(join(w))")
                self.source.line("w.clear()")
            self.source.line("yield")

    def struct(self, layout: Layout, depth: int) -> None:
        """Writes ``o{depth}``; may leave its last fields in the batch."""
        me = f"o{depth}"
        for field in layout.absent:
            if not field.ignorable:
                self.refuse_value(field, f"{me}.{field.name}")
        for field in layout.fields:
            with self.source.field(field.name):
                self.field(field, f"{me}.{field.name}", depth)
        if layout.flexible:
            self.tags(layout, depth)

    def refuse_value(self, field: Field, value: str) -> None:
        """A value in a field that this version lacks would be lost."""
        with self.source.field(field.name), self.source.block(f"if {self.differs(field, value)}:"):
            self.source.line("raise Malformed('has a value, and this version has no such field')")

    def differs(self, field: Field, value: str) -> str:
        """The condition that a value is not the field's default."""
        default = field.default
        if default is None:
            condition = f"{value} is not None"
            if field.struct and field.nullable is None:
                condition += f" and {value} != {self.source.constant('D', field.struct())}"
            return condition
        if default is list:
            return value if field.nullable is None else f"{value} != []"
        if default in {0, "", b""}:
            return value
        if isinstance(default, type):
            default = default()
        return f"{value} != {self.source.constant('D', default)}"

    def field(self, field: Field, value: str, depth: int) -> None:
        """Writes one field."""
        nullable = field.is_nullable(self.version)
        if field.is_array:
            self.array(field, value, depth, nullable=nullable)
        elif isinstance(field.kind, Wire):
            self.primitive(field.kind, value, nullable=nullable)
        elif nullable:
            self.nullable_struct(field, value, depth)
        else:
            self.source.line(f"o{depth + 1} = {value}")
            self.struct(self.layout.of(field), depth + 1)
            self.flush()

    def nullable_struct(self, field: Field, value: str, depth: int) -> None:
        """A byte says whether the struct follows. Kafka writes -1 for null, but 0 inside a tagged field."""
        null = "b'\\xff'" if field.tag is None else "b'\\0'"
        self.flush()
        self.source.line(f"o{depth + 1} = {value}")
        with self.source.block(f"if o{depth + 1} is None:"):
            self.source.line(f"{self.sink}.append({null})")
        with self.source.block("else:"):
            self.add("b", "1")
            self.struct(self.layout.of(field), depth + 1)
            self.flush()

    def primitive(self, kind: Wire, value: str, *, nullable: bool) -> None:
        """A number, a UUID, a string, bytes or records."""
        if kind.code:
            if kind.name == "uuid":
                value = f"uuid({value})"
            self.add(kind.code, value)
            return
        is_string = kind.name == "string"
        if nullable:
            self.source.line(f"s = {value}")
            with self.source.block("if s is None:"):
                self.source.line("s = b''")
                self.source.line("n = -1")
            with self.source.block("else:"):
                if is_string:
                    self.source.line("s = s.encode()")
                self.source.line("n = len(s)")
        else:
            self.source.line(f"s = {value}.encode()" if is_string else f"s = {value}")
            self.source.line("n = len(s)")
        self.length("h" if is_string else "i", "string_length" if is_string else "data_length")
        if kind.name == "records":
            self.records()
        else:
            self.source.line(f"{self.sink}.append(s)")

    def records(self) -> None:
        """Record batches ``s``: a chunk of their own unless they are small."""
        assert self.sink == "w", "records inside a tagged field"
        with self.source.block(f"if n > {COPY_MAX} or type(s) is FileSlice:"):
            self.source.line("chunks.append(join(w))")
            self.source.line("w.clear()")
            self.source.line("chunks.append(s)")
        with self.source.block("else:"):
            self.source.line("w.append(s)")

    def length(self, classic: str, compact: str, *, limit: int = 0) -> None:
        """Writes ``n``, -1 for null, as the length or count; gives up beyond the limit."""
        if not self.flexible:
            if limit:
                self.give_up(f"n > {limit}")
            self.add(classic, "n")
            self.flush()
            return
        with self.source.block("if n < 127:"):
            before = list(self.batch)
            self.add("B", "n + 1")
            self.flush()
        with self.source.block("else:"):
            if limit:
                self.give_up(f"n > {limit}")
            self.batch = before
            self.flush()
            self.source.line(f"{self.sink}.append({compact}(n))")

    def array(self, field: Field, value: str, depth: int, *, nullable: bool) -> None:
        """An array of primitives or structs."""
        items = f"l{depth + 1}"
        self.source.line(f"{items} = {value}")
        if nullable:
            self.source.line(f"n = -1 if {items} is None else len({items})")
        else:
            self.source.line(f"n = len({items})")
        self.length("i", "data_length", limit=ARRAY_MAX)
        with self.source.block(f"if {items}:"):
            if isinstance(field.kind, Wire) and field.kind.code:
                self.numbers(field.kind, items)
            else:
                self.elements(field, items, depth + 1)

    def numbers(self, kind: Wire, items: str) -> None:
        """Fixed-size elements, packed at once."""
        if kind.name == "uuid":
            self.source.line(f"{self.sink} += map(uuid, {items})")
            if self.in_steps:
                self.pause("n")
            return
        pack = f"Packer(f'>{{n}}{kind.code}').pack"
        if self.in_steps:
            with self.source.block(f"for i in range(0, n, {ARRAY_MAX}):"):
                self.source.line(f"s = {items}[i:i + {ARRAY_MAX}]")
                self.source.line(f"{self.sink}.append(Packer(f'>{{len(s)}}{kind.code}').pack(*s))")
                self.pause("len(s) >> 3")
            return
        if kind.code in ARRAY_STRUCTS:
            pack = f"(array_{kind.code}[n] if n < {TABLE_SIZE} else {pack})"
        self.source.line(f"{self.sink}.append({pack}(*{items}))")

    def elements(self, field: Field, items: str, depth: int) -> None:
        """Elements whose size varies, in a loop."""
        with self.source.block(f"for o{depth} in {items}:"):
            if field.takes_encoded:
                with self.source.block(f"if type(o{depth}) is bytes:"):
                    self.source.line(f"{self.sink}.append(o{depth})")
                    if self.in_steps:
                        self.pause()
                    self.source.line("continue")
            if isinstance(field.kind, Wire):
                self.primitive(field.kind, f"o{depth}", nullable=False)
            else:
                self.struct(self.layout.of(field), depth)
                self.flush()
            if self.in_steps:
                self.pause()
            elif depth == 1 and field.struct and self.has_arrays(self.layout.of(field)):
                self.give_up(f"len(w) > {PIECES_MAX}{f' or len(chunks) > {PIECES_MAX}' * self.in_chunks}")

    def has_arrays(self, layout: Layout) -> bool:
        """Whether a struct holds arrays, itself or in a struct of its own."""
        return any(
            field.is_array or (field.struct is not None and self.has_arrays(layout.of(field)))
            for field in (*layout.fields, *layout.tagged)
        )

    def tags(self, layout: Layout, depth: int) -> None:
        """The tagged fields that follow a struct: none, nearly always."""
        me = f"o{depth}"
        conditions = [self.differs(field, f"{me}.{field.name}") for field in layout.tagged]
        before = list(self.batch)
        with self.source.block(f"if {' or '.join([f'{me}.unknown_tags', *conditions])}:"):
            self.flush()
            if layout.tagged:
                self.source.line(f"t{depth} = dict({me}.unknown_tags or ())")
                for field, condition in zip(layout.tagged, conditions, strict=True):
                    with self.source.block(f"if {condition}:"), self.source.field(field.name):
                        self.tag(field, depth)
            else:
                self.source.line(f"t{depth} = {me}.unknown_tags")
            self.source.line(f"{self.sink}.append(tag_section(t{depth}))")
        with self.source.block("else:"):
            self.batch = before
            self.add("B", "0")
            self.flush()

    def tag(self, field: Field, depth: int) -> None:
        """Encodes one tagged field into the tags of ``o{depth}``."""
        with self.into(f"w{depth}"):
            self.field(field, f"o{depth}.{field.name}", depth)
            self.flush()
        self.source.line(f"t{depth}[{field.tag}] = join(w{depth})")

    @contextmanager
    def into(self, sink: str) -> Iterator[None]:
        """Writes to another list for a while."""
        self.source.line(f"{sink} = []")
        before, self.sink = self.sink, sink
        yield
        self.sink = before

    def add(self, code: str, value: str) -> None:
        """Puts a fixed-size value into the batch."""
        self.batch.append(FieldPlace(self.source.path, code, value))

    def flush(self) -> None:
        """Writes the batch with one call."""
        if not self.batch:
            return
        places, self.batch = self.batch, []
        codes = "".join(place.code for place in places)
        if codes == "B" and places[0].expression == "0":
            self.source.line(f"{self.sink}.append(b'\\0')")
            return
        if codes == "B":
            self.source.line(f"{self.sink}.append(byte[{places[0].expression}])")
            return
        pack = self.source.struct_method(codes, "pack")
        values = ", ".join(place.expression for place in places)
        self.source.line(f"{self.sink}.append({pack}({values}))", places)
