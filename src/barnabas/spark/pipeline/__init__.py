"""Topics into tables, from one TOML file: ``barnabas pipeline run FILE.toml``.

`settings` reads the file, `frames` makes the DataFrame that it describes, `sink` writes the files of its
batches and hands them to a table of the folder `tables` (`routed_sink` to many), and `supervisor` keeps the
stream going.
"""
