"""Frames and headers: lengths, correlation ids, and which header goes with which message."""

import pytest

from barnabas.core.chunks import FileSlice, chunks_size, materialize
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.framing import (
    RequestHeader,
    decode_correlation_id,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from barnabas.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def frame_of(header, request):
    whole = materialize(encode_request(header, request))
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    return whole[4:]


@pytest.mark.parametrize("version", [0, 8, 9, 12], ids=lambda version: f"v{version}")
@pytest.mark.parametrize("client_id", [None, "", "client", "é" * 40])
def test_a_request_comes_back_with_its_header(version, client_id):
    header = RequestHeader(ApiKey.METADATA, version, 77, client_id)

    frame = frame_of(header, MetadataRequest())
    decoded, offset = decode_request_header(frame)

    assert decoded == header
    assert MetadataRequest.decode(frame, version, offset) == (MetadataRequest(), len(frame))


def test_the_first_version_of_controlled_shutdown_has_no_client_id():
    header = RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 0, 5, "dropped")

    frame = frame_of(header, ControlledShutdownRequest(broker_id=3))
    decoded, offset = decode_request_header(frame)

    assert frame == b"\x00\x07\x00\x00" + b"\x00\x00\x00\x05" + b"\x00\x00\x00\x03"
    assert decoded == RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 0, 5)
    assert offset == 8


def test_tagged_fields_of_a_request_header_are_passed_over():
    frame = b"\x00\x03\x00\x09" + b"\x00\x00\x00\x01" + b"\x00\x01c" + b"\x02\x00\x01x\x07\x02yz" + b"body"

    _, offset = decode_request_header(frame)

    assert frame[offset:] == b"body"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00\x03\x00\x01\x00\x00\x00\x01\x00",
        b"\x00\x03\x00\x01\x00\x00\x00\x01\x00\x05abc",
        b"\x00\x03\x00\x09\x00\x00\x00\x01\x00\x01c",
        b"\x00\x03\x00\x09\x00\x00\x00\x01\x00\x01c\x01\x00\x09x",
        b"\x00\x03\x00\x09\x00\x00\x00\x01\x00\x01c\xff\xff\xff\xff\xff\xff",
    ],
)
def test_a_header_that_is_cut_off_is_refused(frame):
    with pytest.raises(ProtocolError, match="RequestHeader"):
        decode_request_header(frame)


def test_a_client_id_that_is_too_long_is_refused():
    with pytest.raises(ProtocolError, match="client id"):
        encode_request(RequestHeader(ApiKey.METADATA, 1, 1, "c" * 32768), MetadataRequest())


def test_an_unknown_key_is_read_as_far_as_its_client_id():
    header, offset = decode_request_header(memoryview(b"\x03\xe7\x00\x00\x00\x00\x00\x07\x00\x01c"))

    assert header == RequestHeader(999, 0, 7, "c")
    assert offset == 11


@pytest.mark.parametrize(
    ("response", "version", "header_size"),
    [
        (FetchResponse(session_id=9), 11, 4),
        (FetchResponse(session_id=9), 12, 5),
        (ApiVersionsResponse(), 2, 4),
        (ApiVersionsResponse(), 4, 4),
        (SaslHandshakeResponse(mechanisms=["PLAIN"]), 1, 4),
    ],
)
def test_a_response_has_the_header_of_its_version(response, version, header_size):
    whole = materialize(encode_response(1234, response, version))

    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    assert len(whole) == 4 + header_size + chunks_size(response.encode(version))
    assert decode_correlation_id(whole[4:]) == 1234
    assert decode_response(response.api, version, whole[4:]) == (1234, response)


def test_the_length_counts_what_lies_in_a_file():
    class Unread:
        def fileno(self):
            return -1

    part = FileSlice(Unread(), 0, 1 << 20)
    response = FetchResponse(
        responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=part)])]
    )

    chunks = encode_response(1, response, 12)

    assert chunks[1] is part
    assert int.from_bytes(chunks[0][:4], "big") == chunks_size(chunks) - 4


@pytest.mark.parametrize(
    "frame", [b"", b"\x00\x00\x00", b"\x00\x00\x00\x01", b"\x00\x00\x00\x01\x01\x00\x05x"]
)
def test_a_response_that_is_cut_off_is_refused(frame):
    with pytest.raises(ProtocolError):
        decode_response(ApiKey.FETCH, 12, frame)


def test_messages_without_flexible_versions_have_the_plain_header():
    frame = frame_of(RequestHeader(ApiKey.SASL_HANDSHAKE, 1, 1, "c"), SaslHandshakeRequest(mechanism="PLAIN"))

    assert frame[8:] == b"\x00\x01c" + b"\x00\x05PLAIN"


def test_a_request_for_the_table_of_apis_is_as_small_as_kafkas():
    request = ApiVersionsRequest(client_software_name="probe", client_software_version="1.0")

    assert frame_of(RequestHeader(18, 3, 7, "probe"), request).hex() == (
        "0012000300000007000570726f6265000670726f626504312e3000"
    )
