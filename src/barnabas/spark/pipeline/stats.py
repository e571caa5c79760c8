"""What Delta's log says of a file, so that readers skip it: rows, and of each column the least and greatest value and nulls.

All of it is in the file's footer. A value that Delta's JSON cannot give exactly, or not as a bound, is left out with its
counterpart: without a bound a file is read, with a wrong one its rows are missed.
"""

import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow.parquet as pq

COLUMNS_MAX: Final = 32
"""Of so many the log has statistics, as delta-rs and Spark do it unless a table says otherwise."""
_TEXT_MAX: Final = 32
"""Characters of a text in the log. The least text is cut, which makes it less; see `_greatest`."""
_GREATEST_CHARACTER: Final = "\U0010ffff"


def statistics(footer: "pq.FileMetaData") -> dict[str, Any]:
    """The statistics of a file, in the form of Delta's log."""
    found: dict[str, Any] = {"numRecords": footer.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    tops: list[str] = []
    for number in range(footer.num_columns):
        column = footer.schema.column(number)
        path = column.path.split(".")
        if path[0] not in tops:
            tops.append(path[0])
        if column.max_repetition_level or len(tops) > COLUMNS_MAX:
            continue  # of lists and maps the log has none
        chunks = [footer.row_group(group).column(number).statistics for group in range(footer.num_row_groups)]
        if all(chunk is not None and chunk.has_null_count for chunk in chunks):
            _put(found["nullCount"], path, sum(chunk.null_count for chunk in chunks))
            bounds = _bounds(chunks)
            if bounds is not None:
                _put(found["minValues"], path, bounds[0])
                _put(found["maxValues"], path, bounds[1])
    return found


def _put(values: dict[str, Any], path: list[str], value: Any) -> None:
    """Fields of structs are in objects of their own."""
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value


def _bounds(chunks: list[Any]) -> tuple[Any, Any] | None:
    """The least and the greatest value of a column in the log's form; None where there is no value, or no sure bound."""
    least, greatest = [], []
    for chunk in chunks:
        if chunk.num_values == 0:
            continue  # all are null: they say nothing
        if not chunk.has_min_max:
            return None
        try:
            least.append(chunk.min)
            greatest.append(chunk.max)
        except (ValueError, OverflowError):
            return None  # a text that is none, or a time that Python does not have
    if not least:
        return None
    low, high = _exact(min(least)), _exact(max(greatest))
    if isinstance(low, str) and isinstance(min(least), str):
        low, high = low[:_TEXT_MAX], _greatest(high)
    return None if low is None or high is None else (low, high)


def _exact(value: Any) -> Any:
    """The value as JSON has it, None where that is not the value."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        near = float(value)
        return near if "e" not in repr(near) and Decimal(repr(near)) == value else None
    if isinstance(value, dt.datetime):
        text = value.strftime("%Y-%m-%dT%H:%M:%S.%f").rjust(26, "0")
        return f"{text}Z" if value.tzinfo is not None else text
    if isinstance(value, dt.date):
        return value.isoformat()
    return value if isinstance(value, bool | int | str) else None


def _greatest(text: str) -> str:
    """A text that is not less than this one, and not longer than the log wants it."""
    return text if len(text) <= _TEXT_MAX else text[:_TEXT_MAX] + _GREATEST_CHARACTER
