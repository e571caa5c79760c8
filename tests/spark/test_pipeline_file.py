"""The file of a pipeline: what it says, and what is refused in one line that names the key."""

import json
import re

import pytest

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.settings import load

WHOLE = """
checkpoint = "c"
[source]
kafka.bootstrap.servers = "127.0.0.1:9092"
subscribe = "flights"
maxOffsetsPerTrigger = 100
[sink]
kind = "parquet"
path = "table"
"""


@pytest.fixture
def read(tmp_path):
    """Reads a file of this text."""

    def read(text):
        path = tmp_path / "flights.toml"
        path.write_text(text)
        return load(path)

    return read


def test_a_short_file_has_defaults(read, tmp_path):
    found = read(WHOLE)

    assert (found.name, found.trigger, found.format.kind) == ("flights", {"availableNow": True}, "binary")
    assert found.source["kafka.bootstrap.servers"] == "127.0.0.1:9092"
    assert found.source_options.max_offsets_per_trigger == 100
    assert found.checkpoint == tmp_path / "c"
    assert found.sink.path == tmp_path / "table"
    assert (found.restarts, found.backoff_ms, found.group) == (5, 2000, None)


def test_paths_through_the_folder_above_are_those_that_they_lead_to(read, tmp_path):
    found = read(WHOLE.replace('"c"', '"../c"').replace('"table"', '"a/../../table"'))

    assert found.checkpoint == tmp_path.parent / "c"
    assert found.sink.path == tmp_path.parent / "table"


