"""`Fault`: what it takes, and what it says to a slip of the pen."""

import pytest

from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.testing import Fault


@pytest.mark.parametrize("name", ["ListOffsets", "LIST_OFFSETS", "list offsets", 2, ApiKey.LIST_OFFSETS])
def test_an_api_by_any_of_its_names(name):
    assert Fault(name).apis == (ApiKey.LIST_OFFSETS,)


@pytest.mark.parametrize("error", ["not_leader_or_follower", 6, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_an_error_by_any_of_its_names(error):
    assert Fault("Fetch", error=error).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"apis": "Prodce"}, "no API is called 'Prodce': did you mean produce?"),
        ({"apis": 999}, "no API has the key 999"),
        ({"error": "NOT_A_LEADER_OR_FOLLOWER"}, "did you mean NOT_LEADER_OR_FOLLOWER?"),
        ({"error": 12345}, "no error has the code 12345"),
        ({"error": "NONE"}, "error=NONE is no error"),
        ({"partition": 0}, "partition needs the topic"),
        ({"topic": "t", "partition": -1}, "partition=-1: it is from 0 to"),
        ({"cut": True, "error": "INVALID_REQUEST"}, "cut and error exclude each other"),
        ({"when": "during"}, "when='during': it is 'before' or 'after'"),
        ({"count": 0}, "count=0: it is from 1 to"),
        ({"delay_ms": float("nan")}, "delay_ms=nan: it is from 0 to"),
        ({"client_id": 5}, "client_id=5: it is a text"),
        ({"node": 1.5}, "node=1.5: it is a number"),
        ({"apis": [None]}, "no API is called None"),
        ({"topics": "t"}, "a fault has no field 'topics': did you mean topic?"),
    ],
)
def test_what_a_slip_of_the_pen_is_told(given, says):
    with pytest.raises((ValueError, TypeError)) as refused:
        Fault.of(given)
    assert says in str(refused.value)


def test_words_of_a_command_line_make_the_same_fault():
    words = [
        "apis=Produce,Fetch",
        "topic=t",
        "partition=3",
        "error=6",
        "delay_ms=2.5",
        "count=all",
        "brokers=true",
    ]
    assert Fault.parse(words) == Fault(
        ["Produce", "Fetch"], topic="t", partition=3, error=6, delay_ms=2.5, count=None, brokers=True
    )


@pytest.mark.parametrize("word", ["count=many", "cut=yes", "topic"])
def test_words_that_are_none(word):
    with pytest.raises(ValueError, match=word.partition("=")[0]):
        Fault.parse([word])


def test_a_fault_says_what_it_is():
    fault = Fault("Produce", topic="t", partition=1, error="NOT_LEADER_OR_FOLLOWER", count=None)
    assert str(fault) == "PRODUCE topic=t partition=1 error=NOT_LEADER_OR_FOLLOWER count=None"
    assert str(Fault()) == "any API"
