"""Topics into tables, from one TOML file: ``barnabas pipeline run FILE.toml``.

`settings` reads the file, `frames` makes the DataFrame that it describes, `parquet` appends its batches to a table
and `supervisor` keeps the stream going. `commits` is the part that makes an append happen once; its head says how.
"""
