"""Takes rows out of Parquet files by their keys, or closes them: what a batch of changes does to older files.

Knows files, keys and rows only. A file that has none of the keys stays as it is; of another one the rows are
written again without those that the batch replaces. Memory is bounded by the keys of the batch, the key
columns of one file and a row group of its rows.
"""

import datetime as dt
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from barnabas.core.synchronise import synchronise
from barnabas.spark.errors import TransientError, first_line
from barnabas.spark.pipeline.tables.compaction import write_rows

FROM: Final = "valid_from"
TO: Final = "valid_to"
"""The columns of a history; the newest row of a key has null in the second one."""
_ROW: Final = "_barnabas_row"
"""The number of a row in its file. No column of a table has such a name (`changes.kept`)."""


@dataclass(frozen=True, slots=True)
class Changes:
    """How a batch changes the table."""

    key: tuple[str, ...]
    """The columns that tell the rows of the table apart."""
    history: bool = False
    """Whether a row that is replaced stays, with the time until which it was valid."""
    deleted_by: str | None = None
    """A column of the rows that is true for a delete; it is not in the table."""

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of a batch by which older rows are found and closed."""
        return (*self.key, FROM) if self.history else self.key


class Keys:
    """The keys that a batch changes; of a history with the time of the first change of each."""

    def __init__(self, rows: pa.Table, changes: Changes, truncated: dt.datetime | None = None) -> None:
        """`truncated` is when all rows of the table went first, those of other keys too."""
        self._changes = changes
        self.truncated = truncated
        if changes.history and rows.num_rows:
            rows = rows.group_by(list(changes.key)).aggregate([(FROM, "min")])
        self._rows = rows
        # In order, so that a look into a file's bounds costs a search and not a walk.
        self._sorted = {
            name: sorted(set(rows[name].to_pylist())) if rows.num_rows else [] for name in changes.key
        }

    def __bool__(self) -> bool:
        """Whether a row of the table may have to go."""
        return self.truncated is not None or self._rows.num_rows > 0

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the key."""
        return self._changes.key

    def values(self, name: str) -> list[Any]:
        """What the keys have in a column, in order and each once."""
        return self._sorted[name]

    def may_be_in(self, name: str, least: Any, greatest: Any) -> bool:
        """Whether a column with such bounds may have one of the keys; bounds that are not known have all."""
        if least is None or greatest is None or self.truncated is not None:
            return True
        values = self._sorted[name]
        try:
            at = bisect_left(values, least)
            return at < len(values) and bool(values[at] <= greatest)
        except TypeError:  # bounds of another type than the values, such as a date as its text
            return True

    def rewrite(self, source: Path, target: Path, partition: Mapping[str, str | None]) -> int | None:
        """Writes the rows of a file that the batch leaves, with those that it closes: how many there are.

        None where the file has none of the keys and stays. `partition` has the columns that are only in the
        names of its folders. Raises TransientError for a file that cannot be read or written.
        """
        try:
            if self.truncated is not None and not self._changes.history:
                return 0
            found = self._found(source, partition)
            if found is None:
                return None
            return (
                self._close(source, target, found) if self._changes.history else _drop(source, target, found)
            )
        except (pa.ArrowException, OSError) as error:
            raise TransientError(f"{source} cannot be rewritten: {first_line(error)}") from error

    def _found(self, source: Path, partition: Mapping[str, str | None]) -> pa.Table | None:
        """The rows of a file that have one of the keys, by their number; None where there are none."""
        if not self._rows.num_rows:  # nothing but a truncate
            rows = keyed(source, Changes((), history=True), partition, self._rows.schema)
            assert rows is not None
            ends = pa.nulls(rows.num_rows, pa.timestamp("us", "UTC"))
            return rows.append_column(f"{FROM}_min_min", ends) if rows.num_rows else None
        rows = keyed(source, self._changes, partition, self._rows.schema)
        if rows is None:
            return None  # it is older than the column: no row of it has a key
        how = "inner" if self.truncated is None else "left outer"
        found = rows.join(self._rows, list(self._changes.key), join_type=how, use_threads=False)
        if found.num_rows == 0:
            return None
        # A key twice in the keys of a batch finds a row twice.
        return found.group_by(_ROW, use_threads=False).aggregate(
            [(f"{FROM}_min", "min")] if self._changes.history else []
        )

    def _close(self, source: Path, target: Path, found: pa.Table) -> int:
        with pq.ParquetFile(source) as file:
            count, kind = file.metadata.num_rows, file.schema_arrow.field(TO).type
        order = np.full(count, -1)
        order[found[_ROW].to_numpy()] = np.arange(found.num_rows)
        ends = found[f"{FROM}_min_min"].combine_chunks().cast(kind)
        if self.truncated is not None:
            emptied = pa.scalar(self.truncated, kind)
            ends = pc.if_else(pc.fill_null(pc.less(ends, emptied), False), ends, emptied)
        closing = ends.take(pa.array(order, mask=order < 0))
        at = 0

        def edit(rows: pa.Table) -> pa.Table:
            nonlocal at
            new = pc.coalesce(closing[at : at + rows.num_rows], rows[TO])
            at += rows.num_rows
            return rows.set_column(rows.schema.get_field_index(TO), rows.schema.field(TO), new)

        write_rows([source], target, edit)
        synchronise(target)
        return int(count)


