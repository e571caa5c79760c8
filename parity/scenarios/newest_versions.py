"""What Kafka 4.4 shows its clients and 3.9 does not: new APIs, and the newest versions of older ones."""

import time
from typing import Any, Final

from barnabas.protocol.messages import incremental_alter_configs as incremental
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from barnabas.protocol.messages.list_config_resources import ListConfigResourcesRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from parity.scenarios import fetch as fetches
from parity.scenarios.batches import batch
from parity.scenarios.coordinators import coordinator_is_ready, transactions_are_ready
from parity.scenarios.group_members import Member
from parity.scenarios.group_offsets import commit
from parity.scenarios.groups import describe
from parity.scenarios.log_dirs import named as in_directories
from parity.scenarios.offsets import offsets_at
from parity.scenarios.transactions import add_partitions, begin
from parity.world import World

GROUP: Final = 32
SET, DELETE, APPEND = range(3)
PATIENCE_S: Final = 10
GREATEST: Final = (1 << 31) - 1


def api_versions_of_4(world: World) -> None:
    """ApiVersions 5: which cluster and which node the client means (KIP-1242)."""
    cluster = world.prepare(MetadataRequest(topics=[]), 9).cluster_id
    for what, identity in {
        "nobody": (None, -1),
        "both right": (cluster, 0),
        "another cluster": ("A" * 22, 0),
        "another node": (cluster, 7),
        "no node": (cluster, -1),
        "no cluster": (None, 0),
        "a negative node": (cluster, -7),
        "an empty cluster": ("", 0),
    }.items():
        request = ApiVersionsRequest(
            client_software_name="parity",
            client_software_version="1.0",
            cluster_id=identity[0],
            node_id=identity[1],
        )
        world.ask(what, request, 5)
    older = ApiVersionsRequest(client_software_name="parity", client_software_version="1.0")
    world.ask("an older client", older, 0, 3, 4)


def describe_cluster_of_4(world: World) -> None:
    """DescribeCluster 2: brokers that are fenced (KIP-1073)."""
    for fenced in (False, True):
        world.ask(f"fenced too {fenced}", DescribeClusterRequest(include_fenced_brokers=fenced), 2)


def topic_partitions(world: World) -> None:
    """DescribeTopicPartitions (75): pages, the cursors between them, and cursors that lie."""
    for name, count in {"pages-a": 3, "pages-b": 4, "pages-c": 1}.items():
        world.create(name, count)
    names = ("pages-c", "pages-a", "pages-b")
    world.ask("whole", _page(*names))
    world.ask("twice", _page("pages-a", "pages-a"))
    world.ask("some that are not there", _page("pages-a", "pages-nowhere", "", "a b", "."))
    for limit in (1, 3, 7, 8, 9, 0, -1, -GREATEST - 1, GREATEST):
        world.ask(f"limit {limit}", _page(*names, limit=limit))
    for what, cursor in {
        "at the start": ("pages-a", 0),
        "in a topic": ("pages-b", 2),
        "behind the last partition": ("pages-b", 4),
        "far behind": ("pages-b", GREATEST),
        "at the last topic": ("pages-c", 0),
        "a negative partition": ("pages-b", -1),
        "a topic that was not asked for": ("pages-bb", 0),
        "a topic behind all": ("z", 0),
        "no name": ("", 0),
        "a bad name": ("a b", 3),
    }.items():
        world.ask(f"cursor {what}", _page(*names, cursor=cursor))
        world.ask(f"cursor {what}, limit 1", _page(*names, limit=1, cursor=cursor))
    world.ask("a cursor of what is not there", _page("pages-nowhere", "pages-b", cursor=("pages-nowhere", 5)))
    world.create("pages-b0")
    world.ask("a topic made between two pages", _page(*names, cursor=("pages-b", 3)))
    seen, cursor = [], None
    while True:
        page = world.prepare(_page(*names, limit=2, cursor=cursor), 0)
        seen += [f"{each.name}: {[part.partition_index for part in each.partitions]}" for each in page.topics]
        if page.next_cursor is None:
            break
        cursor = (page.next_cursor.topic_name, page.next_cursor.partition_index)
    world.in_order("page by page", seen)


def _page(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    at = None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1])
    topics = [TopicRequest(name=name) for name in names]
    return DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=at)


def newest_versions(world: World) -> None:
    """The newest version of each API that is asked at versions of 3.9 elsewhere."""
    world.create("newest", 2)
    world.append("newest", batch(b"a", b"b"), batch(b"c"))
    topics = [MetadataRequestTopic(name=name) for name in ("newest", "newest-nowhere")]
    by_id = [
        MetadataRequestTopic(name=None, topic_id=each) for each in (world.topic_id("newest"), b"\x11" * 16)
    ]
    for what, asked in {"by name": topics, "by id": by_id}.items():
        world.ask(f"metadata {what}", MetadataRequest(topics=asked, allow_auto_topic_creation=False), 13)
    for moment in (-1, -2, -3, -4, -5, -6, -7, 0):
        world.ask(f"offset {moment}", offsets_at("newest", moment), 10, 11)
        world.ask(f"offset {moment} of none", offsets_at("newest", moment, partition=1), 10, 11)
    for offset in (0, 2, 3, 9):
        world.ask(f"fetch {offset}", fetches.of(world, "newest", fetch_offset=offset), 18)
    world.ask("directories", in_directories("newest", 0, 1), 5)
    for allowed in (False, True):
        for what, replicas in {"same": [0], "more": [0, 7], "none": None}.items():
            one = ReassignablePartition(partition_index=0, replicas=replicas)
            moved = AlterPartitionReassignmentsRequest(
                topics=[ReassignableTopic(name="newest", partitions=[one])],
                allow_replication_factor_change=allowed,
            )
            world.ask(f"reassigned to {what}, count may change {allowed}", moved, 1)


