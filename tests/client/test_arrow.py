"""Tables into topics and out of them: which column is what, what is refused, and what comes back."""

import asyncio
import contextlib
import re
import sys
import types
from contextlib import closing

import hypothesis
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from barnabas.client import (
    AsyncConsumer,
    AsyncProducer,
    BarnabasError,
    Consumer,
    DeliveryError,
    InvalidRecordError,
    Producer,
)
from barnabas.client.partitioner import key_hash
from barnabas.core.errors import ErrorCode
from barnabas.core.extras import MissingExtraError
from barnabas.protocol.api import ApiKey
from fake_cluster import produce_error

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def sent(run, fake, table, **columns):
    """The records of a topic with three partitions after a table was sent to it, by partition."""

    async def scenario():
        async with fake() as cluster:
            cluster.add_topic("t", 3)
            async with AsyncProducer(cluster.bootstrap) as producer:
                for delivery in await producer.send_arrow("t", table, **columns):
                    await delivery
            return [cluster.records("t", number) for number in range(3)]

    return run(scenario())


def test_columns_of_the_parts_names_are_the_records(run, fake):
    table = pa.table(
        {
            "key": [b"a", None],
            "value": ["text", None],
            "partition": pa.array([2, 1], pa.int32()),
            "headers": pa.array([[{"key": "h", "value": b"1"}], None], HEADERS),
            "other": [1, 2],
        }
    )
    none, second, first = sent(run, fake, table)
    assert none == []
    assert [(one.key, one.value, list(one.headers)) for one in first] == [(b"a", b"text", [("h", b"1")])]
    assert [(one.key, one.value, list(one.headers)) for one in second] == [(None, None, [])]


def test_columns_are_named_and_keys_go_where_all_clients_send_them(run, fake):
    table = pa.table({"who": [f"u{number}" for number in range(50)], "what": ["x"] * 50, "value": ["y"] * 50})
    for number, records in enumerate(sent(run, fake, table, key="who", value="what")):
        assert records
        assert {key_hash(one.key) % 3 for one in records} == {number}
        assert {one.value for one in records} == {b"x"}


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", "b", None]),
        pa.array([b"a", b"b", None]),
        pa.array(["a", "b", None], pa.large_string()),
        pa.array([b"a", b"b", None], pa.large_binary()),
        pa.array(["a", "b", None]).dictionary_encode(),
        pa.chunked_array([["a"], ["b", None]]),
    ],
)
def test_texts_and_bytes_of_every_kind_are_taken(run, fake, values):
    records = sent(run, fake, pa.table({"value": values}))
    assert [one.value for each in records for one in each] == [b"a", b"b", None]


def test_a_batch_of_arrow_and_a_frame_of_another_library_are_tables_too(run, fake):
    batch = pa.RecordBatch.from_pydict({"value": ["a"]})
    assert sum(map(len, sent(run, fake, batch))) == 1

    class Frame:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table({"value": ["a", "b"]}).__arrow_c_stream__(requested_schema)

    assert sum(map(len, sent(run, fake, Frame()))) == 2


@pytest.mark.parametrize(
    ("table", "columns", "error", "words"),
    [
        ({"v": ["a"]}, {}, InvalidRecordError, r"neither a key nor a value: name one of its columns \('v'\)"),
        ({"v": ["a"]}, {"value": "w"}, InvalidRecordError, "no column 'w' for value: it has 'v'"),
        ({"value": [1]}, {}, InvalidRecordError, "the column 'value' is int64: cast it to text or bytes"),
        (
            {"value": ["a"], "partition": [7]},
            {},
            InvalidRecordError,
            "Invalid partition 7 in a row",
        ),
    ],
)
def test_what_cannot_be_sent_is_named_by_its_column(run, fake, table, columns, error, words):
    with pytest.raises(error, match=words):
        sent(run, fake, pa.table(table), **columns)


