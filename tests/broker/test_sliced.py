"""Requests that name very much: worked off in slices, and answered as small ones are.

The clock passes half a millisecond whenever it is looked at, so that a slice of five has room for ten
entries: what is not sliced is seen by the entries that one turn of the loop works off.
"""

import itertools

import pytest

from barnabas.broker.fetch_context import SESSION_PARTITIONS_MAX
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from barnabas.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from standing_clock import Clock, TickingClock

MANY = 600
AT_ONCE_MAX = 60
"""So many entries may be worked off in one turn: the first 32, and a slice or two."""
PRODUCE_PORTION = 20
EXISTING = 40
"""Partitions of the one topic that exists."""


def names(count=MANY):
    """Names of topics: unknown ones, the one that exists, duplicates, and some that are none."""
    odd = itertools.cycle(["orders", "", "orders", "a/b", "t0", "x" * 300])
    return [next(odd) if index % 10 == 9 else f"t{index}" for index in range(count)]


def indexes(count=MANY):
    """Numbers of partitions: existing ones, unknown ones, duplicates."""
    return [index % (count // 2) - 1 for index in range(count)]


def ids(count=MANY):
    return [f"group-{index % (count - 20)}" if index % 50 else "" for index in range(count)]


def batch():
    return bytes(build_batch([Record(0, 1_700_000_000_000, b"k", b"v")]))


CASES = {}


def case(version, entries=MANY, **config):
    """A request of many entries, and how many turns of the loop they must take at least."""

    def add(build):
        CASES[build.__name__] = build, version, entries // AT_ONCE_MAX, {"num_partitions": 1, **config}
        return build

    return add


@case(12)
def metadata():
    topics = [MetadataRequestTopic(name=name) for name in names()]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


@case(9)
def metadata_that_creates():
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names()])


@case(12)
def metadata_by_id():
    topics = [
        MetadataRequestTopic(topic_id=(index + 1).to_bytes(16, "big"), name=None) for index in range(MANY)
    ]
    return MetadataRequest(topics=topics)


@case(4)
def configs_of_topics():
    resources = [
        DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
        for name in names()
    ]
    return DescribeConfigsRequest(resources=resources, include_synonyms=True)


@case(4)
def configs_of_the_broker():
    spellings = itertools.cycle(["1", "01", "+1", "", "2", "one"])
    resources = [
        DescribeConfigsResource(resource_type=4, resource_name=next(spellings), configuration_keys=None)
        for _ in range(MANY)
    ]
    return DescribeConfigsRequest(resources=resources, include_documentation=True)


@case(4)
def configs_by_key():
    keys = [*names(), "log.retention.ms", "num.io.threads", "log.retention.ms"]
    resource = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=keys)
    return DescribeConfigsRequest(resources=[resource])


@case(6)
def coordinators():
    return FindCoordinatorRequest(key_type=0, coordinator_keys=ids())


@case(6)
def coordinators_of_an_unknown_type():
    return FindCoordinatorRequest(key_type=9, coordinator_keys=ids())


@case(0)
def consumer_groups_where_there_are_none():
    return ConsumerGroupDescribeRequest(group_ids=ids())


@case(5)
def groups():
    return DescribeGroupsRequest(groups=ids(), include_authorized_operations=True)


@case(0, group_coordinator_rebalance_protocols="classic,consumer")
def consumer_groups():
    return ConsumerGroupDescribeRequest(group_ids=ids())


@case(2)
def deleted_groups():
    return DeleteGroupsRequest(groups_names=ids())


@case(4)
def listed_groups():
    return ListGroupsRequest(states_filter=["Stable", *ids()])


@case(5, entries=0)
def leaving_members():
    return LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=each) for each in ids()])


@case(7)
def offsets_of_topics():
    wanted = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    topics = [ListOffsetsTopic(name=name, partitions=wanted) for name in names()]
    return ListOffsetsRequest(replica_id=-1, topics=topics)


