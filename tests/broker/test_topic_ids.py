"""Topics are named by id (Produce 13, OffsetCommit 10, OffsetFetch 10): the answers of a genuine 4.4.0."""

import dataclasses

import pytest

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, ZERO_UUID
from barnabas.log.validator import RECORDS_AT_ONCE
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from broker_world import ME, OTHER, batch

OLD = b"\x01" * 16
NEW = b"\x02" * 16
NOBODYS = b"\x03" * 16
OTHERS = b"\x04" * 16


class Rights:
    """Allows everything but to write to, read and describe the topics that a test names."""

    def __init__(self):
        self.denied = set()

    def authorize(self, request, operation, resource, name, count=None, **_logs):
        return name not in self.denied

    def authorize_any(self, request, operation, resource):
        return True


@pytest.fixture
def rights():
    return Rights()


@pytest.fixture
def modern(make_world, rights):
    """A broker of the profile 4.4: `orders` was deleted and made anew, `others` is another topic."""
    world = make_world(barnabas_api_profile="4.4")
    world.services.authorizer = rights
    world.create("orders", 2, topic_id=OLD)
    delete(world, partitions=2)
    world.create("orders", 2, topic_id=NEW)
    world.create("others", 1, topic_id=OTHERS)
    return world


def delete(world, topic="orders", partitions=1):
    world.delete_replicas(topic, partitions)
    world.delete(topic)


# --- Produce ----------------------------------------------------------------------------------------------


def produce(*places, acks=1, records=batch):
    """A request for pairs of an id and a partition."""
    topics = []
    for topic_id, partition in places:
        data = PartitionProduceData(index=partition, records=records())
        if topics and topics[-1].topic_id == topic_id:
            topics[-1].partition_data.append(data)
        else:
            topics.append(TopicProduceData(topic_id=topic_id, partition_data=[data]))
    return ProduceRequest(acks=acks, timeout_ms=500, topic_data=topics)


def produced(response):
    return {
        (topic.topic_id, each.index): (ErrorCode.of(each.error_code).name, each.base_offset)
        for topic in response.responses
        for each in topic.partition_responses
    }


def test_records_are_appended_to_the_topic_with_the_id(modern):
    answer = modern.send(produce((NEW, 1), (OTHERS, 0), (NEW, 0)), 13)

    assert produced(answer) == {(NEW, 1): ("NONE", 0), (OTHERS, 0): ("NONE", 0), (NEW, 0): ("NONE", 0)}
    assert [topic.name for topic in answer.responses] == ["", ""]
    assert modern.partition("orders", 1).log.log_end_offset == 1
    assert modern.partition("others", 0).log.log_end_offset == 1


@pytest.mark.parametrize("topic_id", [OLD, NOBODYS, ZERO_UUID])
def test_an_id_that_no_topic_has_is_refused_and_nothing_is_appended(modern, topic_id):
    answer = modern.send(produce((topic_id, 0), (NEW, 0), (topic_id, 1)), 13)

    assert produced(answer) == {
        (topic_id, 0): ("UNKNOWN_TOPIC_ID", -1),
        (topic_id, 1): ("UNKNOWN_TOPIC_ID", -1),
        (NEW, 0): ("NONE", 0),
    }
    assert modern.partition("orders", 1).log.log_end_offset == 0


def test_two_ids_that_no_topic_has_are_two_topics(modern):
    answer = modern.send(produce((OLD, 0), (NOBODYS, 0)), 13)

    assert set(produced(answer)) == {(OLD, 0), (NOBODYS, 0)}


def test_an_unknown_id_is_said_before_what_else_is_wrong(modern, rights):
    rights.denied = {"orders"}

    assert produced(modern.send(produce((NOBODYS, 0), acks=7), 13)) == {
        (NOBODYS, 0): ("UNKNOWN_TOPIC_ID", -1)
    }
    torn = produce((NOBODYS, 0), records=lambda: batch()[:-1])
    assert produced(modern.send(torn, 13)) == {(NOBODYS, 0): ("UNKNOWN_TOPIC_ID", -1)}
    assert produced(modern.send(produce((NEW, 0), (OLD, 0)), 13)) == {
        (NEW, 0): ("TOPIC_AUTHORIZATION_FAILED", -1),
        (OLD, 0): ("UNKNOWN_TOPIC_ID", -1),
    }


