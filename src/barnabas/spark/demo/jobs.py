"""The Spark jobs of the demo: two streams on the topic as it fills, and a batch query when it is full."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as in all of Spark's own examples
from pyspark.sql.types import BooleanType, IntegerType, StringType, StructField, StructType, TimestampType

from barnabas.spark.demo.data import (
    ALERT_MINUTES,
    CALM,
    FOG,
    FOG_MILES,
    LATE_MINUTES,
    RAIN,
    UNKNOWN,
    WIND,
    WIND_MPH,
    FlightData,
)
from barnabas.spark.demo.replay import WATERMARK_MS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming import DataStreamReader, DataStreamWriter, StreamingQuery

FLIGHTS: Final = "flights"
ALERTS: Final = "alerts"
PARTITIONS: Final = 6
BATCH_RECORDS_MAX: Final = 40_000
"""So that a year is some ten batches, however slow the machine.
They end within six days of event time in all partitions.
"""

_FLIGHT: Final = StructType(
    [
        StructField("event_time", TimestampType()),
        StructField("carrier", StringType()),
        StructField("flight", IntegerType()),
        StructField("tailnum", StringType()),
        StructField("origin", StringType()),
        StructField("dest", StringType()),
        StructField("dep_delay", IntegerType()),
        StructField("arr_delay", IntegerType()),
        StructField("distance", IntegerType()),
        StructField("closing", BooleanType()),
    ]
)


class Jobs:
    """What runs on Spark; `work` takes checkpoints, `table` is the Parquet table."""

    def __init__(
        self, spark: "SparkSession", bootstrap_server: str, data: FlightData, *, work: Path, table: Path
    ) -> None:
        self._spark = spark
        self._bootstrap_server = bootstrap_server
        self._work = work
        self._data = data
        self.table = table

    @functools.cached_property
    def _weather(self) -> "DataFrame":
        path = self._work / "weather.parquet"
        weather = self._data.weather.assign(hour=self._data.weather["hour"].dt.as_unit("us"))
        weather.to_parquet(path, index=False)
        return self._spark.read.parquet(str(path)).cache()

    @functools.cached_property
    def _airlines(self) -> "DataFrame":
        return self._spark.createDataFrame(self._data.airlines.rename(columns={"name": "airline"}))

    def start_delays(self) -> "StreamingQuery":
        """Delays by airport and hour, joined with the weather of that hour, into a Parquet table."""
        parsed = self._with_hour(self._stream().withWatermark("event_time", f"{WATERMARK_MS} milliseconds"))
        # One condition that mentions the event time, on purpose: Spark moves any other below the watermark,
        # which would then never hear of the closing records.
        flights = parsed.where(F.when(F.col("closing").isNull(), F.col("event_time")).isNotNull())
        joined = flights.join(self._weather, ["origin", "hour"], "left")
        delays = (
            joined.groupBy(F.window("event_time", "1 hour"), "origin")
            .agg(
                F.count(F.lit(1)).alias("flights"),
                F.count("dep_delay").alias("departed"),
                F.coalesce(F.sum("dep_delay"), F.lit(0)).alias("delay_minutes"),
                F.count_if(F.col("dep_delay") > LATE_MINUTES).alias("late"),
                F.max("wind_speed").alias("wind_speed"),
                F.max("precip").alias("precip"),
                F.max("visib").alias("visib"),
            )
            .select("origin", F.col("window.start").alias("hour"), *_MEASURES)
        )
        return self._start(delays, "delays").format("parquet").option("path", str(self.table)).start()

    def start_alerts(self) -> "StreamingQuery":
        """Flights that left very late, with airline and weather, into a topic."""
        late = self._with_hour(self._stream()).where(F.col("dep_delay") >= ALERT_MINUTES)
        joined = late.join(F.broadcast(self._airlines), "carrier", "left")
        joined = joined.join(self._weather, ["origin", "hour"], "left")
        content = F.to_json(
            F.struct("event_time", "airline", "flight", "origin", "dest", "dep_delay", "precip", "visib")
        )
        alerts = joined.select(F.col("origin").alias("key"), content.alias("value"))
        writer = self._start(alerts, "alerts").format("barnabas").option("topic", ALERTS)
        return writer.option("kafka.bootstrap.servers", self._bootstrap_server).start()

    def _start(self, frame: "DataFrame", name: str) -> "DataStreamWriter":
        writer = frame.writeStream.queryName(name).outputMode("append")
        return writer.option("checkpointLocation", str(self.checkpoint(name)))

    def checkpoint(self, name: str) -> Path:
        """Where a stream writes which batches it has planned and which it has committed."""
        return self._work / "checkpoints" / name

    def routes(self) -> "DataFrame":
        """Flights and minutes lost by route, airline and weather: a batch read of the same topic."""
        flights = self._with_hour(_parsed(self._topic(self._spark.read, FLIGHTS)).where("closing is null"))
        joined = flights.join(self._weather, ["origin", "hour"], "left")
        joined = joined.join(F.broadcast(self._airlines), "carrier", "left")
        return (
            joined.groupBy("origin", "dest", "airline", _sky().alias("sky"))
            .agg(
                F.count(F.lit(1)).alias("flights"),
                F.count("arr_delay").alias("arrived"),
                F.coalesce(F.sum(F.greatest("arr_delay", F.lit(0))), F.lit(0)).alias("lost_minutes"),
            )
            .orderBy("origin", "dest", "airline", "sky")
        )

    def alerts(self) -> "DataFrame":
        """The alerts topic, read back: rows, and how many different flights they are about."""
        value = F.col("value").cast("string")
        return self._topic(self._spark.read, ALERTS).agg(
            F.count(F.lit(1)).alias("rows"), F.countDistinct(value).alias("different")
        )

    def delays(self) -> "DataFrame":
        """The Parquet table, read back."""
        return self._spark.read.parquet(str(self.table))

    def _stream(self) -> "DataFrame":
        reader = self._spark.readStream.option("maxOffsetsPerTrigger", BATCH_RECORDS_MAX)
        return _parsed(self._topic(reader, FLIGHTS))

    def _topic(self, reader: "DataFrameReader | DataStreamReader", topic: str) -> "DataFrame":
        return (
            reader.format("barnabas")
            .option("kafka.bootstrap.servers", self._bootstrap_server)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
        )

    @staticmethod
    def _with_hour(flights: "DataFrame") -> "DataFrame":
        return flights.withColumn("hour", F.date_trunc("hour", "event_time"))


_MEASURES: Final = ("flights", "departed", "delay_minutes", "late", "wind_speed", "precip", "visib")


def _parsed(topic: "DataFrame") -> "DataFrame":
    return topic.select(F.from_json(F.col("value").cast("string"), _FLIGHT).alias("flight")).select(
        "flight.*"
    )


def _sky() -> "Column":
    """`barnabas.spark.demo.data.sky` for Spark."""
    precip, visib, wind = F.col("precip"), F.col("visib"), F.col("wind_speed")
    return (
        F.when(precip.isNull() & visib.isNull() & wind.isNull(), UNKNOWN)
        .when(precip > 0, RAIN)
        .when(visib < FOG_MILES, FOG)
        .when(wind >= WIND_MPH, WIND)
        .otherwise(CALM)
    )
