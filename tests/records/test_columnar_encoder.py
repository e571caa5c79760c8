"""Rows of Arrow become records:
the same that the interpreted encoder makes, in the partitions of Java's producer.
"""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.partitioner import key_hash
from barnabas.records import columnar_encoder_kernel as kernel
from barnabas.records.columnar_encoder import RowError, encode, key_hashes, warm
from barnabas.records.record import decode_records, make_record

PARTITIONS = 5
COMPILED = (kernel.choose_partitions, kernel.group_rows, kernel.largest_record, kernel.encode_records)
_ENTRY = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("partition", pa.int32()),
        pa.field("headers", pa.list_(_ENTRY)),
    ]
)

values = st.none() | st.binary(max_size=80) | st.just(b"v" * 9_000)
headers = st.lists(
    st.none() | st.fixed_dictionaries({"key": st.text(max_size=5), "value": values}), max_size=3
)
rows = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.none() | st.binary(max_size=13),
            "value": values,
            "partition": st.none() | st.integers(0, PARTITIONS - 1),
            "headers": st.none() | headers,
        }
    ),
    max_size=40,
)


def batch_of(given_rows):
    return pa.RecordBatch.from_pylist(given_rows, schema=SCHEMA)


def records(batch, *, section_bytes=400, partitions=PARTITIONS):
    """(Partition, key, value, headers) of what is encoded, by partition."""
    found = []
    for section in encode(batch, partitions=partitions, section_bytes=section_bytes):
        assert len(section.records) <= section_bytes or section.record_count == 1
        decoded = decode_records(make_record, section.records, section.record_count, 0, 0)
        assert [record.offset for record in decoded] == list(range(section.record_count))
        found += [(section.partition, record.key, record.value, list(record.headers)) for record in decoded]
    return found


def expected(row):
    kept = [(one["key"], one["value"]) for one in row["headers"] or () if one is not None]
    return row["key"], row["value"], kept


def partition_of(row):
    """The partition that a row must go to; None for any."""
    if row["partition"] is not None:
        return row["partition"]
    return None if row["key"] is None else key_hash(row["key"]) % PARTITIONS


@settings(max_examples=60)
@given(rows, st.integers(0, 3))
def test_every_row_is_one_record_in_its_place(given_rows, left_out):
    found = records(batch_of(given_rows).slice(left_out))
    wanted = given_rows[left_out:]

    assert sorted(map(repr, (one[1:] for one in found))) == sorted(map(repr, map(expected, wanted)))
    settled = Counter(
        repr((partition_of(row), *expected(row))) for row in wanted if partition_of(row) is not None
    )
    assert settled <= Counter(map(repr, found))


@given(st.lists(st.none() | st.binary(max_size=13), min_size=1))
def test_hashes_of_keys_are_those_of_the_partitioner(keys):
    expected = [-1 if key is None else key_hash(key) for key in keys]

    assert key_hashes(pa.array(keys, pa.binary())).tolist() == expected
    assert key_hashes(pa.array(keys, pa.binary()).slice(1)).tolist() == expected[1:]


def test_records_of_a_partition_keep_the_order_of_their_rows():
    found = records(batch_of([{"key": b"%d" % (n % 7), "value": b"%d" % n} for n in range(300)]))

    for partition in range(PARTITIONS):
        numbers = [int(value) for to, _, value, _ in found if to == partition]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("partition", [-1, 5, 2**31 - 1])
def test_a_partition_that_the_topic_does_not_have(partition):
    batch = pa.RecordBatch.from_pydict(
        {"value": [b"a", b"b"], "partition": pa.array([0, partition], pa.int32())}
    )

    with pytest.raises(
        RowError, match=f"Invalid partition {partition} in a row: the topic has partitions 0 to 4"
    ):
        list(encode(batch, partitions=5, section_bytes=100))


def test_a_header_without_a_key_is_refused():
    batch = batch_of([{"value": b"a", "headers": [{"key": None, "value": b"x"}]}])

    with pytest.raises(RowError, match="Header key of a row is null"):
        list(encode(batch, partitions=5, section_bytes=100))


def test_rows_without_keys_fill_a_batch_of_one_partition_before_the_next():
    batch = pa.RecordBatch.from_pydict({"value": [b"v" * 100] * 64})
    sizes = [section.record_count for section in encode(batch, partitions=3, section_bytes=1_000)]

    assert sum(sizes) == 64
    assert max(sizes) >= 8


def test_rows_without_keys_go_where_there_is_a_leader():
    batch = pa.RecordBatch.from_pydict({"value": [b"v" * 100] * 64})
    sections = list(encode(batch, partitions=3, section_bytes=200, available=[2]))

    assert {section.partition for section in sections} == {2}


def test_no_kind_of_rows_is_compiled_for_again():
    warm()
    before = [len(function.signatures) for function in COMPILED]
    whole = {"key": b"k", "value": b"v", "partition": 1, "headers": [{"key": "h", "value": None}]}
    for rows in ([], [{}], [{"value": None}], [whole], [whole, {}], [{"headers": []}]):
        records(batch_of(rows))
        records(batch_of([whole, *rows]).slice(1))
        records(batch_of(rows).select(["value"]))

    assert [len(function.signatures) for function in COMPILED] == before


def test_texts_are_bytes_too():
    batch = pa.RecordBatch.from_pydict({"key": ["k", None], "value": ["\u00e4", ""]})

    assert sorted(one[2] for one in records(batch)) == [b"", "\u00e4".encode()]
