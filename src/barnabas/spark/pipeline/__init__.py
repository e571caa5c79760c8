"""Topics into tables, from one TOML file: ``barnabas pipeline run FILE.toml``.

`settings` reads the file, `frames` makes the DataFrame that it describes, `sink` writes the files of its
batches and hands them to a table, and `supervisor` keeps the stream going. `table` says what a table is;
`parquet` (plain files), `delta` and `iceberg` are the kinds, and each makes an append happen once.
"""
