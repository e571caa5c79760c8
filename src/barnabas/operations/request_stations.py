"""What ``barnabas explain request`` finds: one request on its way through a broker, and the times of each
station.

A request is sent over a connection that stands already, so that what the client measures is the way itself.
What the broker spent where is in no answer: it is in the broker's metrics, for the last thousand requests of
that kind.
"""

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from barnabas.client.cluster import Cluster
from barnabas.client.config import ADMIN_CONFIG, client_config
from barnabas.client.metadata import Broker
from barnabas.client.retries import Deadline
from barnabas.client.types import LATEST_TIMESTAMP
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import GROUP_METADATA_TOPIC, ZERO_UUID, TopicPartition, Uuid
from barnabas.network.api_versions import NodeApiVersions
from barnabas.operations.errors import OperationError
from barnabas.operations.known_brokers import no_broker
from barnabas.protocol.message import Request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.registry import RESPONSES

Line = tuple[str, str]
"""A station, and what is there."""

FETCH_WAIT_MS: Final = 500
"""How long the Fetch waits at the end of the partition: a consumer's ``fetch.max.wait.ms``."""
FIND_COORDINATOR_OF_SEVERAL: Final = 4
"""From this version on the request names its keys in a list (KIP-699)."""
_METRICS_BYTES_MAX: Final = 64 << 20
_METRIC: Final = "kafka_network_requestmetrics_"
_TIMES: Final = {
    "queue": ("requestqueuetimems",),
    "handler": ("localtimems",),
    "purgatory": ("remotetimems",),
    "answer": ("responsequeuetimems", "responsesendtimems", "throttletimems", "totaltimems"),
}
"""Which of a request's metrics is the time of which station (``RequestChannel.Metrics``)."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a request is about; `end_offset` is where the partition ends."""

    tp: TopicPartition | None = None
    group: str = ""
    topic_id: Uuid = ZERO_UUID
    end_offset: int = 0


@dataclass(frozen=True, slots=True)
class WalkableRequest:
    """A request that can be walked. None of them changes anything."""

    metric: str
    """Its name in Kafka's metrics."""
    request: type[Request]
    make: Callable[[Subject, int], Request]
    """(subject, version) -> the request"""
    goes_to: str
    """Which broker a client sends it to, and why."""
    decides: str
    """Where the answer comes from."""
    waits: str = "the answer is there when the handler returns"
    """What the answer may wait for."""
    of_partition: bool = False
    """Whether it is for the leader of a partition."""


def _api_versions(_subject: Subject, _version: int) -> Request:
    return ApiVersionsRequest(client_software_name="barnabas-explain", client_software_version="1")


def _metadata(subject: Subject, _version: int) -> Request:
    topics = [MetadataRequestTopic(name=subject.tp.topic)] if subject.tp else []
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def _find_coordinator(subject: Subject, version: int) -> Request:
    if version >= FIND_COORDINATOR_OF_SEVERAL:
        return FindCoordinatorRequest(coordinator_keys=[subject.group])
    return FindCoordinatorRequest(key=subject.group)


def _list_offsets(subject: Subject, _version: int) -> Request:
    assert subject.tp is not None, "it is of a partition"
    wanted = ListOffsetsPartition(partition_index=subject.tp.partition, timestamp=LATEST_TIMESTAMP)
    topic = ListOffsetsTopic(name=subject.tp.topic, partitions=[wanted])
    return ListOffsetsRequest(replica_id=-1, topics=[topic])


def _fetch(subject: Subject, _version: int) -> Request:
    assert subject.tp is not None, "it is of a partition"
    number, end = subject.tp.partition, subject.end_offset
    wanted = FetchPartition(partition=number, fetch_offset=end, partition_max_bytes=1)
    topic = FetchTopic(topic=subject.tp.topic, topic_id=subject.topic_id, partitions=[wanted])
    return FetchRequest(max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=1, topics=[topic])


