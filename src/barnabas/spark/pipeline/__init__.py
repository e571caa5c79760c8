"""Topics into tables, from one TOML file: ``barnabas pipeline run FILE.toml``.

A batch goes through the rooms from left to right::

    file -> rows (formats, joined) -> dead_letters -> sinks, many_tables -> tables

`running` keeps it going, `reports` tell of it, and `drafts` write a first file. Each folder says what its
modules are.
"""
