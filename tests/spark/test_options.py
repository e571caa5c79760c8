"""Options of the data source: the official connector's names, defaults, order of checks and words."""

from pathlib import Path

import pytest

from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import OptionError
from barnabas.spark.offsets import OffsetSpec, SpecKind
from barnabas.spark.options import (
    SOURCE_OPTIONS,
    check_reading,
    parse_duration_ms,
    sink_options,
    source_options,
)
from barnabas.spark.source import TopicSource

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "a"}


def options(*, streaming=False, **extra):
    return source_options(
        {**BASE, **{name.replace("_", "."): value for name, value in extra.items()}}, streaming=streaming
    )


def refused(given, *, streaming=False):
    with pytest.raises(OptionError) as caught:
        source_options(given, streaming=streaming)
    return str(caught.value)


@pytest.mark.parametrize(
    ("option", "words"), [("startingOffsets", "names no group"), ("endingOffsets", "Expected e.g.")]
)
def test_only_a_start_has_a_group_and_it_has_a_name(option, words):
    assert source_options({**BASE, "startingOffsets": "group: g "}, streaming=True).starting.group == "g"
    with pytest.raises(OptionError, match=words):
        source_options(
            {**BASE, option: "group:" if option == "startingOffsets" else "group:g"}, streaming=False
        )


@pytest.mark.parametrize(
    ("name", "value", "reading", "writing"),
    [
        ("fetch.max.wait.ms", "soon", "Invalid value soon for configuration fetch.max.wait.ms", None),
        ("isolation.level", "nonsense", "Invalid value nonsense for configuration isolation.level", None),
        ("request.timeout.ms", "-1", "request.timeout.ms", "request.timeout.ms"),
        ("acks", "7", None, "Invalid value 7 for configuration acks"),
        ("a.key.of.java", "x", None, None),
    ],
)
def test_values_for_the_client_are_refused_before_a_task_has_them(name, value, reading, writing):
    given = {**BASE, f"kafka.{name}": value}
    for make, words in (
        (lambda: source_options(given, streaming=True), reading),
        (lambda: sink_options(given), writing),
    ):
        if words is None:
            make()
        else:
            with pytest.raises(OptionError, match=words):
                make()


def test_defaults_are_the_official_ones():
    batch, stream = options(), options(streaming=True)

    assert batch.starting == OffsetSpec(SpecKind.EARLIEST)
    assert stream.starting == OffsetSpec(SpecKind.LATEST)
    assert batch.ending == OffsetSpec(SpecKind.LATEST, no_match_is_latest=False)
    assert (batch.fail_on_data_loss, batch.include_headers, batch.min_partitions) == (True, False, None)
    assert (stream.max_offsets_per_trigger, stream.max_trigger_delay_ms) == (None, 15 * 60_000)
    assert (batch.poll_timeout_ms, batch.fetch_retries) == (120_000, 3)


def test_option_names_are_case_insensitive():
    chosen = source_options(
        {"Kafka.Bootstrap.Servers": "h:1", "SUBSCRIBE": " a, b ", "includeHEADERS": "TRUE"}, streaming=False
    )

    assert (chosen.topics, chosen.include_headers, chosen.client) == (
        ("a", "b"),
        True,
        {"bootstrap.servers": "h:1"},
    )


@pytest.mark.parametrize("value", ['{"t":["0"]}', '{"t":[0.5]}', '{"t":[false]}', '{"t":0}', "{1}"])
def test_partitions_to_assign_are_whole_numbers(value):
    given = {"kafka.bootstrap.servers": "h:1", "assign": value}
    assert refused(given) == f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {value}'


def test_a_load_refuses_what_is_wrong_in_a_batch_and_in_a_stream():
    with pytest.raises(OptionError) as caught:
        check_reading({**BASE, "startingOffsets": '{"a":{"0":-3}}'})
    assert str(caught.value).startswith("startingOffsets for a-0 is -3")

    with pytest.raises(
        OptionError, match=r"as a batch: starting offset can't be latest.*; as a stream: ending offset"
    ):
        check_reading({**BASE, "startingOffsets": "latest", "endingOffsets": "latest"})

    assert check_reading({**BASE, "startingOffsets": "latest", "includeHeaders": "true"}) is True
    assert check_reading({**BASE, "endingOffsets": "latest"}) is False


