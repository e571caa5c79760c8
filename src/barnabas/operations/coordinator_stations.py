"""How a client finds its coordinator, station by station, for one key on a live cluster.

The coordinator is worked out from the cluster's metadata first, without asking FindCoordinator: a broker that
is asked creates the internal topic when it is not there, and a look must not change the cluster.
Then a broker is asked, and the two are compared.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from barnabas.admin import AsyncAdmin, ConfigResource, CoordinatorAnswer, CoordinatorType
from barnabas.client.metadata import Broker, PartitionMetadata
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, java_abs, java_hash


class _Kind(NamedTuple):
    topic: str
    partitions_key: str
    replication_key: str


KINDS: Final = {
    CoordinatorType.GROUP: _Kind(
        GROUP_METADATA_TOPIC, "offsets.topic.num.partitions", "offsets.topic.replication.factor"
    ),
    CoordinatorType.TRANSACTION: _Kind(
        TRANSACTION_STATE_TOPIC,
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
    ),
}


class Agreement(Enum):
    """How belief and answer relate."""

    AGREE = "agree"
    DIFFER = "differ"
    REFUSED = "refused"
    NOT_COMPARED = "not compared"
    NOT_CREATED = "not created"


@dataclass(frozen=True, slots=True)
class Stations:
    """All that is known of the way to one coordinator."""

    key: str
    type: CoordinatorType
    partition_count: int | None
    """Partitions of the internal topic;
    where it does not exist, how many the brokers would give it (if they say).
    """
    exists: bool
    obstacle: ErrorCode
    """Why the internal topic could not be looked at."""
    metadata: PartitionMetadata | None
    leader: Broker | None
    answer: CoordinatorAnswer | None
    """What FindCoordinator says; None when no broker was asked."""

    @property
    def topic(self) -> str:
        """The internal topic that the coordinator keeps its state in."""
        return KINDS[self.type].topic

    @property
    def hash(self) -> int:
        return java_hash(self.key)

    @property
    def partition(self) -> int | None:
        """The partition of the internal topic that the key belongs to."""
        return java_abs(self.hash) % self.partition_count if self.partition_count else None

    @property
    def verdict(self) -> Agreement:
        if self.answer is None:
            return Agreement.NOT_CREATED
        if self.answer.error is not ErrorCode.NONE:
            return Agreement.REFUSED
        if self.metadata is None:
            return Agreement.NOT_COMPARED
        believed = (self.leader.node_id, self.leader.host, self.leader.port) if self.leader else None
        return Agreement.AGREE if believed == self.answer[:3] else Agreement.DIFFER


async def visit(
    admin: AsyncAdmin, key: str, kind: CoordinatorType, *, create: bool, timeout_ms: float | None = None
) -> Stations:
    """The stations of a key. Without `create`, no broker is asked while the internal topic does not exist."""
    topic = KINDS[kind].topic
    found = (await admin.topics.try_describe([topic], timeout_ms=timeout_ms))[topic]
    obstacle = found.code if isinstance(found, KafkaError) else ErrorCode.NONE
    missing = obstacle is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = None
    if create or not missing:
        answer = (await admin.coordinators.find([key], kind, timeout_ms=timeout_ms))[key]
    brokers = {one.node_id: one for one in (await admin.cluster.describe(timeout_ms=timeout_ms)).brokers}
    if isinstance(found, BarnabasError):
        count = await _count_of_new(admin, brokers, KINDS[kind].partitions_key) if missing else None
        return Stations(key, kind, count, not missing, obstacle, None, None, answer)
    number = java_abs(java_hash(key)) % len(found.partitions)
    metadata = next(one for one in found.partitions if one.partition == number)
    leader = brokers.get(metadata.leader)
    return Stations(key, kind, len(found.partitions), True, obstacle, metadata, leader, answer)


async def _count_of_new(admin: AsyncAdmin, brokers: dict[int, Broker], config_key: str) -> int | None:
    """How many partitions the internal topic would get; None where no broker says."""
    for broker in brokers:
        resource = ConfigResource.broker(broker)
        entries = (await admin.configs.try_describe([resource])).get(resource)
        if isinstance(entries, dict) and config_key in entries:
            return int(entries[config_key].value or 0) or None
    return None
