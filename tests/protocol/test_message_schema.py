"""The face of messages: how they are built, compared and shown, and what encoding refuses."""

import pytest
from message_tools import as_decoded

from barnabas.core.chunks import FileSlice, chunks_size, materialize
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import ZERO_UUID
from barnabas.protocol.api import ApiKey
from barnabas.protocol.encoder import COPY_MAX
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.message import Message
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest
from barnabas.protocol.registry import REQUESTS, RESPONSES
from barnabas.protocol.schema import Struct, field, resolved
from barnabas.protocol.versions import Versions
from barnabas.protocol.wire import Records, int8, int32


def refused(message, version):
    with pytest.raises(ProtocolError) as caught:
        message.encode(version)
    return caught.value


def test_every_field_starts_at_its_default():
    request = FetchRequest()

    assert (request.replica_id, request.max_bytes, request.session_epoch) == (-1, 0x7FFFFFFF, -1)
    assert (request.cluster_id, request.replica_state, request.rack_id) == (None, None, "")
    assert FetchTopic().topic_id == ZERO_UUID


def test_lists_are_not_shared_between_messages():
    one, other = FetchRequest(), FetchRequest()
    one.topics.append(FetchTopic(topic="flights"))

    assert other.topics == []


def test_a_field_that_does_not_exist_is_refused():
    with pytest.raises(TypeError):
        FetchRequest(speed=1)
    with pytest.raises(AttributeError):
        FetchRequest().speed = 1


def test_equality_is_by_class_fields_and_unknown_tags():
    assert ApiVersion(api_key=1) == ApiVersion(api_key=1, min_version=0)
    assert ApiVersion(api_key=1) != ApiVersion(api_key=2)
    assert ApiVersion() != LeaderIdAndEpoch()
    assert ApiVersion(unknown_tags={9: b"x"}) != ApiVersion()


def test_repr_shows_what_is_not_default():
    partition = PartitionData(partition_index=3, records=bytes(100), unknown_tags={5: b""})

    assert repr(FetchTopic(topic="flights", partitions=[FetchPartition()])) == (
        "FetchTopic(topic='flights', partitions=[FetchPartition()])"
    )
    assert repr(partition) == "PartitionData(partition_index=3, records=<100 bytes>, unknown_tags={5: b''})"


def test_an_error_code_is_a_number_on_the_wire():
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)

    assert materialize(response.encode(0)) == b"\x00\x23\x00\x00\x00\x00"


def test_a_value_that_the_version_has_no_place_for_is_refused():
    error = refused(FetchResponse(session_id=5), 6)

    assert (error.message, error.version, error.field, error.offset) == ("FetchResponse", 6, "session_id", -1)


def test_an_ignorable_value_is_dropped_where_the_version_has_no_place():
    request = FetchRequest(topics=[FetchTopic(topic="t", topic_id=bytes(15) + b"\x01")])

    decoded, _ = FetchRequest.decode(materialize(request.encode(12)), 12)

    assert decoded.topics[0].topic_id == ZERO_UUID
    assert decoded.topics[0].topic == "t"


def test_a_null_in_a_version_that_knows_none_is_refused():
    assert refused(MetadataRequest(topics=None), 0).field == "topics"
    assert refused(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9).field == "topics.name"


def test_a_number_out_of_range_is_refused_by_name():
    error = refused(FetchRequest(max_wait_ms=1, min_bytes=1 << 31), 4)

    assert error.field == "min_bytes"


def test_a_string_too_long_for_its_length_is_refused():
    for version in (0, 4):
        request = FindCoordinatorRequest(key="k" * 32768)
        if version == 4:
            request = FindCoordinatorRequest(coordinator_keys=["k" * 32768])
        assert refused(request, version).field in {"key", "coordinator_keys"}


def test_a_uuid_that_is_too_short_is_refused():
    assert refused(FetchRequest(topics=[FetchTopic(topic_id=b"short")]), 13).field == "topics.topic_id"


def test_unknown_tagged_fields_are_kept_and_written_again():
    partition = PartitionData(unknown_tags={7: b"seven", 300: b"x" * 200})
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    encoded = materialize(response.encode(12))

    decoded, _ = FetchResponse.decode(encoded, 12)

    assert decoded == response
    assert materialize(decoded.encode(12)) == encoded


def test_a_tagged_struct_at_its_defaults_is_not_sent():
    assert materialize(FetchRequest(replica_state=ReplicaState()).encode(15)) == materialize(
        FetchRequest().encode(15)
    )


