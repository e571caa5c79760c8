"""`CatalogEntry`: what it holds open, and until when."""

import contextlib
import gc
from pathlib import Path

import pytest

from barnabas.spark.pipeline.tables.catalog_entry import CatalogEntry

DESCRIPTORS = Path("/proc/self/fd")


def open_here(file):
    """How many descriptors of this process are of the file."""
    found = 0
    for descriptor in DESCRIPTORS.iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists them
            found += descriptor.readlink() == file
    return found


@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="counts open files as Linux lists them")
def test_the_file_of_a_catalog_is_closed_with_its_entry(tmp_path):
    """Connections of SQLAlchemy are in cycles: they stayed open until garbage was collected."""
    file = tmp_path / "catalog.db"
    properties = {"uri": f"sqlite:///{file}"}
    CatalogEntry("lake.t", properties).catalog().create_namespace("lake")
    gc.collect()
    before = open_here(file)
    entry = CatalogEntry("lake.t", properties)
    gc.disable()
    try:
        assert entry.beside() == []
        assert open_here(file) == before + 1
        del entry
        assert open_here(file) == before
    finally:
        gc.enable()
