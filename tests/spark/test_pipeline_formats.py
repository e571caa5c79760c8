"""Avro and Protobuf: their types and values, what is malformed, frames of a schema registry, and whole
pipelines.

What decodes is held against values that fastavro and protobuf's own classes wrote.
"""

import datetime as dt
import functools
import io
import json
import re
import sys
import tracemalloc
from decimal import Decimal
from typing import Final
from uuid import UUID

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2
from pyspark.sql.types import DayTimeIntervalType
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.spark.errors import FormatError, PipelineError
from barnabas.spark.pipeline.file.format_settings import Format
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.formats.avro import AvroDecoder
from barnabas.spark.pipeline.formats.decoder import column_of
from barnabas.spark.pipeline.formats.protobuf import ProtobufDecoder
from barnabas.spark.pipeline.rows.frames import decoded
from barnabas.spark.pipeline.running import supervisor

UTC = dt.UTC
NOON = dt.datetime(2026, 3, 1, 12, 0, 0, 250_000, UTC)


def record(*fields, name="lake.Row"):
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields]}


def logical(kind, name, /, **more):
    return {"type": kind, "logicalType": name, **more}


def avro(schema, *rows):
    """The rows as fastavro writes them."""
    parsed, values = fastavro.parse_schema(schema), []
    for row in rows:
        file = io.BytesIO()
        fastavro.schemaless_writer(file, parsed, row)
        values.append(file.getvalue())
    return values


def through(decoder, *values):
    """The values decoded, none of them malformed."""
    column, malformed = column_of(decoder, values)
    assert malformed == {}
    column.validate(full=True)
    return column.to_pylist()


def sparingly(decoder, values):
    """The values decoded, with far less memory than a length in one of them may claim."""
    column_of(decoder, values[:1])  # what the first one imports is not counted
    tracemalloc.start()
    try:
        found = column_of(decoder, values)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    return found


POINT = record(("x", "int"), ("y", ["null", "int"]), name="lake.Point")
AVRO = [  # a type, Spark's, a value as fastavro takes it, and as it comes back where that is another one
    ("boolean", "boolean", True),
    ("int", "int", -(2**31)),
    ("long", "bigint", 2**63 - 1),
    ("float", "float", 0.5),
    ("double", "double", -1e300),
    ("bytes", "binary", b"\x00\xff"),
    ("string", "string", "ü"),
    (["null", "string"], "string", None),
    (["string", "null"], "string", "text"),
    (["int", "null", "long"], "bigint", 2**40),
    (["float", "double"], "double", 0.25),
    ({"type": "enum", "name": "Size", "symbols": ["S", "M"]}, "string", "M"),
    ({"type": "fixed", "name": "Two", "size": 2}, "binary", b"ab"),
    ({"type": "array", "items": ["null", "int"]}, "array<int>", [1, None, 3]),
    ({"type": "map", "values": "double"}, "map<string,double>", {"a": 1.5}, [("a", 1.5)]),
    (POINT, "struct<x:int,y:int>", {"x": 1, "y": None}),
    ({"type": "array", "items": "lake.Point"}, "array<struct<x:int,y:int>>", [{"x": 3, "y": 4}]),
    (["null", "int", "string"], "struct<member0:int,member1:string>", "a", {"member0": None, "member1": "a"}),
    (["null", "lake.Point", "string"], "struct<member0:struct<x:int,y:int>,member1:string>", {"x": 1, "y": 2},
     {"member0": {"x": 1, "y": 2}, "member1": None}),
    (["null", "bytes", "boolean"], "struct<member0:binary,member1:boolean>", None),
    (logical("int", "date"), "date", dt.date(1969, 12, 31)),
    (logical("int", "time-millis"), "int", dt.time(0, 0, 1), 1000),
    (logical("long", "time-micros"), "bigint", dt.time(0, 0, 1), 1_000_000),
    (logical("long", "timestamp-millis"), "timestamp", NOON),
    (logical("long", "timestamp-micros"), "timestamp", NOON.replace(microsecond=1)),
    (logical("long", "local-timestamp-millis"), "timestamp_ntz", NOON.replace(tzinfo=None)),
    (logical("long", "local-timestamp-micros"), "timestamp_ntz", NOON.replace(tzinfo=None)),
    (logical("bytes", "decimal", precision=5, scale=2), "decimal(5,2)", Decimal("-123.45")),
    (logical("fixed", "decimal", precision=9, scale=0, name="Nine", size=4), "decimal(9,0)", Decimal(77)),
    (logical("string", "uuid"), "string", UUID(int=5), str(UUID(int=5))),
]  # fmt: skip


