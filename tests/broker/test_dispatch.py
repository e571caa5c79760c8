"""The way of every request: versions, garbage, errors, authorization, throttling."""

import dataclasses
import logging
from collections.abc import Generator

import pytest

from barnabas.broker.handlers import api_table
from barnabas.broker.profiles import PROFILE_3_9, PROFILE_4_4
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.core.slices import in_one_piece
from barnabas.network.errors import CloseConnection
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.framing import encode_response
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceRequest


def header(key, version, correlation_id=7, client=b"\0\x01c"):
    return key.to_bytes(2, "big") + version.to_bytes(2, "big") + correlation_id.to_bytes(4, "big") + client


def test_api_versions_lists_exactly_the_handlers(world):
    answer = world.send(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4)

    assert answer.error_code == 0
    table = api_table(PROFILE_3_9)
    assert {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys} == {
        key: (api.min_version, api.max_version) for key, api in table.items()
    }
    assert (answer.api_keys[0].min_version, answer.api_keys[0].max_version) == (0, 11)


def test_api_versions_tells_the_epoch_of_the_features(world):
    request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    assert world.send(request, 3).finalized_features_epoch == -1
    world.features.seen({}, 0)
    answer = world.send(request, 3)

    assert (answer.finalized_features_epoch, answer.finalized_features, answer.supported_features) == (
        0,
        [],
        [],
    )


def test_api_versions_too_new_is_answered_in_the_oldest_form(world):
    frame = world.send_frame(header(18, 99) + b"\0")[0]

    assert bytes(frame)[4:] == bytes.fromhex("00000007" + "0023" + "00000001" + "0012" + "0000" + "0004")


@pytest.mark.parametrize("name", ["", "-x", "a b", "x-"])
def test_a_client_must_say_properly_what_it_is(world, name):
    answer = world.send(ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3)

    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.api_keys == []


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (header(3, 99) + b"\0", "Received request api key METADATA with version 99 which is not enabled"),
        (header(999, 0), "Received request api key 999 with version 0 which is not enabled"),
        (header(55, 0) + b"\0", "which is not enabled"),
        (header(1, 3), "Received request api key FETCH with version 3"),
        (b"\0", "Error parsing request header"),
        (b"", "Error parsing request header"),
        (header(3, 1) + b"\x7f\xff\xff\xff", "Error getting request for apiKey: METADATA, apiVersion: 1"),
        (header(0, 9) + b"\0\xff", "Error getting request for apiKey: PRODUCE"),
    ],
)
def test_what_cannot_be_understood_closes_the_connection(world, frame, reason):
    with pytest.raises(CloseConnection) as closed:
        world.send_frame(frame)

    assert reason in closed.value.reason


def replace(world, key, handler):
    """Puts a handler in the place of an API's own, for this world only."""
    table = dict(world.services.api_table)
    table[key] = dataclasses.replace(table[key], handler=handler)
    world.services.api_table = table
    world.dispatcher = type(world.dispatcher)(world.services)


def test_a_bug_in_a_handler_is_answered_and_logged_once(world, caplog):
    def broken(context, request):
        raise ZeroDivisionError("oops")

    replace(world, ApiKey.METADATA, broken)
    with caplog.at_level(logging.ERROR):
        answer = world.send(MetadataRequest(topics=None), 9)

    assert answer.topics == []
    [record] = [each for each in caplog.records if "request.failed" in each.message]
    assert "METADATA" in record.message
    assert record.exc_info[0] is ZeroDivisionError


def test_a_late_failure_takes_the_same_way(world):
    replace(
        world, ApiKey.FETCH, lambda context, request: Pending.failed(KafkaError(ErrorCode.POLICY_VIOLATION))
    )
    answer = world.send(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), 12)

    assert answer.error_code == ErrorCode.POLICY_VIOLATION


def test_a_handler_may_close_the_connection_late(world):
    replace(world, ApiKey.FETCH, lambda context, request: Pending.failed(CloseConnection("enough")))
    answer = world.start(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), 12)

    with pytest.raises(CloseConnection, match="enough"):
        answer()


def test_an_answer_that_cannot_be_written_ends_its_connection_and_nobody_elses(world):
    waiting = Pending()
    replace(world, ApiKey.FIND_COORDINATOR, lambda context, request: waiting)
    broken = world.start(FindCoordinatorRequest(key="g"), 1)
    told = []
    waiting.when_done(told.append)

    waiting.complete(FindCoordinatorResponse(host="h" * 40_000))

    assert told == [waiting]
    with pytest.raises(ProtocolError, match="field host"):
        broken()


def test_an_api_is_registered_once():
    with pytest.raises(AssertionError, match="METADATA is handled twice"):
        handles(ApiKey.METADATA, versions=(0, 1))(lambda context, request: None)


def test_a_request_for_nothing_is_answered(world):
    assert world.send(ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), 9).responses == []


def test_every_api_can_say_that_all_of_a_request_has_failed():
    error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    for api in api_table(PROFILE_4_4).values():
        refusal = api.failed(api.request(), error, api.max_version)
        try:
            response = in_one_piece(refusal) if isinstance(refusal, Generator) else refusal
        except CloseConnection:
            continue  # a produce with acks=0 has no other answer
        assert response is None or encode_response(1, response, api.max_version), api.key
