"""Topics made and deleted, and all the ways in which they cannot be."""

import time
from typing import Any, Final

from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from parity.world import World

BROKER: Final = 4
DEFAULT_SOURCE: Final = 5
PATIENCE_S: Final = 10


def wanted(name: str, partitions: int = 1, replicas: int = 1, **fields: Any) -> CreatableTopic:
    """A topic that is asked for."""
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, **fields)


def assigned(name: str, *brokers: list[int], first: int = 0) -> CreatableTopic:
    """A topic whose replicas the client places, one list a partition."""
    places = [
        CreatableReplicaAssignment(partition_index=first + at, broker_ids=ids)
        for at, ids in enumerate(brokers)
    ]
    return wanted(name, -1, -1, assignments=places)


def configured(name: str, **configs: str | None) -> CreatableTopic:
    """A topic with settings of its own; underscores in names are dots."""
    given = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return wanted(name, configs=given)


def create_topics(world: World) -> None:
    """Ordinary topics and refused ones."""
    world.create("create-there")
    for version in (2, 4, 5, 7):
        good = CreateTopicsRequest(topics=[wanted(f"create-good-{version}", 2)])
        world.ask("good", good, version)
        two = [
            configured(f"create-a-{version}", cleanup_policy="compact"),
            assigned(f"create-b-{version}", [0], [0]),
        ]
        world.ask("configured and assigned", CreateTopicsRequest(topics=two), version)
    for version in (2, 7):
        world.ask(
            "validated only",
            CreateTopicsRequest(topics=[wanted("create-dry", 3)], validate_only=True),
            version,
        )
        for what, topic in _refused().items():
            world.ask(what, CreateTopicsRequest(topics=[topic]), version)
            world.ask(
                f"{what}, validated only", CreateTopicsRequest(topics=[topic], validate_only=True), version
            )
        mixed = [wanted("create-there"), wanted("bad name"), *[wanted("create-twice")] * 2]
        world.ask("mixed", CreateTopicsRequest(topics=mixed), version)
        world.ask("none", CreateTopicsRequest(topics=[]), version)
    world.ask(
        "defaults", CreateTopicsRequest(topics=[wanted("create-defaults", -1, -1)], validate_only=True), 4, 7
    )
    # -1 means nothing to them.
    world.ask("defaults too early", CreateTopicsRequest(topics=[wanted("create-early", -1, -1)]), 2, 3)
    world.ask("no time to wait", CreateTopicsRequest(topics=[wanted("create-hurry")], timeout_ms=0), 2, 7)


def dynamic_defaults(world: World) -> None:
    """Where the settings of a new topic come from:
    its own, the file's, and those that were set while brokers run.
    """
    _set_brokers(world, log_retention_ms=("", "123456"), log_segment_bytes=("0", "1234567"))
    for version in (4, 5, 7):
        dry = CreateTopicsRequest(topics=[configured("sources", segment_ms="100000")], validate_only=True)
        world.ask("sources", dry, version)
    named = world.prepare(CreateTopicsRequest(topics=[wanted("sources")], validate_only=True), 7).topics[0]
    world.in_order("order of the keys", [entry.name for entry in named.configs])
    _set_brokers(world, log_retention_ms=("", None), log_segment_bytes=("0", None))


def _set_brokers(world: World, **values: tuple[str, str | None]) -> None:
    """Sets or deletes keys of brokers, and waits until the broker has taken that over."""
    for key, (broker, value) in values.items():
        name = key.replace("_", ".")
        operation = AlterableConfig(name=name, config_operation=1 if value is None else 0, value=value)
        resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=[operation])
        altered = world.prepare(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0]
        assert altered.error_code == 0, altered
        named = DescribeConfigsResource(resource_type=BROKER, resource_name="0", configuration_keys=[name])
        deadline = time.monotonic() + PATIENCE_S
        while True:
            described = world.prepare(DescribeConfigsRequest(resources=[named]), 4).results[0].configs[0]
            if (described.value == value) if value else (described.config_source == DEFAULT_SOURCE):
                break
            assert time.monotonic() < deadline, described
            time.sleep(0.05)