@pytest.mark.parametrize(
    ("given", "client_id"),
    [
        ({"kafka.group.id": "nightly"}, "consumer-nightly-1"),
        ({"groupIdPrefix": "team"}, "consumer-team-1"),
        ({"kafka.group.id": "nightly", "groupIdPrefix": "team"}, "consumer-nightly-1"),
        ({"kafka.group.id": "nightly", "kafka.client.id": "mine"}, "mine"),
    ],
)
def test_a_group_id_names_the_query_to_the_brokers(given, client_id):
    client = source_options({**BASE, **given}, streaming=True).client

    assert client == {"bootstrap.servers": "127.0.0.1:9092", "client.id": client_id}


def test_exactly_one_strategy():
    servers = {"kafka.bootstrap.servers": "h:1"}
    assert refused(servers).startswith("One of the following options must be specified for Kafka source: ")
    assert refused({**BASE, "subscribePattern": "a.*"}).startswith("Only one of the following options can be")
    assert source_options({**servers, "subscribePattern": "a.*"}, streaming=False).pattern == "a.*"
    assigned = source_options({**servers, "assign": '{"t":[0,2]}'}, streaming=False).assigned
    assert assigned == (TopicPartition("t", 0), TopicPartition("t", 2))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("subscribe", " , ", "No topics to subscribe to as specified value for option 'subscribe' is ','"),
        ("subscribePattern", "", "Pattern to subscribe is empty"),
        ("subscribePattern", "(", "is not a regular expression"),
        ("assign", "t", "No topicpartitions to assign as specified value for option 'assign' is 't'"),
        ("assign", '{"t":1}', 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {"t":1}'),
    ],
)
def test_a_strategy_must_say_something(name, value, words):
    assert words in refused({"kafka.bootstrap.servers": "h:1", name: value})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kafka.auto.offset.reset", "Kafka option 'auto.offset.reset' is not supported. Instead set"),
        ("kafka.key.deserializer", "Kafka option 'key.deserializer' is not supported as keys are"),
        ("kafka.value.deserializer", "Kafka option 'value.deserializer' is not supported as values are"),
        ("kafka.enable.auto.commit", "Kafka option 'enable.auto.commit' is not supported"),
        ("kafka.interceptor.classes", "Kafka option 'interceptor.classes' is not supported"),
    ],
)
def test_kafka_options_that_would_break_the_source_are_refused(name, words):
    assert words in refused({**BASE, name: "x"})


def test_bootstrap_servers_are_needed():
    assert refused({"subscribe": "a"}) == (
        "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer"
    )
    with pytest.raises(OptionError, match="configuring Kafka producer"):
        sink_options({"topic": "a"})


@pytest.mark.parametrize(
    ("name", "value", "streaming", "words"),
    [
        ("startingOffsets", "latest", False, "starting offset can't be latest for batch queries on Kafka"),
        ("startingOffsets", '{"a":{"0":-1}}', False, "startingOffsets for a-0 can't be latest for batch"),
        ("endingOffsets", "earliest", False, "ending offset can't be earliest for batch queries on Kafka"),
        ("endingOffsets", '{"a":{"0":-2}}', False, "ending offset for a-0 can't be earliest for batch"),
        ("endingOffsets", "latest", True, "ending offset not valid in streaming queries"),
        ("endingOffsetsByTimestamp", "{}", True, "ending offset not valid in streaming queries"),
        ("endingTimestamp", "1", True, "ending timestamp not valid in streaming queries"),
        (
            "startingOffsets",
            "soon",
            False,
            'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got soon',
        ),
        (
            "startingOffsets",
            '{"a":{"0":-3}}',
            True,
            "startingOffsets for a-0 is -3: it must be an offset, -2 for",
        ),
        ("endingOffsets", '{"a":{"0":-3}}', False, "endingOffsets for a-0 is -3"),
        ("startingOffsets", '{"a":{"0":"5"}}', False, "Expected e.g."),
        ("startingOffsets", '{"a":{"0":5.7}}', False, "Expected e.g."),
        ("startingOffsets", '{"a":{"0":true}}', False, "Expected e.g."),
        ("startingOffsets", '{"a":{"0":null}}', False, "Expected e.g."),
        ("startingTimestamp", "-3", False, "startingTimestamp is -3: it must be milliseconds since 1970"),
        ("endingOffsetsByTimestamp", '{"a":{"0":-4}}', False, "endingOffsetsByTimestamp for a-0 is -4"),
        ("startingOffsetsByTimestamp", "1", False, 'Expected e.g. {"topicA": {"0": 123456789'),
        ("startingTimestamp", "noon", False, "Expected a single long value, got noon"),
        ("minPartitions", "0", False, "minPartitions must be positive"),
        ("maxRecordsPerPartition", "-1", False, "maxRecordsPerPartition must be positive"),
        ("maxOffsetsPerTrigger", "many", True, "Expected a single long value, got many"),
        ("maxTriggerDelay", "soon", True, "Invalid time 'soon'"),
        ("failOnDataLoss", "maybe", True, "it must be true or false"),
        ("startingOffsetsByTimestampStrategy", "guess", True, "it must be error or latest"),
    ],
)
def test_bad_values_say_what_is_wrong(name, value, streaming, words):
    assert words in refused({**BASE, name: value}, streaming=streaming)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingTimestamp", str(1 << 63)),
        ("endingTimestamp", str(1 << 63)),
        ("startingOffsetsByTimestamp", f'{{"a":{{"0":{1 << 63}}}}}'),
        ("endingOffsetsByTimestamp", f'{{"a":{{"0":{1 << 63}}}}}'),
        ("startingOffsets", f'{{"a":{{"0":{1 << 63}}}}}'),
        ("endingOffsets", f'{{"a":{{"0":{1 << 63}}}}}'),
    ],
)
def test_offsets_and_times_are_of_64_bits(name, value):
    assert name in refused({**BASE, name: value})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("subscribePattern", "a{99999999999999}", "is not a regular expression"),
        ("subscribePattern", "(" * 50_000, "is not a regular expression"),
        ("assign", '{"a":' * 100_000, "Expected e.g. "),
    ],
)
def test_a_strategy_that_python_cannot_take_in_is_refused_in_one_line(name, value, words):
    assert words in refused({"kafka.bootstrap.servers": "h:1", name: value})


