"""Plain commits: who may, what is written, when it is seen."""

import pytest
from offsets_rig import Rig

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.coordinator.offset_commit import OffsetCommitKey

ORDERS = ("orders", 0)


def test_a_commit_is_answered_partition_by_partition_and_can_be_read(rig):
    answer = rig.commit({ORDERS: (5, 2, "mine"), ("orders", 1): 6, ("bills", 0): 7})

    assert answer == {ORDERS: 0, ("orders", 1): 0, ("bills", 0): 0}
    assert list(answer) == [ORDERS, ("orders", 1), ("bills", 0)]
    assert rig.fetch() == {
        ORDERS: (5, 2, "mine", 0),
        ("orders", 1): (6, -1, "", 0),
        ("bills", 0): (7, -1, "", 0),
    }


def test_records_have_kafkas_keys_and_values(rig):
    rig.commit({ORDERS: (5, 2, "mine")})

    ((record,),) = rig.journal.batches
    assert record.key == OffsetCommitKey(group="g", topic="orders", partition=0)
    assert record.value_version == 3
    now = rig.clock.now_ms.to_bytes(8)
    assert record.value.to_bytes(3) == (
        b"\x00\x03" + (5).to_bytes(8) + (2).to_bytes(4) + b"\x00\x04mine" + now
    )
    assert (rig.journal.acks, rig.journal.producers) == ([None], [(-1, -1)])


def test_a_retention_of_the_clients_own_is_written_in_the_version_that_has_a_place_for_it(rig):
    rig.commit({ORDERS: (5, 2, "")}, retention_ms=1000, version=4)

    ((record,),) = rig.journal.batches
    assert record.value_version == 1
    [(_, value)] = rig.journal.records
    assert value.expire_timestamp == rig.clock.now_ms + 1000
    assert value.leader_epoch == -1


# Who may commit


def test_a_group_that_nobody_manages_comes_into_being(rig):
    rig.commit({ORDERS: 5}, "new")

    assert "new" in rig.shard.groups
    assert rig.committed("new") == {ORDERS: 5}


