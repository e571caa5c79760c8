"""Tables whose format has a log: the files of a batch are written where they stay, and one commit adds them.

A batch has a folder of its own, ``batch-0000000017-9f...``. A kill before the commit leaves one that the log
does not know; it is removed before the batch is appended again. The log keeps the batch's id in the same
commit as its files, so they are in the table together or not at all, and no reader sees a part of a batch.
"""

import re
import shutil
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from barnabas.spark.pipeline.table import Table, Write, synchronise_files

_BATCH_FOLDER: Final = re.compile(r"batch-(\d{10,})-[0-9a-f]{32}")


class LoggedTable(Table):
    """What Delta and Iceberg share."""

    types: ClassVar[frozenset[str]]
    """Spark's names of the simple types that the format has."""

    def __init__(self, folder: Path, files: Path) -> None:
        super().__init__(folder)
        self._files = files

    def takes(self, field: dict[str, Any]) -> bool:
        """Whether the format has the type, and those in it."""
        return all(name.partition("(")[0] in self.types for name in _simple_types(field["type"]))

    def recover(self) -> None:
        """Nothing: a commit to the log is whole, and the next append removes what it does not know."""

    def append(
        self, query: str, batch: int, schema: dict[str, Any], layout: Sequence[str], write: Write
    ) -> None:
        """Appends a batch that the table does not have; one without rows leaves the log as it is."""
        assert self._lock is not None
        assert not self.has(query, batch)
        for left in self._files.glob("batch-*"):
            named = _BATCH_FOLDER.fullmatch(left.name)
            if named is not None and int(named[1]) >= batch:
                shutil.rmtree(left)
        self._prepare(query, schema, layout)
        folder = self._files / f"batch-{batch:010d}-{uuid.uuid4().hex}"
        files = sorted(write(folder))
        synchronise_files(folder, files, self.folder)
        if files:
            self._commit(query, batch, [folder / file for file in files])
        else:
            shutil.rmtree(folder)  # Spark writes a file without rows

    @abstractmethod
    def _prepare(self, query: str, schema: dict[str, Any], layout: Sequence[str]) -> None:
        """Makes the table where there is none, and adds the columns that it does not have."""

    @abstractmethod
    def _commit(self, query: str, batch: int, files: Sequence[Path]) -> None:
        """The commit point: the files are in the table from here on, and the batch's id with them."""


def _simple_types(kind: Any) -> Iterator[str]:
    """The names in a type of Spark's JSON."""
    if isinstance(kind, str):
        yield kind
    elif kind["type"] == "struct":
        for field in kind["fields"]:
            yield from _simple_types(field["type"])
    elif kind["type"] == "array":
        yield from _simple_types(kind["elementType"])
    elif kind["type"] == "map":
        yield from _simple_types(kind["keyType"])
        yield from _simple_types(kind["valueType"])
    else:
        yield kind["type"]  # one of a user's own


def shape(kind: Any) -> Any:
    """A type of Spark's JSON without what may be null in it: those of one shape hold the same values."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return tuple((field["name"], shape(field["type"])) for field in kind["fields"])
    if kind["type"] == "array":
        return ("array", shape(kind["elementType"]))
    return ("map", shape(kind["keyType"]), shape(kind["valueType"]))