def test_what_is_no_table_is_refused(run, fake):
    with pytest.raises(TypeError, match="one of pyarrow, polars or pandas, not list"):
        sent(run, fake, [{"value": "a"}])


def test_a_delivery_of_rows_stands_for_all_of_them(run, fake):
    table = pa.table({"value": ["v" * 50] * 20})

    async def scenario(look):
        async with fake() as cluster:
            cluster.add_topic("t", 1)
            async with AsyncProducer(cluster.bootstrap, linger_ms=10_000) as producer:
                cluster.faults[ApiKey.PRODUCE].append(produce_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                (delivery,) = await producer.send_arrow("t", table)
                if look:
                    delivery.add_done_callback(lambda _delivery: None)
                await producer.flush()

    run(scenario(look=True))
    with pytest.raises(DeliveryError):
        run(scenario(look=False))


def test_rows_of_a_batch_that_was_split_are_all_waited_for(run, fake):
    """Its last piece is stored, and the first one is not."""
    table = pa.table({"value": ["v" * 900, *["v" * 50] * 3]})

    async def scenario():
        async with fake() as cluster:
            cluster.add_topic("t", 1)
            store = cluster._store
            cluster._store = lambda tp, batch: (
                (ErrorCode.MESSAGE_TOO_LARGE, -1) if len(batch) > 300 else store(tp, batch)
            )
            async with AsyncProducer(cluster.bootstrap, retry_backoff_ms=5) as producer:
                (delivery,) = await producer.send_arrow("t", table)
                with pytest.raises(DeliveryError):
                    await delivery
                await producer.flush()
            assert len(cluster.records("t")) == 3

    run(scenario())


def test_a_table_makes_the_round(kafka, kafka_topic):
    table = pa.table({"key": [f"k{number % 7}" for number in range(5000)], "value": ["v" * 100] * 5000})
    servers = kafka.bootstrap_servers
    with Producer(servers) as producer:
        deliveries = producer.send_arrow(kafka_topic, table)
        assert len(deliveries) > 1
        assert max(delivery.result(30).offset for delivery in deliveries) == 4999
    with Consumer(servers) as consumer:
        with pytest.raises(BarnabasError, match="assign some, or poll first"):
            consumer.to_arrow()
        consumer.assign([(kafka_topic, 0)])
        consumer.seek_to_beginning()
        found = consumer.to_arrow(include_headers=True)
        assert found.column("key").to_pylist() == [key.encode() for key in table.column("key").to_pylist()]
        assert found.column("offset").to_pylist() == list(range(5000))
        assert "headers" in found.column_names
        assert consumer.to_arrow().num_rows == 0, "all of it was read"
        consumer.seek((kafka_topic, 0), 4990)
        assert sum(batch.num_rows for batch in consumer.arrow_batches(to_end=True)) == 10
        consumer.seek((kafka_topic, 0), 4998)
        frame = consumer.to_pandas()
        assert list(frame["offset"]) == [4998, 4999]


def test_batches_of_the_asynchronous_face_go_on_without_an_end(kafka, kafka_topic):
    async def scenario():
        async with AsyncProducer(kafka.bootstrap_servers) as producer:
            await producer.send_and_wait(kafka_topic, "first")
            async with AsyncConsumer(kafka.bootstrap_servers) as consumer:
                consumer.assign([(kafka_topic, 0)])
                consumer.seek_to_beginning()
                found = []
                async for batch in consumer.arrow_batches():
                    found += batch.column("value").to_pylist()
                    if len(found) == 2:
                        return found
                    await producer.send_and_wait(kafka_topic, "second")
        return None

    assert asyncio.run(scenario()) == [b"first", b"second"]


def test_polars_gets_the_table(kafka, kafka_topic, monkeypatch):
    monkeypatch.setitem(
        sys.modules, "polars", types.SimpleNamespace(from_arrow=lambda table: ("polars", table))
    )
    with Producer(kafka.bootstrap_servers) as producer:
        producer.send_and_wait(kafka_topic, "v")
    with Consumer(kafka.bootstrap_servers) as consumer:
        consumer.assign([(kafka_topic, 0)])
        consumer.seek_to_beginning()
        made_by, table = consumer.to_polars()
    assert (made_by, table.num_rows) == ("polars", 1)


@pytest.mark.parametrize(
    ("package", "call", "words"),
    [
        ("polars", "to_polars", "to_polars needs polars, which is not here: pip install polars"),
        ("pandas", "to_pandas", "to_pandas needs pandas, which is not here: pip install pandas"),
        ("pyarrow", "to_arrow", r"pip install 'barnabas\[arrow\]'"),
    ],
)
def test_what_is_not_installed_is_said_in_a_line(monkeypatch, package, call, words):
    monkeypatch.setitem(sys.modules, package, None)
    with closing(Consumer("127.0.0.1:1")) as consumer, pytest.raises(MissingExtraError, match=words):
        getattr(consumer, call)()


def test_a_producer_without_pyarrow_says_so(run, fake, monkeypatch):
    table = pa.table({"value": ["a"]})
    monkeypatch.setitem(sys.modules, "barnabas.records.columnar_encoder", None)
    with pytest.raises(MissingExtraError, match=r"send_arrow needs .* pip install 'barnabas\[arrow\]'"):
        sent(run, fake, table)


KINDS = [
    *(pa.int8(), pa.int64(), pa.float64(), pa.bool_(), pa.null(), pa.date32(), pa.decimal128(5, 2)),
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(3), pa.string_view()),
    *(pa.timestamp("ms"), pa.list_(pa.string()), pa.map_(pa.string(), pa.binary()), HEADERS),
    pa.dictionary(pa.int8(), pa.string()),
]
VALUES = [None, 0, -1, 7, 2**40, 1.5, True, "", "abc", b"abc", [], ["z"], [("k", b"v")]]
VALUES += [[{"key": "k", "value": b"v"}], [{"key": None, "value": None}]]
NAMES = ["key", "value", "headers", "partition", "timestamp", "kye"]


