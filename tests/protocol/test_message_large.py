"""Messages of the largest size: decoded and encoded in steps, counted, refused where nobody can mean them."""

import gc
import time
from itertools import repeat

import pytest
from message_tools import all_messages, filled

from barnabas.core.chunks import materialize
from barnabas.protocol.encoder import ARRAY_MAX
from barnabas.protocol.errors import ProtocolError, TooManyElementsError
from barnabas.protocol.framing import RequestHeader, decode_request_header, encode_request
from barnabas.protocol.message import finished
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from barnabas.protocol.messages.fetch import FetchRequest, FetchTopic
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from barnabas.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaTopicV1
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.protocol.wire import TAGS_MAX, uvarint

MANY = 100_000
NO_LIMIT = 1 << 40


def steps_of(work):
    """How often the work yields, its value, and the longest piece in seconds of this thread's processor."""
    gc.disable()  # what the collector takes is not the codec's
    try:
        return _steps_of(work)
    finally:
        gc.enable()


def _steps_of(work):
    count, longest = 0, 0.0
    while True:
        before = time.thread_time()
        try:
            next(work)
        except StopIteration as end:
            return count, end.value, max(longest, time.thread_time() - before)
        longest = max(longest, time.thread_time() - before)
        count += 1


def decoded_in_steps(message, version):
    encoded = materialize(message.encode(version))
    count, (decoded, end), longest = steps_of(type(message).decode_in_steps(encoded, version, 0, NO_LIMIT))
    assert end == len(encoded)
    assert decoded == message
    return count, longest


@pytest.mark.parametrize(
    ("make", "version"),
    [
        (lambda: FindCoordinatorRequest(coordinator_keys=[f"g{n}" for n in range(MANY)]), 4),
        (lambda: MetadataRequest(topics=[MetadataRequestTopic(name=f"t{n}") for n in range(MANY)]), 12),
        (lambda: MetadataRequest(topics=[MetadataRequestTopic(name=f"t{n}") for n in range(MANY)]), 1),
        (lambda: FetchRequest(topics=[FetchTopic(topic=f"t{n}") for n in range(MANY)]), 4),
        (
            lambda: StopReplicaRequest(
                topics=[StopReplicaTopicV1(name="t", partition_indexes=list(range(10 * MANY)))]
            ),
            1,
        ),
        (
            lambda: ProduceRequest(
                topic_data=[
                    TopicProduceData(
                        name="t",
                        partition_data=[PartitionProduceData(index=n, records=b"") for n in range(MANY)],
                    )
                ]
            ),
            9,
        ),
        (lambda: SyncGroupRequest(assignments=[SyncGroupRequestAssignment(assignment=bytes(50_000_000))]), 5),
        (lambda: DeleteTopicsRequest(topic_names=["\u00e9" * 16_000 for _ in range(50)]), 4),
    ],
    # Made when the test runs: as values they would be in the memory of every worker from the beginning to the
    # end.
    ids=[
        "FindCoordinator",
        "Metadata v12",
        "Metadata v1",
        "Fetch",
        "StopReplica",
        "Produce",
        "SyncGroup",
        "DeleteTopics",
    ],
)
def test_a_large_request_is_decoded_in_many_short_steps(make, version):
    count, longest = decoded_in_steps(make(), version)

    assert count >= 20
    assert longest < 0.05


def partitions(count):
    return [MetadataResponsePartition(partition_index=n, replica_nodes=[1, 2, 3]) for n in range(count)]


@pytest.mark.parametrize(
    ("make", "version"),
    [
        (lambda: MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=partitions(MANY))]), 12),
        (lambda: MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=partitions(MANY))]), 8),
        (
            lambda: MetadataResponse(
                topics=[MetadataResponseTopic(name="t", partitions=partitions(9)) for _ in range(9000)]
            ),
            12,
        ),
        (lambda: ListGroupsResponse(groups=[ListedGroup(group_id=f"g{n}") for n in range(MANY)]), 4),
        (
            lambda: DescribeGroupsResponse(
                groups=[
                    DescribedGroup(members=[DescribedGroupMember(member_id=f"m{n}") for n in range(100)])
                    for _ in range(1000)
                ]
            ),
            5,
        ),
    ],
    ids=["Metadata v12", "Metadata v8", "Metadata of 9,000 topics", "ListGroups", "DescribeGroups"],
)
def test_a_large_response_is_left_to_steps_and_comes_out_the_same(make, version):
    response = make()
    assert response.encode_small(version) is None
    count, chunks, longest = steps_of(response.encode_in_steps(version))
    assert count >= 100
    assert longest < 0.05
    assert len(chunks) > 10
    encoded = materialize(chunks)
    assert materialize(response.encode(version)) == encoded
    assert type(response).decode(encoded, version) == (response, len(encoded))


def test_a_response_that_is_not_large_is_encoded_at_once():
    groups = [ListedGroup(group_id=f"g{n}") for n in range(ARRAY_MAX)]

    assert len(ListGroupsResponse(groups=groups).encode_small(4)) == 1
    groups.append(ListedGroup())
    assert ListGroupsResponse(groups=groups).encode_small(4) is None


