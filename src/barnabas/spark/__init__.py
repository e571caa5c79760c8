"""Topics as DataFrames: the data source ``barnabas``, and a Spark session that works from pip alone.

::

    from barnabas.spark import session

    spark = session("my job")
    flights = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", "127.0.0.1:9092")
        .option("subscribe", "flights")
        .option("startingOffsets", "earliest")
        .load()
    )

Options, defaults, columns and offsets are those of Spark's own Kafka source, so moving a job here means
changing the format string; no jar, no Scala version. In a session made elsewhere call
`register(spark)` once.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "session"]


def session(name: str = "barnabas", **options: Any) -> "SparkSession":
    """A Spark session that knows the data source; see `barnabas.spark.sessions.make`."""
    from barnabas.spark import sessions

    return sessions.make(name, **options)


def register(spark: "SparkSession") -> None:
    """Makes ``format("barnabas")`` known to a session that was made elsewhere."""
    from barnabas.spark import sessions

    sessions.register(spark)