def test_every_type_of_avro_has_a_type_of_spark_and_its_values():
    schema = record(*((f"f{number}", kind) for number, (kind, *_) in enumerate(AVRO)))
    decoder = AvroDecoder(json.dumps(schema))
    (value,) = avro(schema, {f"f{number}": case[2] for number, case in enumerate(AVRO)})

    assert [field.dataType.simpleString() for field in decoder.type.fields] == [case[1] for case in AVRO]
    assert through(decoder, value, None) == [
        {f"f{number}": case[-1] for number, case in enumerate(AVRO)},
        None,
    ]


@pytest.mark.parametrize("value", [b"\x01", b"\x05", b"\x06"], ids=[-1, -3, 3])
def test_an_enum_has_no_symbol_before_its_first_nor_behind_its_last(value):
    kind = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
    decoder = AvroDecoder(json.dumps(record(("a", kind), ("again", "E"))))

    assert decoder.parse(b"\x04\x00") == {"a": "C", "again": "A"}
    with pytest.raises((ValueError, IndexError)):
        decoder.parse(b"\x00" + value)


DOUBLED: Final = functools.reduce(
    lambda inner, depth: record(("left", inner), ("right", inner["name"]), name=f"R{depth}"),
    range(19), record(("a", "int"), ("b", "int"), name="R"),
)  # fmt: skip
"""Each of twenty records has two fields of the next one's type."""


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("{", "is no Avro schema: JSONDecodeError"),
        ('{"type": "recrd"}', "is no Avro schema: UnknownType"),
        (
            record(("a", {"type": "bytes", "logicalType": "decimal"})),
            "is no Avro schema: KeyError: 'precision'",
        ),
        (record((5, "int")), "is no Avro schema"),
        (record(("a", "Nothing")), "is no Avro schema: UnknownType: lake.Nothing"),
        (record(("a", "int"), ("a", "int")), "lake.Row has two fields of one name"),
        (record(("a", {"type": "fixed", "name": "F", "size": "2"})), "the size of lake.F is '2'"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "must be of an Avro record with fields"),
        (record(), "must be of an Avro record with fields"),
        (record(("next", ["null", "lake.Row"])), "is recursive: lake.Row has a field of lake.Row"),
        (record(("a", {"type": "array", "items": "null"})), "has an array of items without bytes"),
        (record(("a", {"type": "array", "items": record(name="E")})), "has an array of items without bytes"),
        (record(("a", logical("bytes", "decimal", precision=39))), "has a decimal of 39 digits"),
        (DOUBLED, "has 2,097,151 fields with those in fields: at most 10,000"),
    ],
)
def test_a_schema_of_avro_without_columns_is_refused(schema, words):
    with pytest.raises(FormatError, match=re.escape(words)):
        AvroDecoder(schema if isinstance(schema, str) else json.dumps(schema))


LISTS = record(
    ("texts", {"type": "array", "items": "string"}),
    ("size", ["null", "int"]),
    ("day", logical("long", "timestamp-millis")),
    ("price", logical("bytes", "decimal", precision=3)),
)
HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
"""2**62 - 1 as Avro writes it."""


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x00\x00\x00",
        HUGE,  # so many texts
        HUGE + b"\x00" * 50,
        b"\x02" + HUGE + b"a",  # one text of so many bytes
        b"\x02\x01a\x00\x00\x00\x00",  # one of -1
        b"\x02\x02\xff\x00\x00\x00\x00",  # not UTF-8
        b"\x00\x04\x00\x00",  # the third type of two
        b"\x00\x01\x00\x00",
        b"\x00\x00" + HUGE + b"\x00",  # a time that is none
        b"\x00\x00\x00\x04\x7f\xff",  # five digits of three
        b"\x00\x00\x00\xc0\x9a\x0c" + b"\x7f" * 100_000,  # a quarter of a million digits
        b"\x00\x00\x00\x02\x05more",
    ],
)
def test_a_malformed_value_of_avro_costs_itself_alone(value):
    good = {"texts": ["a"], "size": None, "day": NOON, "price": Decimal(5)}
    values = avro(LISTS, good)
    column, malformed = sparingly(AvroDecoder(json.dumps(LISTS)), [*values, value, *values])

    assert column.to_pylist() == [good, None, good]
    assert list(malformed) == [1]


