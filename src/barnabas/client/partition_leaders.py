"""The leaders of partitions, for a `KeyedCall` about them (``PartitionLeaderStrategy``)."""

from collections.abc import Sequence
from typing import Final

from barnabas.client.cluster import Cluster
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition

LEADER_MOVED: Final = frozenset(code for code in ErrorCode if code.retriable)
"""Codes of a partition after which its leader is looked up again."""

_log = EventLog("client.partition_leaders")


class PartitionLeaders:
    """Leaders of partitions: at first those that are known, then those of fresh metadata."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._outdated = False

    async def look_up(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | Exception]:
        """The leader of each partition, or why none is known."""
        failure: Exception | None = None
        if self._outdated or any(self._cluster.metadata.leader(tp) < 0 for tp in partitions):
            try:
                await self._cluster.refresh()
            except (BarnabasError, OSError) as error:
                _log.debug("metadata.failed", error=error)
                failure = error
        self._outdated = True
        return {tp: self._leader(tp, failure) for tp in partitions}

    def _leader(self, tp: TopicPartition, failure: Exception | None) -> int | Exception:
        metadata = self._cluster.metadata
        leader = metadata.leader(tp)
        if leader >= 0:
            return leader
        if failure is not None and not metadata.brokers:
            return failure
        code = metadata.errors.get(tp.topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if metadata.partition(tp) is not None:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        elif tp.topic in metadata.topics:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code.retriable:
            return KafkaError(code, f"{code.message} ({tp})")
        reason = {
            ErrorCode.TOPIC_AUTHORIZATION_FAILED: "topic authorization failure",
            ErrorCode.INVALID_TOPIC_EXCEPTION: f"invalid topic `{tp.topic}`",
        }.get(code, f"unexpected error for topic `{tp.topic}`")
        return KafkaError(code, f"Failed to fetch metadata for partition {tp} due to {reason}")
