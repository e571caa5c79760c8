"""A pipeline's file in which each key is wrong, misspelt or missing once: one line that names it, without
Spark, brokers or a registry. What is asked for decides which keys there are.
"""

import copy
import json

import pytest

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.section import Section
from barnabas.spark.pipeline.file.settings import load
from tls_certificates import PEM, Authority

BROKERS = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "flights"}
AVRO = '{"type": "record", "name": "A", "fields": [{"name": "id", "type": "int"}]}'
WIDE = {
    "name": "late", "checkpoint": "c", "log": "late.log", "events": "late.events", "trigger": "10s",
    "backfill": {"logs": "/backup/kafka-1, /backup/kafka-2"},
    "source": {**BROKERS, "maxOffsetsPerTrigger": 100, "failOnDataLoss": False, "tasksPerBatch": 2},
    "format": {"kind": "csv", "schema": "id INT, delay INT", "delimiter": ";", "malformed": "fail"},
    "join": [{
        "table": "airlines", "kind": "delta", "on": ["id"], "columns": ["name"], "as": "airline",
        "how": "left", "many": False,
    }],
    "transform": {"sql": "SELECT value.* FROM source"},
    "sink": {
        "kind": "iceberg", "path": "lake/flights", "table": "lake.flights", "compactEvery": 10,
        "catalog": {"uri": "sqlite:///c.db", "name": "prod"}, "partitionBy": ["origin"],
        "eventTime": {"column": "departed", "by": "day"},
    },
    "deadLetter": {
        "kind": "iceberg", "path": "letters", "table": "lake.letters", "catalog": "sqlite:///c.db",
        "maxRecords": 10, "maxShare": 0.5,
    },
    "expect": [{"rule": "delay > 0", "violation": "deadLetter"}],
    "restart": {"attempts": 1, "backoff": "1s"},
    "follow": {"group": "g", "metricsPort": 9400},
    "notify": {"webhook": "https://h/hook", "openLineage": "warehouse"},
    "spark": {"master": "local[1]"},
}  # fmt: skip
CHANGED = {
    "checkpoint": "c", "source": BROKERS,
    "format": {
        "kind": "json", "schema": "id INT", "envelope": "debezium", "times": "millis", "decimals": "string",
        "key": {"kind": "json", "schema": "id INT"},
    },
    "sink": {"kind": "delta", "path": "t", "mode": "merge", "key": ["id"], "deletedBy": "gone"},
}  # fmt: skip
REGISTRY = {
    "checkpoint": "c", "source": BROKERS,
    "format": {
        "kind": "protobuf", "header": "confluent", "schema": "latest", "message": "lake.Flight",
        "registry": {
            "url": "https://h", "username": "u", "password": "p", "ca": "ca.pem", "timeout": "1s",
            "subject": "s",
        },
        "key": {"kind": "avro", "schema": "latest", "subject": "k"},
    },
    "transform": {"python": "module:function"},
    "sink": {"kind": "delta", "path": "t"},
}  # fmt: skip
IDS = {
    "checkpoint": "c", "source": BROKERS,
    "format": {"kind": "avro", "header": "confluent", "schema": AVRO, "schemaIds": [1, 2]},
    "sink": {"kind": "topic", "topic": "delays", "key": ["id"]},
    "deadLetter": {"kind": "topic", "topic": "letters"},
}  # fmt: skip
FILES = {"wide": WIDE, "changed": CHANGED, "registry": REGISTRY, "ids": IDS}

