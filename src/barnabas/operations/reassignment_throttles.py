"""The throttles of a reassignment (KIP-73):
which replicas and brokers they are for, how they are set and taken away.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from barnabas.admin import AlterConfigOp, AlterOp, AsyncAdmin, ConfigResource, PartitionReassignment
from barnabas.core.ids import TopicPartition
from barnabas.operations.reassignment_plan import Assignment

_LEADER_RATE: Final = "leader.replication.throttled.rate"
_FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
_LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
_FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"


class Move(NamedTuple):
    """From which brokers a partition is copied, and to which."""

    sources: frozenset[int]
    destinations: frozenset[int]


def moves(
    moving: Mapping[TopicPartition, PartitionReassignment], wanted: Assignment, current: Assignment
) -> dict[TopicPartition, Move]:
    """All partitions that move, those that did before included (``calculateProposedMoveMap``)."""
    found = {
        tp: Move(frozenset(one.replicas).difference(one.adding), frozenset(one.adding))
        for tp, one in moving.items()
    }
    for tp, replicas in wanted.items():
        # A partition that moves already is still copied from where it was.
        sources = found[tp].sources if tp in found else frozenset(current[tp])
        found[tp] = Move(sources, frozenset(replicas) - sources)
    return found


async def throttle(admin: AsyncAdmin, moving: Mapping[TopicPartition, Move], rate: int) -> None:
    """Limits the copying of these partitions to `rate` bytes a second on each broker, in and out."""
    topics = {tp.topic for tp in moving}
    await admin.configs.alter(
        {
            ConfigResource.topic(topic): {
                _LEADER_REPLICAS: _replicas(topic, moving, "sources"),
                _FOLLOWER_REPLICAS: _replicas(topic, moving, "destinations"),
            }
            for topic in topics
        }
    )
    brokers = {broker for move in moving.values() for broker in move.sources | move.destinations}
    await admin.configs.alter(
        {
            ConfigResource.broker(broker): {_LEADER_RATE: str(rate), _FOLLOWER_RATE: str(rate)}
            for broker in sorted(brokers)
        }
    )


async def throttle_log_dirs(admin: AsyncAdmin, brokers: Iterable[int], rate: int) -> None:
    """Limits what each of these brokers copies between its log directories to `rate` bytes a second."""
    await admin.configs.alter(
        {ConfigResource.broker(broker): {_LOG_DIRS_RATE: str(rate)} for broker in sorted(brokers)}
    )


def _replicas(topic: str, moving: Mapping[TopicPartition, Move], side: str) -> str:
    """``partition:broker`` of one side of a topic's moves, in the order of texts."""
    return ",".join(
        sorted(
            f"{tp.partition}:{broker}"
            for tp, move in moving.items()
            if tp.topic == topic
            for broker in getattr(move, side)
        )
    )


async def clear_brokers(admin: AsyncAdmin, brokers: Iterable[int]) -> None:
    """Takes the limits of brokers away, whichever reassignment set them."""
    await admin.configs.alter(
        {
            ConfigResource.broker(broker): _deletions(_LEADER_RATE, _FOLLOWER_RATE, _LOG_DIRS_RATE)
            for broker in brokers
        }
    )


async def clear_topics(admin: AsyncAdmin, topics: Iterable[str]) -> None:
    """Takes the lists of throttled replicas of topics away."""
    await admin.configs.alter(
        {ConfigResource.topic(topic): _deletions(_LEADER_REPLICAS, _FOLLOWER_REPLICAS) for topic in topics}
    )


def _deletions(*keys: str) -> list[AlterConfigOp]:
    return [AlterConfigOp(key, None, AlterOp.DELETE) for key in keys]