def add_fields(message, *fields):
    for number, (name, kind, *more) in enumerate(fields, 1):
        field = message.field.add(name=name, number=number, label="LABEL_OPTIONAL")
        if kind[0] == ".":
            field.type_name, kind = kind, "enum" if kind == ".lake.Size" else "message"
        field.type = f"TYPE_{kind.upper()}"
        for key, value in more:
            setattr(field, key, value)


REPEATED = ("label", "LABEL_REPEATED")


def files():
    """The descriptor set of lake.proto and of what it imports."""
    found = descriptor_pb2.FileDescriptorSet()
    for module in (timestamp_pb2, duration_pb2):
        module.DESCRIPTOR.CopyToProto(found.file.add())
    lake = found.file.add(name="lake.proto", package="lake", syntax="proto3")
    lake.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/duration.proto"])
    size = lake.enum_type.add(name="Size")
    for number, name in enumerate(("SMALL", "LARGE")):
        size.value.add(name=name, number=number)
    point = lake.message_type.add(name="Point")
    add_fields(point, ("x", "sint32"), ("y", "double"))
    row = lake.message_type.add(name="Row")
    row.oneof_decl.add(name="either")
    row.oneof_decl.add(name="_maybe")
    for name, kind in (("CountsEntry", "int64"), ("PointsEntry", ".lake.Point")):
        entry = row.nested_type.add(name=name)
        entry.options.map_entry = True
        add_fields(entry, ("key", "string"), ("value", kind))
    add_fields(
        row, ("flag", "bool"), ("u32", "uint32"), ("u64", "uint64"), ("i64", "fixed64"), ("text", "string"),
        ("data", "bytes"), ("size", ".lake.Size"), ("point", ".lake.Point"),
        ("sizes", ".lake.Size", REPEATED),
        ("path", ".lake.Point", REPEATED), ("counts", ".lake.Row.CountsEntry", REPEATED),
        ("points", ".lake.Row.PointsEntry", REPEATED), ("at", ".google.protobuf.Timestamp"),
        ("took", ".google.protobuf.Duration"), ("left", "int32", ("oneof_index", 0)),
        ("right", "string", ("oneof_index", 0)),
        ("maybe", "int32", ("oneof_index", 1), ("proto3_optional", True)),
        ("none", ".lake.Empty"), ("times", ".google.protobuf.Timestamp", REPEATED), ("ratio", "float"),
    )  # fmt: skip
    lake.message_type.add(name="Empty")
    add_fields(lake.message_type.add(name="Node"), ("next", ".lake.Node"))
    old = found.file.add(name="old.proto", package="old", syntax="proto2")
    add_fields(old.message_type.add(name="Row"), ("id", "int32", ("label", "LABEL_REQUIRED")),
               ("text", "string"), ("given", "int32", ("default_value", "7")))  # fmt: skip
    return found


FILES = files()


def doubled(depth):
    """Descriptors of messages in each other: each has two fields of the next one's type."""
    found = descriptor_pb2.FileDescriptorSet()
    file = found.file.add(name="doubled.proto", syntax="proto3")
    for level in range(depth):
        kind = "int32" if level == depth - 1 else f".M{level + 1}"
        add_fields(file.message_type.add(name=f"M{level}"), ("left", kind), ("right", kind))
    return found.SerializeToString()


def message(name, **fields):
    """A message of the descriptor set, as protobuf's own class makes it."""
    pool = descriptor_pool.DescriptorPool()
    for file in FILES.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))(**fields)


def protobuf(name, confluent=False):
    return ProtobufDecoder(FILES.SerializeToString(), name, confluent)


