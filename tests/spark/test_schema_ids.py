"""Values with the ids of a schema registry:
those of another schema than the pinned one are malformed, and never decoded.
"""

import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fastavro
import pytest
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.formats.avro import AvroDecoder
from barnabas.spark.pipeline.formats.schema_ids import SchemaIds
from barnabas.spark.pipeline.running import supervisor


def schema(*names):
    return {"type": "record", "name": "Price", "fields": [{"name": name, "type": "int"} for name in names]}


BY_GROSS, BY_NET = schema("gross", "net"), schema("net", "gross")
DECODER = AvroDecoder(json.dumps(BY_GROSS), confluent=True)


def framed(number, kind, **row):
    """A value as clients of a registry write it."""
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(kind), row)
    return b"\0" + number.to_bytes(4) + file.getvalue()


MINE = framed(7, BY_GROSS, gross=120, net=100)
OTHER = framed(8, BY_NET, gross=120, net=100)


@pytest.fixture
def ids(tmp_path):
    """Ids of a checkpoint that a pipeline has begun to use."""
    found = SchemaIds(tmp_path / "checkpoint")
    found.prepare()
    return found


def read(ids, *values, topics=None):
    """The rows, and why some of them are malformed."""
    column, malformed = ids.column_of(DECODER, values, topics or ["prices"] * len(values))
    return column.to_pylist(), malformed


def test_the_first_id_of_a_topic_is_pinned_and_another_one_is_malformed(ids):
    rows, malformed = read(ids, None, MINE, OTHER, MINE)

    assert rows == [None, {"gross": 120, "net": 100}, None, {"gross": 120, "net": 100}]
    assert malformed == {
        2: "ValueError: its schema has the id 8, and of prices this pipeline reads 7. "
        "Where both have the schema of the file, say schemaIds = [7, 8]"
    }


def test_a_pin_outlives_its_process_and_counts_for_the_whole_checkpoint(ids, tmp_path):
    read(ids, MINE)

    again = SchemaIds(tmp_path / "checkpoint")
    again.prepare()
    assert list(read(again, OTHER, MINE)[1]) == [0]
    assert again.of("prices") == (7,)
    other = SchemaIds(tmp_path / "another")
    other.prepare()
    assert read(other, OTHER)[1] == {}
    assert other.of("prices") == (8,)


def test_each_topic_has_an_id_of_its_own(ids):
    assert read(ids, MINE, OTHER, topics=["a", "b"])[1] == {}
    assert list(read(ids, OTHER, MINE, OTHER, MINE, topics=["a", "b", "b", "a"])[1]) == [0, 1]
    assert (ids.of("a"), ids.of("b")) == ((7,), (8,))


def test_what_cannot_be_decoded_pins_nothing(ids):
    broken, short = b"\0\0\0\0\x09\x02", b"\0\0\0"

    assert list(read(ids, broken, short, b"")[1]) == [0, 1, 2]
    assert ids.of("prices") == ()
    assert list(read(ids, broken, MINE)[1]) == [0]
    assert ids.of("prices") == (7,)


def test_ids_that_the_file_names_are_all_that_count(ids, tmp_path):
    read(ids, MINE)

    both = SchemaIds(tmp_path / "checkpoint", (7, 8))
    assert list(read(both, OTHER, MINE, framed(9, BY_GROSS, gross=1, net=1))[1]) == [2]
    only = SchemaIds(tmp_path / "checkpoint", (8,))
    assert list(read(only, OTHER, MINE)[1]) == [1]
    assert ids.of("prices") == (7,)


def test_of_tasks_that_begin_at_one_moment_one_pins(ids):
    """Each has values of its own id alone: all but one of the ids must come out as malformed."""
    together = threading.Barrier(8)

    def task(number):
        together.wait(30)
        return number, list(read(ids, framed(number, BY_GROSS, gross=1, net=2))[1])

    for topic in range(5):
        (ids.checkpoint / "schema-ids" / "prices").unlink(missing_ok=True)
        with ThreadPoolExecutor(8) as pool:
            found = dict(pool.map(task, range(8)))
        (pinned,) = ids.of("prices")
        assert found == {number: [] if number == pinned else [0] for number in range(8)}, topic
    assert sorted(path.name for path in (ids.checkpoint / "schema-ids").iterdir()) == ["prices"]


