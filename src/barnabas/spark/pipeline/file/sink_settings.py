"""Where rows and dead letters go, by the words of a pipeline's file: ``[sink]`` and ``[deadLetter]``."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from barnabas.core.ids import is_topic_name
from barnabas.spark.pipeline.file.section import Section
from barnabas.spark.pipeline.many_tables.routes import TableRoute, columns_of, require_apart
from barnabas.spark.pipeline.tables.places import is_address
from barnabas.spark.pipeline.tables.rewriting import Changes

SINKS: Final = ("parquet", "delta", "iceberg", "topic")
UNITS: Final = ("month", "day", "hour")
"""What a table can be partitioned by, of an event time; Iceberg's transforms have these names."""
_MISREAD: Final = {
    "delta": ("delta-rs", re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f]")),
    "iceberg": ("PyIceberg", re.compile(r"[#?\x00-\x1f\x7f]")),
}
"""The library of each kind of table, and what of a path it takes for an escape or for the path's end."""


@dataclass(frozen=True, slots=True)
class Sink:
    """Where the rows go."""

    kind: str
    path: Path
    """The table's folder. Of a topic, and of a table at an address, a folder of the checkpoint for what is
    kept of it here.
    """
    partition_by: tuple[str, ...] = ()
    """Columns of the rows, one folder a value."""
    event_time: str | None = None
    """A column whose time gives one partition column more."""
    event_unit: str = "day"
    table: str = ""
    """The name of an Iceberg table in its catalog, with its namespace."""
    catalog: dict[str, str] = field(default_factory=dict)
    """PyIceberg's properties of that catalog, and the `name` that SQL catalogs keep their tables by."""
    changes: Changes | None = None
    """How rows change those of their key; without it they are appended."""
    compact_every: int = 0
    """After how many batches small files are merged; 0: never."""
    topic: str = ""
    topic_key: tuple[str, ...] = ()
    """Columns that the keys of a topic's records are made of."""

    address: str = ""
    """Where in an object store the table is."""
    route: TableRoute | None = None
    """How rows name their tables, of which `of` gives each; the path is then a folder of the checkpoint."""

    @property
    def where(self) -> str:
        """Where the table is, for people."""
        return self.route.path if self.route is not None else self.address or str(self.path)

    def of(self, values: Sequence[str]) -> "Sink":
        """The table that some values of the route's columns name."""
        assert self.route is not None
        place, table = self.route.filled(self.route.path, values), self.route.filled(self.route.table, values)
        if "://" in place:
            return replace(self, path=self.path.joinpath(*values), address=place, table=table, route=None)
        return replace(self, path=Path(place), table=table, route=None)

    @property
    def layout(self) -> tuple[str, ...]:
        """All partition columns, in the order of the folders."""
        return (*((f"{self.event_time}_{self.event_unit}",) if self.event_time else ()), *self.partition_by)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Where records go that do not fit, and how many there may be."""

    topic: str = ""
    table: Sink | None = None
    """Their table, unless they go to the topic."""
    records_max: int | None = None
    """With more of them in one batch the pipeline stops."""
    share_max: float | None = None
    """With a larger part of a batch it stops."""


def sink_of(section: Section, folder: Path, checkpoint: Path) -> Sink:
    """What ``[sink]`` says. Raises PipelineError."""
    kind = section.choice("kind", SINKS)
    if kind == "topic":
        found = Sink(kind, checkpoint / "topic", topic=_topic(section), topic_key=section.texts("key"))
        section.close()
        return found
    event = section.section("eventTime")
    given = "eventTime" in section
    path, address = _place(section, folder, checkpoint / "table", kind)
    table, catalog = _iceberg(section, address or path.name, folder) if kind == "iceberg" else ("", {})
    changes = _changes(section, kind)
    route = _route(section, address or str(path), table)
    if route is not None:
        path, address = checkpoint / "tables", ""
    sink = Sink(
        kind=kind,
        path=path,
        partition_by=section.texts("partitionBy"),
        event_time=event.text("column") if given else None,
        event_unit=event.choice("by", UNITS, "day") if given else "day",
        table=table,
        changes=changes,
        compact_every=section.whole("compactEvery", most=1_000_000) or 0,
        catalog=catalog,
        address=address,
        route=route,
    )
    event.close()
    section.close()
    if len(set(sink.layout)) < len(sink.layout):
        raise section.wrong("partitionBy", f"names a column twice: {', '.join(sink.layout)}")
    return sink


def letters_of(section: Section, folder: Path, checkpoint: Path) -> DeadLetters:
    """What ``[deadLetter]`` says. Raises PipelineError."""
    kind, topic, letters_table = section.choice("kind", SINKS), "", None
    if kind == "topic":
        topic = _topic(section)
    else:
        path, address = _place(section, folder, checkpoint / "letters", kind)
        table, catalog = _iceberg(section, address or path.name, folder) if kind == "iceberg" else ("", {})
        _require_one_place(section, "path", section.text("path"))
        _require_one_place(section, "table", table)
        letters_table = Sink(kind, path, table=table, catalog=catalog, address=address)
    found = DeadLetters(
        topic,
        letters_table,
        records_max=section.whole("maxRecords", most=2**31 - 1),
        share_max=section.share("maxShare"),
    )
    section.close()
    return found


def _topic(section: Section) -> str:
    name = section.text("topic")
    if not is_topic_name(name):
        raise section.wrong("topic", f"is {name!r}, which is no name of a topic")
    return name


def _changes(section: Section, kind: str) -> Changes | None:
    """The keys by which rows are changed, None for a table that only grows."""
    mode = section.choice("mode", ("append", "merge", "history"), "append")
    key, deleted_by = section.texts("key"), section.optional_text("deletedBy")
    if mode == "append":
        for name, given in (("key", key), ("deletedBy", deleted_by)):
            if given:
                raise section.wrong(name, 'has no use without mode = "merge" or "history"')
        return None
    if kind == "parquet":
        raise section.wrong(
            "mode", f"is {mode!r}, and plain Parquet files only grow: kind must be delta or iceberg"
        )
    if not key:
        raise section.missing("key", "is missing: a list of the columns that tell the rows apart")
    if len(set(key)) < len(key):
        raise section.wrong("key", f"names a column twice: {', '.join(key)}")
    return Changes(key, mode == "history", deleted_by)


def _route(section: Section, place: str, table: str) -> TableRoute | None:
    """How rows name their tables, None where the path has no column in it. `place` is the path made whole."""
    text = section.text("path")
    try:
        require_apart(text)
        # A column that `..` takes out of the path would name many tables in one folder.
        columns, of_table = columns_of(os.path.normpath(text)), columns_of(table)
    except ValueError as error:
        raise section.wrong("path", str(error)) from None
    try:
        require_apart(table, ".")
    except ValueError as error:
        raise section.wrong("table", str(error)) from None
    if set(of_table) != (set(columns) if table else set()):
        raise section.wrong("table", f"is {table!r}: it must have the same columns as sink.path has")
    if not columns:
        return None
    return TableRoute(columns, place, table)


def _require_one_place(section: Section, key: str, text: str) -> None:
    """Refuses columns in braces: letters have columns of their own, and one table."""
    try:
        columns = columns_of(text)
    except ValueError as error:
        raise section.wrong(key, str(error)) from None
    if columns:
        raise section.wrong(key, f"has the column {columns[0]} in braces, and dead letters have one table")


def _iceberg(section: Section, place: str, folder: Path) -> tuple[str, dict[str, str]]:
    """The table's name and its catalog."""
    return catalog_table(section, folder, f"default.{place.rstrip('/').rpartition('/')[2]}")


