"""What a format by schema is, and the way from binary values to an array of structs."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark.sql import types as spark

from barnabas.spark.errors import FormatError

_COLUMNS_MAX: Final = 10_000
_ARROW: Final[dict[type[spark.DataType], pa.DataType]] = {
    spark.NullType: pa.null(),
    spark.BooleanType: pa.bool_(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", "UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.DayTimeIntervalType: pa.duration("us"),
}


class Decoder(Protocol):
    """Reads the values of one schema.
    It travels to the executors by pickle: it holds the schema as it was given.
    """

    @property
    def type(self) -> spark.StructType:
        """What a value becomes. All fields are nullable."""

    def parse(self, value: bytes) -> Any:
        """One value as this format's library has it. Raises some exception for a malformed one."""

    def column(self, parsed: Sequence[Any]) -> pa.StructArray:
        """What `parse` gave, None for a null, as one array of `type`.
        Raises where one of them does not fit.
        """


def column_of(
    decoder: Decoder, values: Sequence[bytes | None], parse: Callable[[int, bytes], Any] | None = None
) -> tuple[pa.StructArray, dict[int, str]]:
    """The values as an array, null where one is null or malformed, and why by the rows of the malformed ones.

    `parse` gets a value with its row where the decoder's own way does not do.
    """
    parse = parse or (lambda _, value: decoder.parse(value))
    parsed: list[Any] = []
    malformed: dict[int, str] = {}
    for row, value in enumerate(values):
        try:
            parsed.append(None if value is None else parse(row, value))
        except (
            Exception
        ) as error:  # any client wrote the value: each error of the library says that it is malformed
            malformed[row] = reason(error)
            parsed.append(None)
    try:
        return decoder.column(parsed), malformed
    except Exception:  # one of them is no value of its column's type, and Arrow does not say which
        for row, one in enumerate(parsed):
            try:
                decoder.column([one])
            except Exception as error:
                malformed[row] = reason(error)
                parsed[row] = None
        return decoder.column(parsed), dict(sorted(malformed.items()))


def arrow_type(kind: spark.DataType) -> pa.DataType:
    """What Spark's Arrow has for a type that a decoder gives."""
    if isinstance(kind, spark.StructType):
        return pa.struct([pa.field(field.name, arrow_type(field.dataType)) for field in kind.fields])
    if isinstance(kind, spark.ArrayType):
        return pa.list_(pa.field("element", arrow_type(kind.elementType)))
    if isinstance(kind, spark.MapType):
        return pa.map_(arrow_type(kind.keyType), arrow_type(kind.valueType))
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return _ARROW[type(kind)]


def require_columns_bounded(kind: spark.DataType) -> None:
    """Raises FormatError for a type with too many columns:
    a short schema of types in types can have millions.
    """
    counts: dict[int, int] = {}

    def count(one: spark.DataType) -> int:
        # A type that is named in many places is one object, which is looked at once.
        if id(one) not in counts:
            counts[id(one)] = 1 + sum(count(inner) for inner in _inner(one))
        return counts[id(one)]

    if count(kind) > _COLUMNS_MAX:
        raise FormatError(f"has {counts[id(kind)]:,} fields with those in fields: at most {_COLUMNS_MAX:,}")


def _inner(kind: spark.DataType) -> list[spark.DataType]:
    if isinstance(kind, spark.StructType):
        return [field.dataType for field in kind.fields]
    if isinstance(kind, spark.ArrayType):
        return [kind.elementType]
    return [kind.keyType, kind.valueType] if isinstance(kind, spark.MapType) else []


def reason(error: Exception) -> str:
    """What a library says of a value or a schema, in one line."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