def test_elements_are_counted_over_all_arrays_before_they_are_made():
    topics = [FetchTopic(topic="t", partitions=[]) for _ in range(300)]
    encoded = materialize(FetchRequest(topics=topics).encode(4))

    finished(FetchRequest.decode_in_steps(encoded, 4, 0, 300))
    with pytest.raises(TooManyElementsError) as refused:
        finished(FetchRequest.decode_in_steps(encoded, 4, 0, 299))

    assert str(refused.value) == "FetchRequest v4, field topics, byte 21: 300 elements, more than 299"


def test_numbers_count_as_one_element_for_each_eight():
    topics = [StopReplicaTopicV1(name="t", partition_indexes=list(repeat(1, 80))) for _ in range(3)]
    encoded = materialize(StopReplicaRequest(topics=topics).encode(1))

    finished(StopReplicaRequest.decode_in_steps(encoded, 1, 0, 33))
    with pytest.raises(
        TooManyElementsError, match=r"field topics.partition_indexes, .*: 33 elements, more than 32"
    ):
        finished(StopReplicaRequest.decode_in_steps(encoded, 1, 0, 32))


@pytest.mark.parametrize("way", ["at once", "in steps"])
def test_unknown_tags_of_a_request_are_passed_over_and_more_than_a_few_are_refused(way):
    plain = materialize(MetadataRequest(topics=[]).encode(9))
    assert plain.endswith(b"\0")

    def decode(count):
        data = plain[:-1] + uvarint(count) + (b"\x64\x01x" * min(count, 1000))
        if way == "at once":
            return MetadataRequest.decode(data, 9)
        return finished(MetadataRequest.decode_in_steps(data, 9, 0, NO_LIMIT))

    assert decode(TAGS_MAX)[0] == MetadataRequest(topics=[])
    with pytest.raises(
        ProtocolError, match=f"{TAGS_MAX + 1} tagged fields in one place, more than {TAGS_MAX}"
    ):
        decode(TAGS_MAX + 1)
    with pytest.raises(ProtocolError, match="15000000 tagged fields in one place"):
        decode(15_000_000)


def test_a_known_tag_may_not_be_repeated_without_end():
    plain = materialize(FetchRequest(cluster_id="c").encode(12))
    tag = b"\x00\x02\x02c"
    assert plain.endswith(b"\x01" + tag)

    with pytest.raises(ProtocolError, match="33 tagged fields in one place"):
        FetchRequest.decode(plain[: -1 - len(tag)] + uvarint(33) + tag * 33, 12)


def test_unknown_tags_count_as_elements():
    plain = materialize(MetadataRequest(topics=[]).encode(9))
    data = plain[:-1] + uvarint(20) + b"\x64\x01x" * 20

    finished(MetadataRequest.decode_in_steps(data, 9, 0, 20))
    with pytest.raises(TooManyElementsError):
        finished(MetadataRequest.decode_in_steps(data, 9, 0, 19))


def test_a_header_has_no_more_than_a_few_tags_either():
    header = RequestHeader(3, 9, 1, "c")
    frame = materialize(encode_request(header, MetadataRequest(topics=[])))[4:]
    at = 8 + 2 + 1
    assert frame[at] == 0

    passed, _ = decode_request_header(frame[:at] + uvarint(3) + b"\x01\x00" * 3 + frame[at + 1 :])
    assert passed == header
    with pytest.raises(ProtocolError, match="15000000 tagged fields in one place"):
        decode_request_header(frame[:at] + uvarint(15_000_000) + b"\x01\x00" * 100)


@pytest.mark.parametrize("length", [32_767, 32_768])
def test_a_compact_string_is_no_longer_than_a_classic_one_can_be(length):
    frame = b"\x00" + uvarint(2) + uvarint(length + 1) + b"k" * length + b"\0"

    if length == 32_767:
        assert FindCoordinatorRequest.decode(frame, 4)[0].coordinator_keys == ["k" * length]
    else:
        with pytest.raises(ProtocolError, match="a string of 32768 bytes, longer than 32767"):
            FindCoordinatorRequest.decode(frame, 4)


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_steps_refuse_what_is_cut_off_with_the_same_words(cls):
    version = cls.max_version
    encoded = materialize(filled(cls, version).encode(version))
    for size in range(0, len(encoded), 3):
        with pytest.raises(ProtocolError) as caught:
            finished(cls.decode_in_steps(encoded[:size], version, 0, NO_LIMIT))
        with pytest.raises(ProtocolError) as expected:
            cls.decode(encoded[:size], version)
        assert str(caught.value) == str(expected.value)


def test_steps_refuse_what_cannot_be_written_with_the_same_words():
    response = MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=b"short")])

    with pytest.raises(ProtocolError) as caught:
        finished(response.encode_in_steps(12))
    with pytest.raises(ProtocolError) as expected:
        response.encode(12)
    assert str(caught.value) == str(expected.value)


def test_a_version_that_does_not_exist_has_no_steps():
    with pytest.raises(ProtocolError, match="there is no such version"):
        FetchRequest.decode_in_steps(b"", 99, 0, NO_LIMIT)
    with pytest.raises(ProtocolError, match="there is no such version"):
        OffsetForLeaderEpochRequest().encode_in_steps(99)
