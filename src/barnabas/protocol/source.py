"""The text of a codec while it is written, and the place of each of its lines in the schema.

Theory of operation
-------------------
A codec is one function of straight-line Python. It keeps no account of where it is: when a line raises,
the traceback names the line, the table here names the field that the line was written for, and the local
variable ``p`` of the dead frame is the offset. So errors with their place cost nothing until they happen.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from struct import Struct
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple


class FieldPlace(NamedTuple):
    """What a line reads or writes for one field: a fixed-size value, or (no code) anything."""

    path: str
    code: str = ""
    expression: str = ""

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return Struct(">" + self.code).size


class Text:
    """Lines of Python."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._indent = 0

    def line(self, text: str = "") -> None:
        """Writes a line."""
        self._lines.append("    " * self._indent + text if text else "")

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """An indented block under a line that opens it."""
        self.line(opening)
        self._indent += 1
        yield
        self._indent -= 1

    def __str__(self) -> str:
        return "\n".join(self._lines)


class CodecText(Text):
    """Lines of Python, each with the path of the field that it serves."""

    def __init__(self) -> None:
        super().__init__()
        self.scope: dict[str, Any] = {}
        self._places: list[tuple[FieldPlace, ...]] = []
        self._path: list[str] = []

    def line(self, text: str = "", places: Sequence[FieldPlace] = ()) -> None:
        """Writes a line. A line that serves several fields at once names the place of each."""
        super().line(text)
        self._places.append(tuple(places) or (FieldPlace(self.path),))

    @property
    def path(self) -> str:
        """The path of the field that is being written, ``topics.partitions.records``."""
        return ".".join(self._path)

    @contextmanager
    def field(self, name: str) -> Iterator[None]:
        """Lines for a field, inside the field that is being written already."""
        self._path.append(name)
        yield
        self._path.pop()

    def path_of(self, name: str) -> str:
        """The path of a field of the struct that is being written."""
        return ".".join([*self._path, name])

    def constant(self, prefix: str, value: object) -> str:
        """A name for an object that the code uses; equal names are for equal objects."""
        for name, known in self.scope.items():
            if known is value and name.startswith(prefix):
                return name
        name = f"{prefix}{len(self.scope)}"
        self.scope[name] = value
        return name

    def struct_method(self, codes: str, method: str) -> str:
        """A name for ``pack`` or ``unpack_from`` of a `struct.Struct`."""
        name = f"{method}_{codes.replace('?', 'o')}"
        if name not in self.scope:
            self.scope[name] = getattr(Struct(">" + codes), method)
        return name

    def compile(self, title: str, function: str) -> tuple[Callable[..., Any], CodeType]:
        """Compiles what was written and gives the function, with the code that its errors come from."""
        code = compile(str(self), f"<{title}>", "exec")
        exec(code, self.scope)  # noqa: S102 - our own text, built from our own schemas
        compiled: Callable[..., Any] = self.scope[function]
        return compiled, compiled.__code__

    def locate(self, trace: TracebackType | None, code: CodeType, end: int) -> tuple[str, int]:
        """The field and the offset (-1 when encoding) at which compiled code raised."""
        while trace is not None and trace.tb_frame.f_code is not code:
            trace = trace.tb_next
        if trace is None:
            return "", -1
        places = self._places[trace.tb_lineno - 1]
        offset = trace.tb_frame.f_locals.get("p", -1)
        if offset < 0:
            return _unpackable(places, trace.tb_frame), -1
        for place in places[:-1]:
            if offset + place.size > end:
                return place.path, offset
            offset += place.size
        return places[-1].path, offset


def _unpackable(places: Sequence[FieldPlace], frame: FrameType) -> str:
    """The first of several fields, packed together, whose value does not fit its type."""
    for place in places[:-1]:
        try:
            Struct(">" + place.code).pack(eval(place.expression, frame.f_globals, frame.f_locals))  # noqa: S307
        except Exception:
            return place.path
    return places[-1].path
