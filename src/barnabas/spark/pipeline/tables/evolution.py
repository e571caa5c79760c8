"""How the columns of a table and those of a query fit.

New columns are added, and rows of a narrower type are taken as the table's wider one. What else a table takes
depends on its kind: new fields inside of structs, and a column that becomes wider (`Growth`). All else is
refused.
"""

from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StructField,
    StructType,
)

from barnabas.spark.errors import PipelineError

_WIDTHS: Final = ((ByteType, ShortType, IntegerType, LongType), (FloatType, DoubleType))
"""Types of which each holds all values of those before it."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What the columns of a kind of table may become."""

    fields_in_structs: bool = False
    """Whether a struct may get more fields."""
    fields_in_maps: bool = False
    """Whether one that is the value of a map may too."""
    wider_types: bool = False
    """Whether a column may become wider, as in Iceberg: int to long, float to double, longer decimals."""


def merged(
    table: StructType | None, rows: StructType, growth: Growth = Growth(), fixed: tuple[str, ...] = ()
) -> StructType:
    """The columns of the table once it takes these rows: those it has, in their order, then the new ones.

    All are nullable: older rows have null in a new column, and new rows in one that the query has no more.
    Types of the columns in `fixed`, by which the table is partitioned, stay. Raises PipelineError for a
    column that cannot be written or does not fit the table's.
    """
    for field in rows.fields:
        if isinstance(field.dataType, NullType):
            raise PipelineError(f"column {field.name} is always null and has no type: CAST it to one")
    known = table if table is not None else StructType()
    return _structs(known, rows, growth, "", fixed)


def _structs(
    known: StructType, now: StructType, growth: Growth, path: str, fixed: tuple[str, ...] = ()
) -> StructType:
    """The fields of both.

    Those at the top may always be more; `path` is that of a struct in a column, with its dot.
    """
    found = {field.name.lower(): field for field in known.fields}
    for field in now.fields:
        name, old = f"{path}{field.name}", found.get(field.name.lower())
        if old is None:
            if path and not growth.fields_in_structs:
                raise PipelineError(
                    f"column {name} is not in the table, whose structs get no new fields: leave it out, or "
                    "make it a column of its own"
                )
            found[field.name.lower()] = field
        elif old.name != field.name:
            raise PipelineError(
                f"column {name} is {path}{old.name} in the table: only upper and lower case differ"
            )
        else:
            rules = Growth() if field.name in fixed else growth
            kind = _types(old.dataType, field.dataType, rules, name)
            found[field.name.lower()] = StructField(old.name, kind, metadata=old.metadata)
    return StructType(
        [
            StructField(field.name, _nullable(field.dataType), metadata=field.metadata)
            for field in found.values()
        ]
    )


def _types(known: DataType, now: DataType, growth: Growth, name: str) -> DataType:
    """The type of a column for the values of both."""
    if isinstance(known, StructType) and isinstance(now, StructType):
        return _structs(known, now, growth, f"{name}.")
    if isinstance(known, ArrayType) and isinstance(now, ArrayType):
        return ArrayType(_types(known.elementType, now.elementType, growth, name))
    if isinstance(known, MapType) and isinstance(now, MapType):
        keys = _types(known.keyType, now.keyType, Growth(), name)
        inside = replace(growth, fields_in_structs=growth.fields_in_structs and growth.fields_in_maps)
        return MapType(keys, _types(known.valueType, now.valueType, inside, name))
    if known.simpleString() == now.simpleString() or _holds(known, now):
        return known
    if growth.wider_types and _holds(now, known) and _becomes(known, now):
        return now
    raise PipelineError(
        f"column {name} is {now.simpleString()} now and {known.simpleString()} in the table: "
        "CAST it, or give the column another name"
    )


def _holds(wide: DataType, narrow: DataType) -> bool:
    """Whether a type has all values of another, narrower one, as they are."""
    if isinstance(wide, DecimalType) and isinstance(narrow, DecimalType):
        before_point = wide.precision - wide.scale >= narrow.precision - narrow.scale
        return bool(wide.scale >= narrow.scale and before_point)
    return any(
        type(wide) in widths and type(narrow) in widths[: widths.index(type(wide))] for widths in _WIDTHS
    )


def _becomes(known: DataType, now: DataType) -> bool:
    """Whether readers of older files take the wider type: decimals must keep the digits behind the point."""
    return not (isinstance(known, DecimalType) and isinstance(now, DecimalType)) or known.scale == now.scale


def _nullable(kind: DataType) -> DataType:
    """The type, where each part of it may be null."""
    if isinstance(kind, StructType):
        return StructType(
            [StructField(one.name, _nullable(one.dataType), metadata=one.metadata) for one in kind.fields]
        )
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    return kind
