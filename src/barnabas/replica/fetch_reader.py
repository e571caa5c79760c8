"""Reading the partitions of a fetch request, without waiting (``ReplicaManager.readFromLog``)."""

from collections.abc import Iterable
from typing import Final

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import ZERO_UUID, TopicPartition, topic_partition
from barnabas.replica.cached_partition import CachedPartition
from barnabas.replica.hosted import HostedPartitions
from barnabas.replica.log_read import Isolation, LogRead
from barnabas.replica.partition import Partition
from barnabas.replica.quota import ReplicationQuotaManager
from barnabas.replica.selector import ReplicaSelector
from barnabas.replica.topic_stats import BrokerTopicStats

_log = EventLog("replica.fetch")

CONSUMER_REPLICA_ID: Final = -1
LEADER: Final = -1
"""The preferred read replica of a consumer that is to stay here."""


class FetchParams:
    """What holds for a whole fetch request; sizes in bytes."""

    __slots__ = (
        "broker_epoch",
        "from_follower",
        "isolation",
        "leader_only",
        "listener",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "rack",
        "replica_id",
    )

    def __init__(
        self,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: Isolation,
        replica_id: int = CONSUMER_REPLICA_ID,
        broker_epoch: int = -1,
        *,
        leader_only: bool = True,
        rack: str = "",
        listener: str = "",
    ) -> None:
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation = isolation
        self.replica_id = replica_id
        self.from_follower = replica_id >= 0
        """Whether a replica asks, not a consumer."""
        self.broker_epoch = broker_epoch
        self.leader_only = leader_only
        """False for consumers that may read from a follower (KIP-392)."""
        self.rack = rack
        """Where the consumer is, if it says so."""
        self.listener = listener
        """Where it asks."""

    def waiting(self, max_wait_ms: int) -> "FetchParams":
        """The same for a request that may wait so long."""
        return FetchParams(
            max_wait_ms,
            self.min_bytes,
            self.max_bytes,
            self.isolation,
            self.replica_id,
            self.broker_epoch,
            leader_only=self.leader_only,
            rack=self.rack,
            listener=self.listener,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FetchParams) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def _values(self) -> tuple[object, ...]:
        sizes = self.min_bytes, self.max_bytes
        who = self.replica_id, self.broker_epoch, self.rack, self.listener
        return self.max_wait_ms, *sizes, *who, self.isolation, self.leader_only

    def __repr__(self) -> str:
        return f"<FetchParams of {self.replica_id} {self.min_bytes}..{self.max_bytes} {self.isolation.value}>"


class PartitionRead:
    """What was read of one partition: `found`, or an error."""

    __slots__ = ("error", "found", "partition", "preferred_read_replica", "size", "throttled")

    def __init__(
        self,
        partition: CachedPartition,
        found: LogRead | None,
        error: ErrorCode = ErrorCode.NONE,
        preferred_read_replica: int = LEADER,
        *,
        throttled: bool = False,
    ) -> None:
        self.partition = partition
        self.throttled = throttled
        """Whether a quota kept its records back."""
        self.found = found
        self.error = error
        self.preferred_read_replica = preferred_read_replica
        """The follower to read from instead; then nothing was read here."""
        self.size = 0 if found is None else len(found.records)

    @property
    def urgent(self) -> bool:
        """Whether the client must hear of it without waiting for more."""
        found = self.found
        return found is None or found.diverging is not None or self.preferred_read_replica != LEADER

    def __repr__(self) -> str:
        return f"<PartitionRead {self.partition} {self.error.name} {self.size} bytes>"


