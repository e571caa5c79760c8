"""What a genuine Apache Kafka 3.9.0 and its clients said to each other, decoded and encoded again."""

import json
from pathlib import Path

import pytest

from barnabas.core.chunks import materialize
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from barnabas.protocol.registry import REQUESTS

GOLDEN = Path(__file__).parent.parent / "golden" / "wire.jsonl"
LINES = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
CLOSED = "CLOSED"
"""Stands for a response when the broker closed the connection instead."""
FALLBACK = {("ApiVersions too high", 99): 0}
"""A version that nobody knows is answered in version 0 (KIP-511)."""


def named(line):
    return f"{line['note']} v{line['version']}"


ANSWERED = [line for line in LINES if line["response_hex"] != CLOSED]


@pytest.mark.parametrize("line", [x for x in ANSWERED if x["version"] < 99], ids=named)
def test_a_request_is_encoded_to_the_same_bytes(line):
    frame = bytes.fromhex(line["request_hex"])

    header, offset = decode_request_header(frame)
    request, end = REQUESTS[ApiKey(header.api_key)].decode(frame, header.api_version, offset)

    assert (header.api_key, header.api_version) == (line["api"], line["version"])
    assert end == len(frame)
    assert materialize(encode_request(header, request)) == len(frame).to_bytes(4, "big") + frame


@pytest.mark.parametrize("line", ANSWERED, ids=named)
def test_a_response_is_encoded_to_the_same_bytes(line):
    frame = bytes.fromhex(line["response_hex"])
    version = FALLBACK.get((line["note"], line["version"]), line["version"])

    correlation_id, response = decode_response(ApiKey(line["api"]), version, frame)

    assert correlation_id == 7
    assert materialize(encode_response(7, response, version)) == len(frame).to_bytes(4, "big") + frame


@pytest.mark.parametrize("line", [x for x in LINES if x["response_hex"] == CLOSED], ids=named)
def test_a_header_is_read_whatever_it_asks_for(line):
    header, _ = decode_request_header(bytes.fromhex(line["request_hex"]))

    assert header == RequestHeader(line["api"], line["version"], 7, "probe")


def test_the_golden_lines_cover_what_they_claim():
    assert len(ANSWERED) == 66
    assert {line["api"] for line in ANSWERED} >= {1, 2, 3, 10, 18, 19, 22, 32, 60}