@case(7)
def offsets_of_partitions():
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in indexes()]
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=wanted) for name in ("orders", "no")]
    )


@case(4)
def epochs_of_topics():
    wanted = [OffsetForLeaderPartition(partition=0, leader_epoch=0)]
    topics = [OffsetForLeaderTopic(topic=name, partitions=wanted) for name in names()]
    return OffsetForLeaderEpochRequest(topics=topics)


@case(4)
def epochs_of_partitions():
    wanted = [OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in indexes()]
    return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="orders", partitions=wanted)])


@case(8)
def commits():
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=place)
        for place, index in enumerate(indexes())
    ]
    topics = [OffsetCommitRequestTopic(name=name, partitions=partitions) for name in ("orders", "no")]
    return OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=topics)


@case(0)
def deleted_offsets():
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in indexes()]
    topics = [OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in ("orders", "no")]
    return OffsetDeleteRequest(group_id="committed", topics=topics)


def controlled(kind, **fields):
    return kind(controller_id=1, controller_epoch=1, broker_epoch=7, **fields)


@case(7)
def roles():
    """Of topics that exist and that do not, new and stale ones, led here, elsewhere, and by nobody known."""
    topics = [
        LeaderAndIsrTopicState(
            topic_name=name,
            topic_id=bytes([number + 1]) * 16,
            partition_states=[
                LeaderAndIsrPartitionState(
                    partition_index=index,
                    leader=index % 3,
                    leader_epoch=index % 2,
                    isr=[1, 2],
                    replicas=[1, 2] if index % 5 else [2],
                )
                for index in range(-1, MANY // 6)
            ],
        )
        for number, name in enumerate(["orders", "new", "a/b"])
    ]
    empty = [LeaderAndIsrTopicState(topic_name=name, topic_id=b"e" * 16) for name in names()]
    return controlled(LeaderAndIsrRequest, topic_states=topics + empty)


@case(4)
def refused_roles():
    states = [LeaderAndIsrPartitionState(partition_index=index, topic_name="orders") for index in indexes()]
    topic = LeaderAndIsrTopicState(topic_name="orders", topic_id=b"o" * 16, partition_states=states)
    return LeaderAndIsrRequest(controller_id=1, controller_epoch=1, broker_epoch=6, topic_states=[topic])


@case(4)
def stopped():
    states = [
        StopReplicaPartitionState(partition_index=index, leader_epoch=-2, delete_partition=index % 2 == 0)
        for index in indexes()
    ]
    topics = [StopReplicaTopicState(topic_name=name, partition_states=states) for name in ("orders", "no")]
    return controlled(StopReplicaRequest, topic_states=topics)


@case(8)
def metadata_of_the_cluster():
    states = [
        UpdateMetadataPartitionState(partition_index=index, leader=index % 4 - 2, isr=[1], replicas=[1])
        for index in indexes()
    ]
    topics = [
        UpdateMetadataTopicState(topic_name=name, topic_id=bytes([number + 1]) * 16, partition_states=states)
        for number, name in enumerate(["orders", "new"])
    ]
    topics += [UpdateMetadataTopicState(topic_name=name) for name in names()]
    return controlled(UpdateMetadataRequest, topic_states=topics)


@case(8)
def brokers_of_the_cluster():
    endpoints = [UpdateMetadataEndpoint(port=1, host="h", listener=name) for name in names()]
    brokers = [UpdateMetadataBroker(id=number, rack=None, endpoints=endpoints[:1]) for number in range(MANY)]
    brokers[0].endpoints = endpoints
    return controlled(UpdateMetadataRequest, live_brokers=brokers)


def offset_topics():
    return [
        OffsetFetchRequestTopics(name="orders", partition_indexes=indexes()),
        OffsetFetchRequestTopics(name="empty", partition_indexes=[]),
        OffsetFetchRequestTopics(name="orders", partition_indexes=indexes(1200)),
    ]


@case(9)
def committed():
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="committed", topics=offset_topics())])


