"""Where rows and dead letters go, by the words of a pipeline's file: ``[sink]`` and ``[deadLetter]``."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from barnabas.core.ids import is_topic_name
from barnabas.spark.pipeline.section import Section
from barnabas.spark.pipeline.tables.places import is_address
from barnabas.spark.pipeline.tables.rewriting import Changes

SINKS: Final = ("parquet", "delta", "iceberg", "topic")
UNITS: Final = ("month", "day", "hour")
"""What a table can be partitioned by, of an event time; Iceberg's transforms have these names."""


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

    @property
    def where(self) -> str:
        """Where the table is, for people."""
        return self.address or str(self.path)

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
    path, address = _place(section, folder, checkpoint / "table")
    table, catalog = _iceberg(section, address or path.name, folder) if kind == "iceberg" else ("", {})
    sink = Sink(
        kind=kind,
        path=path,
        partition_by=section.texts("partitionBy"),
        event_time=event.text("column") if given else None,
        event_unit=event.choice("by", UNITS, "day") if given else "day",
        table=table,
        changes=_changes(section, kind),
        compact_every=section.whole("compactEvery", most=1_000_000) or 0,
        catalog=catalog,
        address=address,
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
        path, address = _place(section, folder, checkpoint / "letters")
        table, catalog = _iceberg(section, address or path.name, folder) if kind == "iceberg" else ("", {})
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
        raise section.wrong("key", "is missing: a list of the columns that tell the rows apart")
    if len(set(key)) < len(key):
        raise section.wrong("key", f"names a column twice: {', '.join(key)}")
    return Changes(key, mode == "history", deleted_by)


def _iceberg(section: Section, place: str, folder: Path) -> tuple[str, dict[str, str]]:
    """The table's name and its catalog, which is a URI or a table of properties."""
    table = section.text("table", f"default.{place.rstrip('/').rpartition('/')[2]}")
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


def _place(section: Section, folder: Path, kept: Path) -> tuple[Path, str]:
    """The folder of a table and no address, or the address and the folder for what is kept of it here."""
    text = section.text("path")
    if "://" not in text:
        return local_path(section, "path", folder), ""
    if not is_address(text):
        raise section.wrong(
            "path",
            "must be a folder, or an address such as s3://bucket/flights, gs://bucket/flights or "
            "abfss://container@account.dfs.core.windows.net/flights",  # not shown: it may have a password
        )
    return kept, text.rstrip("/")


def local_path(section: Section, key: str, folder: Path, default: str | None = None) -> Path:
    """A path on this machine: what is renamed and synchronised must be in a file system."""
    text = section.text(key, default)
    if "\0" in text:
        raise section.wrong(key, f"is {text!r}: no path has a null character")
    if "://" in text or text.startswith("file:"):
        raise section.wrong(key, f"is {text!r}: it must be a folder of a file system, not an address")
    return Path(os.path.normpath(folder / text))  # Spark takes `..` in an address for a name
