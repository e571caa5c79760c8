"""`LogTaker`: takes what Barnabas logs while something runs, in place of every other handler."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class LogTaker(logging.Handler):
    """Takes the place of all handlers of Barnabas's loggers; a subclass says what becomes of a line."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Inside, nothing of Barnabas is logged anywhere else."""
        logger = logging.getLogger("barnabas")
        before = logger.handlers, logger.propagate, logger.level
        logger.handlers, logger.propagate = [self], False
        logger.setLevel(logging.WARNING)
        try:
            yield
        finally:
            logger.handlers, logger.propagate = before[:2]
            logger.setLevel(before[2])
