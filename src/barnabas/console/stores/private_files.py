"""Files of the console's own, which only their owner reads."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import TypeAdapter, ValidationError

from barnabas.core.eventlog import EventLog
from barnabas.core.synchronise import synchronise
from barnabas.operations.clock import now_ms
from barnabas.operations.errors import OperationError

T = TypeVar("T")
_log = EventLog("console")


def private(path: str, flags: int) -> int:
    """An opener of files that only the owner reads."""
    return os.open(path, flags, 0o600)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file whose content takes the place of the path's, whole or not at all: it is on the disk before it
    has the name. Raises OSError.
    """
    temporary = path.with_suffix(".tmp")
    try:
        with open(temporary, "wb", opener=private) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    synchronise(path.parent)


def replace_json(path: Path, value: Any) -> None:
    """Replaces a file of JSON as a whole; its folder is made where there is none. Raises OperationError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with replacing(path) as file:
            file.write(json.dumps(value, indent=1).encode())
    except OSError as error:
        raise OperationError(f"{path} cannot be written: {error.strerror or error}") from error


def checked_part(shape: TypeAdapter[T], content: Any, what: str) -> T:
    """The part of a file with this name, as what it is to be. Raises OperationError that names the first
    field that is not, in one line.
    """
    try:
        return shape.validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise OperationError(f"{'.'.join(map(str, (what, *first['loc'])))}: {first['msg']}") from None


class KeptSettings:
    """A file of JSON that is read once and then replaced as a whole with each change.

    What cannot be read is never written over. Damaged content gets another name beside it; where it keeps its
    own name (it cannot be opened, or not be renamed) changes are refused until the next start.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem: str | None = None
        """Why it was not read; stays until the next start."""
        self._is_in_the_way = False

    def read(self, parse: Callable[[Any], T]) -> T | None:
        """What `parse` makes of it; None where there is none, or it cannot be read."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._is_in_the_way = True
            self._report(f"{self.path} cannot be read: {error.strerror}")
            return None
        try:
            return parse(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OperationError) as error:
            self._set_aside(str(error) or type(error).__name__)
            return None

    def _set_aside(self, why: str) -> None:
        aside = self.path.with_name(f"{self.path.name}.unreadable-{now_ms()}")
        try:
            self.path.rename(aside)
        except OSError as error:
            self._is_in_the_way = True
            self._report(f"{self.path} cannot be read: {why}; nor renamed: {error.strerror}")
        else:
            self._report(f"{self.path} cannot be read: {why}; it is kept as {aside.name}")

    def _report(self, problem: str) -> None:
        self.problem = problem
        _log.warning("console.settings", file=str(self.path), error=problem)

    def write(self, value: Any) -> None:
        """Replaces the file. Raises OperationError where it cannot, or must not."""
        if self._is_in_the_way:
            raise OperationError(f"nothing is changed: {self.problem}")
        replace_json(self.path, value)
