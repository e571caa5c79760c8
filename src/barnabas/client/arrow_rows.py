"""Tables of Arrow on their way into topics: which column is which part of a record, and their batches.

pyarrow and numba (extra ``barnabas[arrow]``) are imported when a table is sent.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.client.errors import InvalidRecordError
from barnabas.core.extras import extra

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.records.columnar_encoder import BatchSection

_ROWS_MAX: Final = 65_536
"""Rows that are encoded at a time: bounds the memory, and how long an event loop is held."""

Columns = Mapping[str, str | None]
"""The column for each part of a record (key, value, partition, headers); None where none was named."""


def sections(
    table: Any,
    columns: Columns,
    *,
    partitions: int,
    available: Sequence[int],
    section_bytes: int,
    sticky_bytes: int,
) -> "Iterator[BatchSection]":
    """The rows as batches of records of at most `section_bytes`, by partition. Those without a key stay at
    one for `sticky_bytes`. Raises InvalidRecordError, MissingExtraError.
    """
    with extra("arrow", "send_arrow"):
        from barnabas.records.columnar_encoder import RowError, encode  # noqa: PLC0415

    for rows in _batches(table, columns):
        try:
            yield from encode(
                rows,
                partitions=partitions,
                available=available,
                section_bytes=section_bytes,
                sticky_bytes=sticky_bytes,
            )
        except RowError as error:
            raise InvalidRecordError(f"a row cannot be sent: {error}") from None


def _batches(table: Any, columns: Columns) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa  # noqa: PLC0415 - only tables need it

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    elif not isinstance(table, pa.Table):
        # Whatever speaks Arrow's interface for other libraries: frames of polars, of pandas from 2.2 on.
        if not hasattr(table, "__arrow_c_stream__"):
            raise TypeError(f"a table must be one of pyarrow, polars or pandas, not {type(table).__name__}")
        table = pa.table(table)
    chosen = {part: _column(table, part, name) for part, name in columns.items()}
    chosen = {part: column for part, column in chosen.items() if column is not None}
    if not chosen.keys() & {"key", "value"}:
        raise InvalidRecordError(
            f"the table has neither a key nor a value: name one of its columns ({_names(table)})"
        )
    yield from pa.table(chosen).combine_chunks().to_batches(max_chunksize=_ROWS_MAX)


def _column(table: "pa.Table", part: str, name: str | None) -> "pa.ChunkedArray | None":
    """The column of a part of a record: the one that was named, or the one of the part's own name."""
    if name is not None and name not in table.column_names:
        raise InvalidRecordError(f"the table has no column {name!r} for {part}: it has {_names(table)}")
    found = table.column_names.count(name or part)
    if found > 1:
        raise InvalidRecordError(f"the table has {found} columns {name or part!r}")
    if not found:
        return None
    column = table.column(name or part)
    return _plain(column, name or part) if part in {"key", "value"} else column


def _plain(column: "pa.ChunkedArray", name: str) -> "pa.ChunkedArray":
    """The column as bytes. Raises InvalidRecordError for one that is neither text nor bytes: in which form a
    number is to be written is not for this client to choose.
    """
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import types  # noqa: PLC0415

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if types.is_null(kind):
        return column.cast(pa.binary())
    large = types.is_large_binary, types.is_large_string, types.is_binary_view, types.is_string_view
    try:
        if any(is_kind(kind) for is_kind in large):
            return column.cast(pa.large_binary()).cast(pa.binary())
        if any(is_kind(kind) for is_kind in (types.is_binary, types.is_string, types.is_fixed_size_binary)):
            return column.cast(pa.binary())
    except pa.ArrowNotImplementedError:
        pass  # of an older pyarrow
    raise InvalidRecordError(
        f"the column {name!r} is {kind}: cast it to text or bytes, in the form that readers expect"
    )


def _names(table: "pa.Table") -> str:
    return ", ".join(map(repr, table.column_names)) or "none"