def _refused() -> dict[str, CreatableTopic]:
    return {
        "exists": wanted("create-there"),
        "collides": wanted("create.there_"),
        "no name": wanted(""),
        "dot": wanted("."),
        "bad letter": wanted("a/b"),
        "long name": wanted("n" * 250),
        "no partitions": wanted("create-x", 0),
        "negative partitions": wanted("create-x", -2),
        "no replicas": wanted("create-x", 1, 0),
        "negative replicas": wanted("create-x", 1, -2),
        "too many replicas": wanted("create-x", 1, 3),
        "metadata topic": wanted("__cluster_metadata"),
        "unknown broker": assigned("create-x", [5]),
        "broker twice": assigned("create-x", [0, 0]),
        "no broker": assigned("create-x", []),
        "gap in partitions": assigned("create-x", [0], first=1),
        "negative partition": assigned("create-x", [0], first=-1),
        "sizes differ": assigned("create-x", [0], [0, 1]),
        "count and assignment": _count_and_assignment(),
        "unknown config": configured("create-x", nothing_of_the_kind="1"),
        "null config": configured("create-x", retention_ms=None),
        "config that is no number": configured("create-x", retention_ms="soon"),
        "config out of range": configured("create-x", retention_ms="-2"),
        "config too big": configured("create-x", segment_bytes="99999999999"),
        "config of another kind": configured("create-x", cleanup_policy="burn"),
        "two configs at odds": configured("create-x", min_compaction_lag_ms="10", max_compaction_lag_ms="5"),
        "no boolean": configured("create-x", preallocate="perhaps"),
    }


def _count_and_assignment() -> CreatableTopic:
    topic = assigned("create-x", [0])
    topic.num_partitions = 1
    return topic


def delete_topics(world: World) -> None:
    """Deletion by name, by id, of what is there and what is not."""
    for version in (1, 3, 4, 5):
        name = f"delete-{version}"
        world.create(name)
        world.ask("there", DeleteTopicsRequest(topic_names=[name], timeout_ms=20_000), version)
        world.ask("gone", DeleteTopicsRequest(topic_names=[name], timeout_ms=20_000), version)
    world.ask("bad name", DeleteTopicsRequest(topic_names=["a b"], timeout_ms=5000), 1, 5)
    world.ask("none", DeleteTopicsRequest(topic_names=[], timeout_ms=5000), 1, 5)
    world.create("delete-no-wait")
    world.ask("no time to wait", DeleteTopicsRequest(topic_names=["delete-no-wait"], timeout_ms=0), 5)
    _delete_by_id(world)


def create_partitions(world: World) -> None:
    """Topics that grow, and those that may not."""
    for name in ("grow", "grow-placed", "grow-twice", "grow-hurry"):
        world.create(name)
    for version in range(4):
        world.ask("one more", _grown(("grow", version + 2, None)), version)
        world.ask("placed", _grown(("grow-placed", version + 2, [[0]])), version)
    for what, topic in {
        "as many": ("grow", 5, None),
        "fewer": ("grow", 1, None),
        "none": ("grow", 0, None),
        "negative": ("grow", -1, None),
        "unknown topic": ("grow-nowhere", 3, None),
        "bad name": ("a b", 3, None),
        "no name": ("", 3, None),
        "unknown broker": ("grow", 6, [[7]]),
        "too few assignments": ("grow", 7, [[0]]),
        "no assignments": ("grow", 6, []),
        "no broker": ("grow", 6, [[]]),
        "broker twice": ("grow", 6, [[0, 0]]),
    }.items():
        world.ask(what, _grown(topic), 0, 3)
        world.ask(f"{what}, validated only", _grown(topic, validate_only=True), 3)
    world.ask("twice", _grown(("grow-twice", 2, None), ("grow-twice", 3, None)), 1, 2)
    world.ask("validated only", _grown(("grow-twice", 4, None), validate_only=True), 3)
    world.ask("nothing", _grown(), 3)
    world.ask("no time to wait", _grown(("grow-hurry", 2, None), timeout_ms=0), 3)


def _grown(*topics: tuple[str, int, list[list[int]] | None], **options: Any) -> CreatePartitionsRequest:
    wanted_topics = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None
            if placed is None
            else [CreatePartitionsAssignment(broker_ids=each) for each in placed],
        )
        for name, count, placed in topics
    ]
    return CreatePartitionsRequest(topics=wanted_topics, **{"timeout_ms": 20_000, **options})


