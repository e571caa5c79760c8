import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.chunks import FileSlice, chunks_size, materialize
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import (
    TopicPartition,
    java_abs,
    java_hash,
    topics_collide,
    uuid_from_text,
    uuid_text,
    validate_topic_name,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("polygenelubricants", -(2**31)), ("😀", 1_772_899)],
)
def test_java_hash(text, expected):
    assert java_hash(text) == expected


def test_the_group_of_the_articles_lives_in_partition_34():
    assert java_abs(java_hash("consume_group")) % 50 == 34


def test_java_abs_of_the_smallest_integer_is_zero():
    assert java_abs(-(2**31)) == 0
    assert java_abs(-7) == 7


@given(st.binary(min_size=16, max_size=16))
def test_uuid_texts_round_trip(value):
    assert len(uuid_text(value)) == 22
    assert uuid_from_text(uuid_text(value)) == value


def test_a_short_uuid_is_refused():
    with pytest.raises(ValueError, match="holds 3 bytes"):
        uuid_from_text("AAAA")


@pytest.mark.parametrize("name", ["a", "a.b_c-9", "x" * 249])
def test_legal_topic_names(name):
    validate_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "ä", "a\n"])
def test_illegal_topic_names(name):
    with pytest.raises(KafkaError) as refused:
        validate_topic_name(name)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_topics_that_differ_in_dots_and_underscores_collide():
    assert topics_collide("a.b", "a_b")
    assert not topics_collide("a.b", "a-b")


def test_error_codes_know_their_text_and_whether_to_try_again():
    assert ErrorCode.NOT_CONTROLLER.message == "This is not the correct controller for this cluster."
    assert ErrorCode.NONE.message == "NONE"
    assert KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER).retriable
    assert not KafkaError(ErrorCode.INVALID_REQUEST).retriable
    assert ErrorCode.of(9999) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_topic_partition_prints_as_its_directory():
    assert str(TopicPartition("t", 3)) == "t-3"


class MemoryFile:
    def __init__(self, data):
        self.data = data

    def fileno(self):
        return -1

    def pread(self, size, position):
        return self.data[position : position + size]


def test_chunks_are_memory_and_ranges_of_files():
    file = MemoryFile(b"0123456789")
    chunks = [b"<", FileSlice(file, 2, 3), memoryview(b">")]
    assert chunks_size(chunks) == 5
    assert materialize(chunks) == b"<234>"


def test_a_range_beyond_the_end_is_an_error():
    with pytest.raises(OSError, match="ends at 10"):
        FileSlice(MemoryFile(b"0123456789"), 8, 5).read()


def test_an_event_is_one_line_whatever_its_fields(caplog):
    with caplog.at_level(logging.INFO, logger="barnabas.test"):
        EventLog("test").info("thing.happened", a=1, b="two words", c='quote " and\nbreak', d="")
    assert caplog.messages == ['thing.happened a=1 b="two words" c="quote \\" and\\nbreak" d=""']