def column_of(kind, value):
    with contextlib.suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array([value, None], kind)
    return pa.nulls(2, kind)


def test_any_table_is_sent_or_refused_by_its_column_and_no_record_is_left_over(background_cluster):
    columns = st.builds(column_of, st.sampled_from(KINDS), st.sampled_from(VALUES))
    texts = pa.array(["a", "b"])
    with Producer(background_cluster.bootstrap) as producer:

        @hypothesis.settings(max_examples=60)
        @hypothesis.given(
            st.dictionaries(st.sampled_from(NAMES), columns),
            st.dictionaries(st.sampled_from(NAMES[:4]), st.sampled_from([*NAMES, "", 3, None]), max_size=3),
            st.integers(0, 2),
        )
        @hypothesis.example({"value": texts, "partition": pa.nulls(2, HEADERS)}, {}, 2)
        @hypothesis.example({"value": texts, "headers": texts}, {}, 2)
        @hypothesis.example({"value": texts.cast(pa.string_view())}, {}, 2)
        def send(columns, named, rows):
            table = pa.table({name: column.slice(0, rows) for name, column in columns.items()})
            deliveries, said = [], "the table is sent"
            try:
                deliveries = producer.send_arrow("any", table, **named)
            except InvalidRecordError as refused:
                said = str(refused)
            assert re.match(r"the (table|column) |a row cannot be sent: ", said)
            producer.flush(timeout=20)
            assert producer.held_records == 0
            for delivery in deliveries:
                assert delivery.result(timeout=0).topic == "any"

        send()


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view(), pa.binary(3), pa.large_string()])
def test_texts_and_bytes_of_each_form_are_values(run, fake, kind):
    column = pa.array([b"abc"]).cast(kind) if "string" not in str(kind) else pa.array(["abc"]).cast(kind)
    records = [one for partition in sent(run, fake, pa.table({"value": column})) for one in partition]
    assert [one.value for one in records] == [b"abc"]