def _drop(source: Path, target: Path, found: pa.Table) -> int:
    count = pq.read_metadata(source).num_rows
    if found.num_rows == count:
        return 0
    keep = np.ones(count, bool)
    keep[found[_ROW].to_numpy()] = False
    mask = pa.array(keep)
    at = 0

    def edit(rows: pa.Table) -> pa.Table:
        nonlocal at
        kept = rows.filter(mask[at : at + rows.num_rows])
        at += rows.num_rows
        return kept

    write_rows([source], target, edit)
    synchronise(target)
    return int(count - found.num_rows)


def keyed(
    source: Path,
    changes: Changes,
    partition: Mapping[str, str | None],
    kinds: pa.Schema,
    more: Sequence[str] = (),
) -> pa.Table | None:
    """The keys of the rows of a file that a batch can change, of a history those that are valid, with the
    number of each row and some columns more; None for a file that is older than a column of the key.
    """
    with pq.ParquetFile(source) as file:
        names = file.schema_arrow.names
        wanted = [name for name in (*changes.key, *more) if name in names]
        rows = file.read([*wanted, *((TO,) if changes.history else ())], use_threads=False)
        count = file.metadata.num_rows
    columns: dict[str, Any] = {_ROW: pa.array(range(count), pa.int64())}
    for name in (*changes.key, *more):
        kind = kinds.field(name).type
        if name in wanted:
            columns[name] = rows[name].cast(kind)
        elif name in more:
            columns[name] = pa.nulls(count, kind)
        elif partition.get(name) is not None:
            columns[name] = pa.repeat(pa.scalar(partition[name], kind), count)
        else:
            return None
    table = pa.table(columns)
    return table.filter(pc.is_null(rows[TO])) if changes.history else table


def keys_of(files: Sequence[tuple[Path, Mapping[str, str | None]]], changes: Changes) -> pa.Table:
    """The keys in files that were just written, each with what only its folders say, as texts."""
    tables = []
    for path, partition in files:
        with pq.ParquetFile(path) as file:
            names = [name for name in changes.read if name in file.schema_arrow.names]
            table = file.read(names, use_threads=False)
            count = file.metadata.num_rows
        for name in changes.key:
            if name not in names:
                table = table.append_column(name, pa.repeat(pa.scalar(partition[name], pa.string()), count))
        tables.append(table.select(list(changes.read)))
    return pa.concat_tables(tables) if tables else pa.table({})
