"""The tables that a pipeline writes: `table` says what one is, `parquet` (plain files), `delta` and `iceberg`
are the kinds.

`logged` is what Delta and Iceberg share; `rewriting` takes rows out of files, `compaction` makes large files
of small ones, `evolution` says which columns fit, `stats` are Delta's bounds of a file, `unsent` fills in
values that a database has not sent. `places` are folders and object stores, `rest_catalog` and
`catalog_entry` are PyIceberg's catalogs. `sent` keeps the last batch of a topic. Nothing here knows Spark's
frames.
"""
