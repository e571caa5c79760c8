"""What ``barnabas explain partition`` finds: the decision about a partition, and how far it has come.

The controller writes the decision to the partition's znode, tells its replicas by LeaderAndIsr, and all
brokers by UpdateMetadata; a leader changes the ISR by AlterPartition, which the controller writes too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from barnabas.admin import (
    AsyncAdmin,
    ClusterDescription,
    ConfigResource,
    PartitionReassignment,
    TopicDescription,
)
from barnabas.client.metadata import PartitionMetadata
from barnabas.client.types import LATEST_TIMESTAMP
from barnabas.cluster.leadership import PartitionLeadership
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import NoNodeError, Stat
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.network.errors import UnsupportedVersionError
from barnabas.operations.errors import OperationError

if TYPE_CHECKING:
    from barnabas.operations.store_reader import StoreReader

Line = tuple[str, str]
"""A station and what is there."""

_UNKNOWN: Final = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """What stands in the znodes."""

    leadership: PartitionLeadership
    stat: Stat
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class PartitionStations:
    """A partition as the brokers and the store have it."""

    tp: TopicPartition
    metadata: PartitionMetadata
    cluster: ClusterDescription
    minimum: int
    """``min.insync.replicas``"""
    moving: PartitionReassignment | None
    views: Mapping[int, PartitionMetadata | BarnabasError]
    """What each broker was told, by broker."""
    served: BarnabasError | None
    """What the leader answers when it is asked as the leader; None when it answers."""
    decision: StoredDecision | None


async def look(
    admin: AsyncAdmin, topic: str, number: int, reader: "StoreReader | None", timeout_ms: int
) -> PartitionStations:
    """Asks the brokers, and the store if there is one.
    Raises OperationError for a partition that is not there.
    """
    tp = TopicPartition(topic, number)
    described = (await admin.topics.describe([topic], timeout_ms=timeout_ms))[topic]
    metadata = _of(described, number)
    if metadata is None:
        raise OperationError(f"Topic {topic} has no partition {number}: it has {len(described.partitions)}")
    resource = ConfigResource.topic(topic)
    config = (await admin.configs.describe(resource, timeout_ms=timeout_ms))[resource]
    try:
        moving = (await admin.partitions.reassignments([tp], timeout_ms=timeout_ms)).get(tp)
    except UnsupportedVersionError:
        moving = None
    served = None
    if metadata.leader >= 0:
        asked = (await admin.offsets.try_list({tp: LATEST_TIMESTAMP}, timeout_ms=timeout_ms))[tp]
        served = asked if isinstance(asked, BarnabasError) else None
    views = {
        broker: view if isinstance(view, BarnabasError) else _of(view, number) or _UNKNOWN
        for broker, view in (await admin.topics.views(topic, timeout_ms=timeout_ms)).items()
    }
    return PartitionStations(
        tp,
        metadata,
        await admin.cluster.describe(timeout_ms=timeout_ms),
        int(config["min.insync.replicas"].value or 1),
        moving,
        views,
        served,
        await _decision(reader, tp) if reader else None,
    )


def _of(topic: TopicDescription, number: int) -> PartitionMetadata | None:
    return next((one for one in topic.partitions if one.partition == number), None)


async def _decision(reader: "StoreReader", tp: TopicPartition) -> StoredDecision:
    try:
        data, stat = await reader.get(znodes.partition_state_path(tp))
        epoch, _ = await reader.get("/controller_epoch")
    except NoNodeError as error:
        raise OperationError(f"The store has no {error.path}: it is not that of these brokers") from error
    return StoredDecision(znodes.decode_partition_state(data, stat), stat, int(epoch or b"0"))


def lines(found: PartitionStations) -> list[Line]:
    """The stations, from the decision to those who were told."""
    return [
        ("partition", f"{found.tp}, replicas {_numbers(found.metadata.replicas)}"),
        ("leader", _leader(found)),
        ("in sync", _in_sync(found)),
        *_missing(found),
        *([("reassignment", _moving(found.moving))] if found.moving else []),
        (
            "controller",
            f"broker {found.cluster.controller.node_id}" if found.cluster.controller else "none now",
        ),
        *([("znode", _znode(found.decision))] if found.decision else []),
        ("LeaderAndIsr", _served(found)),
        ("UpdateMetadata", _told(found)),
    ]


def _leader(found: PartitionStations) -> str:
    one = found.metadata
    if one.leader < 0:
        alive = {broker.node_id for broker in found.cluster.brokers}
        in_sync = _numbers(broker for broker in one.isr if broker in alive)
        why = f"in-sync replicas {_numbers(one.isr)}, of which {in_sync} live"
        return (
            f"none: {why}; it comes back with one of them, or by an unclean election, which may lose records"
        )
    preferred = "the preferred one" if one.leader == one.replicas[0] else f"preferred is {one.replicas[0]}"
    return f"broker {one.leader}, since leader epoch {one.leader_epoch}; {preferred}"


def _in_sync(found: PartitionStations) -> str:
    count, needed = len(found.metadata.isr), found.minimum
    isr = f"{_numbers(found.metadata.isr)}; min.insync.replicas={needed}"
    if found.metadata.leader < 0:
        return f"{isr}; without a leader nobody can write"
    taken = "takes" if count >= needed else "refuses"
    return f"{isr}, so it {taken} records with acks=all"


def _missing(found: PartitionStations) -> list[Line]:
    alive = {broker.node_id for broker in found.cluster.brokers}
    return [
        (
            "not in sync",
            f"{broker}: it has not caught up with the leader within replica.lag.time.max.ms"
            if broker in alive
            else f"{broker}: this broker is not registered, so it is down or has lost its session",
        )
        for broker in found.metadata.replicas
        if broker not in found.metadata.isr
    ]


def _moving(moving: PartitionReassignment) -> str:
    return f"adding {_numbers(moving.adding)}, removing {_numbers(moving.removing)}"


def _znode(decision: StoredDecision) -> str:
    state = decision.leadership.leader_and_isr
    at = datetime.fromtimestamp(decision.stat.modified_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return (
        f"leader {state.leader}, leader epoch {state.leader_epoch}, ISR {_numbers(state.isr)}; partition "
        f"epoch {state.partition_epoch}, written under controller epoch "
        f"{decision.leadership.controller_epoch} (now {decision.controller_epoch}) at {at}"
    )


def _served(found: PartitionStations) -> str:
    leader = found.metadata.leader
    if leader < 0:
        return "there is no leader to tell"
    if found.served is None:
        return f"broker {leader} was told to lead: it answers as the leader"
    return f"broker {leader} does not answer as the leader: {found.served}"


def _told(found: PartitionStations) -> str:
    """Which brokers say the same as the first that was asked, and what the others say."""
    want = found.metadata
    same, others = [], []
    for broker, view in found.views.items():
        if isinstance(view, BarnabasError):
            others.append(f"broker {broker}: {view}")
        elif (view.leader, view.leader_epoch, list(view.isr)) == (
            want.leader,
            want.leader_epoch,
            list(want.isr),
        ):
            same.append(broker)
        else:
            others.append(
                f"broker {broker} has leader {view.leader}, leader epoch {view.leader_epoch}, ISR "
                f"{_numbers(view.isr)}"
            )
    return "; ".join([f"brokers {_numbers(same)} know this", *others])


def _numbers(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "none"
