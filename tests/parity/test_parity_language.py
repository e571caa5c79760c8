"""The judge itself: it sees every difference that counts, and none that does not."""

import time

import pytest
from parity.allowed import Allowed, judge
from parity.compare import Step, compare
from parity.judges import JUDGES
from parity.normal import Normalizer
from parity.run import uncovered
from parity.tree import decode

from barnabas.core.chunks import materialize
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import encode_response
from barnabas.protocol.messages.list_offsets import ListOffsetsResponse
from barnabas.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from parity import allowed


def steps(tree, words=(), where="s / w / v1"):
    return [Step(where, Normalizer(dict(words)).normal(tree))]


def differences(theirs, ours):
    return [(each.field, each.theirs, each.ours) for each in compare(steps(theirs), steps(ours))]


def test_equal_answers_have_no_differences():
    tree = {"error_code": 0, "topics": [{"name": "a", "partitions": [{"partition_index": 0}]}]}
    assert differences(tree, tree) == []


@pytest.mark.parametrize(
    ("theirs", "ours", "found"),
    [
        ({"error_code": 0}, {"error_code": 3}, [("error_code", "0", "3")]),
        ({"message": None}, {"message": ""}, [("message", "None", "''")]),
        ({"flag": 0}, {"flag": False}, [("flag", "0", "False")]),
        ({"isr": [1, 2]}, {"isr": [2, 1]}, [("isr[0]", "1", "2"), ("isr[1]", "2", "1")]),
        ({"rest": ""}, {"rest": "00"}, [("rest", "''", "'00'")]),
        ("no answer", {"error_code": 0}, [("", "'no answer'", "{'error_code': 0}")]),
        (
            {"topics": [{"name": "a"}, {"name": "b", "code": 1}]},
            {"topics": [{"name": "b", "code": 2}]},
            [("topics[a]", "{'name': 'a'}", "absent"), ("topics[b].code", "1", "2")],
        ),
    ],
)
def test_each_difference_is_named_by_its_place(theirs, ours, found):
    assert differences(theirs, ours) == found


def test_the_order_of_entries_means_nothing_but_that_of_synonyms_does():
    a, b = {"name": "a"}, {"name": "b"}
    assert differences({"topics": [a, b]}, {"topics": [b, a]}) == []
    assert Normalizer({}).normal({"synonyms": [b, a]}) == {"synonyms": [b, a]}


def test_a_step_that_one_side_lacks_is_a_difference():
    assert [each.theirs for each in compare([], steps({"error_code": 0}))] == ["absent"]
    assert [each.ours for each in compare(steps({"error_code": 0}), [])] == ["absent"]


def test_ids_are_compared_by_where_they_appear_again():
    one, two, three, four = (bytes([0, *[number] * 15]) for number in range(1, 5))
    theirs = {"made": {"topic_id": one}, "told": {"topic_id": one}, "other": {"topic_id": two}}
    same = {"made": {"topic_id": three}, "told": {"topic_id": three}, "other": {"topic_id": four}}
    mixed_up = {"made": {"topic_id": three}, "told": {"topic_id": four}, "other": {"topic_id": four}}

    assert differences(theirs, same) == []
    assert [field for field, _, _ in differences(theirs, mixed_up)] == ["told.topic_id"]


def test_what_is_a_sides_own_has_a_name():
    now = int(time.time() * 1000)
    tree = {
        "port": 9092,
        "message": "127.0.0.1:9092 is not cluster-x",
        "timestamp": now,
        "old": {"timestamp": 7},
    }

    assert Normalizer({"9092": "port", "cluster-x": "cluster id"}).normal(tree) == {
        "port": "<port>",
        "message": "127.0.0.1:<port> is not <cluster id>",
        "timestamp": "<now>",
        "old": {"timestamp": 7},
    }


def test_bytes_behind_the_message_are_seen():
    frame = materialize(encode_response(7, ListOffsetsResponse(), 1))[4:]

    assert decode(ApiKey.LIST_OFFSETS, 1, frame)[1]["rest"] == ""
    assert decode(ApiKey.LIST_OFFSETS, 1, frame + b"\x01")[1]["rest"] == "01"


def test_a_longer_way_to_write_the_same_is_seen():
    response = MetadataResponse(topics=[MetadataResponseTopic(name="a")])
    frame = materialize(encode_response(7, response, 9))[4:]
    assert decode(ApiKey.METADATA, 9, frame)[1]["canonical"]
    # The number of brokers, none, in two bytes instead of one.
    brokers = 4 + 1 + 4
    assert frame[brokers] == 1
    longer = frame[:brokers] + b"\x81\x00" + frame[brokers + 1 :]

    assert not decode(ApiKey.METADATA, 9, longer)[1]["canonical"]


ENTRY = Allowed("s / * / v*", "topics[*].error_code", "3", "5", "meant")


def test_a_new_difference_is_not_explained():
    found = compare(
        steps({"topics": [{"name": "a", "error_code": 3}]}),
        steps({"topics": [{"name": "a", "error_code": 4}]}),
    )
    assert judge(found, [ENTRY]) == (found, [ENTRY])


def test_a_listed_difference_is_explained_and_one_that_is_gone_is_told():
    found = compare(
        steps({"topics": [{"name": "a", "error_code": 3}]}),
        steps({"topics": [{"name": "a", "error_code": 5}]}),
    )
    assert judge(found, [ENTRY]) == ([], [])
    assert judge([], [ENTRY]) == ([], [ENTRY])


@pytest.mark.parametrize("judge", JUDGES.values(), ids=lambda each: each.name)
def test_every_entry_of_a_list_has_a_reason(judge):
    entries = allowed.entries(judge.allowed)
    assert len(set(entries)) == len(entries)
    assert all(len(entry.reason) >= len("the same") for entry in entries)


def test_an_api_that_nobody_asked_is_told():
    for name, newest in {"3.9": 17, "4.4": 18}.items():
        table = JUDGES[name].table
        asked = {
            (api.key, version) for api in table.values() for version in (api.min_version, api.max_version)
        }
        assert uncovered(table, asked) == []
        assert uncovered(table, asked - {(ApiKey.FETCH, newest)}) == [f"FETCH v{newest}"]


def test_what_brokers_say_to_each_other_is_asked_where_clients_are_told_of_it():
    assert ApiKey.LEADER_AND_ISR in JUDGES["3.9"].table
    assert ApiKey.LEADER_AND_ISR not in JUDGES["4.4"].table


def test_a_broker_is_taken_apart_last():
    assert list(JUDGES["3.9"].scenarios)[-1] == "controlled shutdown"