def elect_leaders(world: World) -> None:
    """Elections where there is nothing to elect: one broker leads all."""
    world.create("elect", 2)
    for kind in (0, 1):
        for what, topics in {
            "not needed": [TopicPartitions(topic="elect", partitions=[1])],
            "unknown partition": [TopicPartitions(topic="elect", partitions=[7])],
            "unknown topic": [TopicPartitions(topic="elect-nowhere", partitions=[0])],
            "no partitions": [TopicPartitions(topic="elect", partitions=[])],
            "nothing": [],
            "twice": [TopicPartitions(topic="elect", partitions=[0, 0])],
        }.items():
            world.ask(
                f"{what}, kind {kind}",
                ElectLeadersRequest(election_type=kind, topic_partitions=topics),
                *((0, 1, 2) if kind == 0 else (1, 2)),
            )
        everything = ElectLeadersRequest(election_type=kind, topic_partitions=None)
        world.ask(f"everything, kind {kind}", everything, 2)
    one = [TopicPartitions(topic="elect", partitions=[1])]
    world.ask("unknown kind", ElectLeadersRequest(election_type=7, topic_partitions=one), 1, 2)
    world.ask("no time to wait", ElectLeadersRequest(topic_partitions=one, timeout_ms=0), 2)


def reassign_partitions(world: World) -> None:
    """Moves that cannot begin, or are done at once: there is one broker."""
    world.create("reassign", 2)
    for what, (name, partition, replicas) in {
        "same": ("reassign", 0, [0]),
        "dead broker": ("reassign", 0, [7]),
        "dead and live": ("reassign", 0, [0, 7, 9]),
        "twice": ("reassign", 0, [0, 0]),
        "negative": ("reassign", 0, [0, -1]),
        "empty": ("reassign", 0, []),
        "cancelled": ("reassign", 0, None),
        "unknown partition": ("reassign", 7, [0]),
        "unknown topic": ("reassign-nowhere", 0, [0]),
        "unknown and cancelled": ("reassign-nowhere", 0, None),
    }.items():
        one = ReassignablePartition(partition_index=partition, replicas=replicas)
        topic = ReassignableTopic(name=name, partitions=[one])
        world.ask(what, AlterPartitionReassignmentsRequest(topics=[topic]), 0)
    world.ask("nothing", AlterPartitionReassignmentsRequest(), 0)
    world.ask("list all", ListPartitionReassignmentsRequest(topics=None), 0)
    world.ask("list none", ListPartitionReassignmentsRequest(topics=[]), 0)
    listed = [ListPartitionReassignmentsTopics(name="reassign", partition_indexes=[0, 7])]
    world.ask("list some", ListPartitionReassignmentsRequest(topics=listed), 0)


def _delete_by_id(world: World) -> None:
    for name in ("delete-named", "delete-by-id", "delete-both", "delete-twice", "delete-mixed"):
        world.create(name)
    both = DeleteTopicState(name="delete-both", topic_id=world.topic_id("delete-both"))
    ids = {name: world.topic_id(name) for name in ("delete-by-id", "delete-mixed")}
    for what, states in {
        "by name": [DeleteTopicState(name="delete-named")],
        "by id": [DeleteTopicState(topic_id=ids["delete-by-id"])],
        "by unknown id": [DeleteTopicState(topic_id=b"\x11" * 16)],
        "by unknown name": [DeleteTopicState(name="delete-nowhere")],
        "by both": [both],
        "by neither": [DeleteTopicState()],
        "twice by name": [DeleteTopicState(name="delete-twice")] * 2,
        "by name and id": [
            DeleteTopicState(name="delete-mixed"),
            DeleteTopicState(topic_id=ids["delete-mixed"]),
        ],
        "none": [],
    }.items():
        world.ask(what, DeleteTopicsRequest(topics=states, timeout_ms=20_000), 6)


def absurd_topics(world: World) -> None:
    """Numbers that nobody means, as far as a genuine broker lives through them."""
    lowest = -(1 << 31)
    for what, topic in {
        "lowest partitions": wanted("absurd", lowest),
        "most replicas": wanted("absurd", 1, 32767),
        "lowest replicas": wanted("absurd", 1, -32768),
        "partition of the greatest number": assigned("absurd", [0], first=0x7FFFFFFF),
        "broker of the greatest number": assigned("absurd", [0x7FFFFFFF]),
        "broker of the lowest number": assigned("absurd", [lowest]),
        "a thousand times one broker": assigned("absurd", [0] * 1000),
    }.items():
        world.ask(what, CreateTopicsRequest(topics=[topic]), 2, 7)
    hurry = CreateTopicsRequest(topics=[wanted("absurd-hurry")], timeout_ms=lowest)
    world.ask("lowest timeout", hurry, 7)
    world.ask("lowest timeout to delete", DeleteTopicsRequest(topic_names=["nowhere"], timeout_ms=lowest), 1)
    many = [wanted("bad name")] * 1000
    world.ask("a thousand times one bad name", CreateTopicsRequest(topics=many), 7)