def test_a_partition_that_the_topic_has_not_is_unknown_as_before(modern):
    assert produced(modern.send(produce((NEW, 9)), 13)) == {(NEW, 9): ("UNKNOWN_TOPIC_OR_PARTITION", -1)}
    assert produced(modern.send(produce((NEW, 0), acks=7), 13)) == {(NEW, 0): ("INVALID_REQUIRED_ACKS", -1)}


def test_of_a_partition_that_is_named_twice_the_last_records_count(modern):
    answer = modern.send(produce((NEW, 0), (OTHERS, 0), (NEW, 0), (OTHERS, 0)), 13)

    assert produced(answer) == {(NEW, 0): ("NONE", 0), (OTHERS, 0): ("NONE", 0)}
    assert modern.partition("orders", 0).log.log_end_offset == 1


def test_a_request_of_hundreds_of_partitions_has_the_answers_of_a_small_one(modern):
    places = [(NEW, index) for index in range(300)] + [(NOBODYS, index) for index in range(300)]
    answer = produced(modern.send(produce(*places), 13))

    assert len(answer) == 600
    assert {code for (topic_id, _), (code, _) in answer.items() if topic_id == NOBODYS} == {
        "UNKNOWN_TOPIC_ID"
    }
    assert [answer[NEW, index][0] for index in range(3)] == ["NONE", "NONE", "UNKNOWN_TOPIC_OR_PARTITION"]


def test_a_transaction_of_nobody_is_refused_by_id_too(modern):
    def transactional():
        return batch(transactional=True, producer_id=5, producer_epoch=0, base_sequence=0)

    answer = modern.send(produce((NOBODYS, 0), (NEW, 0), records=transactional), 13)
    assert produced(answer) == {
        (NOBODYS, 0): ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", -1),
        (NEW, 0): ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", -1),
    }


def test_a_replica_of_another_topic_of_that_name_gets_nothing(modern):
    """The controller makes the leaders of the new topic before it says that there is one."""
    modern.delete_replicas("orders", 2)
    modern.create("orders", 2, topic_id=NOBODYS, metadata=False)

    assert produced(modern.send(produce((NEW, 0)), 13)) == {(NEW, 0): ("UNKNOWN_TOPIC_ID", -1)}
    assert modern.partition("orders", 0).log.log_end_offset == 0


def test_a_producer_that_waits_while_its_topic_is_made_anew_is_not_acknowledged(make_world):
    world = make_world(barnabas_api_profile="4.4")
    world.create("orders", isr=(1, 2), topic_id=OLD)
    answer = world.start(produce((OLD, 0), acks=-1), 13)
    assert answer() is None

    delete(world)
    world.create("orders", isr=(1,), topic_id=NEW)
    world.send(produce((NEW, 0), (NEW, 0)), 13)
    world.clock.advance(500)

    [(place, (code, _))] = produced(answer()).items()
    assert place == (OLD, 0)
    assert code != "NONE"
    assert world.replicas.produce_purgatory.size == 0


@pytest.mark.parametrize(
    ("version", "named", "code"),
    [(13, {"topic_id": OLD}, "UNKNOWN_TOPIC_ID"), (12, {"name": "orders"}, "NOT_LEADER_OR_FOLLOWER")],
)
def test_a_batch_that_is_looked_into_elsewhere_while_its_topic_is_made_anew(make_world, version, named, code):
    """Its records must not land in the new topic."""
    world = make_world(barnabas_api_profile="4.4")
    world.log_config = dataclasses.replace(world.log_config, cleanup_policy="compact")
    world.create("orders", topic_id=OLD)
    world.elsewhere.waits = True
    data = PartitionProduceData(index=0, records=batch(RECORDS_AT_ONCE + 1))
    request = ProduceRequest(
        acks=1, timeout_ms=500, topic_data=[TopicProduceData(partition_data=[data], **named)]
    )
    answer = world.start(request, version)
    assert answer() is None

    delete(world)
    world.create("orders", topic_id=NEW)
    world.elsewhere.finish()

    [topic] = answer().responses
    assert ErrorCode.of(topic.partition_responses[0].error_code).name == code
    assert world.partition("orders").log.log_end_offset == 0


def test_a_partition_that_is_led_elsewhere_keeps_its_code_by_id(make_world):
    world = make_world(barnabas_api_profile="4.4")
    world.create("orders", leader=OTHER, isr=(ME, OTHER), topic_id=NEW)

    answer = world.send(produce((NEW, 0)), 13)
    assert produced(answer) == {(NEW, 0): ("NOT_LEADER_OR_FOLLOWER", -1)}
    assert answer.responses[0].partition_responses[0].current_leader.leader_id == OTHER


