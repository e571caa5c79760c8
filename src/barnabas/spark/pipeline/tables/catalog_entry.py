"""A name in a catalog of Iceberg, and the table that it stands for, by PyIceberg."""

import os
import re
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table as IcebergTable

from barnabas.spark.errors import first_line
from barnabas.spark.pipeline.tables.rest_catalog import bound_catalogs

_PASSWORD: Final = re.compile(r"(://[^:/@\s]*):\S*@")
"""Of a catalog's address, which PyIceberg and the clients of its catalogs put into their errors."""


class CatalogEntry:
    """Its methods raise what the client of the catalog does, which `reason_of` has in one line."""

    def __init__(self, name: str, properties: Mapping[str, str], address: str = "") -> None:
        """`properties` are PyIceberg's, and the catalog's own `name`. Of a table in S3 `address` says so:
        what PyIceberg does not look for in the environment comes from there.
        """
        self.name = name
        self._properties = {**_of_environment(address), **properties}
        self._catalog_name = self._properties.pop("name", "default")
        self._catalog: Catalog | None = None

    def catalog(self) -> Catalog:
        """The catalog, which is opened once."""
        if self._catalog is None:
            bound_catalogs()
            self._catalog = load_catalog(self._catalog_name, **self._properties)
            # A catalog of SQL holds connections: they are closed with this entry, and need no collector.
            weakref.finalize(self, self._catalog.close)
        return self._catalog

    def table(self) -> IcebergTable | None:
        """The table as it is now, None where there is none."""
        if self._would_make():
            return None
        try:
            return self.catalog().load_table(self.name)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def beside(self) -> list[str]:
        """The names of all tables in its namespace."""
        if self._would_make():
            return []
        return [".".join(name) for name in self.catalog().list_tables(self.name.rpartition(".")[0])]

    def _would_make(self) -> bool:
        """Whether the catalog is a file that is not there: to look into it would make it."""
        kind, _, file = self._properties.get("uri", "").partition("sqlite:///")
        return not kind and bool(file) and Path(file).parent.is_dir() and not Path(file).exists()


def reason_of(error: BaseException) -> str:
    """What went wrong, in one line and without a password; each catalog has the errors of its own client."""
    return f"{type(error).__name__}: " + _PASSWORD.sub(r"\1:***@", first_line(error))


def _of_environment(address: str) -> dict[str, str]:
    """What other clients of S3 look for."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return {"s3.endpoint": endpoint} if endpoint and address.startswith("s3://") else {}
