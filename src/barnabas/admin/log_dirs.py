"""``admin.log_dirs``: what the log directories of brokers hold, and moves of replicas between them
(KIP-113).
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from barnabas.admin.context import AdminContext, error_of
from barnabas.admin.types import LogDirDescription, ReplicaInfo, ReplicaLogDirInfo, TopicPartitionReplica
from barnabas.client import named
from barnabas.client.errors import ClientTimeoutError
from barnabas.client.keyed_call import KeyedCall, raise_first
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition, by_topic
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from barnabas.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)

K = TypeVar("K", int, TopicPartitionReplica)
V = TypeVar("V")

LogDirDescriptions: TypeAlias = dict[str, LogDirDescription]
"""The log directories of one broker by their paths."""


class LogDirs:
    """Log directories, asked of the brokers that have them."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    async def describe(
        self, brokers: Iterable[int] | int, *, timeout_ms: float | None = None
    ) -> dict[int, LogDirDescriptions]:
        """The log directories of each broker by their paths. Raises the first error of a broker."""
        return raise_first(await self.try_describe(brokers, timeout_ms=timeout_ms))

    async def try_describe(
        self, brokers: Iterable[int] | int, *, timeout_ms: float | None = None
    ) -> dict[int, LogDirDescriptions | BarnabasError]:
        """As `describe`, with an error per broker."""

        async def ask(node: int, keys: Sequence[int]) -> dict[int, LogDirDescriptions | BarnabasError]:
            response = await self._context.cluster.send(
                node, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse
            )
            return dict.fromkeys(keys, _descriptions(response))

        asked = {broker: [broker] for broker in named.numbers(brokers, "brokers")}
        results = await self._of_brokers(asked, ask, "did not describe its log directories", timeout_ms)
        return {broker: results[broker] for broker in asked}

    async def alter_replicas(
        self, targets: Mapping[TopicPartitionReplica, str], *, timeout_ms: float | None = None
    ) -> None:
        """``alterReplicaLogDirs``: begins to move replicas to these log directories, absolute paths, of their
        brokers.

        The directory where a replica is gives its move up. Raises the first error of a replica; others may
        move all the same.
        """
        raise_first(await self.try_alter_replicas(targets, timeout_ms=timeout_ms))

    async def try_alter_replicas(
        self, targets: Mapping[TopicPartitionReplica, str], *, timeout_ms: float | None = None
    ) -> dict[TopicPartitionReplica, BarnabasError | None]:
        """As `alter_replicas`, with an error per replica.

        REPLICA_NOT_AVAILABLE is the answer for a replica that is not there yet: it will be made in that
        directory.
        """
        targets = named.by_key(targets, "log directories", "replica")

        async def ask(
            node: int, keys: Sequence[TopicPartitionReplica]
        ) -> dict[TopicPartitionReplica, BarnabasError | None]:
            response = await self._context.cluster.send(
                node, _alter_request({key: targets[key] for key in keys}), AlterReplicaLogDirsResponse
            )
            codes = {
                TopicPartitionReplica(node, topic.topic_name, each.partition_index): each.error_code
                for topic in response.results
                for each in topic.partitions
            }
            return {key: _error_in(codes, key) for key in keys}

        return await self._of_brokers(
            _by_broker(targets), ask, "did not answer for its log directories", timeout_ms
        )

    async def describe_replicas(
        self, replicas: Iterable[TopicPartitionReplica], *, timeout_ms: float | None = None
    ) -> dict[TopicPartitionReplica, ReplicaLogDirInfo]:
        """``describeReplicaLogDirs``: where replicas are and where they move to.
        Raises the first error of a broker.
        """
        return raise_first(await self.try_describe_replicas(replicas, timeout_ms=timeout_ms))

    async def try_describe_replicas(
        self, replicas: Iterable[TopicPartitionReplica], *, timeout_ms: float | None = None
    ) -> dict[TopicPartitionReplica, ReplicaLogDirInfo | BarnabasError]:
        """As `describe_replicas`, with an error per replica. A directory that is offline holds nothing."""

        async def ask(
            node: int, keys: Sequence[TopicPartitionReplica]
        ) -> dict[TopicPartitionReplica, ReplicaLogDirInfo | BarnabasError]:
            topics = by_topic(TopicPartition(key.topic, key.partition) for key in keys)
            request = DescribeLogDirsRequest(
                topics=[
                    DescribableLogDirTopic(topic=name, partitions=[tp.partition for tp in members])
                    for name, members in topics.items()
                ]
            )
            response = await self._context.cluster.send(node, request, DescribeLogDirsResponse)
            described = _descriptions(response)
            if isinstance(described, BarnabasError):
                return dict.fromkeys(keys, described)
            places = _places(described)
            return {
                key: places.get(TopicPartition(key.topic, key.partition), ReplicaLogDirInfo()) for key in keys
            }

        return await self._of_brokers(
            _by_broker(replicas), ask, "did not describe its log directories", timeout_ms
        )

    async def _of_brokers(
        self,
        keys: Mapping[int, Sequence[K]],
        ask: Callable[[int, Sequence[K]], Awaitable[Mapping[K, V | BarnabasError]]],
        failed: str,
        timeout_ms: float | None,
    ) -> dict[K, V | BarnabasError]:
        """Asks each broker for its keys;
        one that is not in the cluster is waited for, as Java's Admin does.
        """
        cluster, deadline = self._context.cluster, self._context.deadline(timeout_ms)
        broker_of = {key: broker for broker, members in keys.items() for key in members}

        async def look_up(wanted: Sequence[K]) -> dict[K, int | Exception]:
            await cluster.refresh()
            return {key: broker_of[key] for key in wanted if broker_of[key] in cluster.metadata.brokers}

        def expired(key: K, last: Exception | None) -> BarnabasError:
            reason = f": {last}" if last is not None and str(last) else ""
            return ClientTimeoutError(
                f"Broker {broker_of[key]} {failed} in {deadline.total_ms:.0f} ms{reason}"
            )

        call: KeyedCall[K, V] = KeyedCall(cluster, look_up, ask, deadline, moved=(), expired=expired)
        return await call.run(broker_of)