def test_tagged_fields_are_written_in_the_order_of_their_tags():
    request = FetchRequest(replica_state=ReplicaState(replica_id=2), cluster_id="c", unknown_tags={5: b"5"})

    encoded = materialize(request.encode(15))

    assert encoded.endswith(
        b"\x03" + b"\x00\x02\x02c" + b"\x01\x0d\x00\x00\x00\x02" + b"\xff" * 8 + b"\x00" + b"\x05\x015"
    )
    assert FetchRequest.decode(encoded, 15) == (as_decoded(request), len(encoded))


def test_a_nullable_struct_is_there_or_not():
    for cursor in (None, Cursor(topic_name="flights", partition_index=3)):
        request = DescribeTopicPartitionsRequest(cursor=cursor)

        decoded, _ = DescribeTopicPartitionsRequest.decode(materialize(request.encode(0)), 0)

        assert decoded.cursor == cursor


class FakeFile:
    """A file that must not be read."""

    def fileno(self):
        return -1

    def pread(self, size, position):
        raise AssertionError("records were read while they were encoded")


def fetch_response(records):
    partitions = [PartitionData(partition_index=i, records=one) for i, one in enumerate(records)]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


@pytest.mark.parametrize("version", [4, 12])
def test_a_range_of_a_file_becomes_a_chunk_and_stays_unread(version):
    part = FileSlice(FakeFile(), 100, 5000)

    chunks = fetch_response([part, part]).encode(version)

    assert [chunk is part for chunk in chunks][:4] == [False, True, False, True]
    same = materialize(fetch_response([bytes(5000), bytes(5000)]).encode(version))
    assert chunks_size(chunks) == len(same)


def test_large_records_are_not_copied_and_small_ones_join_their_header():
    large, small = bytes(COPY_MAX + 1), bytes(COPY_MAX)

    assert [chunk is large for chunk in fetch_response([large]).encode(12)] == [False, True, False]
    assert len(fetch_response([small, None, b""]).encode(12)) == 1


def test_decoded_records_are_a_view_of_the_frame_that_can_be_written():
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(records=b"records")])]
    frame = bytearray(materialize(ProduceRequest(topic_data=data).encode(9)))

    request, _ = ProduceRequest.decode(memoryview(frame), 9)
    records = request.topic_data[0].partition_data[0].records
    records[0:1] = b"R"

    assert isinstance(records, memoryview)
    assert b"Records" in frame


def test_a_version_of_the_controller_has_its_own_fields():
    request = UpdateMetadataRequest(type=2, is_kraft_controller=True)

    decoded, _ = UpdateMetadataRequest.decode(materialize(request.encode(8)), 8)

    assert decoded.type == 2
    assert refused(request, 7).field == "is_kraft_controller"


def test_a_message_knows_its_key_and_its_versions():
    assert (LeaderAndIsrRequest.api, LeaderAndIsrRequest.min_version) == (ApiKey.LEADER_AND_ISR, 0)
    assert (LeaderAndIsrRequest.max_version, LeaderAndIsrRequest.flexible_from) == (7, 4)
    assert LeaderAndIsrRequest.is_flexible(4)
    assert not LeaderAndIsrRequest.is_flexible(3)


def test_the_registry_finds_both_sides_of_every_key():
    assert REQUESTS[ApiKey.FETCH] is FetchRequest
    assert RESPONSES[ApiKey.FETCH] is FetchResponse
    assert REQUESTS[1] is FetchRequest


@pytest.mark.parametrize("key", [999, -1, ApiKey.VOTE])
def test_the_registry_refuses_a_key_without_messages(key):
    with pytest.raises(KeyError):
        REQUESTS[key]


@pytest.mark.parametrize(
    ("text", "versions"), [("3", (3, 3)), ("0-6", (0, 6)), ("4+", (4, 0x7FFF))], ids=["one", "some", "all"]
)
def test_versions_are_read_and_shown_as_kafka_writes_them(text, versions):
    parsed = Versions.parse(text)

    assert parsed == versions
    assert str(parsed) == text
    assert parsed.first in parsed
    assert parsed.first - 1 not in parsed


class Inner(Struct):
    number: int32 = field("0+", default=7)


class Outer(Message, versions="0-1", flexible="1+"):
    inner: Inner = field("0+")
    small: int8 = field("0+")
    records: Records = field("0+", nullable="0+")


def test_a_struct_that_is_always_there_starts_as_a_new_one():
    one, other = Outer(), Outer()
    one.inner.number = 8

    assert other.inner.number == 7
    for version in (0, 1):
        assert Outer.decode(materialize(one.encode(version)), version)[0] == one


def test_a_type_that_the_protocol_does_not_have_is_refused():
    class Wrong(Struct):
        number: complex = field("0+")

    with pytest.raises(TypeError, match="complex"):
        resolved(Wrong)
