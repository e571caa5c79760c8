"""What single kinds of bad peers get, and that nobody else notices."""

import contextlib
import json
import struct
from pathlib import Path

import crc32c
import pytest
from wire_peer import batch, fetch, frame_of, produce

from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import decode_response
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

GOLDEN = Path(__file__).parent.parent / "golden" / "wire.jsonl"


def warnings(victim, since):
    return [line for line in victim.log_lines()[since:] if "connection_closed" in line]


CLOSED_IN_KAFKA = [
    line for line in map(json.loads, GOLDEN.read_text().splitlines()) if line["response_hex"] == "CLOSED"
]


@pytest.mark.parametrize("request_", CLOSED_IN_KAFKA, ids=lambda each: each["note"])
def test_what_kafka_closes_without_an_answer(victim, request_):
    since = len(victim.log_lines())
    frame = bytes.fromhex(request_["request_hex"])
    with victim.connect() as peer:
        peer.send(struct.pack(">i", len(frame)) + frame)

        assert peer.response() is None
    assert len(warnings(victim, since)) == 1


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(victim):
    with victim.connect() as peer:
        peer.send(bytes.fromhex("00000010" + "0012006300000007000570726f626500"))

        _, response = decode_response(ApiKey.API_VERSIONS, 0, peer.response())

    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(each.api_key, each.min_version, each.max_version) for each in response.api_keys] == [(18, 0, 5)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">i", 104857601) + b"x", "size = 104857601 larger than 104857600"),
        (struct.pack(">i", -1) + b"x", "size = -1"),
        (b"GET / HTTP/1.1\r\n\r\n", "larger than"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "larger than"),
        (struct.pack(">i", 3) + b"abc", "Error parsing request header"),
        (struct.pack(">ihhih", 10, 3, 1, 7, -1), "Error getting request for apiKey: METADATA"),
    ],
)
def test_what_is_no_request_closes_with_one_line(victim, data, reason):
    since = len(victim.log_lines())
    with victim.connect() as peer, victim.connect() as other:
        peer.send(data)

        assert peer.response() is None
        assert other.ask(ApiVersionsRequest()).error_code == 0
    [line] = warnings(victim, since)
    assert reason in line


@pytest.mark.parametrize("version", [3, 12], ids=["plain", "compact"])
def test_a_million_elements_and_one_more_close_with_one_line(victim, version):
    """Kafka 4.4 reads a million of them; here `barnabas.request.elements.max` is the limit."""
    since, before = len(victim.log_lines()), victim.memory_bytes()
    topics = [MetadataRequestTopic(name="t")] * 1_000_001
    with victim.connect() as peer, victim.connect() as other:
        peer.send(frame_of(MetadataRequest(topics=topics), version))

        assert peer.response() is None
        assert other.ask(ApiVersionsRequest()).error_code == 0
    [line] = warnings(victim, since)
    assert "MetadataRequest" in line
    assert "1000001 elements, more than" in line
    assert victim.memory_bytes() - before < 48 << 20


def test_peers_that_announce_much_and_send_little_hold_no_memory(victim):
    before = victim.memory_bytes()
    with contextlib.ExitStack() as peers:
        for _ in range(100):
            peer = peers.enter_context(victim.connect())
            peer.send(struct.pack(">i", 100 << 20) + b"\x00\x00\x00\x09")
        other = peers.enter_context(victim.connect())
        assert other.ask(ApiVersionsRequest()).error_code == 0

        assert victim.memory_bytes() - before < 24 << 20


def test_peers_that_never_read_hold_no_memory(victim):
    with contextlib.ExitStack() as peers:
        other = peers.enter_context(victim.connect())
        for _ in range(8):
            assert other.produce("fuzz", batch(b"r" * 900_000)).error_code == 0
        start = other.end_offset("fuzz") - 8
        before = victim.memory_bytes()
        requests = frame_of(fetch("fuzz", start)) + frame_of(ApiVersionsRequest()) * 50
        for _ in range(20):
            send_until_refused(peers.enter_context(victim.connect()), requests)
        assert other.ask(ApiVersionsRequest()).error_code == 0

        # 20 fetches of 900 kB were asked for by each.
        assert victim.memory_bytes() - before < 48 << 20


def send_until_refused(peer, requests):
    """Sends without reading; the broker, which cannot answer, soon reads no more either."""
    peer.socket.settimeout(0.05)
    with contextlib.suppress(TimeoutError):
        for _ in range(20):
            peer.send(requests)


def test_a_slow_reader_gets_everything_in_order(victim):
    with victim.connect() as peer:
        for mark in (b"1", b"2", b"3"):
            assert peer.produce("fuzz", batch(mark * 700_000)).error_code == 0
        start = peer.end_offset("fuzz") - 3
        for offset in (start, start + 1, start + 2):
            peer.send(frame_of(fetch("fuzz", offset)))
        for mark in (b"1", b"2", b"3"):
            _, response = decode_response(ApiKey.FETCH, 11, peer.response())
            records = bytes(response.responses[0].partitions[0].records)
            assert mark * 700_000 in records


