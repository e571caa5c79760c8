"""Names that are longer as text than as bytes: what is no UTF-8 takes three bytes for one.

One such transactional id, or group, was listed from then on, and no list of them could be written any more.
"""

import pytest

from bare_requests import CLOSED, Asker
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.testing import Kafka
from waiting import until

SPOILT = b"zz"
NAME = "x" * (32_767 - len(SPOILT)) + SPOILT.decode()


@pytest.fixture(scope="module")
def kafka():
    with Kafka(settings={"barnabas.api.profile": "3.9"}) as kafka:
        kafka.create_topic("t")
        yield kafka


@pytest.fixture(scope="module")
def asker(kafka):
    """Once both coordinators are there."""
    asker = Asker(int(kafka.bootstrap_servers.rpartition(":")[2]))
    init = InitProducerIdRequest(transactional_id="known", transaction_timeout_ms=60_000)
    for key_type in (0, 1):
        until(lambda key_type=key_type: find(asker, key_type).error_code == 0)
    until(lambda: asker.code(init, 4) == "NONE")
    return asker


def find(asker, key_type):
    return asker.ask(FindCoordinatorRequest(key="known", key_type=key_type), 3)


@pytest.mark.parametrize("version", [0, 4, 5])
def test_a_transactional_id_is_refused_and_leaves_nothing(asker, version):
    request = InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=60_000)
    for _ in range(2):
        assert asker.code(request, version, spoil=SPOILT) == "UNKNOWN_SERVER_ERROR"
    listed = asker.ask(ListTransactionsRequest(), 0)
    ids = [each.transactional_id for each in listed.transaction_states]
    assert "known" in ids
    assert not any("\ufffd" in each for each in ids)


def join():
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    return JoinGroupRequest(
        group_id=NAME,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )


def add_group():
    return AddOffsetsToTxnRequest(transactional_id="known", producer_id=0, producer_epoch=0, group_id=NAME)


@pytest.mark.parametrize(("make", "version"), [(join, 2), (join, 5), (add_group, 3)])
def test_a_group_is_refused_and_leaves_nothing(asker, make, version):
    assert asker.code(make(), version, spoil=SPOILT) == "INVALID_GROUP_ID"
    assert asker.ask(ListGroupsRequest(), 3).groups == []


def test_a_commit_is_refused(asker):
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=NAME, topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])]
    )
    answer = asker.ask(request, 7, spoil=SPOILT)
    assert answer.topics[0].partitions[0].error_code == 24, "INVALID_GROUP_ID"
    assert asker.ask(ListGroupsRequest(), 3).groups == []


def test_an_answer_that_would_have_to_repeat_it_is_a_line_in_the_log(asker, caplog):
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[NAME])
    assert asker.ask(request, 4, spoil=SPOILT) == CLOSED
    until(lambda: "network.answer_unwritable" in caplog.text)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("name", ["y" * 32_767, "\u20ac" * 10_922])
def test_a_name_as_long_as_they_may_be_is_served(asker, name):
    assert (
        asker.code(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4) == "NONE"
    )
