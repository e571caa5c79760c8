"""Where the files of a table are: a folder of this disk, or an address of an object store.

In a store (``s3://bucket/flights``) each file is put by one call, which has it there whole or not at all; the
batch was written to the disk of the checkpoint first. Who asks is known by the usual variables of the
environment (``AWS_ACCESS_KEY_ID``, ``GOOGLE_APPLICATION_CREDENTIALS``, ...), which pyarrow reads, and for
their logs delta-rs and PyIceberg.
"""

import os
import re
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from pyarrow import fs

from barnabas.core.synchronise import synchronise
from barnabas.spark.errors import TransientError, first_line
from barnabas.spark.pipeline.tables.synchronise import synchronise_up

COPY: Final = "copy-"
"""How the names of copies on this disk begin."""
_ADDRESS: Final = re.compile(
    r"(?:(?:s3|gs)://[^/\s@?#%{}]+|abfss://[^/\s@?#:%{}]+@[^/\s@?#:%{}]+)(?:/[^/\s?#%]+)+/?"
)
"""No ``%``: pyarrow and delta-rs take ``%2e%2e`` for ``..``, and PyIceberg takes it as it stands."""
_PUTS: Final = 8
"""Files that travel at once."""
_BLOCK_BYTES: Final = 8 << 20


def is_address(text: str) -> bool:
    """Whether it is the place of a folder in a store that tables may be in."""
    return _ADDRESS.fullmatch(text) is not None and "/../" not in f"{text}/" and "/./" not in f"{text}/"


def store_of(address: str) -> tuple[fs.FileSystem, str]:
    """The store of an address, and the address' path in it."""
    at = urlsplit(address)
    key = os.environ.get("AZURE_STORAGE_ACCOUNT_KEY") or os.environ.get("AZURE_STORAGE_KEY")
    if at.scheme == "abfss" and key:  # pyarrow does not look for it itself, as delta-rs does
        container, _, host = at.netloc.partition("@")
        store = fs.AzureFileSystem(host.partition(".")[0], account_key=key)
        return store, f"{container}{at.path}"
    found, path = fs.FileSystem.from_uri(address)
    return found, path


class TablePlace(ABC):
    """The files of a table by their names in it, such as ``day=1/batch-0000000017-00000.parquet``."""

    @abstractmethod
    def put(self, files: Mapping[Path, str]) -> None:
        """Has files that were written here at their names, in place of others. Of a disk they are moved, and
        the names synchronised.
        """

    @abstractmethod
    def has(self, name: str) -> bool:
        """Whether the file is there."""

    @abstractmethod
    def remove(self, names: Iterable[str]) -> None:
        """Those that are there go."""

    @abstractmethod
    def sizes(self, pattern: str) -> dict[PurePosixPath, int]:
        """The bytes of the files whose names match ``*/batch-*.parquet`` or the like, part by part."""

    @abstractmethod
    def readable(self, name: str, beside: Path) -> AbstractContextManager[Path]:
        """The file on this disk; a copy is in the folder `beside`."""


class Disk(TablePlace):
    """A folder. Raises OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, files: Mapping[Path, str]) -> None:
        """Renames each."""
        targets = {source: self._folder / name for source, name in files.items()}
        for source, target in targets.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)
        for folder in sorted({target.parent for target in targets.values()}):
            synchronise_up(folder, self._folder)

    def has(self, name: str) -> bool:
        """Asks the system."""
        return (self._folder / name).exists()

    def remove(self, names: Iterable[str]) -> None:
        """Takes the names away."""
        paths = [self._folder / name for name in names]
        for path in paths:
            path.unlink(missing_ok=True)
        for folder in sorted({path.parent for path in paths}):
            synchronise(folder)

    def sizes(self, pattern: str) -> dict[PurePosixPath, int]:
        """Lists the folders that the pattern names."""
        found = self._folder.glob(pattern)
        return {PurePosixPath(path.relative_to(self._folder)): path.stat().st_size for path in found}

    def readable(self, name: str, beside: Path) -> AbstractContextManager[Path]:
        """The file itself."""
        del beside
        return nullcontext(self._folder / name)


class Objects(TablePlace):
    """The objects below an address.
    Each method raises TransientError where the store refuses or does not answer.
    """

    def __init__(self, address: str, connect: Callable[[str], tuple[fs.FileSystem, str]] = store_of) -> None:
        """`connect` gives the store and the address' own path in it; it is called when it is needed."""
        self.address = address
        self._connect = connect
        self._connected: tuple[fs.FileSystem, str] | None = None

    def put(self, files: Mapping[Path, str]) -> None:
        """Some at once."""
        with self._in_one_line(), ThreadPoolExecutor(_PUTS) as pool:
            list(pool.map(self._put, files.keys(), files.values()))

    def _put(self, source: Path, name: str) -> None:
        store, path = self._path(name)
        with source.open("rb") as file, store.open_output_stream(path) as target:
            shutil.copyfileobj(file, target, _BLOCK_BYTES)

    def has(self, name: str) -> bool:
        """Asks the store."""
        with self._in_one_line():
            store, path = self._path(name)
            return bool(store.get_file_info(path).type != fs.FileType.NotFound)

    def remove(self, names: Iterable[str]) -> None:
        """One after the other."""
        for name in names:
            if self.has(name):
                with self._in_one_line():
                    store, path = self._path(name)
                    store.delete_file(path)

    def sizes(self, pattern: str) -> dict[PurePosixPath, int]:
        """Lists all that is below the address."""
        parts = PurePosixPath(pattern).parts
        return {
            name: size
            for name, size in self._all().items()
            if len(name.parts) == len(parts) and all(map(fnmatchcase, name.parts, parts))
        }

    def is_empty(self, but: str = "") -> bool:
        """Whether nothing is below the address, or nothing but one name."""
        return not self._all().keys() - {PurePosixPath(but)}

    def _all(self) -> dict[PurePosixPath, int]:
        with self._in_one_line():
            store, path = self._path("")
            base = path.rstrip("/")
            found = store.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
            files = [one for one in found if one.type == fs.FileType.File]
            return {PurePosixPath(one.path.removeprefix(base).lstrip("/")): one.size for one in files}

    @contextmanager
    def readable(self, name: str, beside: Path) -> Iterator[Path]:
        """A copy, which goes again."""
        copy = beside / f"{COPY}{uuid.uuid4().hex}.parquet"
        try:
            with self._in_one_line():
                store, path = self._path(name)
                with store.open_input_stream(path) as source, copy.open("wb") as file:
                    shutil.copyfileobj(source, file, _BLOCK_BYTES)
            yield copy
        finally:
            copy.unlink(missing_ok=True)

    def _path(self, name: str) -> tuple[fs.FileSystem, str]:
        if self._connected is None:
            self._connected = self._connect(self.address)
        store, root = self._connected
        return store, f"{root.rstrip('/')}/{name}" if root else name

    @contextmanager
    def _in_one_line(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # each store has errors of its own
            raise TransientError(f"{self.address}: {first_line(error)}") from error

    def __repr__(self) -> str:
        return f"<Objects {self.address}>"
