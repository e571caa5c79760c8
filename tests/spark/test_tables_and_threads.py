"""Tables of Spark's catalog on our sources, and writes from threads of Python."""

import threading

import pytest
from pyspark import InheritableThread
from pyspark.sql.types import StructType

from barnabas.admin import Admin, NewTopic
from barnabas.spark import ddl

pytestmark = pytest.mark.spark


@pytest.fixture
def topic(broker, topic_name):
    """The name of a new topic of one partition."""
    name = topic_name("catalog")
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(name, partitions=1)])
    return name


@pytest.fixture
def table(spark, topic_name):
    """The name of a table that is dropped in the end."""
    name = topic_name("stored").replace("-", "_")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def values(frame):
    return sorted(bytes(row.value) for row in frame.select("value").collect())


def write(spark, broker, topic, *rows):
    frame = spark.createDataFrame([(value,) for value in rows], "value BINARY")
    frame.write.format("barnabas").options(**{"kafka.bootstrap.servers": broker}, topic=topic).mode(
        "append"
    ).save()


def test_a_table_has_the_options_that_it_was_made_with(spark, broker, topic, table, tmp_path):
    write(spark, broker, topic, b"1", b"2")
    spark.sql(
        f"CREATE TABLE {table} USING barnabas OPTIONS ('kafka.bootstrap.servers' '{broker}', "
        f"'subscribe' '{topic}', 'topic' '{topic}', includeHeaders 'true')"
    )

    assert values(spark.sql(f"SELECT * FROM {table}")) == [b"1", b"2"]
    assert spark.table(table).columns[-1] == "headers"
    # What the statement says wins over what the table has.
    limited = f"SELECT * FROM {table} WITH ('endingOffsets' = '{{\"{topic}\": {{\"0\": 1}}}}')"
    assert spark.sql(limited).count() == 1

    spark.sql(f"INSERT INTO {table} (value) VALUES (X'33')")
    assert values(spark.table(table)) == [b"1", b"2", b"3"]

    places = {"path": str(tmp_path / "out"), "checkpointLocation": str(tmp_path / "checkpoint")}
    stream = spark.readStream.option("startingOffsets", "earliest").table(table).writeStream
    stream.format("parquet").options(**places).trigger(availableNow=True).start().awaitTermination(120)
    assert values(spark.read.parquet(places["path"])) == [b"1", b"2", b"3"]


def test_the_other_sources_have_tables_too(spark, broker, broker_folder, topic, table):
    write(spark, broker, topic, b"1")
    spark.sql(
        f"CREATE TABLE {table} USING `barnabas-log` OPTIONS (view 'batches', subscribe '{topic}') "
        f"LOCATION '{broker_folder}'"
    )

    assert [(row.topic, row["count"]) for row in spark.table(table).select("topic", "count").collect()] == [
        (topic, 1)
    ]


def test_what_is_read_as_before_has_no_options_in_its_columns(spark, broker, topic):
    options = {"kafka.bootstrap.servers": broker, "subscribe": topic}
    frame = spark.read.format("barnabas").options(**options).load()

    assert [field.metadata for field in frame.schema.fields] == [{}] * 7


@pytest.mark.parametrize("thread", [threading.Thread, InheritableThread])
def test_a_thread_of_python_writes_and_starts_streams(spark, broker, topic, tmp_path, thread):
    options, failed = {"kafka.bootstrap.servers": broker}, []

    def work():
        try:
            rows = spark.sql("SELECT X'31' AS value")
            rows.write.format("barnabas").options(**options, topic=topic).mode("append").save()
            read = {"subscribe": topic, "startingOffsets": "earliest"}
            stream = spark.readStream.format("barnabas").options(**options, **read).load().select("value")
            write = stream.writeStream.format("barnabas").options(**options, topic=topic)
            place = str(tmp_path / "checkpoint")
            write.trigger(once=True).option("checkpointLocation", place).start().awaitTermination(120)
        except Exception as error:
            failed.append(error)

    running = thread(target=work)
    running.start()
    running.join()

    assert failed == []
    read = spark.read.format("barnabas").options(**options, subscribe=topic)
    assert values(read.load()) == [b"1", b"1"]


def test_a_session_of_another_thread_stays_the_active_one_there(spark, broker, topic):
    """A write makes its own session active only while it runs."""
    other = spark.newSession()
    sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession
    sessions.setActiveSession(other._jsparkSession)
    try:
        write(spark, broker, topic, b"1")
        sessions.setActiveSession(other._jsparkSession)
        rows = spark.sql("SELECT X'31' AS value")
        rows.write.format("noop").mode("overwrite").save()
        assert sessions.getActiveSession().get().equals(other._jsparkSession)
    finally:
        sessions.setActiveSession(spark._jsparkSession)


def test_a_column_topic_of_any_type_is_passed_over_where_the_option_is_set(spark, broker, topic):
    rows = spark.createDataFrame([(None, b"1"), (7, b"2")], "topic INT, value BINARY")
    writer = rows.write.format("barnabas").option("kafka.bootstrap.servers", broker).mode("append")
    with pytest.raises(Exception, match="topic attribute unsupported type int"):
        writer.save()
    writer.option("topic", topic).save()

    read = spark.read.format("barnabas").option("kafka.bootstrap.servers", broker)
    assert values(read.option("subscribe", topic).load()) == [b"1", b"2"]


@pytest.mark.parametrize(
    "text",
    [
        (
            "a INT, b bigint NOT NULL, `odd ``name` STRING, c: tinyint, d smallint, e float, f double, g "
            "boolean, h binary"
        ),
        (
            "a struct<b: string, c: array<map<string, double>>>, d date, e timestamp, f timestamp_ntz, g "
            "void, h variant"
        ),
        "a decimal, b decimal(5), c NUMERIC(10, 2), d real, e long, f short, g byte, h integer",
    ],
)
def test_columns_are_read_as_spark_reads_them(spark, text):
    assert ddl.columns(text) == StructType.fromDDL(text)
