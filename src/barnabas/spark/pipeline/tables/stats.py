"""Delta's statistics of a file, by which readers skip it: rows, and bounds and nulls of its columns.

All of it is in the file's footer. A wrong bound hides rows from readers. So does a missing one from some:
delta-rs's dataset takes a column without bounds, in a file that has them for others, for one without values.
A file that has a value of which JSON cannot give a bound, such as NaN, therefore has bounds of no column, and
is always read.
"""

import datetime as dt
import json
import math
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS_MAX: Final = 32
"""The number of columns of which the log has statistics, the default of delta-rs and Spark."""
_TEXT_MAX: Final = 32
"""Characters of a text in the log. The least text is cut, which makes it less; see `_greatest`."""
_GREATEST_CHARACTER: Final = "\U0010ffff"


class _NoBoundError(Exception):
    """A column has values of which the log can say no least and greatest."""


def statistics(footer: pq.FileMetaData) -> str:
    """The statistics of a file, as the JSON in Delta's log."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    found: dict[str, Any] = {"numRecords": footer.num_rows}
    schema = footer.schema.to_arrow_schema()
    try:
        for number, path in enumerate(_leaves(schema, ())):
            if not path or schema.get_field_index(path[0]) >= COLUMNS_MAX:
                continue
            chunks = [
                footer.row_group(group).column(number).statistics for group in range(footer.num_row_groups)
            ]
            if not all(chunk is not None and chunk.has_null_count for chunk in chunks):
                raise _NoBoundError
            _put(nulls, path, sum(chunk.null_count for chunk in chunks))
            filled = [chunk for chunk in chunks if chunk.num_values]
            if filled:
                low, high = _bounds(filled)
                _put(least, path, low)
                _put(greatest, path, high)
    except _NoBoundError:
        return _json(found)
    return _json({**found, "minValues": least, "maxValues": greatest, "nullCount": nulls})


def _leaves(fields: Iterable[pa.Field], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The path of each column of the file; empty for bytes, and in lists and maps, which have no bounds."""
    for field in fields:
        kind = field.type
        if pa.types.is_struct(kind):
            yield from _leaves(kind, (*path, field.name))
        elif pa.types.is_list(kind):
            yield from (() for _ in _leaves([kind.value_field], ()))
        elif pa.types.is_map(kind):
            yield from (() for _ in _leaves([kind.key_field, kind.item_field], ()))
        else:
            yield () if pa.types.is_binary(kind) else (*path, field.name)


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Fields of structs are in objects of their own."""
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value


def _bounds(chunks: list[Any]) -> tuple[Any, Any]:
    """The least and the greatest value of row groups, in the log's form. Raises _NoBoundError."""
    try:
        if not all(chunk.has_min_max for chunk in chunks):
            raise _NoBoundError
        low, high = min(chunk.min for chunk in chunks), max(chunk.max for chunk in chunks)
    except (ValueError, OverflowError):  # a text that is none, or a time that Python does not have
        raise _NoBoundError from None
    if isinstance(low, str):
        return low[:_TEXT_MAX], _greatest(high)
    return _exact(low), _exact(high)


def _exact(value: Any) -> Any:
    """The value as JSON has it. Raises _NoBoundError where there is none."""
    if isinstance(value, float) and not math.isfinite(value):
        raise _NoBoundError
    if isinstance(value, dt.datetime):
        text = value.strftime("%Y-%m-%dT%H:%M:%S.%f").rjust(26, "0")
        return f"{text}Z" if value.tzinfo is not None else text
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, bool | int | float | Decimal):
        return value
    raise _NoBoundError


def _greatest(text: str) -> str:
    """A text that is not less than this one: cut, and the greatest character put behind it."""
    if len(text) <= _TEXT_MAX or text[_TEXT_MAX] == _GREATEST_CHARACTER:
        return text
    return text[:_TEXT_MAX] + _GREATEST_CHARACTER


def _json(value: Any) -> str:
    """As `json.dumps`, with all digits of decimals, and texts without escapes: delta-rs misreads some."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json(key)}:{_json(one)}" for key, one in value.items()) + "}"
    return f"{value:f}" if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)
