"""Spark's DDL of columns (``carrier STRING, delay INT``) as types, without Spark's JVM.

PySpark's own parser is in the JVM. Here a schema is read before Spark starts, and in the processes that plan,
which have no JVM. It takes all that Spark's parser takes; what it cannot judge, such as the name of a
collation, it lets pass.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from pyspark.sql import types as spark

from barnabas.core.config import neighbour

_TOKEN: Final = re.compile(
    r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(\w+)|([<>(),:]))"
)
_SIMPLE: Final[dict[str, Callable[[], spark.DataType]]] = {
    "boolean": spark.BooleanType,
    "tinyint": spark.ByteType,
    "byte": spark.ByteType,
    "smallint": spark.ShortType,
    "short": spark.ShortType,
    "int": spark.IntegerType,
    "integer": spark.IntegerType,
    "bigint": spark.LongType,
    "long": spark.LongType,
    "float": spark.FloatType,
    "real": spark.FloatType,
    "double": spark.DoubleType,
    "date": spark.DateType,
    "timestamp": spark.TimestampType,
    "timestamp_ltz": spark.TimestampType,
    "timestamp_ntz": spark.TimestampNTZType,
    "string": spark.StringType,
    "binary": spark.BinaryType,
    "variant": spark.VariantType,
    "void": spark.NullType,
}
_OTHERS: Final = (
    "decimal", "dec", "numeric", "char", "character", "varchar", "interval", "time", "geometry", "geography",
)  # fmt: skip
"""Types with something behind their names."""
_NESTED: Final = ("array", "map", "struct")
TYPES: Final = (*_SIMPLE, *_OTHERS, *_NESTED)
_DECIMAL_DEFAULT: Final = (10, 0)


_PLAIN: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class DdlError(ValueError):
    """A text that Spark would not take for columns."""


def quoted(name: str) -> str:
    """A name as DDL and SQL have it: in backticks where it is no plain word."""
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def columns(text: str) -> spark.StructType:
    """The columns that a text declares. Raises DdlError."""
    parser = _Parser(text)
    found = parser.fields(end=None)
    parser.expect(None)
    return found


def whole_type(text: str) -> spark.DataType:
    """A type, such as ``MAP<STRING, INT>``. Raises DdlError."""
    parser = _Parser(text)
    found = parser.type("the value")
    parser.expect(None)
    return found


def _tokens(text: str) -> Iterator[str]:
    place = 0
    while place < len(text.rstrip()):
        match = _TOKEN.match(text, place)
        if match is None:
            raise DdlError(f"has {text[place:].strip()[:20]!r} where a name or a type belongs")
        yield match.group().strip()
        place = match.end()


class _Parser:
    """Reads tokens from left to right; an empty one is behind the last."""

    def __init__(self, text: str) -> None:
        self._tokens = [*_tokens(text), ""]
        self._at = 0

    def fields(self, end: str | None) -> spark.StructType:
        """Columns up to `end`, which is not taken."""
        found: list[spark.StructField] = []
        while not self._is(end or ""):
            if found:
                self.expect(",")
            found.append(self._field())
        if not found and end is None:
            raise DdlError("has no columns")
        return spark.StructType(found)

    def _field(self) -> spark.StructField:
        name = self._name()
        self._skip(":")
        kind = self.type(name)
        nullable = not self._skip("not", "null")
        if self._skip("comment"):
            self._at += 1
        return spark.StructField(name, kind, nullable)

    def _name(self) -> str:
        token = self._take()
        if token.startswith("`"):
            return token[1:-1].replace("``", "`")
        if not token or not (token[0].isalnum() or token[0] == "_"):
            raise DdlError(f"has {token or 'its end'!r} where the name of a column belongs")
        return token

    def type(self, column: str) -> spark.DataType:
        """The type of a column, or of what is in it."""
        word = self._take()
        name = word.lower()
        if name in _NESTED:
            return self._nested(name, column)
        if name in _SIMPLE:
            if name == "string" and self._skip("collate"):
                self._at += 1
            return _SIMPLE[name]()
        if name == "interval":
            return self._interval()
        if name in _OTHERS:
            return self._with_numbers(name)
        meant = neighbour(name, TYPES)
        hint = f"did you mean {meant.upper()}?" if meant else f"there are {', '.join(TYPES)}"
        raise DdlError(f"says that {column} is {word or 'nothing'!r}, which is no type of Spark's; {hint}")

    def _nested(self, name: str, column: str) -> spark.DataType:
        self.expect("<")
        kind: spark.DataType
        if name == "array":
            kind = spark.ArrayType(self.type(column))
        elif name == "map":
            key = self.type(column)
            self.expect(",")
            kind = spark.MapType(key, self.type(column))
        else:
            kind = self.fields(end=">")
        self.expect(">")
        return kind

    def _interval(self) -> spark.DataType:
        units = {"year", "month", "day", "hour", "minute", "second"}
        first = self._tokens[self._at].lower()
        while self._tokens[self._at].lower() in units | {"to"}:
            self._at += 1
        if first not in units:
            return spark.CalendarIntervalType()
        return spark.YearMonthIntervalType() if first in {"year", "month"} else spark.DayTimeIntervalType()

    def _with_numbers(self, name: str) -> spark.DataType:
        numbers: list[str] = []
        if self._skip("("):
            while not self._is(")"):
                if numbers:
                    self.expect(",")
                numbers.append(self._take())
            self.expect(")")
        if name not in {"decimal", "dec", "numeric"}:
            return spark.StringType()  # what is left has no use beside its name here
        if not all(number.isdigit() for number in numbers):
            raise DdlError(f"has {name.upper()}({', '.join(numbers)}), whose digits are no numbers")
        precision, scale = (*(int(number) for number in numbers), *_DECIMAL_DEFAULT[len(numbers) :])
        return spark.DecimalType(precision, scale)

    def expect(self, token: str | None) -> None:
        """Takes a token, None for the end. Raises DdlError for another one."""
        found = self._take()
        if found.lower() != (token or ""):
            raise DdlError(f"has {found or 'its end'!r} where {token or 'its end'!r} belongs")

    def _is(self, token: str) -> bool:
        return self._tokens[self._at].lower() == token

    def _skip(self, *tokens: str) -> bool:
        """Takes these tokens if they are next."""
        found = [token.lower() for token in self._tokens[self._at : self._at + len(tokens)]]
        if found != list(tokens):
            return False
        self._at += len(tokens)
        return True

    def _take(self) -> str:
        token = self._tokens[min(self._at, len(self._tokens) - 1)]
        self._at += 1
        return token