def change(data, position, form, value):
    changed = bytearray(data)
    struct.pack_into(form, changed, position, value)
    return bytes(changed)


def with_valid_crc(data):
    return change(data, 17, ">I", crc32c.crc32c(data[21:]))


GOOD = batch(b"one", b"two")


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (change(GOOD, 17, ">I", 12345), ErrorCode.CORRUPT_MESSAGE),
        (change(GOOD, len(GOOD) - 1, ">B", GOOD[-1] ^ 1), ErrorCode.CORRUPT_MESSAGE),
        (with_valid_crc(change(GOOD, 57, ">i", 3)), ErrorCode.INVALID_RECORD),
        (with_valid_crc(change(GOOD, 57, ">i", -1)), ErrorCode.INVALID_RECORD),
        (with_valid_crc(change(GOOD, 23, ">i", 5)), ErrorCode.INVALID_RECORD),
        # Kafka sees no batch at all in one that is not whole, and misses it.
        (GOOD[:-1], ErrorCode.INVALID_RECORD),
        (GOOD[:30], ErrorCode.INVALID_RECORD),
        (change(GOOD, 8, ">i", 10), ErrorCode.CORRUPT_MESSAGE),
    ],
    ids=["crc", "content", "count high", "count negative", "delta", "truncated", "header only", "length"],
)
def test_batches_that_lie_are_refused_and_nothing_is_appended(victim, records, code):
    with victim.connect() as peer:
        end = peer.end_offset("fuzz")

        answer = peer.produce("fuzz", records)

        assert ErrorCode.of(answer.error_code) is code
        assert peer.end_offset("fuzz") == end
        assert peer.produce("fuzz", GOOD).error_code == 0


@pytest.mark.parametrize("magic", [0, 1, 3, 127])
def test_a_wrong_magic_is_refused(victim, magic):
    with victim.connect() as peer:
        end = peer.end_offset("fuzz")

        answer = peer.produce("fuzz", with_valid_crc(change(GOOD, 16, ">b", magic)))

        assert answer.error_code != 0
        assert peer.end_offset("fuzz") == end


def test_a_client_that_goes_away_in_the_middle_of_a_request(victim):
    with victim.connect() as peer:
        end = peer.end_offset("fuzz")
    for length in (1, 3, 20, 60):
        with victim.connect() as peer:
            peer.send(frame_of(produce("fuzz", GOOD))[:length])
    with victim.connect() as peer:
        assert peer.end_offset("fuzz") == end


def creation(name, **more):
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, **more)
    return CreateTopicsRequest(topics=[topic], timeout_ms=5000)


@pytest.mark.parametrize("character", ["x", "\x1b", "\U0001f600"])
def test_names_as_long_as_a_string_can_be_are_refused_with_an_answer(victim, character):
    """The message of a refusal repeats them, and has no more room than they have."""
    since = len(victim.log_lines())
    longest = character * (32767 // len(character.encode()))
    settings = [CreatableTopicConfig(name=f"{number}{longest[:8000]}", value=None) for number in range(10)]
    creations = [
        creation(longest),
        creation("named", configs=[CreatableTopicConfig(name=longest, value="1")]),
        creation("valued", configs=[CreatableTopicConfig(name="retention.ms", value=longest)]),
        creation("nulls", configs=settings),
    ]
    resource = DescribeConfigsResource(resource_type=2, resource_name=longest, configuration_keys=None)
    with victim.connect() as peer:
        codes = [peer.ask(request, 5).topics[0].error_code for request in creations]
        [described] = peer.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, *[ErrorCode.INVALID_CONFIG] * 3]
    assert described.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert victim.log_lines()[since:] == []


def test_a_topic_can_be_deleted_right_behind_its_creation(victim):
    """A client need not wait for an answer before it asks the next."""
    with victim.connect() as peer:
        peer.send(
            frame_of(creation("short-lived"), 5)
            + frame_of(produce("short-lived", batch(b"v")), 9)
            + frame_of(DeleteTopicsRequest(topic_names=["short-lived"], timeout_ms=5000), 5)
        )
        answers = [
            decode_response(api, version, peer.response())[1]
            for api, version in ((ApiKey.CREATE_TOPICS, 5), (ApiKey.PRODUCE, 9), (ApiKey.DELETE_TOPICS, 5))
        ]
    created, produced, deleted = answers
    assert created.topics[0].error_code == 0
    assert produced.responses[0].partition_responses[0].error_code == 0
    assert deleted.responses[0].error_code == 0
