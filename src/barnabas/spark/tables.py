"""Tables of Spark's catalog on our sources: ``CREATE TABLE t USING barnabas OPTIONS (...)``.

Spark keeps the options of a table in its catalog and gives a Python source none of them when the table is
read or written. It does keep and give the columns, with their metadata. So the first column of a table holds
the options: they are put there when the table is made, and taken from there when Spark hands the columns
over. A table with columns that the user has written has none. Options of the statement itself (``SELECT *
FROM t WITH ('startingOffsets' = ...)``) win over those of the table.

A password or a private key is not put there: a catalog keeps it in clear. Such an option is one of each
statement, or of the session's own reader.
"""

import json
from typing import Final
from urllib.request import url2pathname

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructField, StructType

from barnabas.client.channel_security import is_in_file, is_secret
from barnabas.spark import ddl
from barnabas.spark.errors import OptionError

_NOTE: Final = "barnabas.options"
_OPTION: Final = "option."
"""What Spark puts before the name of each option of CREATE TABLE; it gives the plain name beside it."""
_OF_TABLES: Final = ("provider", "owner")
"""Properties that Spark gives to the source of a table that is being made, and to no other."""


class TableSource(DataSource):  # type: ignore[misc]
    """A source that can have tables in Spark's catalog."""

    def given(self) -> dict[str, str]:
        """The options that the user has given: Spark adds some of its own where a table is being made."""
        if not self.is_made:
            return dict(self.options)
        found = {name: value for name, value in self.options.items() if f"{_OPTION}{name}" in self.options}
        if "path" in self.options:  # of LOCATION, or of an option that Spark has made one of
            found["path"] = url2pathname(self.options["path"].removeprefix("file:"))
        return found

    def noted(self, columns: StructType | str) -> StructType:
        """The columns as they are, or with the options in them where a table is being made."""
        known = columns if isinstance(columns, StructType) else ddl.columns(columns)
        if not self.is_made:
            return known
        given = self.given()
        for name in sorted(given):
            if is_secret(name.lower().removeprefix("kafka.")) and not is_in_file(given[name]):
                raise OptionError(
                    f"{name} is a secret, and a table of Spark's catalog keeps its options in clear: leave "
                    "it out, and give it to each statement that uses the table (WITH), or name its file "
                    "(file:PATH)"
                )
        first, *others = known.fields
        note = {_NOTE: json.dumps(given)}
        return StructType([StructField(first.name, first.dataType, first.nullable, note), *others])

    @property
    def is_made(self) -> bool:
        """Whether a table is being made of this source."""
        return all(name in self.options for name in _OF_TABLES)

    def take_options(self, columns: StructType) -> None:
        """Adds the options of the table that these columns are of to those of the statement, which win."""
        for field in columns.fields:
            if _NOTE in field.metadata:
                for name, value in json.loads(field.metadata[_NOTE]).items():
                    self.options.setdefault(name, value)
