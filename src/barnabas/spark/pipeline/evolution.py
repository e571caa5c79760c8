"""How the columns of a table and those of a query fit: new ones are added, a change of type is refused."""

from pyspark.sql.types import DataType, NullType, StructField, StructType

from barnabas.spark.errors import PipelineError


def merged(table: StructType | None, rows: StructType) -> StructType:
    """The columns of the table once it takes these rows: those it has, in their order, then the new ones.

    All are nullable: older rows have null in a new column, and new rows in one that the query has no more. Raises
    PipelineError for a column that cannot be written or has another type than in the table.
    """
    for field in rows.fields:
        if isinstance(field.dataType, NullType):
            raise PipelineError(f"column {field.name} is always null and has no type: CAST it to one")
    old = {field.name.lower(): field for field in (table.fields if table is not None else ())}
    added = []
    for field in rows.fields:
        known = old.get(field.name.lower())
        if known is None:
            added.append(StructField(field.name, field.dataType, nullable=True))
        else:
            _check(known, field)
    return StructType([*old.values(), *added])


def _check(known: StructField, now: StructField) -> None:
    if known.name != now.name:
        raise PipelineError(
            f"column {now.name} is {known.name} in the table: only upper and lower case differ"
        )
    if not _same(known.dataType, now.dataType):
        raise PipelineError(
            f"column {now.name} is {now.dataType.simpleString()} now and {known.dataType.simpleString()} in the table: "
            "CAST it, or give the column another name"
        )


def _same(one: DataType, other: DataType) -> bool:
    """Whether values of both can be read as one; that a value may be null is no difference."""
    return bool(one.simpleString() == other.simpleString())