@pytest.mark.parametrize(
    ("protocols", "version", "code"),
    [
        ({"classic"}, 8, ErrorCode.ILLEGAL_GENERATION),
        ({"classic"}, 9, ErrorCode.ILLEGAL_GENERATION),
        ({"classic", "consumer"}, 8, ErrorCode.ILLEGAL_GENERATION),
        ({"classic", "consumer"}, 9, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_member_of_a_group_that_is_gone_is_told_so(rig, protocols, version, code):
    rig.set(rebalance_protocols=frozenset(protocols))

    with pytest.raises(KafkaError) as refused:
        rig.commit({ORDERS: 5}, "gone", generation=0, version=version)

    assert refused.value.code is code
    assert rig.shard.groups == {}
    assert rig.journal.batches == []


def test_the_group_is_asked_and_its_refusal_changes_nothing(rig):
    rig.commit({ORDERS: 5})
    rig.group().refusal = KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    with pytest.raises(KafkaError) as refused:
        rig.commit({ORDERS: 6}, member_id="m", group_instance_id="i", generation=4, version=9)

    assert refused.value.code is ErrorCode.REBALANCE_IN_PROGRESS
    asked = rig.group().checks[-1]
    assert list(asked.pop("partitions")) == [ORDERS]
    assert asked == {
        "member_id": "m",
        "group_instance_id": "i",
        "generation": 4,
        "transactional": False,
        "version": 9,
    }
    rig.group().refusal = None
    assert rig.committed() == {ORDERS: 5}
    assert len(rig.journal.batches) == 1


# offset.metadata.max.bytes


def test_metadata_longer_than_allowed_is_refused_for_its_partition_alone():
    rig = Rig(**{"offset.metadata.max.bytes": "4"})

    answer = rig.commit({ORDERS: (5, -1, "12345"), ("orders", 1): (6, -1, "1234")})

    assert answer == {ORDERS: ErrorCode.OFFSET_METADATA_TOO_LARGE, ("orders", 1): 0}
    assert rig.committed() == {("orders", 1): 6}
    assert len(rig.journal.records) == 1


def test_metadata_is_measured_in_utf16_units_as_java_does():
    rig = Rig(**{"offset.metadata.max.bytes": "4"})

    assert rig.commit({ORDERS: (5, -1, "éééé")}) == {ORDERS: 0}
    assert rig.commit({ORDERS: (5, -1, "🦉🦉🦉")}) == {ORDERS: ErrorCode.OFFSET_METADATA_TOO_LARGE}


def test_nothing_is_written_when_every_partition_is_refused():
    rig = Rig(**{"offset.metadata.max.bytes": "0"})

    answer = rig.commit({ORDERS: (5, -1, "x")})

    assert answer == {ORDERS: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert rig.journal.batches == []


def test_a_commit_of_nothing_is_answered_with_nothing(rig):
    assert rig.commit({}) == {}
    assert rig.journal.batches == []


# Waiting for the replicas


def test_a_commit_is_invisible_until_the_replicas_have_it(rig):
    rig.commit({ORDERS: 5})
    rig.journal.holds = True

    answer = rig.commit({ORDERS: 6})

    assert isinstance(answer, Pending)
    assert not answer.done
    assert rig.committed() == {ORDERS: 5}
    rig.journal.acknowledge()
    assert answer.result() == {ORDERS: 0}
    assert rig.committed() == {ORDERS: 6}


def test_commits_on_their_way_count_in_the_order_of_the_journal(rig):
    rig.journal.holds = True
    rig.commit({ORDERS: 5})
    rig.commit({ORDERS: 6})

    rig.journal.acknowledge(place=1)
    assert rig.committed() == {ORDERS: 6}
    assert rig.fetch([ORDERS], require_stable=True)[ORDERS][3] == 0
    rig.journal.acknowledge()
    assert rig.committed() == {ORDERS: 6}


def test_a_commit_that_is_not_known_to_be_replicated_is_not_seen(rig):
    rig.commit({ORDERS: 5})
    rig.journal.holds = True
    answer = rig.commit({ORDERS: 6})

    rig.journal.fail(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))

    assert answer.result() == {ORDERS: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert rig.committed() == {ORDERS: 5}
    assert rig.fetch([ORDERS], require_stable=True)[ORDERS] == (5, -1, "", 0)


@pytest.mark.parametrize(
    ("of_the_log", "told"),
    [
        ("NETWORK_EXCEPTION", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("UNKNOWN_TOPIC_OR_PARTITION", "COORDINATOR_NOT_AVAILABLE"),
        ("NOT_ENOUGH_REPLICAS", "COORDINATOR_NOT_AVAILABLE"),
        ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "COORDINATOR_NOT_AVAILABLE"),
        ("NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR"),
        ("KAFKA_STORAGE_ERROR", "NOT_COORDINATOR"),
        ("MESSAGE_TOO_LARGE", "INVALID_COMMIT_OFFSET_SIZE"),
        ("RECORD_LIST_TOO_LARGE", "INVALID_COMMIT_OFFSET_SIZE"),
        ("INVALID_FETCH_SIZE", "INVALID_COMMIT_OFFSET_SIZE"),
        ("REQUEST_TIMED_OUT", "REQUEST_TIMED_OUT"),
    ],
)
def test_what_the_log_says_is_told_in_the_words_of_a_commit(rig, of_the_log, told):
    rig.set(offset_metadata_max_bytes=3)
    rig.journal.refusal = KafkaError(ErrorCode[of_the_log])

    answer = rig.commit({ORDERS: 5, ("orders", 1): (5, -1, "long")})

    assert answer == {ORDERS: ErrorCode[told], ("orders", 1): ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert rig.committed() == {}


def test_a_bug_below_is_no_error_of_the_clients(rig):
    rig.journal.holds = True
    answer = rig.commit({ORDERS: 5})

    rig.journal.fail(ValueError("a bug"))

    assert answer.result() == {ORDERS: ErrorCode.UNKNOWN_SERVER_ERROR}


def test_a_commit_to_a_topic_that_was_deleted_meanwhile_leaves_nothing(rig):
    rig.journal.holds = True
    answer = rig.commit({ORDERS: 5})

    rig.partitions_deleted(ORDERS)
    rig.journal.acknowledge()

    assert answer.result() == {ORDERS: 0}
    assert rig.committed() == {}


def test_a_commit_to_the_new_topic_survives_the_answer_for_the_old_one(rig):
    rig.journal.holds = True
    rig.commit({ORDERS: 50, ("bills", 0): 1})
    rig.partitions_deleted(ORDERS)
    rig.commit({ORDERS: 1})

    rig.journal.acknowledge()
    rig.journal.acknowledge()

    assert rig.committed() == {("bills", 0): 1, ORDERS: 1}


def test_a_late_answer_does_not_reach_a_group_that_began_anew(rig):
    rig.journal.holds = True
    rig.commit({ORDERS: 50})
    rig.coordinator.delete_group("g")
    rig.commit({ORDERS: 1})

    rig.journal.acknowledge()
    assert rig.committed() == {}
    rig.journal.acknowledge()
    assert rig.committed() == {ORDERS: 1}