KINDS: Final[Mapping[str, WalkableRequest]] = {
    "api-versions": WalkableRequest(
        "ApiVersions",
        ApiVersionsRequest,
        _api_versions,
        "every broker, as the first request of each connection",
        "KafkaApis.handleApiVersionsRequest: the table of what this broker serves",
    ),
    "metadata": WalkableRequest(
        "Metadata",
        MetadataRequest,
        _metadata,
        "the least loaded broker: each has a copy of the metadata",
        "KafkaApis.handleTopicMetadataRequest: the MetadataCache, as the controller's last UpdateMetadata "
        "left it",
    ),
    "find-coordinator": WalkableRequest(
        "FindCoordinator",
        FindCoordinatorRequest,
        _find_coordinator,
        "the least loaded broker: each can work it out",
        "KafkaApis.handleFindCoordinatorRequest: the hash of the group, its partition of "
        "__consumer_offsets, the MetadataCache",
        "only while __consumer_offsets is being made",
    ),
    "list-offsets": WalkableRequest(
        "ListOffsets",
        ListOffsetsRequest,
        _list_offsets,
        "the leader of the partition",
        "KafkaApis.handleListOffsetRequest: ReplicaManager, Partition, the log and its time index",
        of_partition=True,
    ),
    "fetch": WalkableRequest(
        "FetchConsumer",
        FetchRequest,
        _fetch,
        "the leader of the partition, or a replica that it prefers",
        "KafkaApis.handleFetchRequest: ReplicaManager reads the logs up to the high watermark",
        "DelayedFetch: until there are fetch.min.bytes (1 here), at most fetch.max.wait.ms "
        f"({FETCH_WAIT_MS} here); this one was sent for the end of the partition, so it waits",
        of_partition=True,
    ),
}


@dataclass(frozen=True, slots=True)
class RequestStations:
    """What one request met."""

    kind: WalkableRequest
    broker: Broker
    version: int
    broker_versions: tuple[int, int]
    connected_ms: float
    """From nothing to the answer to ApiVersions."""
    answered_ms: float
    """From the request to its answer."""
    is_named: bool = False
    """Whether the caller has said which broker to ask."""


async def walk(
    options: Mapping[str, Any],
    kind: WalkableRequest,
    subject: Subject,
    *,
    broker: int | None,
    timeout_ms: int,
) -> RequestStations:
    """Sends one request.

    Raises OperationError for a broker or a partition that is not there, and BarnabasError.
    """
    cluster = Cluster(
        client_config(ADMIN_CONFIG, {name.replace(".", "_"): value for name, value in options.items()}),
        in_flight_max=1,
    )
    try:
        if subject.tp is not None:
            cluster.need([subject.tp.topic])
        if kind.request is FindCoordinatorRequest:
            cluster.need([GROUP_METADATA_TOPIC])
        await cluster.connect(Deadline(timeout_ms))
        if kind.request is FindCoordinatorRequest and GROUP_METADATA_TOPIC not in cluster.metadata.topics:
            raise OperationError(
                f"{GROUP_METADATA_TOPIC} does not exist yet, and this request would create it: let a client "
                "join a group, or run barnabas explain coordinator with --create"
            )
        target = _target(cluster, kind, subject, broker)
        began = time.perf_counter()
        hello = _api_versions(subject, ApiVersionsRequest.max_version)
        served = await cluster.send(target.node_id, hello, ApiVersionsResponse, timeout_ms=timeout_ms)
        connected_ms = (time.perf_counter() - began) * 1000
        versions = NodeApiVersions(served.api_keys)
        version = versions.latest_usable(kind.request, kind.request.min_version, kind.request.max_version)
        if kind.request is FetchRequest:
            assert subject.tp is not None, "it is of a partition"
            end_offset = await _end_offset(cluster, target, subject, timeout_ms)
            topic_id = cluster.metadata.topic_id(subject.tp.topic)
            subject = replace(subject, topic_id=topic_id, end_offset=end_offset)
        request = kind.make(subject, version)
        api = request.api
        assert api is not None, "requests have one"
        began = time.perf_counter()
        await cluster.send(
            target.node_id, request, RESPONSES[api], versions=(version, version), timeout_ms=timeout_ms
        )
        answered_ms = (time.perf_counter() - began) * 1000
        return RequestStations(
            kind, target, version, versions.range_of(api), connected_ms, answered_ms, broker is not None
        )
    finally:
        await cluster.close()


