"""CRC-32C in C, loaded from the `crc32c` package without running the package's own start-up.

``import crc32c`` looks up its own version through ``importlib.metadata``, which parses mail headers to do so:
a quarter of the time in which a broker starts. The extension module beside it is all that is needed.
"""

import importlib.machinery
import importlib.util
from collections.abc import Callable
from typing import Final

from barnabas.core.chunks import Buffer


def _load() -> Callable[[Buffer], int]:
    package = importlib.util.find_spec("crc32c")
    assert package is not None, "the crc32c distribution is not installed"
    found = importlib.machinery.PathFinder.find_spec("_crc32c", package.submodule_search_locations)
    assert found is not None, "the crc32c distribution lacks its extension module"
    assert found.loader is not None
    extension = importlib.util.module_from_spec(found)
    found.loader.exec_module(extension)
    checksum: Callable[[Buffer], int] = extension.crc32c
    return checksum


crc32c: Final[Callable[[Buffer], int]] = _load()
"""The checksum of a buffer of any kind, without a copy; large ones with the interpreter lock released."""
