"""What a broker says of itself and of its cluster."""

from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from parity.world import World


def api_versions(world: World) -> None:
    """The APIs and their versions."""
    world.ask(
        "good",
        ApiVersionsRequest(client_software_name="parity", client_software_version="1.0"),
        0,
        1,
        2,
        3,
        4,
    )
    world.ask("bad name", ApiVersionsRequest(client_software_name="a b", client_software_version="1"), 3, 4)
    world.ask("bad version", ApiVersionsRequest(client_software_name="a", client_software_version="-"), 3, 4)


def describe_cluster(world: World) -> None:
    """Brokers and controller."""
    world.ask("plain", DescribeClusterRequest())
    world.ask("with operations", DescribeClusterRequest(include_cluster_authorized_operations=True))
    world.ask("controllers", DescribeClusterRequest(endpoint_type=2), 1)
    world.ask("endpoints of a kind unknown", DescribeClusterRequest(endpoint_type=3), 1)


def metadata(world: World) -> None:
    """Topics that are there, that are not, and that cannot be."""
    world.create("metadata-one")
    world.create("metadata-two", 3)
    for version in range(13):
        asked = _named("metadata-one", "metadata-two", version=version)
        world.ask("two topics", asked, version)
    for version in (4, 9, 12):
        world.ask("unknown", _named("metadata-nowhere", version=version), version)
        world.ask("twice", _named("metadata-one", "metadata-one", version=version), version)
        world.ask("bad names", _named("a b", "", ".", "x" * 250, version=version), version)
    world.ask("none", MetadataRequest(topics=[], allow_auto_topic_creation=True), 1, 4, 12)
    operations = _named("metadata-one", version=8)
    operations.include_topic_authorized_operations = True
    world.ask("operations on the topic", operations, 8, 12)
    operations.include_cluster_authorized_operations = True
    world.ask("operations on the cluster", operations, 8, 10)
    _by_id(world)


def _named(*names: str, version: int) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    # Before version 4 nobody could forbid that topics are made, and these exist.
    return MetadataRequest(topics=topics, allow_auto_topic_creation=version < 4)


def _by_id(world: World) -> None:
    topic_id = world.topic_id("metadata-one")
    for what, topic in {
        "by id": MetadataRequestTopic(name=None, topic_id=topic_id),
        "by unknown id": MetadataRequestTopic(name=None, topic_id=b"\x11" * 16),
        "by id and name": MetadataRequestTopic(name="metadata-two", topic_id=topic_id),
        "by neither": MetadataRequestTopic(name=None),
    }.items():
        world.ask(what, MetadataRequest(topics=[topic]), 10, 11, 12)
    mixed = [MetadataRequestTopic(name=None, topic_id=topic_id), MetadataRequestTopic(name="metadata-two")]
    world.ask("an id and a name", MetadataRequest(topics=mixed), 12)


def auto_creation(world: World) -> None:
    """Topics that come into being because somebody asks."""
    for version in (0, 4, 12):
        topics = [MetadataRequestTopic(name=f"auto-{version}")]
        world.ask("first", MetadataRequest(topics=topics, allow_auto_topic_creation=True), version)
    bad = [MetadataRequestTopic(name="auto/bad"), MetadataRequestTopic(name="..")]
    world.ask("bad names", MetadataRequest(topics=bad, allow_auto_topic_creation=True), 12)