def _target(cluster: Cluster, kind: WalkableRequest, subject: Subject, broker: int | None) -> Broker:
    """The broker that a client would ask, or the one that was named."""
    brokers = cluster.metadata.brokers
    if broker is not None:
        if broker not in brokers:
            raise no_broker(broker)
        return brokers[broker]
    if not kind.of_partition:
        return brokers[min(brokers)]
    assert subject.tp is not None, "it is of a partition"
    if cluster.metadata.partition(subject.tp) is None:
        raise OperationError(f"There is no partition {subject.tp} in the cluster")
    leader = cluster.metadata.leader(subject.tp)
    if leader not in brokers:
        raise OperationError(f"Partition {subject.tp} has no leader now: barnabas explain partition says why")
    return brokers[leader]


async def _end_offset(cluster: Cluster, target: Broker, subject: Subject, timeout_ms: int) -> int:
    request = _list_offsets(subject, ListOffsetsRequest.max_version)
    answer = await cluster.send(target.node_id, request, ListOffsetsResponse, timeout_ms=timeout_ms)
    found = answer.topics[0].partitions[0]
    if found.error_code:
        raise KafkaError(ErrorCode.of(found.error_code))
    return found.offset


Times = Mapping[str, Mapping[str, float]]
"""A broker's times of one kind of request: by metric, then by quantile, or "count" for how many were
measured.
"""


def read_times(url: str, kind: WalkableRequest, timeout_s: float) -> Times:
    """The times that a broker's metrics have. Raises OperationError where they cannot be read."""
    from prometheus_client.parser import text_string_to_metric_families

    if not url.startswith(("http://", "https://")):
        raise OperationError(f"{url} is no URL of metrics: it begins with http:// or https://")
    try:
        # The scheme was looked at.
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:  # noqa: S310
            text = answer.read(_METRICS_BYTES_MAX).decode()
        found: dict[str, dict[str, float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples if family.name.startswith(_METRIC) else ():
                if sample.labels.get("request") == kind.metric:
                    what = sample.labels.get("quantile") or sample.name.rpartition("_")[2]
                    found.setdefault(family.name.removeprefix(_METRIC), {})[what] = sample.value
    except (OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it is the answer too, and holds the connection
        raise OperationError(f"the metrics at {url} cannot be read: {error}") from error
    return found


def lines(found: RequestStations, listener: str | None, times: Times | None) -> list[Line]:
    """The stations, from the client to the answer."""
    kind, broker = found.kind, found.broker
    lowest, highest = found.broker_versions
    theirs, ours = f"v{lowest} to v{highest}", f"v{kind.request.min_version} to v{kind.request.max_version}"
    endpoint = f"{broker.host}:{broker.port}"
    return [
        (
            "request",
            (
                f"{kind.request.__name__} v{found.version}: the highest that both know (broker {theirs}, "
                f"this client {ours})"
            ),
        ),
        ("broker", f"{broker.node_id}: {'the one that --broker names' if found.is_named else kind.goes_to}"),
        (
            "listener",
            f"{listener or endpoint}: an Acceptor takes the connection and gives it to a Processor",
        ),
        (
            "channel",
            (
                f"to {endpoint}; connecting and the answer to its first ApiVersions took "
                f"{found.connected_ms:.1f} ms"
            ),
        ),
        ("queue", _with_times("requests of one connection are handled in their order", "queue", times)),
        ("handler", _with_times(kind.decides, "handler", times)),
        ("purgatory", _with_times(kind.waits, "purgatory", times)),
        (
            "answer",
            _with_times(
                f"{found.answered_ms:.1f} ms after the request, as this client saw it", "answer", times
            ),
        ),
        *(
            [("times", "the broker's own are in its metrics: --metrics http://HOST:PORT/metrics")]
            if times is None
            else []
        ),
    ]


def _with_times(text: str, station: str, times: Times | None) -> str:
    """The text, and what the broker's metrics say of this station."""
    known = [(name, times[name]) for name in _TIMES[station] if times and name in times]
    shown = ", ".join(
        f"{name} p50 {values['0.50']:.2f} p99 {values['0.99']:.2f} ({values.get('count', 0):.0f} requests)"
        for name, values in known
        if "0.50" in values and "0.99" in values
    )
    return f"{text}; {shown}" if shown else text
