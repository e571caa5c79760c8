"""Brokers that answer about a cluster that does not exist: as many topics and groups as wanted, no logs.

    python -m bench.generated_cluster --topics 10000 --groups 2500

Real sockets and real bytes; what does not depend on the request is encoded once. Each topic has four
partitions with three replicas, each group a member and positions in sixteen partitions, ten records behind.
Partitions that a busy group reads get a record a second, and the group commits each of them. Printed is the
address to connect to; it ends with its standard input.
"""

import argparse
import asyncio
import sys
import time
from typing import Any

from barnabas.core.ids import java_hash
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import decode_request_header, encode_response
from barnabas.protocol.messages import (
    api_versions,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    fetch,
    find_coordinator,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_fetch,
)
from barnabas.protocol.registry import REQUESTS
from barnabas.records.batch import build_batch, stamp
from barnabas.records.record import Record

PARTITIONS = 4
READ = 16
VERSIONS = {
    ApiKey.FETCH: (4, 12),
    ApiKey.LIST_OFFSETS: (1, 7),
    ApiKey.METADATA: (0, 12),
    ApiKey.OFFSET_FETCH: (1, 8),
    ApiKey.FIND_COORDINATOR: (0, 4),
    ApiKey.DESCRIBE_GROUPS: (0, 5),
    ApiKey.LIST_GROUPS: (0, 4),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 4),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.DESCRIBE_CLUSTER: (0, 1),
    ApiKey.LIST_TRANSACTIONS: (0, 1),
}
CONFIGS = {
    "cleanup.policy": "delete",
    "min.insync.replicas": "2",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
}