def groups_of_4(world: World) -> None:
    """DescribeGroups 6 and DeleteGroups 3, which have words."""
    coordinator_is_ready(world)
    world.create("groups-of-4")
    Member(world, "live-of-4", "member").live()
    world.ask("committed", commit("simple-of-4", ("groups-of-4", 0, 1)), 9)
    describe(world, "live, simple and unknown", "live-of-4", "simple-of-4", "nowhere-of-4", "", version=6)
    names = ["live-of-4", "simple-of-4", "nowhere-of-4", ""]
    world.ask("deleted", DeleteGroupsRequest(groups_names=names), 3)


def config_resources(world: World) -> None:
    """ListConfigResources (74), and the settings of groups (KIP-1142)."""
    for version in (0, 1):
        world.ask("nothing of clients", ListConfigResourcesRequest(resource_types=[16] * version), version)
    for kinds in ([4], [8], [32], [4, 8], [1], [99], [-1], [4, 99], [4, 4]):
        world.ask(f"kinds {kinds}", ListConfigResourcesRequest(resource_types=kinds), 1)
    for what, operations in {
        "set": [("consumer.heartbeat.interval.ms", SET, "5500")],
        "too small": [("consumer.heartbeat.interval.ms", SET, "1")],
        "too large": [("consumer.session.timeout.ms", SET, "9999999")],
        "no number": [("consumer.session.timeout.ms", SET, "soon")],
        "above the session": [("consumer.heartbeat.interval.ms", SET, "45001")],
        "appended": [("consumer.session.timeout.ms", APPEND, "1")],
        "unknown": [("nothing", SET, "1")],
        "of a topic": [("retention.ms", SET, "1")],
        "deleted": [("consumer.heartbeat.interval.ms", DELETE, None)],
        "no value": [("consumer.heartbeat.interval.ms", SET, None)],
    }.items():
        for name in ("configured", ""):
            configs = [
                incremental.AlterableConfig(name=key, config_operation=operation, value=value)
                for key, operation, value in operations
            ]
            resource = incremental.AlterConfigsResource(
                resource_type=GROUP, resource_name=name, configs=configs
            )
            request = incremental.IncrementalAlterConfigsRequest(resources=[resource])
            world.ask(f"{what} of {name!r}", request, 1)
        if what in _AFTER:
            _until_set(world, _AFTER[what])
    for name in ("configured", "nobody", ""):
        world.ask(f"settings of {name!r}", _settings(name, *_CONSUMER_KEYS), 4)
    world.ask("groups", ListConfigResourcesRequest(resource_types=[GROUP]), 1)


_CONSUMER_KEYS: Final = tuple(
    f"consumer.{name}.ms" for name in ("assignment.interval", "heartbeat.interval", "session.timeout")
)


_AFTER: Final = {"set": "5500", "deleted": "5000"}


def _until_set(world: World, value: str) -> None:
    """Waits until the group has this interval: what was altered is known a little later."""
    deadline = time.monotonic() + PATIENCE_S
    request = _settings("configured", "consumer.heartbeat.interval.ms")
    while world.prepare(request, 4).results[0].configs[0].value != value:
        assert time.monotonic() < deadline, f"{world.side!r}: {value}"
        time.sleep(0.02)


def _settings(group: str, *keys: str) -> DescribeConfigsRequest:
    wanted = DescribeConfigsResource(resource_type=GROUP, resource_name=group, configuration_keys=[*keys])
    return DescribeConfigsRequest(resources=[wanted], include_synonyms=True)


def listed_transactions_of_4(world: World) -> None:
    """ListTransactions 2: by a pattern of the id (KIP-1152)."""
    transactions_are_ready(world)
    world.create("listed-of-4")
    for name in ("pattern-a", "pattern-b", "other"):
        producer = begin(world, f"listed4-{name}")
        world.ask(f"{name} begins", add_partitions(f"listed4-{name}", producer, {"listed-of-4": [0]}), 3)
    ours = "listed4-.*"
    good = (ours, "listed4-pattern-.", "listed4-pattern", "", "(?i)LISTED4-OTHER")
    for pattern in (*good, "(", "[", "a{", "*"):
        request = ListTransactionsRequest(transactional_id_pattern=pattern, state_filters=["Ongoing"])
        world.ask(f"pattern {pattern!r}", request, 2)
    for duration in (-1, 0, 1 << 40):
        request = ListTransactionsRequest(
            transactional_id_pattern=ours, duration_filter=duration, state_filters=["Ongoing", "Nothing"]
        )
        world.ask(f"longer than {duration}", request, 2)
