"""Makes large Parquet files of small ones, without Spark and within bounded memory.

Knows files and their rows only. How merged files take the place of their sources is the business of each kind
of table: see `parquet`, `delta` and `iceberg`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final, TypeVar

from barnabas.core.synchronise import synchronise
from barnabas.spark.errors import PipelineError, first_line

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

P = TypeVar("P", bound=PurePath)
TARGET_BYTES: Final = 128 << 20
"""How large merged files become unless the caller says otherwise."""
_ROW_GROUP_BYTES: Final = 64 << 20
"""Decoded rows that are held in memory before they are written as one row group."""
_BATCH_ROWS: Final = 16_384


def groups(files: "Iterable[tuple[P, int]]", target_bytes: int) -> "Iterator[list[P]]":
    """Neighbours, of files in their order with their sizes, which make one file of at most `target_bytes`.

    A file of half that size is large enough and stays, or the newest merged file would be written again each
    time.
    """
    group: list[P] = []
    size = 0
    for path, file_bytes in files:
        if file_bytes >= target_bytes // 2 or size + file_bytes > target_bytes:
            if len(group) > 1:
                yield group
            group, size = [], 0
        if file_bytes < target_bytes // 2:
            group.append(path)
            size += file_bytes
    if len(group) > 1:
        yield group


def merge(sources: Sequence[Path], target: Path) -> None:
    """Writes the rows of all sources to one file, in their order, and synchronises it.

    Columns are those of all sources, in the order of the newest one, which comes last; rows have null where
    they lack one. Raises PipelineError for files that cannot be read, and for a disk that takes no more.
    """
    import pyarrow as pa

    try:
        write_rows(sources, target)
    except (pa.ArrowException, OSError) as error:
        raise PipelineError(
            f"the files from {sources[0]} to {sources[-1].name} were not merged: {first_line(error)}"
        ) from error
    synchronise(target)


def write_rows(
    sources: Sequence[Path], target: Path, edit: "Callable[[pa.Table], pa.Table] | None" = None
) -> None:
    """Writes the rows of all sources to one file as `merge` does; `edit` gets them in their order.
    Raises what Arrow raises.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    newest = pq.ParquetFile(sources[-1])
    # Columns and fields are added and never taken away, and become wider and never narrower; a column may be
    # nullable in one source only.
    older = (pq.read_schema(source) for source in sources[:-1])
    schema = pa.unify_schemas([newest.schema_arrow, *older], promote_options="permissive")
    schema = schema.with_metadata(newest.schema_arrow.metadata)
    # As Spark writes them: no schema of Arrow's, and decimals as whole numbers.
    with pq.ParquetWriter(
        target, schema, compression=_codec(newest), store_schema=False, store_decimal_as_integer=True
    ) as writer:
        newest.close()
        for read in _row_groups(sources, schema):
            rows = edit(read) if edit is not None else read
            writer.write_table(rows, row_group_size=max(1, rows.num_rows))


def _codec(file: "pq.ParquetFile") -> str:
    metadata = file.metadata
    if metadata.num_row_groups == 0 or metadata.num_columns == 0:
        return "snappy"
    codec: str = metadata.row_group(0).column(0).compression
    return "none" if codec == "UNCOMPRESSED" else codec.lower()


def _row_groups(sources: Sequence[Path], schema: "pa.Schema") -> "Iterator[pa.Table]":
    """The rows of all sources, in tables that are large enough for a row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    held: list[pa.RecordBatch] = []
    size = 0
    for source in sources:
        with pq.ParquetFile(source) as file:
            for batch in file.iter_batches(_batch_rows(file), use_threads=False):
                held.append(_fitted(batch, schema))
                size += batch.nbytes
                if size >= _ROW_GROUP_BYTES:
                    yield pa.Table.from_batches(held, schema)
                    held, size = [], 0
    if held:
        yield pa.Table.from_batches(held, schema)


def _batch_rows(file: "pq.ParquetFile") -> int:
    """How many rows to decode at once: fewer where they are large."""
    metadata = file.metadata
    size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    rows: int = _ROW_GROUP_BYTES * metadata.num_rows // max(1, size)
    return max(1, min(_BATCH_ROWS, rows))


def _fitted(batch: "pa.RecordBatch", schema: "pa.Schema") -> "pa.RecordBatch":
    import pyarrow as pa

    have = set(batch.schema.names)
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in have
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
