"""The tables that a pipeline writes: `table` says what one is, `parquet` (plain files), `delta` and `iceberg`
are the kinds.

`logged` is what Delta and Iceberg share; `rewriting` takes rows out of files, `compaction` makes large files
of small ones, `evolution` says which columns fit. Nothing here knows Spark's frames.
"""