def test_names_are_taken_as_before_where_the_version_has_names(modern):
    for version in (11, 12):
        answer = modern.produce("orders", version=version)
        [topic] = answer.responses
        assert (topic.name, topic.topic_id) == ("orders", ZERO_UUID)
    assert modern.partition("orders", 0).log.log_end_offset == 2


# --- offsets ----------------------------------------------------------------------------------------------


@pytest.fixture
def grouped(modern):
    modern.create(GROUP_METADATA_TOPIC, 50)
    modern.clock.advance(1)
    return modern


def commit(*places, **fields):
    topics = []
    for topic, partition in places:
        wanted = OffsetCommitRequestPartition(partition_index=partition, committed_offset=3)
        named = {"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}
        topics.append(OffsetCommitRequestTopic(**named, partitions=[wanted]))
    return OffsetCommitRequest(group_id="g", topics=topics, **fields)


def fetch(*topics, partition=0):
    wanted = None
    if topics:
        wanted = [OffsetFetchRequestTopics(topic_id=each, partition_indexes=[partition]) for each in topics]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=wanted)])


def committed(response):
    return {
        (topic.topic_id, each.partition_index): ErrorCode.of(each.error_code).name
        for topic in response.topics
        for each in topic.partitions
    }


def fetched(response):
    [group] = response.groups
    assert group.error_code == 0
    return {
        (topic.topic_id, each.partition_index): (ErrorCode.of(each.error_code).name, each.committed_offset)
        for topic in group.topics
        for each in topic.partitions
    }


def test_offsets_that_are_committed_by_id_are_kept_by_name(grouped):
    assert committed(grouped.send(commit((NEW, 0), (OTHERS, 0)), 10)) == {
        (NEW, 0): "NONE",
        (OTHERS, 0): "NONE",
    }
    by_name = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id="g", topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
            )
        ]
    )
    [topic] = grouped.send(by_name, 9).groups[0].topics
    assert (topic.name, topic.partitions[0].committed_offset) == ("orders", 3)


def test_a_commit_for_an_id_that_no_topic_has_is_refused_by_itself(grouped, rights):
    rights.denied = {"others"}
    answer = grouped.send(commit((NEW, 0), (NEW, 9), (OLD, 0), (NOBODYS, 0), (ZERO_UUID, 0), (OTHERS, 0)), 10)

    assert committed(answer) == {
        (NEW, 0): "NONE",
        (NEW, 9): "UNKNOWN_TOPIC_OR_PARTITION",
        (OLD, 0): "UNKNOWN_TOPIC_ID",
        (NOBODYS, 0): "UNKNOWN_TOPIC_ID",
        (ZERO_UUID, 0): "UNKNOWN_TOPIC_ID",
        (OTHERS, 0): "TOPIC_AUTHORIZATION_FAILED",
    }


@pytest.mark.parametrize(
    ("topic", "absent", "version", "unknown"),
    [(NEW, NOBODYS, 10, "UNKNOWN_TOPIC_ID"), ("orders", "absent", 9, "UNKNOWN_TOPIC_OR_PARTITION")],
)
def test_what_was_refused_before_the_group_was_asked_keeps_its_code(grouped, topic, absent, version, unknown):
    grouped.send(commit((topic, 0)), version)
    request = commit((topic, 0), (absent, 0), member_id="x", generation_id_or_member_epoch=3)
    answer = grouped.send(request, version)

    codes = {
        each.name or each.topic_id: ErrorCode.of(each.partitions[0].error_code).name for each in answer.topics
    }
    assert codes == {topic: "UNKNOWN_MEMBER_ID", absent: unknown}


def test_a_commit_of_a_group_that_may_not_be_read_names_topics_by_id(grouped, rights):
    rights.denied = {"g"}
    assert committed(grouped.send(commit((NEW, 0), (NOBODYS, 1)), 10)) == dict.fromkeys(
        [(NEW, 0), (NOBODYS, 1)], "GROUP_AUTHORIZATION_FAILED"
    )


