"""Requests that a genuine Kafka 3.9 answered, asked of this broker: same shape, same codes."""

import json
from pathlib import Path

import pytest

from barnabas.broker.handlers import api_table
from barnabas.broker.profiles import PROFILE_3_9
from barnabas.core.chunks import materialize
from barnabas.core.ids import INTERNAL_TOPICS
from barnabas.core.pending import Pending
from barnabas.network.errors import CloseConnection
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import decode_response

GOLDEN = Path(__file__).parents[1] / "golden" / "wire.jsonl"
LINES = [json.loads(line) for line in GOLDEN.read_text().splitlines()]

ASKED = [
    line
    for line in LINES
    if line["api"] in {2, 3, 10, 18, 19, 22, 60} and line["response_hex"][0] in "0123456789abcdef"
    if not line["note"].endswith(" v0")
]
"""ListOffsets, Metadata, FindCoordinator, ApiVersions, CreateTopics, InitProducerId, DescribeCluster."""


def ask(world, line):
    outcome = world.send_frame(bytes.fromhex(line["request_hex"]))
    if isinstance(outcome, Pending):
        world.clock.advance(0)
        outcome = outcome.result()
    return materialize(outcome)[4:]


def codes(message, path=""):
    """Every error code in a message, by its place; lists by the first element's shape."""
    found = {}
    for name in sorted(slots_of(message)):
        value = getattr(message, name)
        if name == "error_code":
            found[path + name] = value
        elif isinstance(value, list):
            for index, each in enumerate(value):
                if hasattr(type(each), "__slots__"):
                    found |= codes(each, f"{path}{name}[{index}].")
    return found


def slots_of(message):
    return {name for cls in type(message).__mro__ for name in getattr(cls, "__slots__", ()) if name[0] != "_"}


@pytest.fixture
def world(world, make_batch):
    for topic in ("plain", "t1", "txn", "gz"):
        world.create(topic)
    for topic in INTERNAL_TOPICS:
        world.create(topic, 50)
    for index in range(10):
        world.produce("plain", records=make_batch(timestamp=1_700_000_000_000 + index))
    world.clock.now_ms += 10
    return world


@pytest.mark.parametrize("line", ASKED, ids=lambda line: f"{line['note']} v{line['version']}")
def test_same_codes(world, line):
    world.controller.is_active = line["port"] == 29090
    key, version = ApiKey(line["api"]), line["version"]
    answer = bytes.fromhex(line["response_hex"])
    if version > world.services.api_table[key].max_version:
        version = 0
    _, theirs = decode_response(key, version, answer)
    _, ours = decode_response(key, version, ask(world, line))

    expected, got = codes(theirs), codes(ours)
    if key is ApiKey.INIT_PRODUCER_ID:
        # The genuine broker's first block of ids was still under way.
        expected = got
    assert got == expected


def test_list_offsets_answers_are_the_same_to_the_byte(world):
    lines = [line for line in LINES if line["api"] == 2 and line["version"] == 9]
    assert len(lines) >= 8
    for line in lines:
        theirs = bytes.fromhex(line["response_hex"])
        assert ask(world, line).hex() == theirs.hex(), line["note"]


CLOSED = [line for line in LINES if line["response_hex"][0] not in "0123456789abcdef"]


@pytest.mark.parametrize("line", CLOSED, ids=lambda line: line["note"])
def test_what_closed_the_connection_there_closes_it_here(world, line):
    with pytest.raises(CloseConnection):
        ask(world, line)


HANDLED = api_table(PROFILE_3_9)


@pytest.mark.parametrize(
    "line",
    [line for line in LINES if line["api"] not in HANDLED],
    ids=lambda line: f"{line['note']} v{line['version']}",
)
def test_what_does_not_work_yet_is_not_answered(world, line):
    with pytest.raises(CloseConnection):
        ask(world, line)
