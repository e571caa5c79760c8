"""What operations refuse, in one line each."""

import contextlib
from collections.abc import Iterator

from barnabas.core.errors import BarnabasError


class OperationError(BarnabasError):
    """What was asked for cannot be done; the text says why, or what to do."""


class FailedStepError(OperationError):
    """A step that the cluster refused, with its reason."""


@contextlib.contextmanager
def failing(what: str) -> Iterator[None]:
    """Names the step in what the cluster refuses inside. Raises FailedStepError."""
    try:
        yield
    except BarnabasError as error:
        raise FailedStepError(f"{what}: {error}") from error