def test_offsets_are_fetched_by_id(grouped, rights):
    grouped.send(commit((NEW, 0), (OTHERS, 0)), 10)

    assert fetched(grouped.send(fetch(NEW, OLD, NOBODYS, ZERO_UUID), 10)) == {
        (NEW, 0): ("NONE", 3),
        (OLD, 0): ("UNKNOWN_TOPIC_ID", -1),
        (NOBODYS, 0): ("UNKNOWN_TOPIC_ID", -1),
        (ZERO_UUID, 0): ("UNKNOWN_TOPIC_ID", -1),
    }
    assert fetched(grouped.send(fetch(NEW, partition=9), 10)) == {(NEW, 9): ("NONE", -1)}
    rights.denied = {"orders"}
    assert fetched(grouped.send(fetch(NEW), 10)) == {(NEW, 0): ("TOPIC_AUTHORIZATION_FAILED", -1)}


def test_all_offsets_of_a_group_are_those_of_topics_that_have_an_id(grouped):
    grouped.send(commit((NEW, 0), (OTHERS, 0)), 10)
    grouped.create("nameless", 1)
    grouped.send(commit(("nameless", 0)), 9)

    assert fetched(grouped.send(fetch(), 10)) == {(NEW, 0): ("NONE", 3), (OTHERS, 0): ("NONE", 3)}
    [group] = grouped.send(fetch(), 9).groups
    assert {topic.name for topic in group.topics} == {"orders", "others", "nameless"}


# --- what else takes an id: also one that a topic of the name had before


@pytest.mark.parametrize("topic_id", [OLD, NOBODYS])
@pytest.mark.parametrize("version", [13, 18])
def test_records_of_an_id_that_no_topic_has_are_not_fetched(modern, topic_id, version):
    modern.send(produce((NEW, 0)), 13)
    topics = [
        FetchTopic(topic_id=each, partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])
        for each in (topic_id, NEW)
    ]
    answer = modern.send(FetchRequest(max_wait_ms=0, topics=topics), version)

    codes = {each.topic_id: ErrorCode.of(each.partitions[0].error_code).name for each in answer.responses}
    assert codes == {topic_id: "UNKNOWN_TOPIC_ID", NEW: "NONE"}


@pytest.mark.parametrize("topic_id", [OLD, NOBODYS])
def test_nothing_is_known_and_nothing_deleted_by_an_id_that_no_topic_has(modern, topic_id):
    topics = [MetadataRequestTopic(name=None, topic_id=each) for each in (topic_id, NEW)]
    described = modern.send(MetadataRequest(topics=topics), 13).topics
    assert {each.topic_id: (ErrorCode.of(each.error_code).name, each.name) for each in described} == {
        topic_id: ("UNKNOWN_TOPIC_ID", None),
        NEW: ("NONE", "orders"),
    }
    topics = [DeleteTopicState(name=None, topic_id=topic_id)]
    [deleted] = modern.send(DeleteTopicsRequest(topics=topics, timeout_ms=1000), 6).responses
    assert (deleted.name, ErrorCode.of(deleted.error_code).name) == (None, "UNKNOWN_TOPIC_ID")
    assert "orders" in modern.cache


# --- TxnOffsetCommit (KIP-1319) ----------------------------------------------------------------------------


def commit_in_transaction(*places):
    topics = [
        TxnOffsetCommitRequestTopic(
            topic_id=topic_id,
            partitions=[TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=5)],
        )
        for topic_id, index in places
    ]
    return TxnOffsetCommitRequest(
        transactional_id="x", group_id="g", producer_id=7, producer_epoch=0, topics=topics
    )


def test_a_commit_in_a_transaction_names_topics_by_id(grouped, rights):
    """Nobody has this transaction; what is not known is said for itself."""
    grouped.create(TRANSACTION_STATE_TOPIC, 50)
    grouped.clock.advance(1)
    answer = grouped.start(commit_in_transaction((NEW, 0), (NEW, 9), (OLD, 0), (ZERO_UUID, 0)), 6)
    grouped.clock.advance(1)

    found = committed(answer())
    assert found.pop((NEW, 0)) == "INVALID_PRODUCER_ID_MAPPING"
    assert found == {
        (NEW, 9): "UNKNOWN_TOPIC_OR_PARTITION",
        (OLD, 0): "UNKNOWN_TOPIC_ID",
        (ZERO_UUID, 0): "UNKNOWN_TOPIC_ID",
    }
    rights.denied = {"g"}
    refused = committed(grouped.send(commit_in_transaction((NEW, 0), (OLD, 1)), 6))
    assert refused == dict.fromkeys([(NEW, 0), (OLD, 1)], "GROUP_AUTHORIZATION_FAILED")