def test_of_three_ways_to_say_where_to_start_the_first_wins():
    everything = {
        "startingTimestamp": "5",
        "startingOffsetsByTimestamp": '{"a":{"0":7}}',
        "startingOffsets": "earliest",
        "startingOffsetsByTimestampStrategy": "latest",
    }

    assert source_options({**BASE, **everything}, streaming=True).starting == OffsetSpec(
        SpecKind.TIMESTAMP, timestamp=5, no_match_is_latest=True
    )
    del everything["startingTimestamp"]
    assert source_options({**BASE, **everything}, streaming=True).starting.values == {
        TopicPartition("a", 0): 7
    }
    del everything["startingOffsetsByTimestamp"]
    assert source_options({**BASE, **everything}, streaming=True).starting.kind is SpecKind.EARLIEST


def test_the_least_of_a_trigger_is_not_above_its_most():
    words = refused({**BASE, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, streaming=True)

    assert words == "The value of minOffsetPerTrigger(9) is higher than the maxOffsetsPerTrigger(5)."


def test_stream_limits_are_ignored_in_batch_queries_with_a_warning(caplog):
    source_options({**BASE, "maxOffsetsPerTrigger": "5"}, streaming=False)

    assert "maxOffsetsPerTrigger option ignored in batch queries" in caplog.text


@pytest.mark.parametrize(
    ("text", "expected"), [("15m", 900_000), ("90s", 90_000), ("250", 250), ("2 h", 7_200_000)]
)
def test_durations_are_sparks(text, expected):
    assert parse_duration_ms(text) == expected


def test_serializers_are_ours():
    for name in ("key", "value"):
        with pytest.raises(OptionError, match=f"'{name}.serializer' is not supported"):
            sink_options({**BASE, f"kafka.{name}.serializer": "x"})


def test_a_stream_with_wrong_options_says_so_at_the_first_question():
    source = TopicSource({"kafka.bootstrap.servers": "b:1", "subscribe": "t", "endingOffsets": "latest"})

    reader = source.streamReader(source.schema())
    for question in (reader.prepareForTriggerAvailableNow, reader.initialOffset, reader.getDefaultReadLimit):
        with pytest.raises(OptionError, match="ending offset not valid in streaming queries"):
            question()
    reader.stop()  # which PySpark does whatever happened


def test_corrupt_batches_fail_or_are_skipped():
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}

    assert not source_options(given, streaming=True).skip_corrupt
    assert source_options({**given, "corruptBatches": "SKIP"}, streaming=True).skip_corrupt
    with pytest.raises(
        OptionError, match="Invalid value maybe for option corruptBatches: it must be fail or"
    ):
        source_options({**given, "corruptBatches": "maybe"}, streaming=True)


def test_each_option_of_the_source_is_on_the_page():
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()

    assert [name for name in SOURCE_OPTIONS if f"`{name}`" not in page] == []
