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
changing the format string; no jar, no Scala version. ``session(master="spark://...")`` is one on a cluster,
``session(remote="sc://...")`` one of Spark Connect. In a session made elsewhere call `register(spark)` once.
"""

from typing import TYPE_CHECKING, Any

from barnabas.core.extras import extra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from barnabas.spark.follower import QueryFollower

__all__ = ["follow", "register", "session"]


def session(name: str = "barnabas", **options: Any) -> "SparkSession":
    """A Spark session that knows the data source; see `barnabas.spark.sessions.make`."""
    with extra("spark", "a Spark session", "pyspark", "pyarrow"):
        from barnabas.spark import sessions

    return sessions.make(name, **options)


def register(spark: "SparkSession") -> None:
    """Makes ``format("barnabas")`` known to a session that was made elsewhere."""
    with extra("spark", "the data source", "pyspark", "pyarrow"):
        from barnabas.spark import sessions

        sessions.register(spark)


def follow(
    query: "StreamingQuery",
    bootstrap_servers: str,
    *,
    group: str | None = None,
    spark: "SparkSession | None" = None,
    **client: str,
) -> "QueryFollower":
    """Follows a streaming query that reads topics: commits how far it is to a group, and tells its lag and
    metrics.

    `client` are settings of the client with underscores (``client_id="job"``). `spark` is the query's
    session, the active one unless given. Without a `group` nothing is committed.
    """
    with extra("spark", "a follower of queries", "pyspark"):
        from pyspark.sql import SparkSession

        from barnabas.spark.follower import QueryFollower

    given = {name.replace("_", "."): value for name, value in client.items()}
    return QueryFollower(
        query, {"bootstrap.servers": bootstrap_servers, **given}, group, spark or SparkSession.active()
    )