def test_every_type_of_protobuf_has_a_type_of_spark_and_its_values():
    value = message(
        "lake.Row",
        flag=True,
        u32=2**32 - 1,
        u64=2**64 - 1,
        i64=5,
        text="ü",
        data=b"\xff",
        size=1,
        point={"x": -3, "y": 0.5},
        sizes=[0, 1, 9],
        path=[{"x": 1}, {"y": 2}],
        counts={"a": 1},
        points={"p": {"x": 4}},
        at=dt.datetime(1969, 12, 31, 23, 59, 59, 250_000, UTC),
        took=dt.timedelta(seconds=90),
        right="",
        maybe=0,
        none={},
        times=[{"seconds": 1}],
        ratio=0.25,
    )
    decoder = protobuf("lake.Row")
    types = {field.name: field.dataType.simpleString() for field in decoder.type.fields}
    full, bare, null = through(decoder, value.SerializeToString(), b"", None)

    point = "struct<x:int,y:double>"
    assert types == {
        "flag": "boolean", "u32": "bigint", "u64": "decimal(20,0)", "i64": "decimal(20,0)", "text": "string",
        "data": "binary", "size": "string", "point": point, "sizes": "array<string>",
        "path": f"array<{point}>",
        "counts": "map<string,bigint>", "points": f"map<string,{point}>", "at": "timestamp",
        "took": DayTimeIntervalType().simpleString(), "left": "int", "right": "string", "maybe": "int",
        "times": "array<timestamp>", "ratio": "float",
    }  # fmt: skip
    assert full == {
        "flag": True, "u32": 2**32 - 1, "u64": Decimal(2**64 - 1), "i64": Decimal(5), "text": "ü",
        "data": b"\xff",
        "size": "LARGE", "point": {"x": -3, "y": 0.5}, "sizes": ["SMALL", "LARGE", "9"],
        "path": [{"x": 1, "y": 0.0}, {"x": 0, "y": 2.0}], "counts": [("a", 1)],
        "points": [("p", {"x": 4, "y": 0.0})],
        "at": dt.datetime(1969, 12, 31, 23, 59, 59, 250_000, UTC), "took": dt.timedelta(seconds=90),
        "left": None,
        "right": "", "maybe": 0, "times": [dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)], "ratio": 0.25,
    }  # fmt: skip
    assert bare == {
        "flag": False, "u32": 0, "u64": Decimal(0), "i64": Decimal(0), "text": "", "data": b"",
        "size": "SMALL",
        "point": None, "sizes": [], "path": [], "counts": [], "points": [], "at": None, "took": None,
        "left": None,
        "right": None, "maybe": None, "times": [], "ratio": 0.0,
    }  # fmt: skip
    assert null is None


def test_of_proto2_a_default_that_is_named_stands_for_an_absent_value():
    assert through(protobuf("old.Row"), message("old.Row", id=1).SerializeToString()) == [
        {"id": 1, "text": None, "given": 7}
    ]


@pytest.mark.parametrize(
    ("descriptors", "name", "words"),
    [
        (b"no descriptors", "lake.Row", "is no descriptor set of protoc --include_imports"),
        (None, "lake.Row", "is no descriptor set of protoc --include_imports"),
        (b"", "lake.Row", "is lake.Row, which is not in the schema; it has none"),
        (FILES.SerializeToString(), "Row", "is Row, which is not in the schema; it has"),
        (FILES.SerializeToString(), "lake.Node", "is recursive: lake.Node has a field of lake.Node"),
        (FILES.SerializeToString(), "lake.Empty", "is lake.Empty, which has no fields"),
        (doubled(20), "M0", "has 2,097,151 fields with those in fields: at most 10,000"),
    ],
)
def test_descriptors_without_columns_are_refused(descriptors, name, words):
    if descriptors is None:
        descriptors = descriptor_pb2.FileDescriptorSet(file=FILES.file[2:]).SerializeToString()  # no imports
    with pytest.raises(FormatError, match=re.escape(words)) as caught:
        ProtobufDecoder(descriptors, name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("old.Row", b""),  # without what is required
        ("old.Row", b"\x08"),
        ("old.Row", b"\x08\x01\x12\xff\xff\xff\xff\x07a"),  # a text of 2 GB
        ("old.Row", b"\x08\x01\x12\x01\xff"),  # not UTF-8
        ("old.Row", b"\x08\x01" + b"\x2b" * 100_000),  # groups in groups
        ("old.Row", b"\x08\x01\x00"),  # field 0
        ("lake.Row", b"\x6a\x0a\x08" + b"\xff" * 8 + b"\x7f"),  # a time beyond all years
    ],
)
def test_a_malformed_value_of_protobuf_costs_itself_alone(name, value):
    good = message(name, **({"id": 1} if name == "old.Row" else {"u32": 1})).SerializeToString()
    column, malformed = sparingly(protobuf(name), [good, value, good])

    assert [one is None for one in column.to_pylist()] == [False, True, False]
    assert list(malformed) == [1]