class FetchReader:
    """Reads the partitions of a fetch."""

    __slots__ = ("_hosted", "_quota", "_selector", "_stats")

    def __init__(
        self,
        hosted: HostedPartitions,
        selector: ReplicaSelector | None = None,
        quota: ReplicationQuotaManager | None = None,
        stats: BrokerTopicStats | None = None,
    ) -> None:
        """`quota` is the leader's, for followers."""
        self._stats = stats or BrokerTopicStats()
        self._hosted = hosted
        self._selector = selector
        self._quota = quota

    def read(
        self,
        params: FetchParams,
        partitions: Iterable[CachedPartition],
        *,
        record_follower: bool,
        read_before: int = 0,
    ) -> list[PartitionRead]:
        """``readFromLog``: one pass over the partitions, in order, until the size limits are used up.

        The first partition with records gives at least one batch, however large it is, so that a reader
        always gets on (KIP-74). `read_before` are the bytes of the partitions before these.
        """
        reads = []
        left = max(0, params.max_bytes - read_before)
        min_one_message = not read_before
        for each in partitions:
            read = self._read_one(params, each, left, min_one_message, record_follower)
            if read.size:
                min_one_message = False
                left = max(0, left - read.size)
            reads.append(read)
        return reads

    def _read_one(
        self,
        params: FetchParams,
        wanted: CachedPartition,
        left: int,
        min_one_message: bool,
        record_follower: bool,
    ) -> PartitionRead:
        try:
            partition = self.partition(wanted)
            replica = (
                partition.follower(params.replica_id, wanted.current_leader_epoch)
                if params.replica_id >= 0
                else None
            )
            # KIP-392: a consumer in another rack is sent to a follower near it, and reads nothing here.
            if params.rack and self._selector is not None:
                preferred = self._preferred_replica(self._selector, params, partition, wanted)
                if preferred is not None:
                    log = partition.log_for(wanted.current_leader_epoch, leader_only=False)
                    return PartitionRead(wanted, LogRead(log), preferred_read_replica=preferred)
            # KIP-73: a throttled follower gets the offsets and no records.
            throttled = replica is not None and self.throttles(partition, params.replica_id)
            found = partition.read(
                wanted,
                params.isolation,
                max_bytes=0 if throttled else min(wanted.max_bytes, left),
                min_one_message=min_one_message and not throttled,
                leader_only=params.leader_only,
            )
            # Only on the first pass: a fetch that waited says nothing new about the follower. One that
            # diverges has other records than this log.
            if replica is not None and record_follower and found.diverging is None:
                partition.record_follower_fetch(replica, wanted, found, params.broker_epoch)
        except KafkaError as error:
            return PartitionRead(wanted, None, error.code)
        except Exception:
            _log.error("fetch.read_failed", partition=wanted, exc_info=True)
            self._stats.of(wanted.topic or "").failed_fetches += 1
            return PartitionRead(wanted, None, ErrorCode.UNKNOWN_SERVER_ERROR)
        return PartitionRead(wanted, found, throttled=throttled)

    def throttles(self, partition: Partition, replica_id: int) -> bool:
        """``shouldLeaderThrottle``: whether a follower gets nothing of this partition now.
        One in sync always does.
        """
        quota = self._quota
        return (
            quota is not None
            and quota.is_throttled(partition.tp)
            and replica_id not in partition.isr_state.isr
            and quota.is_exceeded()
        )

    def record_sent(self, params: FetchParams, reads: list[PartitionRead]) -> None:
        """Counts what is sent (``updateBytesOut``), and what a follower gets of throttled partitions, as a
        replica in sync too.
        """
        stats, from_follower = self._stats, params.from_follower
        for read in reads:
            if not read.size:
                continue
            if from_follower:
                stats.replication_bytes_out += read.size
            else:
                topic = read.partition.topic or ""
                of_topic = stats.topics.get(topic) or stats.of(topic)
                of_topic.bytes_out += read.size
        quota = self._quota
        if params.from_follower and quota is not None and quota.active:
            sent = [
                each.size
                for each in reads
                if quota.is_throttled(TopicPartition(each.partition.topic or "", each.partition.partition))
            ]
            quota.record(sum(sent))

    def _preferred_replica(
        self, selector: ReplicaSelector, params: FetchParams, partition: Partition, wanted: CachedPartition
    ) -> int | None:
        """``findPreferredReadReplica``: the follower that a consumer should read from; only leaders know."""
        if params.from_follower or partition.leader_log is None:
            return None
        return selector.select(
            partition, rack=params.rack, listener=params.listener, fetch_offset=wanted.fetch_offset
        )

    def partition(self, wanted: CachedPartition) -> Partition:
        """The partition asked for; raises what `HostedPartitions.serve` does, and INCONSISTENT_TOPIC_ID."""
        assert wanted.topic is not None, "names are resolved before reading"
        partition = self._hosted.serve(topic_partition(wanted.topic, wanted.partition))
        if wanted.topic_id != ZERO_UUID and partition.topic_id not in (wanted.topic_id, ZERO_UUID):
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                "Topic ID in the fetch session did not match the topic ID in the log.",
            )
        return partition
