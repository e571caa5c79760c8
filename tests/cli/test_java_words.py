"""What Kafka's tools owe to Java: the order of hash maps, names of exceptions, dates and durations."""

import pytest

from barnabas.admin import NotAConsumerGroupError
from barnabas.cli.java_errors import java_text
from barnabas.cli.java_time import parse_datetime_ms, parse_duration_ms
from barnabas.client import ClientTimeoutError
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.operations.java_order import copied, grown, partition_hash, partition_order, text_order


def test_partitions_come_as_java_prints_them():
    # Printed by kafka-consumer-groups.sh 3.9.2 for a group that had positions in all of these.
    long = "logs-and-more-with-long-name"
    printed = (
        [("orders", n) for n in (7, 8, 9, 10, 11)]
        + [(long, 1), (long, 0)]
        + [("orders", n) for n in range(7)]
    )
    printed = [TopicPartition(*tp) for tp in printed]
    assert partition_order(sorted(printed)) == printed


def test_a_copied_map_has_fewer_buckets():
    # So says the same script for --to-current of a group without positions, and for one with.
    both = [TopicPartition("orders", 0), TopicPartition("orders", 3)]
    assert partition_order(both, copied(2)) == both[::-1]
    assert partition_order(both) == both


def test_maps_double_when_they_are_three_quarters_full():
    assert [grown(count) for count in (0, 12, 13, 24, 25)] == [16, 16, 32, 32, 64]
    assert [copied(count) for count in (1, 2, 3, 6)] == [2, 4, 8, 16]


def test_texts_of_one_bucket_keep_their_order():
    assert text_order(["Aa", "BB"]) == ["Aa", "BB"]  # the two have the same hash
    assert text_order(["BB", "Aa"]) == ["BB", "Aa"]
    assert text_order(["b", "a", "b"]) == ["a", "b"]


def test_the_hash_of_a_partition_is_that_of_java():
    assert partition_hash(TopicPartition("a", 2)) == 31 * (31 + 2) + ord("a")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            KafkaError(ErrorCode.GROUP_ID_NOT_FOUND),
            "org.apache.kafka.common.errors.GroupIdNotFoundException: The group id does not exist.",
        ),
        (
            KafkaError(ErrorCode.NON_EMPTY_GROUP),
            "org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty.",
        ),
        (
            KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "no"),
            "org.apache.kafka.common.errors.GroupAuthorizationException: no",
        ),
        (ClientTimeoutError("late"), "org.apache.kafka.common.errors.TimeoutException: late"),
        (
            NotAConsumerGroupError("g", "connect"),
            "java.lang.IllegalArgumentException: GroupId g is not a consumer group (connect).",
        ),
    ],
)
def test_errors_carry_the_names_of_their_classes(error, text):
    assert java_text(error) == text


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:01.500", 1500),
        ("1970-01-01T00:00:01.500Z", 1500),
        ("1970-01-01T02:00:00.000+02:00", 0),
        ("1970-01-01T02:00:00.000+02", 0),
        ("1969-12-31T22:30:00.000-0130", 0),
        ("1970-01-01T00:00:00.5", 5),
        ("2020-09-13T12:26:40.000", 1_600_000_000_000),
    ],
)
def test_dates_are_utc_unless_they_say_otherwise(text, ms):
    assert parse_datetime_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2020-09-13", "java.text.ParseException: Error parsing timestamp. It does not contain a 'T'"),
        ("2020-09-13T12:26", 'java.text.ParseException: Unparseable date: "2020-09-13T12:26Z"'),
        ("2020-13-13T12:26:50.000", 'java.text.ParseException: Unparseable date: "2020-13-13T12:26:50.000Z"'),
        (
            "2020-12-13T25:26:50.000+01",
            'java.text.ParseException: Unparseable date: "2020-12-13T25:26:50.000+01"',
        ),
    ],
)
def test_a_date_that_is_none_is_refused_as_java_does(text, words):
    with pytest.raises(ValueError, match="ParseException") as refusal:
        parse_datetime_ms(text)
    assert str(refusal.value).startswith(words)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT15M", 900_000),
        ("P2D", 172_800_000),
        ("P1DT1H1M1.5S", 90_061_500),
        ("pt-1h", -3_600_000),
        ("-PT1H", -3_600_000),
        ("-PT-1.5S", 1500),
        ("PT-0.5S", -500),
        ("PT.5S", None),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("P1M", None),
        ("1h", None),
        ("PT1H ", None),
    ],
)
def test_durations_are_those_of_java(text, ms):
    if ms is None:
        with pytest.raises(ValueError, match="Text cannot be parsed to a Duration"):
            parse_duration_ms(text)
    else:
        assert parse_duration_ms(text) == ms