def catalog_table(section: Section, folder: Path, default: str | None = None) -> tuple[str, dict[str, str]]:
    """The name of an Iceberg table and its catalog, which is a URI or a table of properties."""
    table = section.text("table", default)
    if not re.fullmatch(r"[^.\s]+(\.[^.\s]+)+", table):
        raise section.wrong("table", f"is {table!r}: it must be namespace.name")
    if isinstance(section.peek("catalog"), dict):
        catalog = section.section("catalog").settings()
    else:
        catalog = {"uri": section.text("catalog", "sqlite:///catalog.db")}
    sqlite, _, file = catalog.get("uri", "").partition("sqlite:///")
    if file and not sqlite:
        catalog["uri"] = f"sqlite:///{folder / file}"
    return table, catalog


def _place(section: Section, folder: Path, kept: Path, kind: str) -> tuple[Path, str]:
    """The folder of a table and no address, or the address and the folder for what is kept of it here."""
    text = section.text("path")
    if "://" not in text:
        path = local_path(section, "path", folder)
        require_readable(section, "path", str(path), kind)
        return path, ""
    if not is_address(text):
        raise section.wrong(
            "path",
            "must be a folder, or an address such as s3://bucket/flights, gs://bucket/flights or "
            "abfss://container@account.dfs.core.windows.net/flights",  # not shown: it may have a password
        )
    require_readable(section, "path", text, kind)
    return kept, text.rstrip("/")


def require_readable(section: Section, key: str, place: str, kind: str) -> None:
    """Refuses a path that the library of the table reads as another one."""
    if kind not in _MISREAD:
        return
    library, misread = _MISREAD[kind]
    if found := misread.search(place):
        raise section.wrong(key, f"is {place!r}, and {library} takes {found[0]!r} for something else")


def local_path(section: Section, key: str, folder: Path, default: str | None = None) -> Path:
    """A path on this machine: what is renamed and synchronised must be in a file system."""
    text = section.text(key, default)
    if "\0" in text:
        raise section.wrong(key, f"is {text!r}: no path has a null character")
    if "://" in text or text.startswith("file:"):
        raise section.wrong(key, f"is {text!r}: it must be a folder of a file system, not an address")
    return Path(os.path.normpath(folder / text))  # Spark takes `..` in an address for a name
