"""The one way from a column of binary values to a column of structs, batch by batch of Arrow."""

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from barnabas.spark.errors import PipelineError, TransientError, in_one_line
from barnabas.spark.pipeline.formats import CORRUPT
from barnabas.spark.pipeline.formats.decoder import Decoder, column_of
from barnabas.spark.pipeline.formats.registry import UNREGISTERED, RegistrySchemas
from barnabas.spark.pipeline.formats.schema_ids import SchemaIds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def decoded(
    frame: "DataFrame",
    decoder: Decoder,
    ids: SchemaIds | RegistrySchemas | None = None,
    *,
    keep_malformed: bool,
    keep_reasons: bool = False,
    column: str = "value",
) -> "DataFrame":
    """The data source's columns, ``value`` or the key as the decoder's struct; with `ids`, only of these
    schemas.
    With `keep_reasons` it has the reason of a malformed value instead of its bytes, as a text.
    """
    from pyspark.sql import functions as sql

    kind = decoder.type
    if keep_malformed:
        kind = spark.StructType([*kind.fields, spark.StructField(CORRUPT, spark.BinaryType())])
    elif keep_reasons:
        kind = spark.StructType([*kind.fields, spark.StructField(CORRUPT, spark.StringType())])

    # The annotations are how Spark knows that the function takes and gives Arrow's arrays.
    def decode(value: pa.Array, topic: pa.Array, partition: pa.Array, offset: pa.Array) -> pa.Array:
        with in_one_line():
            values = value.to_pylist()
            if ids is None:
                found, malformed = column_of(decoder, values)
            else:
                # With a registry the decoder is of a format that can: the file's check sees to it.
                found, malformed = ids.column_of(decoder, values, topic.to_pylist())  # type: ignore[arg-type]
            if keep_malformed:
                return with_malformed(found, value, malformed)
            if keep_reasons:
                reasons = pa.array([malformed.get(row) for row in range(len(values))], pa.string())
                return _with_field(found, reasons, value)
            for row, why in malformed.items():
                place = f"{topic[row]}-{partition[row]} offset {offset[row]}"
                if UNREGISTERED in why:
                    raise TransientError(f"{place} cannot be read yet: {why}")
                raise PipelineError(f"[MALFORMED_RECORD] {place} does not fit format.schema: {why}")
            return found

    # Told that it is not deterministic, Spark computes it once a record: not again for each filter and each
    # field.
    function = sql.arrow_udf(decode, kind).asNondeterministic()
    return frame.withColumn(column, function(column, "topic", "partition", "offset"))


def with_malformed(column: pa.StructArray, values: pa.Array, malformed: dict[int, str]) -> pa.StructArray:
    """The column with a field more, which has the bytes of the malformed values;
    their other fields are null.
    """
    rows = pa.array([row in malformed for row in range(len(values))], pa.bool_())
    corrupt = pc.if_else(rows, values.cast(pa.binary()), pa.scalar(None, pa.binary()))
    return _with_field(column, corrupt, values)


def _with_field(column: pa.StructArray, corrupt: pa.Array, values: pa.Array) -> pa.StructArray:
    fields = [*column.type, pa.field(CORRUPT, corrupt.type)]
    return pa.StructArray.from_arrays([*column.flatten(), corrupt], fields=fields, mask=values.is_null())
