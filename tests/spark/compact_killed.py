"""Compacts tables and dies before each single step of it, one death after the other.

compact_killed.py KIND FOLDER prints a line of JSON for each death: the step that was not done, the rows that
the table held before the next start, after that start had compacted again, and after it had been given one
batch that it has and one that it does not have. Of Delta and Iceberg the steps are those around the commit of
their library.

Everything happens in children: the libraries have threads, which do not outlive a fork.
"""

import json
import shutil
import sys
from functools import partial
from pathlib import Path

import append_killed
import pyarrow as pa
import pyarrow.parquet as pq

from barnabas.spark.pipeline.file.sink_settings import Sink
from barnabas.spark.pipeline.tables.parquet import ParquetFolder

DAYS = {"1": "day=1", "a b/%": "day=a b%2F%25"}
TARGET = 1 << 20


def field(name, kind):
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def open_table(sink):
    """As the sink opens it; PySpark and the libraries of lakes make each fork slow, so that they come where
    needed.
    """
    if sink.kind == "parquet":
        return ParquetFolder(sink.path)
    from barnabas.spark.pipeline.sinks import sink as sinks

    return sinks.open_table(sink)


def append(sink, batch):
    """Appends a batch of two rows of each day, unless it is there;
    from the second on there is one column more.
    """
    with open_table(sink) as table:
        if table.has("query", batch):
            return

        def write(staging):
            for day, folder in DAYS.items():
                columns = {"n": [batch * 2, batch * 2 + 1]}
                if batch > 1:
                    columns["text"] = [f"of {batch}", None]
                if table.keeps_partition_columns:
                    columns["day"] = [day, day]
                part = f"_{folder}" if table.keeps_partition_columns else folder
                (staging / part).mkdir(parents=True)
                pq.write_table(pa.table(columns), staging / part / "rows.parquet")
                yield f"{part}/rows.parquet"

        fields = [
            field("n", "long"),
            field("day", "string"),
            *([field("text", "string")] if batch > 1 else []),
        ]
        table.append("query", batch, {"type": "struct", "fields": fields}, ["day"], write)


def compact(sink):
    with open_table(sink) as table:
        table.compact(TARGET, lambda *_: None)


def rows(sink):
    """What a reader of the table sees, and in how many files."""
    if sink.kind == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(str(sink.path))
        found, files = table.to_pyarrow_table().to_pylist(), len(table.file_uris())
    elif sink.kind == "iceberg":
        from pyiceberg.catalog import load_catalog

        table = load_catalog("default", **sink.catalog).load_table(sink.table)
        found, files = table.scan().to_arrow().to_pylist(), len(list(table.scan().plan_files()))
    else:
        paths = [path for path in sink.path.rglob("*.parquet") if "_barnabas" not in path.parts]
        found, files = [], len(paths)
        for path in paths:
            day = next(day for day, folder in DAYS.items() if folder == path.parent.name)
            with pq.ParquetFile(path) as file:
                found += [{**row, "day": day} for row in file.read(use_threads=False).to_pylist()]
    return sorted([row["n"], row["day"], row.get("text")] for row in found), files


def leftovers(sink):
    """Files that nothing refers to."""
    ours = sink.path / "_barnabas"
    return [path.name for path in [*ours.glob("staging-*"), *ours.glob("compaction.json")]]


def report(sink, died):
    """Prints the line of a death."""
    before, _ = rows(sink)
    unfinished = (sink.path / "_barnabas" / "compaction.json").exists()
    compact(sink)
    after, files = rows(sink)
    left = leftovers(sink)
    append(sink, 2)
    append(sink, 3)
    line = {
        "died": died, "before": before, "unfinished": unfinished, "after": after, "files": files,
        "left": left,
        "later": rows(sink)[0],
    }  # fmt: skip
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def commit_of(kind):
    """The method by which a library commits a compaction."""
    if kind == "delta":
        from deltalake.table import TableOptimizer

        return TableOptimizer, "compact"
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog, "commit_table"


def die_around(owner, name):
    """Has the steps to die before be what comes before and behind a method."""
    original = getattr(owner, name)

    def call(*args, **kwargs):
        before_commit()
        done = original(*args, **kwargs)
        after_commit()
        return done

    setattr(owner, name, call)
    here = sys.modules[__name__]
    append_killed.STEPS[:] = [(here, "before_commit"), (here, "after_commit")]


def before_commit():
    """Nothing; a step to die before."""


def after_commit():
    """Nothing; a step to die before."""


def three_batches(sink):
    for batch in range(3):
        append(sink, batch)


def main(kind, where):
    """Prints the lines."""
    if kind != "parquet":
        die_around(*commit_of(kind))
    never, step, died = sys.maxsize, 0, "not yet"
    while died:
        folder = where / str(step)
        folder.mkdir()
        catalog = {"uri": f"sqlite:///{folder}/catalog.db"}
        sink = Sink(kind, folder / "t", ("day",), None, "day", "lake.t", catalog)
        if kind == "parquet" and step > 0:
            shutil.copytree(where / "new", sink.path)  # the formats with a log have paths in their files
        else:
            append_killed.in_a_child(never, partial(three_batches, sink))
        if kind == "parquet" and step == 0:
            shutil.copytree(sink.path, where / "new")
        died = append_killed.in_a_child(step, partial(compact, sink))
        append_killed.in_a_child(never, partial(report, sink, died))
        step += 1


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
