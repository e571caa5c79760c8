"""What the data source and the pipelines raise: wrong options and files, offsets that do not fit, data that
was deleted; and why a query has ended, in one line (`Failure`).

Kafka's own connector has error conditions with names; a message here begins with that name in brackets
where there is one, so that what people search for is the same.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Self

from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition

_BEFORE_OURS: Final = re.compile(r"^.*?\bbarnabas(?:\.\w+)*\.(\w+): ")
"""What Spark and Python put before the words of an error of ours: the query's ids, the call, the class."""
_FINAL: Final = frozenset({
    "PipelineError", "OptionError", "RegistryError", "SaslAuthenticationError",
    "AnalysisException", "ParseException",
})  # fmt: skip
"""Errors that come again, by the names of their classes, as an error of another process is a text. Classes
below them, such as `TransientError` and RegistryAwayError, are others.
"""
_FINAL_CONDITIONS: Final = (
    "[MALFORMED_RECORD]",
    "[KAFKA_DATA_LOSS.START_OFFSET_RESET]",
    "[USER_RAISED_EXCEPTION]",  # raise_error of SQL: of a record that is no change, or the user's own
)
_MALFORMED: Final = "[MALFORMED_RECORD_IN_PARSING"
"""Of Spark's own formats. It says to set an option of its own, and not which record it was."""


@contextmanager
def in_one_line() -> Iterator[None]:
    """Has PySpark show what is raised inside as one line, without the traceback of code that is not the
    user's.

    PySpark's processes write an error for the JVM as the last thing that they do, and look at this variable
    then (``handle_worker_exception``); a process that had an error is not used again, so no other error loses
    its traceback.
    """
    try:
        yield
    except (BarnabasError, OSError):
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


class PipelineError(BarnabasError, ValueError):
    """What stops a pipeline: its file is wrong, its table does not fit, or its stream has failed too
    often.
    """


class TransientError(PipelineError):
    """What may be over in a moment: a store or a catalog that does not answer, a commit of others at the same
    time, a schema that is not registered yet.
    """


class FormatError(BarnabasError, ValueError):
    """A schema that no columns can be made by; the words are printed behind the name of the key at fault."""

    def __init__(self, words: str, key: str = "schema") -> None:
        super().__init__(words)
        self.key = key


class OptionError(BarnabasError, ValueError):
    """An option of the data source is missing, unknown, or has a value that cannot be used."""


class OffsetError(BarnabasError):
    """Offsets that were asked for do not fit the partitions that there are."""


class DataLossError(BarnabasError):
    """Records that the query should have read are no longer in Kafka (``failOnDataLoss``)."""

    def __init__(self, condition: str, reason: str) -> None:
        super().__init__(
            f"[KAFKA_DATA_LOSS.{condition}] Some data may have been lost because they are not available in "
            "Kafka any more; either the data was aged out by Kafka or the topic may have been deleted before "
            "all the data in the topic was processed. If you don't want your streaming query to fail on such "
            f"cases, set the source option failOnDataLoss to false. Reason: {reason}"
        )
        self.condition = condition
        self.reason = reason


class OutOfRangeError(BarnabasError):
    """Positions that the log does not have: removed by retention, or behind its end."""

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        super().__init__(f"out of range: {', '.join(map(str, partitions))}")
        self.partitions = partitions


class CorruptBatchError(BarnabasError):
    """A segment's file holds a batch that cannot be read."""

    def __init__(self, path: str, offset: int, position: int, reason: str) -> None:
        super().__init__(
            f"Corrupt record batch at offset {offset}: {reason} (file {path}, position {position}). "
            "The option corruptBatches=skip leaves such batches out."
        )
        self.path = path
        self.offset = offset
        self.position = position


class CorruptRecordsError(BarnabasError):
    """A batch of a topic, as a broker sent it, that cannot be read."""

    def __init__(self, tp: TopicPartition, offset: int, reason: str, *, skippable: bool) -> None:
        hint = " The option corruptBatches=skip leaves such batches out." if skippable else ""
        super().__init__(
            f"Record batch for partition {tp} at offset {offset} is invalid, cause: {reason}.{hint}"
        )
        self.tp = tp
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a query has ended, in one line."""

    reason: str
    is_final: bool
    """Whether it would end so again, however often it is started: by its file, its table or its records."""

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Of an error of this process, or one that has the words of another one's."""
        line = _telling_line(error)
        ours = _BEFORE_OURS.match(line)
        name = ours[1] if ours is not None else type(error).__name__
        reason = line[ours.end() :] if ours is not None else line
        if reason.startswith(_MALFORMED):
            reason = (
                "[MALFORMED_RECORD] a value of the batch does not fit format.schema: `barnabas pipeline try` "
                "shows those of the newest records, and [deadLetter] puts them aside"
            )
        return cls(reason, name in _FINAL or reason.startswith(_FINAL_CONDITIONS))


def first_line(failure: BaseException) -> str:
    """The line of a Spark error that says most: the last one of a Python traceback in it, else the first.

    The words of our own errors say all; of others the class is kept.
    """
    return Failure.of(failure).reason


def _telling_line(failure: BaseException) -> str:
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    marks = [line for line in lines if "Error: " in line and not line.startswith("File ")]
    return marks[-1] if marks else (lines or [type(failure).__name__])[0]