def test_a_pin_is_on_the_disk_before_it_counts(ids, monkeypatch):
    """Lost with the machine's power, the next id would be pinned silently."""
    synced = []
    monkeypatch.setattr(
        "barnabas.spark.pipeline.formats.schema_ids.synchronise",
        lambda path: synced.append((path, (path.parent / "prices").exists() or (path / "prices").exists())),
    )
    read(ids, MINE)

    (file, linked), (folder, there) = synced
    assert (file.parent, linked) == (ids.checkpoint / "schema-ids", False)
    assert (folder, there) == (ids.checkpoint / "schema-ids", True)


def test_a_checkpoint_that_an_executor_does_not_see_ends_the_task(tmp_path):
    with pytest.raises(PipelineError, match="must share the file system of checkpoint"):
        read(SchemaIds(tmp_path / "elsewhere"), MINE)


def test_a_pin_that_is_damaged_is_named(ids):
    (ids.checkpoint / "schema-ids" / "prices").write_text("seven")
    with pytest.raises(PipelineError, match=r"schema-ids/prices is no id of a schema"):
        read(ids, MINE)


@pytest.fixture
def pipeline(broker, topic_name, tmp_path):
    """A pipeline on a new topic of two partitions, with more lines in its format."""
    topic = topic_name("prices")
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(topic, partitions=2)])

    def make(*lines, trigger="availableNow"):
        path = tmp_path / "prices.toml"
        path.write_text(
            f'checkpoint = "c"\ntrigger = "{trigger}"\n[source]\nkafka.bootstrap.servers = "{broker}"\n'
            f'subscribe = "{topic}"\nstartingOffsets = "earliest"\n'
            '[format]\nkind = "avro"\nheader = "confluent"\n'
            f"schema = '{json.dumps(BY_GROSS)}'\n" + "\n".join(lines) + "\n"
            '[transform]\nsql = "SELECT key, value.* FROM source"\n'
            '[restart]\nattempts = 0\n[sink]\nkind = "parquet"\npath = "table"\n'
        )
        return load(path)

    make.topic = topic
    return make


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_pipeline_never_mixes_schemas(spark, broker, pipeline, tmp_path):
    """{gross 100, net 120} became {gross 120, net 100}."""

    def produce(partition, value):
        with Producer(broker) as producer:
            producer.send_and_wait(pipeline.topic, value, key=MINE, partition=partition)

    def run(*lines, **more):
        return supervisor.run(spark, pipeline(*lines, **more), Console(file=io.StringIO()))

    def rows():
        table = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "table")).collect()
        assert all(bytes(row.key) == MINE for row in table)  # keys are bytes, whatever the format
        return sorted((row.gross, row.net) for row in table if row.gross is not None)

    produce(0, MINE)
    assert run().rows_written == 1
    produce(1, OTHER)
    produce(1, MINE)
    for trigger in ("availableNow", "once"):
        with pytest.raises(PipelineError) as caught:
            run(trigger=trigger)
        place = TopicPartition(pipeline.topic, 1)
        where = f"[MALFORMED_RECORD] {place} offset 0 does not fit format.schema: ValueError: "
        ids = f"its schema has the id 8, and of {pipeline.topic} this pipeline reads 7."
        assert where + ids in str(caught.value)
        assert "\n" not in str(caught.value)
    assert rows() == [(120, 100)]

    assert run('malformed = "keep"').rows_written == 2
    assert rows() == [(120, 100)] * 2

    produce(0, framed(9, BY_GROSS, gross=5, net=4))
    assert run('malformed = "keep"', "schemaIds = [7, 9]").rows_written == 1
    assert rows() == [(5, 4), (120, 100), (120, 100)]
    assert (Path(tmp_path) / "c" / "schema-ids" / pipeline.topic).read_text() == "7\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("schemaIds = []", "format.schemaIds is []: it must be a list of whole numbers"),
        ("schemaIds = [-1]", "format.schemaIds is [-1]"),
        ("schemaIds = [true]", "format.schemaIds is [True]"),
        ('schemaIds = ["7"]', "format.schemaIds is ['7']"),
        ("schemaIds = 7", "format.schemaIds is 7"),
        ("schemaIds = [2147483648]", "format.schemaIds is [2147483648]"),
    ],
)
def test_ids_that_are_none_are_refused(pipeline, line, words):
    with pytest.raises(PipelineError) as caught:
        pipeline(line)
    assert words in str(caught.value)


def test_ids_without_a_header_are_refused(pipeline, tmp_path):
    pipeline("schemaIds = [7]")
    path = tmp_path / "prices.toml"
    path.write_text(path.read_text().replace('header = "confluent"\n', ""))
    with pytest.raises(PipelineError, match=r'format\.schemaIds has no use without header = "confluent"'):
        load(path)
