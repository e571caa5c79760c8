"""Plans about leaders and replicas."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from barnabas.admin import AsyncAdmin, ElectionType, PartitionReassignment, TopicPartitionReplica
from barnabas.console.actions.plans import Effect, Planned
from barnabas.console.actions.topics import INT64_MAX, TIMEOUT_MS, Name, Number
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.operations import reassignment_throttles as throttles
from barnabas.operations.errors import OperationError
from barnabas.operations.reassignment_plan import (
    Assignment,
    check_brokers,
    check_targets,
    current_replicas,
    propose,
)

Throttle = Annotated[int, Field(ge=0, le=INT64_MAX, description="bytes a second; 0: none")]


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """The preferred leaders of a topic, or of all where none is named."""

    topic: Annotated[str, Field(max_length=249, description="empty: all")] = ""


@dataclass(frozen=True, slots=True)
class Reassign:
    """The replicas of a topic on these brokers, with commas; a throttle in bytes a second, 0 for none."""

    topic: Name
    brokers: Annotated[str, Field(min_length=1, max_length=1000, description="ids with commas")]
    throttle: Throttle = 0


@dataclass(frozen=True, slots=True)
class CancelReassignment:
    """What moves of a topic stays where it was."""

    topic: Name


@dataclass(frozen=True, slots=True)
class ReplicationFactor:
    """So many replicas for each partition of a topic; a throttle in bytes a second, 0 for none."""

    topic: Name
    replication_factor: Annotated[int, Field(ge=1, le=1000)]
    throttle: Throttle = 0


@dataclass(frozen=True, slots=True)
class MoveLogDir:
    """A replica of a partition to another log directory of its broker."""

    topic: Name
    partition: Number
    broker: Number
    log_dir: Annotated[str, Field(min_length=1, max_length=4096)]


async def elect_leaders(admin: AsyncAdmin, wanted: ElectLeaders) -> Planned:
    """Partitions whose first replica is in sync and does not lead."""
    topics = (
        await admin.topics.describe([wanted.topic], timeout_ms=TIMEOUT_MS)
        if wanted.topic
        else await admin.topics.describe_all(internal=True, timeout_ms=TIMEOUT_MS)
    )
    elected: dict[TopicPartition, int] = {}
    effects, waiting = [], 0
    for name, topic in topics.items():
        for one in topic.partitions:
            preferred = one.replicas[0]
            if one.leader == preferred:
                continue
            if preferred not in one.isr:
                waiting += 1
                continue
            elected[TopicPartition(name, one.partition)] = preferred
            effects.append(Effect(f"leader of {name}-{one.partition}", str(one.leader), str(preferred)))

    async def carry_out(later: AsyncAdmin) -> None:
        answers = await later.partitions.try_elect_leaders(
            list(elected), ElectionType.PREFERRED, timeout_ms=TIMEOUT_MS
        )
        _raise_together(answers)

    warnings = [f"{waiting} preferred leaders are not in sync and are left out"] if waiting else []
    return Planned(wanted.topic or "all topics", effects, carry_out, warnings)


def _raise_together(answers: "dict[TopicPartition, BarnabasError | None]") -> None:
    """Raises OperationError with what was refused; an election that was not needed is none of it."""
    failed = [
        f"{tp}: {error}"
        for tp, error in sorted(answers.items())
        if error is not None
        and not (isinstance(error, KafkaError) and error.code is ErrorCode.ELECTION_NOT_NEEDED)
    ]
    if failed:
        raise OperationError("; ".join(failed[:10]))


async def reassign(admin: AsyncAdmin, wanted: Reassign) -> Planned:
    """The placement that the preview shows is the one that is asked for."""
    brokers = _numbers(wanted.brokers)
    await check_brokers(admin, brokers)
    current = await current_replicas(admin, [wanted.topic])
    proposed = await propose(admin, current, brokers, rack_aware=False)
    check_targets(list(proposed.items()))
    return await _moved(admin, wanted.topic, current, proposed, wanted.throttle)


async def replication_factor(admin: AsyncAdmin, wanted: ReplicationFactor) -> Planned:
    """Replicas that are there stay, the first ones; new ones come to the brokers with the fewest."""
    alive = [one.node_id for one in (await admin.cluster.describe(timeout_ms=TIMEOUT_MS)).brokers]
    if wanted.replication_factor > len(alive):
        raise OperationError(f"there are {len(alive)} brokers for {wanted.replication_factor} replicas")
    current = await current_replicas(admin, [wanted.topic])
    load = dict.fromkeys(alive, 0)
    for replicas in current.values():
        for broker in replicas[: wanted.replication_factor]:
            load[broker] = load.get(broker, 0) + 1
    proposed = {}
    for tp, replicas in sorted(current.items()):
        kept = list(replicas[: wanted.replication_factor])
        while len(kept) < wanted.replication_factor:
            broker = min(
                (one for one in alive if one not in kept),
                # Of those with as few, the next one after the last replica: they come round evenly.
                key=lambda one: (load[one], (one <= kept[-1], one)),
            )
            load[broker] += 1
            kept.append(broker)
        proposed[tp] = tuple(kept)
    return await _moved(admin, wanted.topic, current, proposed, wanted.throttle)


async def move_log_dir(admin: AsyncAdmin, wanted: MoveLogDir) -> Planned:
    """The replica is copied beside itself, and takes the place when it has caught up."""
    tp, replica = (
        TopicPartition(wanted.topic, wanted.partition),
        TopicPartitionReplica(wanted.broker, wanted.topic, wanted.partition),
    )
    before = (await admin.log_dirs.describe_replicas([replica], timeout_ms=TIMEOUT_MS))[replica]
    if before.current_log_dir is None:
        raise OperationError(f"broker {wanted.broker} has no replica of {tp}")
    directories = (await admin.log_dirs.describe([wanted.broker], timeout_ms=TIMEOUT_MS))[wanted.broker]
    if wanted.log_dir not in directories:
        raise OperationError(f"broker {wanted.broker} has {', '.join(sorted(directories))}")

    async def carry_out(later: AsyncAdmin) -> None:
        now = (await later.log_dirs.describe_replicas([replica], timeout_ms=TIMEOUT_MS))[replica]
        if now.current_log_dir != before.current_log_dir:
            raise OperationError(f"the replica of {tp} is not where it was: nothing was done")
        await later.log_dirs.alter_replicas({replica: wanted.log_dir}, timeout_ms=TIMEOUT_MS)

    effects = []
    if before.current_log_dir != wanted.log_dir:
        effects = [Effect(f"{tp} on broker {wanted.broker}", before.current_log_dir, wanted.log_dir)]
    return Planned(wanted.topic, effects, carry_out)


async def _moved(
    admin: AsyncAdmin, topic: str, current: Assignment, proposed: Assignment, throttle: int
) -> Planned:
    changed = {tp: list(replicas) for tp, replicas in proposed.items() if list(replicas) != list(current[tp])}
    sizes = await _sizes(admin, changed)
    effects = [
        Effect(
            f"replicas of {tp}",
            ",".join(map(str, current[tp])),
            ",".join(map(str, replicas))
            + (f" (copies {sizes[tp]} bytes to each of {len(set(replicas) - set(current[tp]))})"
               if set(replicas) - set(current[tp]) else " (no copy)"),
        )
        for tp, replicas in changed.items()
    ]  # fmt: skip

    async def carry_out(later: AsyncAdmin) -> None:
        now = await current_replicas(later, [topic])
        if any(now.get(tp) != list(current[tp]) for tp in changed):
            raise OperationError(f"topic {topic} is not as it was in the preview: nothing was done")
        if throttle:
            moving = await later.partitions.reassignments(timeout_ms=TIMEOUT_MS)
            await throttles.throttle(later, throttles.moves(moving, changed, current), throttle)
        _raise_together(await later.partitions.try_reassign(changed, timeout_ms=TIMEOUT_MS))

    warnings = []
    if throttle:
        warnings.append("the throttle stays until it is taken away: barnabas reassign-partitions --verify")
    return Planned(topic, effects, carry_out, warnings)


def _numbers(text: str) -> list[int]:
    found = [one.strip() for one in text.split(",") if one.strip()]
    if not all(one.isascii() and one.isdigit() and len(one) < 11 for one in found):
        raise OperationError(f"{text!r} are no ids of brokers with commas")
    return [int(one) for one in found]


async def _sizes(admin: AsyncAdmin, moved: dict[TopicPartition, list[int]]) -> dict[TopicPartition, int]:
    """Bytes of the largest replica of each partition."""
    brokers = [one.node_id for one in (await admin.cluster.describe(timeout_ms=TIMEOUT_MS)).brokers]
    sizes = dict.fromkeys(moved, 0)
    for found in (await admin.log_dirs.try_describe(brokers, timeout_ms=TIMEOUT_MS)).values():
        for directory in () if isinstance(found, BarnabasError) else found.values():
            for tp, replica in directory.replicas.items():
                if tp in sizes:
                    sizes[tp] = max(sizes[tp], replica.size)
    return sizes


async def cancel_reassignment(admin: AsyncAdmin, wanted: CancelReassignment) -> Planned:
    """Gives up what moves of a topic: the moves that the preview shows, not others that began after it."""
    moving = await _moving(admin, wanted.topic)
    effects = [
        Effect(f"replicas of {tp}", f"adding {list(one.adding)}, removing {list(one.removing)}", "as before")
        for tp, one in sorted(moving.items())
    ]

    async def carry_out(later: AsyncAdmin) -> None:
        now = await _moving(later, wanted.topic)
        if any(now.get(tp) != one for tp, one in moving.items()):
            raise OperationError(
                f"what moves of topic {wanted.topic} is not as it was in the preview: nothing was done"
            )
        _raise_together(await later.partitions.try_reassign(dict.fromkeys(moving), timeout_ms=TIMEOUT_MS))

    return Planned(wanted.topic, effects, carry_out)


async def _moving(admin: AsyncAdmin, topic: str) -> dict[TopicPartition, PartitionReassignment]:
    """The partitions of a topic that move."""
    found = await admin.partitions.reassignments(timeout_ms=TIMEOUT_MS)
    return {tp: one for tp, one in found.items() if tp.topic == topic}