REQUIRED = {
    "checkpoint", "source", "sink", "source.kafka.bootstrap.servers", "source.subscribe", "format.schema",
    "format.registry.url", "format.key.schema", "sink.kind", "sink.path", "sink.topic",
    "sink.eventTime.column", "deadLetter.kind", "deadLetter.path", "deadLetter.topic", "expect.rule",
    "join.table", "join.kind", "join.on", "backfill.logs",
}  # fmt: skip
NEEDED = {
    "wide": {"format.kind", "deadLetter"},
    "changed": {"format.kind", "format.envelope", "format.key", "sink.mode", "sink.key"},
    "registry": {
        "format.kind", "format.header", "format.registry", "format.registry.username",
        "format.registry.password", "format.key.kind",
    },
    "ids": {"format.kind", "format.header"},
}  # fmt: skip
"""Keys without which others of the file are wrong."""


def toml(value):
    """A value in TOML, tables in braces."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


def paths(values, before=()):
    """Each key, as the keys that lead to it."""
    for key, value in values.items():
        yield (*before, key)
        if isinstance(value, dict):
            yield from paths(value, (*before, key))
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield from paths(value[0], (*before, key, 0))


def dotted(path):
    return ".".join(key for key in path if key != 0)


def holder(values, path):
    """The table that has the last key of a path."""
    for key in path[:-1]:
        values = values[key]
    return values


@pytest.fixture(scope="module")
def certificate():
    """An authority's, in PEM."""
    return Authority().certificate.public_bytes(PEM)


@pytest.fixture
def read(tmp_path, certificate):
    """Reads a file of these values, with what it refers to beside it."""
    (tmp_path / "ca.pem").write_bytes(certificate)

    def read(values):
        file = tmp_path / "keys.toml"
        file.write_text("\n".join(f"{json.dumps(key)} = {toml(value)}" for key, value in values.items()))
        return load(file)

    return read


def wrong_value(value):
    """One of another type, which nothing takes for a text."""
    return "soon" if isinstance(value, (list, dict, int, float)) and not isinstance(value, bool) else [[]]


CASES = [(name, path) for name, values in FILES.items() for path in paths(values)]
cases = pytest.mark.parametrize(
    ("name", "path"), CASES, ids=[f"{name}: {dotted(path)}" for name, path in CASES]
)


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_right_as_they_stand(read, name):
    read(FILES[name])


@cases
def test_a_wrong_value_is_one_line_that_names_its_key(read, name, path):
    values = copy.deepcopy(FILES[name])
    table = holder(values, path)
    table[path[-1]] = wrong_value(table[path[-1]])
    if dotted(path) == "sink.catalog":
        table[path[-1]] = 5  # a text is one
    require_one_line(read, values, path[-1])


@cases
def test_a_misspelt_key_is_one_line(read, name, path):
    if (path[0] == "spark" and len(path) > 1) or "catalog" in path[:-1]:
        return  # any key is one
    values = copy.deepcopy(FILES[name])
    table = holder(values, path)
    table[f"{path[-1]}z"] = table.pop(path[-1])
    require_one_line(read, values, path[-1])


@cases
def test_a_missing_key_is_one_line_or_has_a_default(read, name, path):
    values = copy.deepcopy(FILES[name])
    table = holder(values, path)
    del table[path[-1]]
    if dotted(path) in REQUIRED | NEEDED[name]:
        require_one_line(read, values, None)
        return
    try:
        read(values)
    except PipelineError as error:
        pytest.fail(f"{dotted(path)} has no default: {error}")


def require_one_line(read, values, key):
    with pytest.raises(PipelineError) as caught:
        read(values)
    line = str(caught.value)
    assert "\n" not in line
    assert "keys.toml: " in line
    if key is not None:
        assert key in line.partition("keys.toml: ")[2], line


def test_each_key_that_is_asked_for_is_in_one_of_the_files(read, monkeypatch):
    asked, take = set(), Section._take

    def watching(self, key):
        asked.add(self._name(key))
        return take(self, key)

    monkeypatch.setattr(Section, "_take", watching)
    for values in FILES.values():
        read(values)
    walked = {dotted(path) for _, path in CASES}
    # The formats of single topics have the keys of all, in a test of their own.
    assert {name.replace("[0]", "") for name in asked} - walked == {"format.topics"}
