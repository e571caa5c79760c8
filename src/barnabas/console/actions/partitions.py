"""Plans about leaders and replicas."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from barnabas.admin import AsyncAdmin, ElectionType
from barnabas.console.actions.plans import Effect, Planned
from barnabas.console.actions.topics import TIMEOUT_MS, Name
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.operations import reassignment_throttles as throttles
from barnabas.operations.errors import OperationError
from barnabas.operations.reassignment_plan import check_brokers, check_targets, current_replicas, propose


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """The preferred leaders of a topic, or of all where none is named."""

    topic: Annotated[str, Field(max_length=249)] = ""


@dataclass(frozen=True, slots=True)
class Reassign:
    """The replicas of a topic on these brokers, with commas; a throttle in bytes a second, 0 for none."""

    topic: Name
    brokers: Annotated[str, Field(min_length=1, max_length=1000)]
    throttle: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True, slots=True)
class CancelReassignment:
    """What moves of a topic stays where it was."""

    topic: Name


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
    changed = {tp: list(replicas) for tp, replicas in proposed.items() if list(replicas) != current[tp]}
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
        now = await current_replicas(later, [wanted.topic])
        if any(now.get(tp) != current[tp] for tp in changed):
            raise OperationError(f"topic {wanted.topic} is not as it was in the preview: nothing was done")
        if wanted.throttle:
            moving = await later.partitions.reassignments(timeout_ms=TIMEOUT_MS)
            await throttles.throttle(later, throttles.moves(moving, changed, current), wanted.throttle)
        _raise_together(await later.partitions.try_reassign(changed, timeout_ms=TIMEOUT_MS))

    warnings = []
    if wanted.throttle:
        warnings.append("the throttle stays until it is taken away: barnabas reassign-partitions --verify")
    return Planned(wanted.topic, effects, carry_out, warnings)


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
    """Gives up what moves of a topic."""
    moving = {
        tp: one
        for tp, one in (await admin.partitions.reassignments(timeout_ms=TIMEOUT_MS)).items()
        if tp.topic == wanted.topic
    }
    effects = [
        Effect(f"replicas of {tp}", f"adding {list(one.adding)}, removing {list(one.removing)}", "as before")
        for tp, one in sorted(moving.items())
    ]

    async def carry_out(later: AsyncAdmin) -> None:
        _raise_together(await later.partitions.try_reassign(dict.fromkeys(moving), timeout_ms=TIMEOUT_MS))

    return Planned(wanted.topic, effects, carry_out)
