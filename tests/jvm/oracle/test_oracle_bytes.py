"""Every message of ours against Kafka's own serialization:
the same bytes, both ways, for arbitrary values.
"""

import random

import pytest
from kafka_descriptors import RELEASES, same_bytes
from kafka_values import Values, message_of, sprinkle_tags
from message_tools import all_messages, as_decoded, message_layout

from barnabas.core.chunks import materialize
from barnabas.protocol import framing
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import RequestHeader
from barnabas.protocol.registry import REQUESTS, RESPONSES
from barnabas.records.batch import decode_batch
from barnabas.records.control import ControlType, EndTransactionMarker, build_marker

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]

VALUES = 24
"""Of each version in each release."""
EVERY_RELEASE = pytest.mark.parametrize("release", RELEASES)


def named(cls):
    return cls.__name__


@pytest.mark.parametrize("cls", all_messages(), ids=named)
def test_bytes_are_those_of_kafka(pairs_of, kafka_java, counts, cls):
    counts["messages"] += 1
    counts["versions"] += len({pair.version for pair in pairs_of[cls]})
    for pair in filter(same_bytes, pairs_of[cls]):
        for value in Values(pair.theirs.json, pair.their_version).take(VALUES):
            check_both_ways(kafka_java, pair, value)
            counts["values"] += 1


def check_both_ways(kafka_java, pair, value):
    kafka = (pair.theirs.release, pair.theirs.java, pair.their_version)
    layout = message_layout(pair.cls, pair.version)
    message = message_of(layout, value)

    theirs = kafka_java.write(*kafka, value)
    assert materialize(message.encode(pair.version)) == theirs, f"{pair}: {value}"
    assert pair.cls.decode(theirs, pair.version) == (message, len(theirs)), f"{pair}: {value}"

    understood, written_again = kafka_java.read(*kafka, theirs)
    told = message_of(layout, understood, sizes=True)
    assert told == message_of(layout, value, sizes=True), f"{pair}: {value}"
    assert written_again == theirs, f"{pair}: {value}"


@pytest.mark.parametrize("cls", [cls for cls in all_messages() if cls.flexible_from is not None], ids=named)
def test_unknown_tagged_fields_lie_where_kafka_puts_them(pairs_of, kafka_java, counts, cls):
    for pair in filter(same_bytes, pairs_of[cls]):
        if not cls.is_flexible(pair.version):
            continue
        layout = message_layout(cls, pair.version)
        value = list(Values(pair.theirs.json, pair.their_version).take(3))[2]
        message = message_of(layout, value)
        sprinkle_tags(message, layout, random.Random(str(pair)))
        ours = materialize(message.encode(pair.version))

        _, theirs = kafka_java.read(pair.theirs.release, pair.theirs.java, pair.their_version, ours)

        assert ours == theirs, f"{pair}: {message}"
        assert cls.decode(theirs, pair.version)[0] == as_decoded(message)
        counts["values"] += 1


@EVERY_RELEASE
@pytest.mark.parametrize("client_id", [None, "", "flights", "日本" * 60])
@pytest.mark.parametrize(
    ("api", "version", "header_version"),
    [(ApiKey.METADATA, 8, 1), (ApiKey.METADATA, 9, 2), (ApiKey.API_VERSIONS, 3, 2)],
    ids=str,
)
def test_request_headers_are_those_of_kafka(
    releases, kafka_java, release, api, version, header_version, client_id
):
    java = releases[release]["RequestHeader"].java
    header = RequestHeader(int(api), version, 0x12345678, client_id)
    value = {
        "requestApiKey": header.api_key,
        "requestApiVersion": version,
        "correlationId": header.correlation_id,
        "clientId": client_id,
    }

    theirs = kafka_java.write(release, java, header_version, value)

    assert framing.decode_request_header(theirs + b"behind") == (header, len(theirs))
    body = materialize(REQUESTS[api]().encode(version))
    frame = materialize(framing.encode_request(header, REQUESTS[api]()))
    assert frame == len(theirs + body).to_bytes(4) + theirs + body


def test_the_oldest_request_header_is_that_of_kafka(releases, kafka_java):
    header = RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 0, 7)
    value = {"requestApiKey": header.api_key, "requestApiVersion": 0, "correlationId": 7}

    release = RELEASES[0]  # 4.x does not know it any more
    theirs = kafka_java.write(release, releases[release]["RequestHeader"].java, 0, value)

    assert framing.decode_request_header(theirs + bytes(4)) == (header, len(theirs))
    frame = materialize(framing.encode_request(header, REQUESTS[ApiKey.CONTROLLED_SHUTDOWN]()))
    assert frame[4:] == theirs + bytes(4)


@EVERY_RELEASE
@pytest.mark.parametrize(
    ("api", "version", "header_version"),
    [(ApiKey.METADATA, 8, 0), (ApiKey.METADATA, 9, 1), (ApiKey.API_VERSIONS, 3, 0)],
    ids=str,
)
def test_response_headers_are_those_of_kafka(releases, kafka_java, release, api, version, header_version):
    java = releases[release]["ResponseHeader"].java
    response = RESPONSES[api]()

    theirs = kafka_java.write(release, java, header_version, {"correlationId": 99})
    frame = materialize(framing.encode_response(99, response, version))

    assert frame[4:] == theirs + materialize(response.encode(version))
    assert framing.decode_response(api, version, frame[4:]) == (99, response)


def test_the_marker_that_ends_a_transaction_is_that_of_kafka(releases, kafka_java):
    marker = EndTransactionMarker(ControlType.COMMIT, 77)
    batch = build_marker(marker, timestamp=0, producer_id=1, producer_epoch=2)
    (record,) = decode_batch(batch, 0)

    release = RELEASES[1]  # 3.9 has no schema for it
    java = releases[release]["EndTxnMarker"].java
    theirs = kafka_java.write(release, java, 0, {"coordinatorEpoch": 77})

    assert record.value == b"\0\0" + theirs
