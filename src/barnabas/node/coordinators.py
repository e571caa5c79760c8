"""Builds the coordinators of a broker, and registers them with the replica manager."""

import random
import uuid
from collections.abc import Callable

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.cluster.store.contract import MetadataStore, NoNodeError
from barnabas.cluster.store.unreadable import readable
from barnabas.cluster.store.znodes import decode_topic, partitions_path, topic_path
from barnabas.coordinator.classic.groups import ClassicGroups
from barnabas.coordinator.group_configs import GroupConfigManager
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.runtime.journal import PartitionJournal
from barnabas.coordinator.runtime.loading import Loader
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.transaction.markers import MarkerChannel
from barnabas.coordinator.transaction.settings import TransactionSettings
from barnabas.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from barnabas.core.clock import Clock
from barnabas.core.config import Config
from barnabas.core.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition, random_uuid
from barnabas.core.pending import Pending, Steps, steps
from barnabas.log.log import Log
from barnabas.records.compression import Codec
from barnabas.replica.manager import ReplicaManager
from barnabas.replica.produce import ACKS_ALL


def group_coordinator(
    config: Config,
    group_configs: GroupConfigManager,
    clock: Clock,
    rng: random.Random,
    *,
    replicas: ReplicaManager,
    metadata: MetadataCache,
    loader: Loader,
) -> GroupCoordinator:
    """A coordinator that keeps its groups in the partitions of this broker, and follows their leadership.

    It is not started yet.
    """
    settings = GroupSettings.of(config)

    def new_uuid() -> str:
        return str(uuid.UUID(bytes=random_uuid(rng)))

    def log_of(partition: int) -> Log | None:
        hosted = replicas.partition(TopicPartition(GROUP_METADATA_TOPIC, partition))
        return None if hosted is None else hosted.leader_log

    classic = ClassicGroups(settings, clock, new_uuid)
    consumer = None
    if "consumer" in settings.rebalance_protocols:
        # Its assignors cost time and memory, and most brokers speak only the classic protocol.
        from barnabas.coordinator.consumer.groups import ConsumerGroups  # noqa: PLC0415
        from barnabas.coordinator.consumer.topics import CachedTopics  # noqa: PLC0415

        consumer = ConsumerGroups(classic, group_configs, clock, CachedTopics(metadata))
    coordinator = GroupCoordinator(
        settings,
        clock,
        group_configs,
        classic=classic,
        consumer=consumer,
        loader=loader,
        journal=lambda partition: PartitionJournal(
            TopicPartition(GROUP_METADATA_TOPIC, partition),
            replicas.appender,
            clock.time_ms,
            codec=Codec(settings.offsets_compression_codec),
            required_acks=settings.offsets_commit_required_acks,
            timeout_ms=settings.offsets_commit_timeout_ms,
        ),
        log=log_of,
    )
    replicas.listeners.leadership[GROUP_METADATA_TOPIC] = coordinator
    replicas.listeners.metadata.append(coordinator)
    return coordinator


def transaction_coordinator(
    config: Config,
    clock: Clock,
    *,
    replicas: ReplicaManager,
    channel: MarkerChannel,
    new_producer_id: Callable[[], Pending[int]],
    loader: Loader,
    server_version: Callable[[], int],
) -> TransactionCoordinator:
    """A coordinator of the transactional ids in the partitions of this broker. It is not started yet."""
    settings = TransactionSettings.of(config)

    def log_of(partition: int) -> Log | None:
        hosted = replicas.partition(TopicPartition(TRANSACTION_STATE_TOPIC, partition))
        return None if hosted is None else hosted.leader_log

    coordinator = TransactionCoordinator(
        settings,
        clock,
        channel=channel,
        new_producer_id=new_producer_id,
        loader=loader,
        journal=lambda partition: PartitionJournal(
            TopicPartition(TRANSACTION_STATE_TOPIC, partition),
            replicas.appender,
            clock.time_ms,
            codec=Codec.NONE,
            required_acks=ACKS_ALL,
            timeout_ms=settings.request_timeout_ms,
        ),
        log=log_of,
        server_version=server_version,
    )
    replicas.listeners.leadership[TRANSACTION_STATE_TOPIC] = coordinator
    replicas.listeners.metadata.append(coordinator)
    return coordinator


@steps
def partitions_of(store: MetadataStore, topic: str, configured: int) -> Steps[int]:
    """How many partitions a coordinator's topic has, or will have: those that are `configured`."""
    path = topic_path(topic)
    try:
        data, _ = yield store.get(path)
        decoded = readable(store, path, decode_topic, data)
        if decoded is not None:
            return len(decoded.partitions)
        # A group must not be looked for in another partition once the znode is mended.
        names: list[str] = yield store.children(partitions_path(topic))
        return len(names)
    except NoNodeError:
        return configured