def test_the_frame_of_a_registry_is_skipped_and_names_the_message():
    schema = record(("a", "int"))
    (body,) = avro(schema, {"a": 3})
    column, malformed = column_of(
        AvroDecoder(json.dumps(schema), confluent=True), [b"\0\0\0\0\x07" + body, body, b"\1\0\0\0\7" + body]
    )
    assert column.to_pylist() == [{"a": 3}, None, None]
    assert list(malformed) == [1, 2]

    # lake.Row is the second message of its file and lake.Point the first, for which a 0 does.
    body = message("lake.Point", x=3).SerializeToString()
    frames = {b"\0": body, b"\2\0": body, b"\2\2": body, b"": b"", b"\4\0\0": body}
    values = [b"\0\0\0\0\x07" + indexes + rest for indexes, rest in frames.items()]
    column, malformed = column_of(protobuf("lake.Point", confluent=True), values)
    assert column.to_pylist() == [{"x": 3, "y": 0.0}] * 2 + [None] * 3
    assert list(malformed) == [2, 3, 4]
    assert column_of(protobuf("lake.Row", confluent=True), values)[1].keys() == {0, 1, 3, 4}


@pytest.fixture
def write(tmp_path):
    """Writes a pipeline's file, and with it schemas."""
    (tmp_path / "lake.avsc").write_text(json.dumps(record(("name", "string"), ("size", ["null", "int"]))))
    (tmp_path / "lake.desc").write_bytes(FILES.SerializeToString())

    def write(form, sql="SELECT value.* FROM source", broker="127.0.0.1:9092", topic="none"):
        path = tmp_path / "lake.toml"
        path.write_text(
            f'checkpoint = "c"\n[source]\nkafka.bootstrap.servers = "{broker}"\nsubscribe = "{topic}"\n'
            f'startingOffsets = "earliest"\n[format]\n{form}\n[transform]\nsql = "{sql}"\n'
            '[restart]\nattempts = 0\n[sink]\nkind = "parquet"\npath = "table"\n'
        )
        return path

    return write


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ('kind = "avro"', "format.schema is missing"),
        ('kind = "avro"\nschema = "\\u0000"', "format.schema is '\\x00': embedded null byte"),
        ('kind = "avro"\nschema = "none.avsc"', "format.schema is 'none.avsc': No such file or directory"),
        ('kind = "avro"\nschema = "lake.desc"', "format.schema is 'lake.desc': that file is no text"),
        ('kind = "avro"\nschema = "lake.toml"', "format.schema is no Avro schema: JSONDecodeError"),
        (
            'kind = "avro"\nschema = "lake.avsc"\nheader = "x"',
            ("format.header is 'x': it must be one of none, confluent"),
        ),
        ('kind = "avro"\nschema = "lake.avsc"\nmessage = "x"', "format.message is unknown"),
        (
            'kind = "avro"\nmalformed = "keep"\nschema = \''
            + json.dumps(record(("_corrupt_record", "int")))
            + "'",
            "format.schema has a field _corrupt_record",
        ),
        ('kind = "protobuf"\nschema = "lake.desc"', "format.message is missing"),
        ('kind = "protobuf"\nschema = "lake.avsc"\nmessage = "a.B"', "format.schema is no descriptor set"),
        (
            'kind = "protobuf"\nschema = "lake.desc"\nmessage = "a.B"',
            ("format.message is a.B, which is not in the schema"),
        ),
        ('kind = "json"\nschema = "a INT"\nheader = "avro"', "format.header is 'avro'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(write, form, words):
    with pytest.raises(PipelineError, match=re.escape(words)) as caught:
        load(write(form))
    assert "lake.toml: format." in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_package_that_is_not_there_is_named(write, monkeypatch):
    monkeypatch.delitem(sys.modules, "barnabas.spark.pipeline.formats.avro")
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(
        PipelineError, match=r"format\.schema needs a package that is not here \(fastavro\): pip"
    ):
        load(write('kind = "avro"\nschema = "lake.avsc"'))


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_topic_of_avro_becomes_a_table_that_grows(spark, broker, topic_name, write, tmp_path):
    topic = topic_name("avro")
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(topic, partitions=1)])

    def run(form, *values):
        with Producer(broker) as producer:
            for value in values:
                producer.send_and_wait(topic, value)
        return supervisor.run(
            spark, load(write(form, broker=broker, topic=topic)), Console(file=io.StringIO())
        )

    def rows():
        table = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "table"))
        return sorted(tuple(row) for row in table.collect())

    old = record(("name", "string"), ("size", ["null", "int"]))
    done = run('kind = "avro"\nschema = "lake.avsc"', *avro(old, {"name": "a", "size": 1}, {"name": "b"}))
    assert (done.records_read, done.rows_written) == (2, 2)
    assert rows() == [("a", 1), ("b", None)]

    new = record(("name", "string"), ("size", ["null", "int"]), ("at", logical("long", "timestamp-millis")))
    grown = f"kind = \"avro\"\nschema = '{json.dumps(new)}'"
    assert run(grown, *avro(new, {"name": "c", "size": 3, "at": NOON})).rows_written == 1
    assert [(*row[:2], row[2] is None) for row in rows()] == [
        ("a", 1, True),
        ("b", None, True),
        ("c", 3, False),
    ]

    with pytest.raises(
        PipelineError, match=rf"\[MALFORMED_RECORD\] {topic}-0 offset 3 does not fit format.schema: EOFError"
    ) as caught:
        run(grown, b"\x02")
    assert "\n" not in str(caught.value)
    assert run(f'{grown}\nmalformed = "keep"').rows_written == 1
    kept = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "table")).where("name IS NULL")
    assert [bytes(row[0]) for row in kept.select("_corrupt_record").collect()] == [b"\x02"]