def _by_broker(replicas: Iterable[TopicPartitionReplica]) -> dict[int, list[TopicPartitionReplica]]:
    wanted = named.several(
        replicas, TopicPartitionReplica, "a replica is TopicPartitionReplica(broker, topic, partition)"
    )
    for replica in wanted:
        named.one(replica.broker, int, "the broker of a replica is an int")
        named.partition((replica.topic, replica.partition))
    grouped: dict[int, list[TopicPartitionReplica]] = {}
    for replica in dict.fromkeys(wanted):
        grouped.setdefault(replica.broker, []).append(replica)
    return grouped


def _alter_request(targets: Mapping[TopicPartitionReplica, str]) -> AlterReplicaLogDirsRequest:
    by_path: dict[str, list[TopicPartition]] = {}
    for replica, path in targets.items():
        named.one(path, str, "a log directory is a str")
        by_path.setdefault(path, []).append(TopicPartition(replica.topic, replica.partition))
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirTopic(name=name, partitions=[tp.partition for tp in members])
                    for name, members in by_topic(partitions).items()
                ],
            )
            for path, partitions in by_path.items()
        ]
    )


def _error_in(
    codes: Mapping[TopicPartitionReplica, int], replica: TopicPartitionReplica
) -> KafkaError | None:
    if replica not in codes:
        return KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"The response from broker {replica.broker} did not contain a result for replica {replica}",
        )
    return error_of(codes[replica])


def _places(directories: LogDirDescriptions) -> dict[TopicPartition, ReplicaLogDirInfo]:
    """Where each replica of one broker is.
    Raises the error of a directory, unless it is that its disk failed.
    """
    places: dict[TopicPartition, ReplicaLogDirInfo] = {}
    for path, directory in directories.items():
        if directory.error is not None and directory.error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            raise directory.error
        for tp, replica in directory.replicas.items():
            place = places.get(tp, ReplicaLogDirInfo())
            if replica.is_future:
                places[tp] = replace(place, future_log_dir=path, future_offset_lag=replica.offset_lag)
            else:
                places[tp] = replace(place, current_log_dir=path, current_offset_lag=replica.offset_lag)
    return places


def _descriptions(response: DescribeLogDirsResponse) -> LogDirDescriptions | BarnabasError:
    if not response.results:
        # Until version 3 there is no other way to say that it is not allowed.
        return error_of(response.error_code) or KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return {result.log_dir: _description(result) for result in response.results}


def _description(result: DescribeLogDirsResult) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, each.partition_index): ReplicaInfo(
            each.partition_size, each.offset_lag, each.is_future_key
        )
        for topic in result.topics
        for each in topic.partitions
    }
    return LogDirDescription(
        error_of(result.error_code), replicas, result.total_bytes, result.usable_bytes, result.is_cordoned
    )
