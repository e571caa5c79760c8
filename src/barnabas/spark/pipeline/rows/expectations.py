"""What the rows of a pipeline must be (``[[expect]]``), and what becomes of those that are not.

A rule is an expression of Spark's SQL over the columns of a row, as in a WHERE clause. As with CHECK of SQL a
row violates it when it is false: one that is null, because a column is, is none.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql.types import BooleanType

from barnabas.spark.errors import PipelineError, first_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

VIOLATIONS: Final = ("drop", "deadLetter", "fail")
RULES_MAX: Final = 100
_FORBIDDEN: Final = re.compile(r"\b(try_reflect|reflect|java_method|select)\b", re.IGNORECASE)
"""They call Java's methods, or read other tables."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One rule."""

    rule: str
    violation: str = "fail"


def forbidden(rule: str) -> str | None:
    """A word that no rule may have, None where it has none."""
    found = _FORBIDDEN.search(rule)
    return found[0] if found else None


def check(rows: "DataFrame", expectations: Sequence[Expectation]) -> None:
    """Raises PipelineError for a rule that is none of these rows."""
    for number, one in enumerate(expectations):
        try:
            kind = rows.selectExpr(f"({one.rule}) AS rule").schema["rule"].dataType
        except PySparkException as error:
            raise PipelineError(f"expect[{number}].rule: {first_line(error)}") from error
        if not isinstance(kind, BooleanType):
            raise PipelineError(f"expect[{number}].rule is {kind.simpleString()}: it must be true or false")


def violated(expectations: Sequence[Expectation], violation: str) -> "Column":
    """The first rule of a kind that a row violates, null where it keeps all."""
    from pyspark.sql import functions as sql

    found = sql.lit(None).cast("string")
    for one in reversed(expectations):
        if one.violation == violation:
            found = sql.when(~sql.expr(f"({one.rule})"), sql.lit(one.rule)).otherwise(found)
    return found


def counts(expectations: Sequence[Expectation]) -> "list[Column]":
    """Aggregates: how many rows violate each rule, and how many are dropped, each of them once."""
    from pyspark.sql import functions as sql

    each = [
        sql.count(sql.when(~sql.expr(f"({one.rule})"), sql.lit(1))).alias(f"rule_{number}")
        for number, one in enumerate(expectations)
    ]
    return [*each, sql.count(violated(expectations, "drop")).alias("dropped")]


def require(expectations: Sequence[Expectation], found: Mapping[str, int]) -> None:
    """Raises PipelineError for a row that is to end the batch, by what `counts` gave of it."""
    for number, one in enumerate(expectations):
        count = found[f"rule_{number}"]
        if count and one.violation == "fail":
            raise PipelineError(f"{count:,} rows of the batch violate the rule {one.rule}")


def kept(rows: "DataFrame", expectations: Sequence[Expectation]) -> "tuple[DataFrame, dict[str, int]]":
    """The rows of a batch that no rule drops, and what `counts` says of all; asks for that now.
    Raises PipelineError for a row that is to end the batch.
    """
    if not expectations:
        return rows, {}
    found = rows.agg(*counts(expectations)).collect()[0].asDict()
    require(expectations, found)
    return rows.filter(violated(expectations, "drop").isNull()), found


@dataclass(slots=True)
class Tally:
    """What the rules have said of the rows of a run."""

    rows_dropped: int = 0
    """Those that violate a rule whose violation is to be dropped."""
    violations: Counter[str] = field(default_factory=Counter)
    """How many rows have violated each rule."""
    _last_batch: int = -1

    def add(self, expectations: Sequence[Expectation], found: Mapping[str, int], batch: int) -> None:
        """Takes what `counts` gave of a batch, of no rule nothing. A batch that comes again is not counted
        twice.
        """
        if batch <= self._last_batch:
            return
        self._last_batch = batch
        for number, one in enumerate(expectations):
            if count := found[f"rule_{number}"]:
                self.violations[one.rule] += count
        self.rows_dropped += found.get("dropped", 0)
