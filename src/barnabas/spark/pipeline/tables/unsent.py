"""Values that a database has not sent, as a change left them as they were: Debezium's mark stands for them.

The executors write rows that still have the mark to files apart. Before the commit each mark is replaced by
what the row has that is in the table under the same key, and the files become part of the table. The driver
holds these rows' keys, and the old values of their columns that may have the mark.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from barnabas.core.synchronise import synchronise
from barnabas.spark.errors import PipelineError, TransientError, first_line
from barnabas.spark.pipeline.tables.compaction import write_rows
from barnabas.spark.pipeline.tables.rewriting import Changes, keyed

UNAVAILABLE: Final = "__debezium_unavailable_value"
"""Debezium's ``unavailable.value.placeholder``, as it is unless somebody changes it."""
Key = tuple[Any, ...]


class NoOlderRowError(PipelineError):
    """Neither the batch nor the table has the value that a row lacks."""


class Unsent:
    """The rows of a batch that wait for values of the rows they replace."""

    def __init__(self, files: Sequence[tuple[Path, Mapping[str, str | None]]], changes: Changes) -> None:
        self._files, self._changes = files, changes
        self._schema = (
            pa.unify_schemas([pq.read_schema(path) for path, _ in files]) if files else pa.schema([])
        )
        self._columns = [
            field.name
            for field in self._schema
            if (pa.types.is_string(field.type) or pa.types.is_binary(field.type))
            and field.name not in changes.key
        ]
        self._wanted: set[Key] = set()
        self._old: dict[Key, dict[str, Any]] = {}
        for path, partition in files:
            self._wanted.update(_keys(self._read(path, partition), changes))

    def __bool__(self) -> bool:
        return bool(self._files)

    def look_into(self, path: Path, partition: Mapping[str, str | None]) -> None:
        """Keeps the old values of the keys that a file of the table has. Raises TransientError for one that
        cannot be read.
        """
        try:
            rows = self._read(path, partition, self._columns)
        except (pa.ArrowException, OSError) as error:
            raise TransientError(f"{path} cannot be read: {first_line(error)}") from error
        if rows is None:
            return
        for number, key in enumerate(_keys(rows, self._changes)):
            if key in self._wanted:
                self._old[key] = {name: rows[name][number].as_py() for name in self._columns}

    def fill(self, path: Path, partition: Mapping[str, str | None], target: Path) -> None:
        """Writes the rows of one of the files with the values that were found. Raises NoOlderRowError for
        a row that the table does not have.
        """
        keys = list(_keys(self._read(path, partition), self._changes))
        at = 0

        def edit(rows: pa.Table) -> pa.Table:
            nonlocal at
            these = keys[at : at + rows.num_rows]
            at += rows.num_rows
            for name in self._columns:
                field = rows.schema.field(name)
                mark = UNAVAILABLE.encode() if pa.types.is_binary(field.type) else UNAVAILABLE
                marked = pc.fill_null(pc.equal(rows[name], pa.scalar(mark, field.type)), False)
                if pc.any(marked).as_py():
                    old = [
                        self._value(key, name) if one else None
                        for key, one in zip(these, marked.to_pylist(), strict=True)
                    ]
                    new = pc.if_else(marked, pa.array(old, field.type), rows[name])
                    rows = rows.set_column(rows.schema.get_field_index(name), field, new)
            return rows

        target.parent.mkdir(parents=True, exist_ok=True)
        write_rows([path], target, edit)
        synchronise(target)

    def _value(self, key: Key, name: str) -> Any:
        if key not in self._old:
            named = ", ".join(f"{one} = {value!r}" for one, value in zip(self._changes.key, key, strict=True))
            raise NoOlderRowError(
                f"the row with {named} has no value of {name}, which was not changed, and the table has no "
                "older row: ALTER TABLE ... REPLICA IDENTITY FULL has PostgreSQL send it, a snapshot brings "
                "all rows"
            )
        return self._old[key][name]

    def _read(
        self, path: Path, partition: Mapping[str, str | None], more: Sequence[str] = ()
    ) -> pa.Table | None:
        schema = self._schema
        for name in self._changes.key:
            if name not in schema.names:  # a partition column, which only folders have
                schema = schema.append(pa.field(name, pa.string()))
        if any(path == one for one, _ in self._files):
            return keyed(path, Changes(self._changes.key), partition, schema, more)
        return keyed(path, self._changes, partition, schema, more)


def _keys(rows: pa.Table | None, changes: Changes) -> list[Key]:
    if rows is None:
        return []
    return list(zip(*(rows[name].to_pylist() for name in changes.key), strict=True))
