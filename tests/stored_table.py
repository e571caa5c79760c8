"""A table in an object store that is given batches as executors would write them, for judges of stores."""

import os

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyarrow import fs
from pyiceberg.catalog import load_catalog

from barnabas.spark.pipeline.file.sink_settings import Sink
from barnabas.spark.pipeline.sinks.sink import open_table
from barnabas.spark.pipeline.tables.table import Staged

KINDS = ["parquet", "delta", "iceberg"]
SCHEMA = {"type": "struct", "fields": [
    {"name": name, "type": kind, "nullable": True, "metadata": {}}
    for name, kind in (("id", "integer"), ("name", "string"))
]}  # fmt: skip
ARROW = pa.schema([("id", pa.int32()), ("name", pa.string())])


class Written:
    """A table in the store, to which batches are given as the executors would write them."""

    def __init__(self, folder, kind, name, changes=None):
        self.kind, self.changes = kind, changes
        self.path = f"lake/{name}"
        self.catalog = {"uri": f"sqlite:///{folder}/catalog.db"}
        self.sink = Sink(
            kind, folder / "checkpoint" / "table", table="lake.t", catalog=self.catalog, changes=changes,
            address=f"s3://{self.path}",
        )  # fmt: skip

    def write(self, batch, *files, gone=()):
        """Has a batch in the table once: each of `files` is a dictionary of keys and names."""
        with open_table(self.sink) as table:
            table.recover()
            if table.has("query", batch):
                return

            def stage(folder):
                folder.mkdir(parents=True)
                names = [self._file(folder, f"{number}.parquet", rows) for number, rows in enumerate(files)]
                if self.changes is None:
                    return names
                deleted = [self._file(folder, "gone.parquet", dict.fromkeys(gone))] if gone else []
                return Staged(names, deleted)

            if self.changes is None:
                table.append("query", batch, SCHEMA, [], stage)
            else:
                table.merge("query", batch, SCHEMA, [], self.changes, stage)

    def _file(self, folder, name, rows):
        found = [{"id": key, "name": value} for key, value in rows.items()]
        pq.write_table(pa.Table.from_pylist(found, ARROW), folder / name)
        return name

    def rows(self):
        """As other readers see them."""
        if self.kind == "delta":
            found = DeltaTable(self.sink.address).to_pyarrow_table()
        elif self.kind == "iceberg":
            place = {"s3.endpoint": os.environ["AWS_ENDPOINT_URL"]}
            found = load_catalog("default", **self.catalog, **place).load_table("lake.t").scan().to_arrow()
        else:
            found = ds.dataset(self.sink.address, format="parquet").to_table()
        return sorted((row["id"], row["name"]) for row in found.to_pylist())

    def objects(self):
        """All files of rows in the store, also those that no log knows."""
        store, path = fs.FileSystem.from_uri(self.sink.address)
        found = store.get_file_info(fs.FileSelector(path, recursive=True))
        return [one.path for one in found if one.path.endswith(".parquet") and "checkpoint" not in one.path]