class GeneratedCluster:
    """Six brokers, or as many as wanted; every `busy`th group reads and commits."""

    def __init__(self, topics: int, groups: int, brokers: int = 6, busy: int = 10) -> None:
        self.topics = [f"topic-{number}" for number in range(topics)]
        self.groups = [f"group-{number}" for number in range(groups)]
        self.busy = busy
        self.ports = dict.fromkeys(range(brokers), 0)
        self.begun = time.time()
        self._encoded: dict[tuple[ApiKey, int, int], bytes] = {}
        at_ms = int(self.begun * 1000)
        self._batch = bytes(build_batch([Record(offset=0, timestamp=at_ms, key=None, value=b"a record")]))
        self._moving = {topic for number in range(0, groups, busy) for topic, _ in self._reads(number)}

    async def start(self) -> "GeneratedCluster":
        """Listens on loopback."""
        for node in self.ports:
            server = await asyncio.start_server(
                lambda reader, writer, node=node: self._serve(node, reader, writer), "127.0.0.1", 0
            )
            self.ports[node] = server.sockets[0].getsockname()[1]
        return self

    def _reads(self, group: int) -> list[tuple[str, int]]:
        first = group * READ // PARTITIONS
        return [
            (self.topics[(first + each // PARTITIONS) % len(self.topics)], each % PARTITIONS)
            for each in range(READ)
        ]

    def _gone_s(self) -> int:
        return int(time.time() - self.begun)

    def _end(self, topic: str) -> int:
        return 1000 + (self._gone_s() if topic in self._moving else 0)

    async def _serve(self, node: int, reader: Any, writer: Any) -> None:
        try:
            while True:
                frame = memoryview(
                    await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                )
                header, offset = decode_request_header(frame)
                api, version = ApiKey(header.api_key), header.api_version
                request, _ = REQUESTS[api].decode(frame, version, offset)
                answer = getattr(self, f"_{api.name.lower()}")
                whole = api in {ApiKey.DESCRIBE_LOG_DIRS, ApiKey.LIST_GROUPS} or (
                    api is ApiKey.METADATA and request.topics is None
                )
                encoded = self._encoded.get((api, version, node)) if whole else None
                if encoded is None:
                    chunks = encode_response(0, answer(request, node), version)
                    encoded = b"".join(map(bytes, chunks))
                    if whole:
                        self._encoded[api, version, node] = encoded
                writer.write(encoded[:4] + header.correlation_id.to_bytes(4, "big") + encoded[8:])
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _api_versions(self, _request: Any, _node: int) -> Any:
        return api_versions.ApiVersionsResponse(
            api_keys=[
                api_versions.ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in VERSIONS.items()
            ]
        )

    def _describe_cluster(self, _request: Any, _node: int) -> Any:
        return describe_cluster.DescribeClusterResponse(
            cluster_id="generated",
            controller_id=0,
            brokers=[
                describe_cluster.DescribeClusterBroker(broker_id=node, host="127.0.0.1", port=port)
                for node, port in self.ports.items()
            ],
        )

    def _metadata(self, request: Any, _node: int) -> Any:
        names = self.topics if request.topics is None else [one.name for one in request.topics]
        return metadata.MetadataResponse(
            brokers=[
                metadata.MetadataResponseBroker(node_id=node, host="127.0.0.1", port=port)
                for node, port in self.ports.items()
            ],
            cluster_id="generated",
            controller_id=0,
            topics=[
                metadata.MetadataResponseTopic(
                    name=name,
                    topic_id=name.encode().ljust(16, b".")[:16],
                    partitions=[self._partition(name, one) for one in range(PARTITIONS)],
                )
                for name in names
            ],
        )

    def _replicas(self, topic: str, partition: int) -> list[int]:
        number = int(topic.rpartition("-")[2])
        return [(number + partition + each) % len(self.ports) for each in range(3)]

    def _partition(self, topic: str, partition: int) -> Any:
        replicas = self._replicas(topic, partition)
        return metadata.MetadataResponsePartition(
            partition_index=partition,
            leader_id=replicas[0],
            leader_epoch=5,
            replica_nodes=replicas,
            isr_nodes=replicas,
            offline_replicas=[],
        )

    def _list_offsets(self, request: Any, _node: int) -> Any:
        newest = int(self.begun * 1000) + 5000
        return list_offsets.ListOffsetsResponse(
            topics=[
                list_offsets.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        list_offsets.ListOffsetsPartitionResponse(
                            partition_index=one.partition_index,
                            offset=0 if one.timestamp == -2 else self._end(topic.name),
                            timestamp=newest if one.timestamp == -3 else -1,
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _list_partition_reassignments(self, _request: Any, _node: int) -> Any:
        return list_partition_reassignments.ListPartitionReassignmentsResponse(error_message=None, topics=[])

    def _list_transactions(self, _request: Any, _node: int) -> Any:
        return list_transactions.ListTransactionsResponse(unknown_state_filters=[], transaction_states=[])

    def _describe_log_dirs(self, _request: Any, node: int) -> Any:
        here = [
            (name, [one for one in range(PARTITIONS) if node in self._replicas(name, one)])
            for name in self.topics
        ]
        return describe_log_dirs.DescribeLogDirsResponse(
            results=[
                describe_log_dirs.DescribeLogDirsResult(
                    log_dir="/logs",
                    total_bytes=1 << 40,
                    usable_bytes=1 << 39,
                    topics=[
                        describe_log_dirs.DescribeLogDirsTopic(
                            name=name,
                            partitions=[
                                describe_log_dirs.DescribeLogDirsPartition(
                                    partition_index=one, partition_size=100_000
                                )
                                for one in partitions
                            ],
                        )
                        for name, partitions in here
                    ],
                )
            ]
        )

    def _describe_configs(self, request: Any, _node: int) -> Any:
        return describe_configs.DescribeConfigsResponse(
            results=[
                describe_configs.DescribeConfigsResult(
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                    configs=[
                        describe_configs.DescribeConfigsResourceResult(
                            name=key, value=value, config_source=5, synonyms=[], documentation=None
                        )
                        for key, value in CONFIGS.items()
                    ],
                )
                for one in request.resources
            ]
        )

    def _coordinator(self, group: str) -> int:
        return abs(java_hash(group)) % len(self.ports)

    def _find_coordinator(self, request: Any, _node: int) -> Any:
        return find_coordinator.FindCoordinatorResponse(
            coordinators=[
                find_coordinator.Coordinator(
                    key=key, node_id=(node := self._coordinator(key)), host="127.0.0.1", port=self.ports[node]
                )
                for key in request.coordinator_keys
            ]
        )

    def _list_groups(self, _request: Any, node: int) -> Any:
        return list_groups.ListGroupsResponse(
            groups=[
                list_groups.ListedGroup(group_id=group, protocol_type="consumer", group_state="Stable")
                for group in self.groups
                if self._coordinator(group) == node
            ]
        )

    def _describe_groups(self, request: Any, _node: int) -> Any:
        return describe_groups.DescribeGroupsResponse(
            groups=[
                describe_groups.DescribedGroup(
                    group_id=group,
                    group_state="Stable",
                    protocol_type="consumer",
                    protocol_data="range",
                    members=[
                        describe_groups.DescribedGroupMember(
                            member_id=f"{group}-member",
                            client_id="client",
                            client_host="/127.0.0.1",
                            member_metadata=b"",
                            member_assignment=self._assignment(group),
                        )
                    ],
                )
                for group in request.groups
            ]
        )

    def _topics_of(self, group: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for topic, partition in self._reads(int(group.rpartition("-")[2])):
            found.setdefault(topic, []).append(partition)
        return found

    def _assignment(self, group: str) -> bytes:
        """``ConsumerProtocolAssignment`` v0."""
        topics = self._topics_of(group)
        parts = [b"\0\0", len(topics).to_bytes(4, "big")]
        for topic, partitions in topics.items():
            parts += [len(topic).to_bytes(2, "big"), topic.encode(), len(partitions).to_bytes(4, "big")]
            parts += [one.to_bytes(4, "big") for one in partitions]
        return b"".join([*parts, b"\xff\xff\xff\xff"])

    def _offset_fetch(self, request: Any, _node: int) -> Any:
        return offset_fetch.OffsetFetchResponse(
            groups=[
                offset_fetch.OffsetFetchResponseGroup(
                    group_id=one.group_id,
                    topics=[
                        offset_fetch.OffsetFetchResponseTopics(
                            name=topic,
                            partitions=[
                                offset_fetch.OffsetFetchResponsePartitions(
                                    partition_index=each,
                                    committed_offset=self._committed(one.group_id, topic),
                                    metadata="",
                                )
                                for each in partitions
                            ],
                        )
                        for topic, partitions in self._topics_of(one.group_id).items()
                    ],
                )
                for one in request.groups
            ]
        )

    def _committed(self, group: str, topic: str) -> int:
        busy = int(group.rpartition("-")[2]) % self.busy == 0
        return self._end(topic) - 10 if busy else 990

    def _fetch(self, request: Any, _node: int) -> Any:
        return fetch.FetchResponse(
            responses=[
                fetch.FetchableTopicResponse(
                    topic=topic.topic,
                    partitions=[self._records(topic.topic, one) for one in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _records(self, topic: str, asked: Any) -> Any:
        end = self._end(topic)
        batch = bytearray(self._batch)
        stamp(batch, 0, asked.fetch_offset, 5)
        return fetch.PartitionData(
            partition_index=asked.partition,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=0,
            aborted_transactions=[],
            records=bytes(batch) if asked.fetch_offset < end else b"",
        )


async def run(topics: int, groups: int) -> None:
    """Serves until standard input ends."""
    cluster = await GeneratedCluster(topics, groups).start()
    print(f"127.0.0.1:{cluster.ports[0]}", flush=True)
    await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=2_500)
    given = parser.parse_args()
    asyncio.run(run(given.topics, given.groups))


if __name__ == "__main__":
    main()
