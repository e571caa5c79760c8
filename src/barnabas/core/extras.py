"""Packages that are installed by an extra alone: what is missing is said with how to get it."""

import contextlib
import importlib
from collections.abc import Iterator
from types import ModuleType

from barnabas.core.errors import BarnabasError


class MissingExtraError(BarnabasError, ImportError):
    """A package is not installed; the text says which extra of barnabas brings it."""


def needed(user: str, package: str) -> ModuleType:
    """A package that `user`, a noun, works with, and that no extra brings. Raises MissingExtraError."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"{user} needs {package}, which is not here: pip install {package}"
        ) from error


@contextlib.contextmanager
def extra(name: str, user: str, *packages: str) -> Iterator[None]:
    """Imports inside for `user`, a noun, belong to this extra; so do these packages, without which another
    one would be named later. Raises MissingExtraError.
    """
    try:
        for package in packages:
            importlib.import_module(package)
        yield
    except ImportError as error:
        raise MissingExtraError(
            f"{user} needs packages that are not here ({error.name}): pip install 'barnabas[{name}]'"
        ) from error