def test_a_long_file_is_read_whole(read):
    found = read(
        'name = "late"\ntrigger = "10s"\n'
        + WHOLE
        + 'partitionBy = ["origin"]\neventTime = { column = "departed", by = "hour" }\n'
        '[format]\nkind = "csv"\nschema = "a INT"\ndelimiter = ";"\nmalformed = "keep"\n'
        '[transform]\nsql = "SELECT 1 FROM source"\n[restart]\nattempts = 0\nbackoff = "1m"\n'
        '[follow]\ngroup = "g"\nmetricsPort = 9400\n'
        '[spark]\nmaster = "local[1]"\nsql.shuffle.partitions = 3\nui.enabled = true\n'
    )

    assert found.trigger == {"processingTime": "10000 milliseconds"}
    assert found.sink.layout == ("departed_hour", "origin")
    assert (found.format.delimiter, found.format.keep_malformed) == (";", True)
    assert (found.restarts, found.backoff_ms, found.group, found.metrics_port) == (0, 60_000, "g", 9400)
    assert found.spark == {
        "spark.master": "local[1]", "spark.sql.shuffle.partitions": "3", "spark.ui.enabled": "true"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "path", "sign"),
    [
        ("delta", "a%20b", "delta-rs takes '%20'"),
        ("delta", "a\\b", "delta-rs takes '\\\\'"),
        ("delta", "a\tb", "delta-rs takes '\\t'"),
        ("iceberg", "a#b", "PyIceberg takes '#'"),
        ("iceberg", "a?b", "PyIceberg takes '?'"),
        ("iceberg", "a\nb", "PyIceberg takes '\\n'"),
    ],
)
def test_a_folder_that_its_library_would_not_find_is_refused(read, kind, path, sign):
    """Its library reads another folder than Spark writes to: the first batch ended in its words."""
    table = 'table = "lake.t"' if kind == "iceberg" else ""
    text = WHOLE.replace('"parquet"', f'"{kind}"\n{table}')
    assert read(WHOLE.replace('"table"', json.dumps(path))).sink.path.name == path
    assert read(text.replace('"table"', '"a b%zz+ü:*"')).sink.path.name == "a b%zz+ü:*"
    with pytest.raises(PipelineError, match=re.escape(sign)) as caught:
        read(text.replace('"table"', json.dumps(path)))
    assert "sink.path is " in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("catalog", "found"),
    [
        ("", {"uri": "sqlite:///{}/catalog.db"}),
        ('catalog = "sqlite:///lake/c.db"', {"uri": "sqlite:///{}/lake/c.db"}),
        ('catalog = "sqlite:////lake/c.db"', {"uri": "sqlite:////lake/c.db"}),
        ('catalog = { name = "prod", type = "rest", uri = "http://h" }',
            {"name": "prod", "type": "rest", "uri": "http://h"}),
    ],
)  # fmt: skip
def test_a_catalog_of_iceberg_is_an_address_or_properties(read, tmp_path, catalog, found):
    sink = read(WHOLE.replace('"parquet"', f'"iceberg"\n{catalog}')).sink

    assert sink.table == "default.table"
    assert sink.catalog == {key: value.format(tmp_path) for key, value in found.items()}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('checkpoint = "c"', 'chekpoint = "c"', "chekpoint is unknown; did you mean checkpoint?"),
        ('checkpoint = "c"', "", "checkpoint is missing"),
        ('checkpoint = "c"', 'checkpoint = "s3://c"', ("checkpoint is 's3://c': it must be a folder of a "
                                                       "file "
                                                      "system")),
        ('checkpoint = "c"', 'checkpoint = "table/c"', "must not be in the table's folder"),
        ('checkpoint = "c"', 'checkpoint = "c"\nlog = "c/x.log"', "must not be in the checkpoint's folder"),
        ('checkpoint = "c"', 'checkpoint = "c"\nlog = "table/x.log"', "must not be in the table's folder"),
        ('checkpoint = "c"', 'checkpoint = "c"\nlog = "./flights.toml"', "is the pipeline's own file"),
        ('checkpoint = "c"', 'checkpoint = "c"\ntrigger = "soon"', ('trigger is \'soon\': it must be '
                                                                   '"availableNow"')),
        ('checkpoint = "c"', 'checkpoint = "c"\ntransform = 5', "transform is 5: it must be a table"),
        ("maxOffsetsPerTrigger", "maxOffsetPerTrigger", "did you mean maxOffsetsPerTrigger?"),
        ("= 100", "= [100]", "source.maxOffsetsPerTrigger must be a text, a number"),
        ('subscribe = "flights"', "", "source: One of the following options must be specified"),
        ('"parquet"', '"parket"', "sink.kind is 'parket': it must be one of parquet, delta, iceberg"),
        ('path = "table"', 'pathh = "table"', "sink.pathh is unknown; did you mean path?"),
        ('path = "table"', 'path = "table"\nzzz = 1', "sink.zzz is unknown; there are"),
        ('path = "table"', 'path = "t"\neventTime = { by = "day" }', "sink.eventTime.column is missing"),
        ('path = "table"', 'path = "t"\npartitionBy = ["a", "a"]', "names a column twice"),
        ('path = "table"', 'path = "t"\npartitionBy = ["a", ""]', "must be a list of texts"),
        ('path = "table"', 'path = "t"\ntable = "a.b"', "sink.table is unknown; there are"),
        ('"parquet"', '"iceberg"\ntable = "flights"', "sink.table is 'flights': it must be namespace.name"),
        ('"parquet"', '"iceberg"\ncatalog = 5', "sink.catalog must be a text"),
        ('"parquet"', '"iceberg"\ncatalog = { uri = ["s3cret"] }', ("sink.catalog.uri must be a text, a "
                                                                   "number")),
        ('"parquet"', '"iceberg"\ncatalog = ["a://b:s3cret@c"]', ("sink.catalog must be a text that is not "
                                                                 "empty")),
        ("flights", 'flights"\nkafka.linger.ms = "1"\nkafka.fetch.max.wait.ms = "soon',
            "source: Invalid value soon for configuration fetch.max.wait.ms"),
        ('path = "table"', ('path = "t"\neventTime = { column = "at" }\n[spark]\nsql.session.timeZone = '
                           '"Europe/Berlin"'), "with sink.eventTime it must be UTC"),
        ("[sink]", '[format]\nkind = "json"\n[sink]', "format.schema is missing"),
        ("[sink]", '[transform]\npython = "no function"\n[sink]', "it must be module:function"),
        ("[sink]", '[transform]\nsql = "a"\npython = "a:b"\n[sink]', "both sql and python"),
        ("[sink]", "[restart]\nattempts = -1\n[sink]", "restart.attempts is -1: it must be a whole number"),
        ("[sink]", '[restart]\nbackoff = "x"\n[sink]', "restart.backoff is wrong: Invalid time 'x'"),
        ("[sink]", '[restart]\nbackoff = "0s"\n[sink]', "restart.backoff is '0s': it must be 1ms at least"),
        ("[sink]", "[follow]\ngruop = 'g'\n[sink]", "follow.gruop is unknown; did you mean group?"),
        ("= 100", '= 100\nstartingOffsets = "latest"\n[backfill]\nlogs = "copy"',
            "source: The option backfill.logs reads from the first record on: startingOffsets must be"),
        ("= 100", '= 100\n[backfill]\nlogs = ["a", "b"]', "is a list: several directories are one text"),
        ("= 100", "= 100\n[backfill]", "backfill.logs is missing"),
        ("= 100", '= 100\n[backfill]\nlog = "copy"', "backfill.log is unknown; did you mean logs?"),
        ("= 100", '= 100\nbackfillLogs = "copy"', "source.backfillLogs has a section of its own"),
        ("kafka.bootstrap.servers", "bootstrap.servers", "did you mean kafka.bootstrap.servers?"),
        ('"flights"', '["flights", "more"]', "not a list: several values are one text with commas"),
        ("[source]", "[sources]", "sources is unknown; did you mean source?"),
        ("[sink]", "[sinks]", "sinks is unknown; did you mean sink?"),
        ('[sink]\nkind = "parquet"\npath = "table"\n', "", "sink is missing: a file has a section [sink]"),
        ("[sink]", "[sink", "is no TOML"),
        ('checkpoint = "c"', 'checkpoint = "c"\ntrigger = "10"', ("trigger is '10', which has no unit: it "
                                                                 'must be a time such as "10s"')),
        ('checkpoint = "c"', 'checkpoint = "c"\ntrigger = 10', 'it must be a time such as "10s"'),
        ("[sink]", "[restart]\nbackoff = 2\n[sink]", "restart.backoff is '2', which has no unit"),
        ("[sink]", '[restart]\nbackoff = "2"\n[sink]', "restart.backoff is '2', which has no unit"),
        ("= 100", '= 100\nmaxTriggerDelay = "15"', "source.maxTriggerDelay is '15', which has no unit"),
        ("127.0.0.1:9092", "${NO_SUCH}", ("source.kafka.bootstrap.servers has ${NO_SUCH}, and the "
                                          "environment "
                                         "has no variable NO_SUCH")),
        ("127.0.0.1:9092", "${NO_SUCH", "a ${ that names no variable of the environment: it must be"),
        ("127.0.0.1:9092", "${1x}", "has a ${ that names no variable"),
        ("127.0.0.1:9092", "$BROKERS", ("source: Invalid value $BROKERS for configuration bootstrap.servers: "
                                       "expected host:port")),
        ("[sink]", '[format]\nkind = "json"\nschema = "a INTT"\n[sink]',
            "format.schema says that a is 'INTT', which is no type of Spark's; did you mean INT?"),
        ("[sink]", '[format]\nkind = "csv"\nschema = "a INT, b"\n[sink]',
            "format.schema says that b is 'nothing', which is no type"),
        ("[sink]", '[format]\nkind = "json"\nschema = "a STRUCT<b: ARRAY<LONGG>>"\n[sink]',
            "format.schema says that b is 'LONGG'"),
        ("[sink]", '[format]\nkind = "json"\nschema = "MAP<STRING, money>"\n[sink]',
            "is 'money', which is no type of Spark's; there are boolean, tinyint"),
        ("[sink]", '[format]\nkind = "json"\nschema = "a INT b INT"\n[sink]',
            "format.schema has 'b' where ',' belongs"),
        ("[sink]", '[format]\nkind = "json"\nschema = "a ARRAY<INT"\n[sink]',
            "format.schema has 'its end' where '>' belongs"),
        ("[sink]", '[format]\nkind = "json"\nschema = "a INT; b INT"\n[sink]',
            "format.schema has '; b INT' where"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(read, old, new, words):
    assert old in WHOLE
    with pytest.raises(PipelineError, match=re.escape(words)) as caught:
        read(WHOLE.replace(old, new, 1))
    assert "flights.toml" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


CHANGED = """
checkpoint = "c"
[source]
kafka.bootstrap.servers = "127.0.0.1:9092"
subscribe = "users"
[format]
kind = "json"
envelope = "debezium"
schema = "id INT, name STRING"
key = { schema = "id INT" }
[sink]
kind = "delta"
path = "table"
mode = "merge"
key = ["id"]
"""


def test_a_file_of_changes_is_read_whole(read):
    found = read(CHANGED.replace('"merge"', '"history"\ndeletedBy = "gone"'))

    assert (found.sink.changes.key, found.sink.changes.history) == (("id",), True)
    assert found.sink.changes.deleted_by == "gone"
    assert (found.format.envelope.times, found.format.envelope.decimals) == ("micros", "precise")
    assert (found.format.key.kind, found.format.key.schema) == ("json", "id INT")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"merge"', '"upsert"', "sink.mode is 'upsert': it must be one of append, merge, history"),
        ('mode = "merge"', "upsert = true", "sink.key has no use without mode"),
        ('mode = "merge"\nkey = ["id"]', 'upsertMode = "on"', "sink.upsertMode is unknown"),
        ('key = ["id"]', 'id-columns = "id"', "sink.key is missing: a list of the columns"),
        ('key = ["id"]', 'keys = ["id"]', "sink.keys is unknown; did you mean key?"),
        ('key = ["id"]', 'key = "id"', "sink.key is 'id': it must be a list of texts"),
        ('key = ["id"]', 'key = ["id", "id"]', "sink.key names a column twice: id, id"),
        ('key = ["id"]', 'key = ["id"]\ndeletedBy = 5', "sink.deletedBy must be a text"),
        ('mode = "merge"\nkey = ["id"]', 'deletedBy = "gone"', "sink.deletedBy has no use without mode"),
        ('mode = "merge"\nkey = ["id"]', "", 'sink.mode must be "merge" or "history" with format.envelope'),
        ('"delta"', '"parquet"', "sink.mode is 'merge', and plain Parquet files only grow"),
        ('"debezium"', '"maxwell"', "format.envelope is 'maxwell': it must be one of debezium"),
        ('kind = "json"', 'kind = "csv"', "format.envelope has no use with kind = 'csv'"),
        ('key = { schema = "id INT" }', "", "format.key is missing: the tombstone behind a delete"),
        ('key = { schema = "id INT" }', 'key = "id"', "format.key is 'id': it must be a table"),
        ('{ schema = "id INT" }', "{ }", "format.key.schema is missing"),
        ('{ schema = "id INT" }', '{ schema = "id INTT" }', "format.key.schema says that id is 'INTT'"),
        ('{ schema = "id INT" }', '{ kind = "avro", schema = "a" }', "format.key.kind is 'avro'"),
        ('{ schema = "id INT" }', '{ kind = "text", schema = "a INT, b INT" }', "has 2 columns"),
        ('{ schema = "id INT" }', '{ schema = "id INT", x = 1 }', "format.key.x is unknown"),
        ('"debezium"', '"debezium"\ntimes = "days"', "format.times is 'days': it must be one of micros"),
        ('"debezium"', '"debezium"\ndecimals = "base64"', "format.decimals is 'base64': it must be one of"),
        ('"debezium"', '"debezium"\nmalformed = "keep"', "format.malformed must be fail with an envelope"),
        ('envelope = "debezium"', 'times = "millis"', "format.times is unknown"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_changes_is_said_in_one_line(read, old, new, words):
    assert old in CHANGED
    with pytest.raises(PipelineError, match=re.escape(words)) as caught:
        read(CHANGED.replace(old, new, 1))
    assert "\n" not in str(caught.value)


LETTERS = (
    WHOLE
    + """
[deadLetter]
kind = "parquet"
path = "letters"
[[expect]]
rule = "a > 0"
violation = "deadLetter"
"""
)


def test_letters_and_rules_are_read_whole(read, tmp_path):
    found = read(LETTERS.replace('"letters"', '"letters"\nmaxRecords = 10\nmaxShare = 0.5'))

    assert (found.letters.table.kind, found.letters.table.path) == ("parquet", tmp_path / "letters")
    assert (found.letters.records_max, found.letters.share_max) == (10, 0.5)
    assert [(one.rule, one.violation) for one in found.expectations] == [("a > 0", "deadLetter")]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('kind = "parquet"\npath = "letters"', "", "deadLetter.kind is missing"),
        ('kind = "parquet"\npath = "letters"', 'kind = "iceberg"', "deadLetter.path is missing"),
        ('path = "letters"', "", "deadLetter.path is missing"),
        ('"parquet"\npath = "letters"', '"topic"', "deadLetter.topic is missing"),
        ('"parquet"\npath = "letters"', '"topic"\ntopic = "a b"', "'a b', which is no name of a topic"),
        ('"parquet"\npath = "letters"', '"topic"\ntopic = "flights"', "is read by the pipeline itself"),
        ('"letters"', '"table/x"', "must be a folder apart from sink.path"),
        ('"letters"', '"c"', "must be a folder apart from checkpoint"),
        ('"letters"', '"s3://a"', "deadLetter.path must be a folder, or an address such as s3://bucket/flights"),
        ('"letters"', '"letters/{topic}"', "deadLetter.path has the column topic in braces"),
        ('"letters"', '"letters/{topic"', "deadLetter.path has a brace that is no column's"),
        ('"parquet"\npath = "letters"', '"iceberg"\npath = "letters"\ntable = "lake.{topic}"',
            "deadLetter.table has the column topic in braces"),
        ('"letters"', '"s3://key:s3cret@a/b"', "deadLetter.path must be a folder, or an address"),
        ('"letters"', '"letters"\nmaxRecords = -1', "deadLetter.maxRecords is -1: it must be a whole number"),
        ('"letters"', '"letters"\nmaxShare = 2', "deadLetter.maxShare is 2: it must be a number from 0 to 1"),
        ('"letters"', '"letters"\nmaxshare = 1', "deadLetter.maxshare is unknown; did you mean maxShare?"),
        ("[deadLetter]", '[format]\nkind = "json"\nschema = "a INT"\nmalformed = "keep"\n[deadLetter]',
            "format.malformed must be fail with [deadLetter]"),
        ('[deadLetter]\nkind = "parquet"\npath = "letters"', "", "expect[0].violation is 'deadLetter', and"),
        ('rule = "a > 0"', "", "expect[0].rule is missing"),
        ('rule = "a > 0"', 'rulee = "a > 0"', "expect[0].rulee is unknown; did you mean rule?"),
        ('rule = "a > 0"', "rule = \"reflect('java.lang.System', 'exit', 0)\"", "expect[0].rule has reflect"),
        ('rule = "a > 0"', 'rule = "a IN (SELECT 1)"', "expect[0].rule has SELECT: it may only compare"),
        ('"deadLetter"\n', '"ignore"\n', "expect[0].violation is 'ignore': it must be"),
        ("[[expect]]", "[expect]", "expect must be tables, each below [[expect]]"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_letters_and_rules_is_said_in_one_line(read, old, new, words):
    assert old in LETTERS
    with pytest.raises(PipelineError, match=re.escape(words)) as caught:
        read(LETTERS.replace(old, new, 1))
    assert "\n" not in str(caught.value)


def test_what_a_pipeline_writes_is_not_what_it_reads(read):
    """A letter that does not fit was read again, and was a letter again, without end."""
    by_pattern = WHOLE.replace('subscribe = "flights"', 'subscribePattern = "flights.*"')
    letters = '[deadLetter]\nkind = "topic"\ntopic = "flights-dlq"\n'
    with pytest.raises(PipelineError, match=r"deadLetter\.topic flights-dlq is read by .* flights\.\*$"):
        read(by_pattern + letters)
    sink = by_pattern.replace('kind = "parquet"\npath = "table"', 'kind = "topic"\ntopic = "flights-out"')
    with pytest.raises(PipelineError, match=r"sink\.topic flights-out is read by the pipeline itself by"):
        read(sink)
    assigned = WHOLE.replace('subscribe = "flights"', """assign = '{"flights-dlq": [3]}'""")
    with pytest.raises(PipelineError, match=r"deadLetter\.topic flights-dlq is read by the pipeline itself$"):
        read(assigned + letters)
    assert read(WHOLE + letters).letters.topic == "flights-dlq"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[sink]", '[notify]\nwebhook = "ftp://s3cret"\n[sink]', "notify.webhook must be an address"),
        ("[sink]", '[notify]\nwebhook = "https://"\n[sink]', "notify.webhook must be an address"),
        ("[sink]", '[notify]\nwebhok = "https://s3cret"\n[sink]', "notify.webhok is unknown; did you"),
        ("[sink]", "notify = 5\n[sink]", "source.notify is unknown"),
        ('checkpoint = "c"', 'checkpoint = "c"\nevents = "c/e"', "must not be in the checkpoint's folder"),
        ('checkpoint = "c"', 'checkpoint = "c"\nevents = "table/e"', "must not be in the table's folder"),
        ('checkpoint = "c"', 'checkpoint = "c"\nevents = "flights.toml"', "is the pipeline's own file"),
        ('checkpoint = "c"', 'checkpoint = "c"\nevents = 5', "events must be a text"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_events_is_said_in_one_line(read, old, new, words):
    assert old in WHOLE
    with pytest.raises(PipelineError, match=re.escape(words)) as caught:
        read(WHOLE.replace(old, new, 1))
    assert "s3cret" not in str(caught.value)


REGISTRY = WHOLE.replace(
    "[sink]",
    """
[format]
kind = "avro"
header = "confluent"
schema = '{ "type": "record", "name": "A", "fields": [{ "name": "a", "type": "int" }] }'
registry = { url = "https://h:8081/", username = "u", password = "s3cret", timeout = "3s" }
[sink]""",
)


def test_a_registry_is_read_whole(read, tmp_path):
    found = read(REGISTRY).format.ids

    assert found.checkpoint == tmp_path / "c"
    assert (found.registry.url, found.registry.username, found.registry.timeout_s) == (
        "https://h:8081",
        "u",
        3,
    )
    assert found.registry.password == "s3cret"
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('url = "https://h:8081/"', 'urll = "https://h"', "registry.urll is unknown; did you mean url?"),
        ('"https://h:8081/"', '"h:8081"', "format.registry.url must be http://host:port or https"),
        ('"https://h:8081/"', '"http://u:s3cret@h"', "username and password are apart"),
        ('username = "u", ', "", "format.registry.username is missing"),
        (', password = "s3cret"', "", "format.registry.password is missing"),
        ('"3s"', '"3"', "format.registry.timeout is '3', which has no unit"),
        ('"3s"', '"3s", ca = "none.pem"', "format.registry.ca is 'none.pem': No such file or directory"),
        ('"3s"', '"3s", ca = "flights.toml"', "ca is 'flights.toml', which has no certificate in PEM"),
        ('"3s"', '"3s", ca = "empty.pem"', "format.registry.ca is 'empty.pem', which is empty: leave it out"),
        ('"3s"', '"3s", ca = "blank.pem"', "format.registry.ca is 'blank.pem', which is empty: leave it out"),
        ('"3s"', '"3s", token = 1', "format.registry.token is unknown"),
        ("registry = {", "schemaIds = [1]\nregistry = {", "format.schemaIds has no use with a registry"),
        ('header = "confluent"', "", "format.registry has no use without header"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_registry_is_said_in_one_line(read, tmp_path, old, new, words):
    (tmp_path / "empty.pem").touch()
    (tmp_path / "blank.pem").write_text(" \n")
    assert old in REGISTRY
    with pytest.raises(PipelineError, match=re.escape(words)) as caught:
        read(REGISTRY.replace(old, new, 1))
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(PipelineError, match=r"none\.toml: No such file or directory"):
        load(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('trigger = "99999999999999999999d"\n' + WHOLE, "trigger"),
        ('log = "a\\u0000"\n' + WHOLE, "log"),
        ('name = "../x"\n' + WHOLE, "name"),
        (WHOLE.replace('"c"', '"c\\u0000"'), "checkpoint"),
        (WHOLE.replace('"table"', '"table\\u0000"'), "path"),
        (
            WHOLE.replace('subscribe = "flights"', 'subscribePattern = "a{99999999999999}"'),
            "subscribePattern",
        ),
    ],
)
def test_what_only_a_run_would_stumble_over_is_refused_by_its_key(read, text, key):
    with pytest.raises(PipelineError, match=key):
        read(text)


def test_variables_of_the_environment_are_expanded_in_every_text(read, monkeypatch):
    monkeypatch.setenv("BROKERS", "b1:9092,b2:9092")
    monkeypatch.setenv("LAKE_1", "lake")
    text = WHOLE.replace("127.0.0.1:9092", "${BROKERS}").replace('"table"', '"${LAKE_1}/a-${LAKE_1}"')
    found = read(
        text + 'partitionBy = ["${LAKE_1}"]\n[transform]\nsql = "SELECT \'$${x} $5 {y}\' FROM source"'
    )

    assert found.source["kafka.bootstrap.servers"] == "b1:9092,b2:9092"
    assert found.sink.path.parts[-2:] == ("lake", "a-lake")
    assert found.sink.partition_by == ("lake",)
    assert found.sql == "SELECT '${x} $5 {y}' FROM source"


@pytest.mark.parametrize(
    "schema",
    [
        "a INT, b BIGINT NOT NULL COMMENT 'its', `odd ``name` STRING",
        "a: int, b: struct<c: string, d: array<map<string, double>>>",
        "MAP<STRING, ARRAY<INT>>", "array<struct<a: int>>", ("d DECIMAL(10,2), e DECIMAL, f numeric(5), g "
                                                            "STRUCT<>"),
        ("i INTERVAL DAY TO SECOND, c CHAR(3), v VARCHAR(9), s STRING COLLATE UNICODE_CI, t TIME(6), n "
        "TIMESTAMP_NTZ"),
        '{"type": "struct", "fields": []}', "a variant, b void",
    ],
)  # fmt: skip
def test_every_type_of_spark_is_taken(read, schema):
    text = f"[format]\nkind = 'json'\nschema = '''{schema}'''\n[sink]"

    assert read(WHOLE.replace("[sink]", text)).format.schema == schema