@pytest.mark.spark
def test_protobuf_in_spark_is_what_its_own_classes_wrote(spark):
    value = message(
        "lake.Row",
        u64=2**64 - 1,
        size=1,
        point={"x": 1},
        path=[{"x": 2}],
        counts={"a": 1},
        points={"p": {"x": 4}},
        at=NOON,
        took=dt.timedelta(seconds=90),
        right="r",
    ).SerializeToString()
    frame = spark.createDataFrame(
        [(value, "t", 0, 0), (b"\xff", "t", 0, 1), (None, "t", 0, 2)],
        "value binary, topic string, partition int, offset long",
    )
    form = Format("protobuf", keep_malformed=True, decoder=protobuf("lake.Row"))
    # A filter on the decoded value beside several of its fields: Spark splits that into several steps.
    found = decoded(frame, form).where("value.u64 > 1 OR value.u64 IS NULL").select("offset", "value.*")
    full, bad, null = (row.asDict(recursive=True) for row in found.orderBy("offset").collect())

    (expected,) = through(protobuf("lake.Row"), value)
    times = {"at": full.pop("at").astimezone(UTC), "took": full.pop("took")}
    assert times == {key: expected.pop(key) for key in times}
    assert full == {
        **expected,
        "counts": {"a": 1},
        "points": {"p": {"x": 4, "y": 0.0}},
        "offset": 0,
        "_corrupt_record": None,
    }
    assert {key: one for key, one in bad.items() if one is not None} == {
        "offset": 1,
        "_corrupt_record": b"\xff",
    }
    assert {key for key, one in null.items() if one is not None} == {"offset"}