@case(9)
def committed_by_groups():
    groups = [OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in ids()]
    return OffsetFetchRequest(groups=groups)


@case(6)
def deleted_topics():
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names()], timeout_ms=100)


@case(7)
def created_topics():
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names()]
    return CreateTopicsRequest(topics=topics, timeout_ms=100)


@case(7)
def too_many_partitions():
    topics = [CreatableTopic(name=name, num_partitions=1000, replication_factor=1) for name in names()]
    return CreateTopicsRequest(topics=topics, timeout_ms=100)


@case(7)
def a_topic_of_many_configs():
    configs = [CreatableTopicConfig(name=name, value="1") for name in ["retention.ms", *names()]]
    topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1, configs=configs)
    assigned = CreatableTopic(
        name="assigned",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])],
    )
    return CreateTopicsRequest(topics=[topic, assigned], timeout_ms=100)


def produced(topics, acks, partitions=None, size=MANY):
    wanted = indexes(size) if partitions is None else partitions
    data = [PartitionProduceData(index=index, records=batch()) for index in wanted]
    return ProduceRequest(
        acks=acks,
        timeout_ms=100,
        topic_data=[TopicProduceData(name=name, partition_data=data) for name in topics],
    )


@case(9, entries=MANY // PRODUCE_PORTION)
def records_for_partitions():
    return produced(["orders", "no"], acks=1)


@case(10, entries=MANY // PRODUCE_PORTION)
def records_for_all_replicas():
    return produced(["orders", "no"], acks=-1)


@case(9)
def records_for_topics():
    return produced(names(), acks=1, partitions=[0])


def fetched(topics, partitions, **more):
    wanted = [FetchPartition(partition=index, partition_max_bytes=1000) for index in partitions]
    return FetchRequest(
        **{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1} | more,
        topics=[FetchTopic(topic=name, partitions=wanted) for name in topics],
    )


@case(12, entries=MANY // 4)
def fetch_of_partitions():
    return fetched(["orders", "no", "orders"], indexes(10 * MANY))


@case(12, entries=MANY // 4)
def fetch_of_topics():
    return fetched(names(10 * MANY), [0])


@case(12)
def fetch_of_more_than_a_session_may_have():
    return fetched(["orders"], range(SESSION_PARTITIONS_MAX), session_epoch=0, max_wait_ms=100)


@case(12)
def fetch_with_a_session():
    return fetched(["orders", "no"], indexes(), session_epoch=0)


@case(12, entries=0)
def fetch_that_waits():
    return fetched(["orders"], list(range(150)), session_epoch=0, max_wait_ms=100)


def answer(make_world, build, version, clock, **config):
    """The decoded answer of a broker with one topic and one group that committed."""
    world = make_world(clock=clock, **config)
    world.create(partitions=EXISTING)
    world.create("__consumer_offsets", 50)
    world.clock.advance(1000)
    commit = OffsetCommitRequestPartition(partition_index=3, committed_offset=42)
    world.send(
        OffsetCommitRequest(
            group_id="committed",
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name="orders", partitions=[commit])],
        ),
        8,
    )
    clock.turns = 0
    request = build()
    get = world.start(request, version)
    # The next request of the connection has to wait for one that pauses, and for topics to come or go.
    changing = isinstance(request, CreateTopicsRequest | DeleteTopicsRequest) and get() is None
    assert world.control.holds == (1 if clock.turns or changing else 0)
    clock.advance(1000)
    assert get() is not None
    assert world.control.holds == 0
    return get()


@pytest.mark.parametrize("name", CASES)
def test_many_entries_are_worked_off_in_slices(make_world, name):
    build, version, turns_min, config = CASES[name]
    clock = TickingClock()

    sliced = answer(make_world, build, version, clock, **config)

    assert clock.turns >= turns_min
    assert sliced == answer(make_world, build, version, Clock(), **config)
