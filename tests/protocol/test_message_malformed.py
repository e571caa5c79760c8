"""Bytes that are not the message they claim to be: an error with its place, and never memory on credit."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from message_tools import all_messages, filled, versions_of

from barnabas.core.chunks import materialize
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.fetch import FetchRequest, FetchTopic
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def named(cls):
    return cls.__name__


@pytest.mark.parametrize("cls", all_messages(), ids=named)
def test_a_message_cut_off_anywhere_is_refused(cls):
    for version in {cls.min_version, cls.max_version}:
        encoded = materialize(filled(cls, version).encode(version))
        for size in range(len(encoded)):
            with pytest.raises(ProtocolError) as caught:
                cls.decode(encoded[:size], version)
            assert caught.value.message == cls.__name__
            assert caught.value.version == version
            assert 0 <= caught.value.offset <= size


@pytest.mark.parametrize("cls", [MetadataRequest, MetadataResponse, ProduceRequest, FetchRequest], ids=named)
@settings(max_examples=60, database=None)
@given(data=st.data())
def test_noise_is_decoded_or_refused_and_nothing_else(cls, data):
    version = data.draw(st.sampled_from(versions_of(cls)))
    encoded = bytearray(materialize(filled(cls, version).encode(version)))
    for _ in range(3):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))

    try:
        _, end = cls.decode(encoded, version)
    except ProtocolError:
        return
    assert end <= len(encoded)


def refused(cls, frame, version):
    with pytest.raises(ProtocolError) as caught:
        cls.decode(frame, version)
    return caught.value


def test_the_error_says_message_version_field_and_offset():
    request = FetchRequest(topics=[FetchTopic(topic="flights")])
    encoded = materialize(request.encode(4))

    error = refused(FetchRequest, encoded[:-1], 4)

    assert (error.message, error.version, error.field) == ("FetchRequest", 4, "topics.partitions")
    assert str(error) == "FetchRequest v4, field topics.partitions, byte 30: the bytes end here, 3 are left"


def test_the_error_names_the_very_field_among_fields_that_are_read_together():
    encoded = materialize(FetchRequest().encode(4))

    assert refused(FetchRequest, encoded[:3], 4).field == "replica_id"
    assert refused(FetchRequest, encoded[:9], 4).field == "min_bytes"
    assert refused(FetchRequest, encoded[:9], 4).offset == 8


def test_a_count_that_lies_costs_nothing():
    lying = (2**31 - 1).to_bytes(4, "big") + bytes(40)
    tracemalloc.start()
    try:
        error = refused(MetadataRequest, lying, 0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert error.field == "topics"
    assert error.offset == 4
    assert "a count of 2147483647" in error.reason
    assert peak < 1 << 20


def test_a_compact_count_that_lies_is_refused():
    error = refused(FindCoordinatorRequest, b"\x00" + b"\xff\xff\xff\xff\x0f" + bytes(40), 4)

    assert error.field == "coordinator_keys"
    assert "a count of 4294967294" in error.reason


def test_an_array_has_a_bound_of_its_own():
    frame = (2_000_000).to_bytes(4, "big") + bytes(4_000_000)

    assert refused(MetadataRequest, frame, 0).field == "topics"


def test_records_longer_than_the_frame_are_refused():
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(records=b"1234")])]
    frame = bytearray(materialize(ProduceRequest(topic_data=data).encode(3)))
    frame[-8:-4] = (5).to_bytes(4, "big")

    error = refused(ProduceRequest, frame, 3)

    assert error.field == "topic_data.partition_data.records"
    assert error.reason == "a length of 5, where 4 bytes are left"


def test_a_null_that_must_not_be_is_refused():
    error = refused(ApiVersionsRequest, b"\x00\x02a\x00", 3)

    assert error.field == "client_software_name"
    assert error.reason == "null, which it must not be"


def test_a_varint_without_end_is_refused():
    error = refused(ApiVersionsRequest, b"\xff\xff\xff\xff\xff\xff", 3)

    assert error.field == "client_software_name"
    assert "varint" in error.reason


def test_a_tagged_field_whose_size_is_wrong_is_refused():
    encoded = bytearray(materialize(FetchRequest(cluster_id="abc").encode(12)))
    at = encoded.index(b"\x04abc") - 1
    encoded[at] += 1

    assert refused(FetchRequest, encoded + b"\x00", 12).field == "cluster_id"


def test_a_version_that_does_not_exist_is_refused_both_ways():
    for version in (-1, 19):
        with pytest.raises(ProtocolError, match="there is no such version, only 0-18"):
            FetchRequest().encode(version)
        with pytest.raises(ProtocolError, match="there is no such version"):
            FetchRequest.decode(b"", version)


def test_text_that_is_not_utf_8_is_read_as_java_reads_it():
    frame = bytearray(materialize(ApiVersionsRequest(client_software_name="abc").encode(3)))
    frame[frame.index(b"abc")] = 0xFF

    request, _ = ApiVersionsRequest.decode(frame, 3)

    assert request.client_software_name == "\ufffdbc"
