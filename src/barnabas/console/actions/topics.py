"""Plans about topics and configurations."""

from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from barnabas.admin import AsyncAdmin, ConfigResource, NewTopic, TopicDescription
from barnabas.client.types import EARLIEST_TIMESTAMP
from barnabas.console.actions.plans import Effect, Planned, Undo
from barnabas.core.ids import TopicPartition
from barnabas.operations.errors import OperationError
from barnabas.operations.log_ends import end_offsets, log_offsets
from barnabas.operations.own_configs import is_own
from barnabas.operations.partition_states import COLLISION, may_collide

TIMEOUT_MS = 10_000
INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1
Name = Annotated[str, Field(min_length=1, max_length=249)]
Number = Annotated[int, Field(ge=0, le=INT32_MAX)]
"""Of a partition or a broker."""
Offset = Annotated[int, Field(ge=0, le=INT64_MAX)]
Key = Annotated[str, Field(min_length=1, max_length=500)]
ConfigText = Annotated[str, Field(max_length=32_000)]
ConfigValue = Annotated[ConfigText, Field(description="empty: the default again")]


@dataclass(frozen=True, slots=True)
class BrokerDefault:
    """Beside a number: -1 stands for this key of the brokers."""

    key: str


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """A new topic; -1 takes the brokers' defaults."""

    topic: Name
    partitions: Annotated[int, Field(ge=-1, le=INT32_MAX), BrokerDefault("num.partitions")] = -1
    replication_factor: Annotated[
        int, Field(ge=-1, le=1000), BrokerDefault("default.replication.factor")
    ] = -1
    configs: Annotated[ConfigText, Field(description="KEY=VALUE, one a line")] = ""


@dataclass(frozen=True, slots=True)
class ExpandTopic:
    """More partitions for a topic."""

    topic: Name
    partitions: Annotated[int, Field(ge=1, le=INT32_MAX, description="how many there are then")]


@dataclass(frozen=True, slots=True)
class AlterTopic:
    """One key of a topic; an empty value takes its own value away."""

    topic: Name
    key: Key
    value: ConfigValue = ""


@dataclass(frozen=True, slots=True)
class AlterBroker:
    """One key of a broker that can change while it runs; an empty value takes it away."""

    broker: Number
    key: Key
    value: ConfigValue = ""


@dataclass(frozen=True, slots=True)
class AlterBrokers:
    """One key of all brokers at once, that can change while they run; an empty value takes it away."""

    key: Key
    value: ConfigValue = ""


@dataclass(frozen=True, slots=True)
class OfTopic:
    """A topic."""

    topic: Name


async def create_topic(admin: AsyncAdmin, wanted: CreateTopic) -> Planned:
    """The cluster says beforehand whether it would do it. Raises KafkaError, OperationError."""
    topic = NewTopic(
        wanted.topic, wanted.partitions, wanted.replication_factor, configs=_pairs(wanted.configs)
    )
    found = await admin.topics.create(topic, validate_only=True, timeout_ms=TIMEOUT_MS)
    made = found[wanted.topic]
    text = f"partitions: {made.partitions}, replicas of each: {made.replication_factor}"
    effects = [Effect(f"topic {wanted.topic}", "not there", text)]
    effects += [
        Effect(f"{wanted.topic} {key}", "default", str(value)) for key, value in topic.configs.items()
    ]

    async def carry_out(later: AsyncAdmin) -> None:
        await later.topics.create(topic, timeout_ms=TIMEOUT_MS)

    return Planned(wanted.topic, effects, carry_out, [COLLISION] if may_collide(wanted.topic) else [])


def _pairs(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if line.strip() and not equals:
            raise OperationError(f"{line.strip()!r} is no KEY=VALUE")
        if line.strip():
            found[key.strip()] = value.strip()
    return found


async def expand_topic(admin: AsyncAdmin, wanted: ExpandTopic) -> Planned:
    """Partitions never go away again."""
    before = len((await _described(admin, wanted.topic)).partitions)
    change = {wanted.topic: wanted.partitions}
    await admin.topics.create_partitions(change, validate_only=True, timeout_ms=TIMEOUT_MS)

    async def carry_out(later: AsyncAdmin) -> None:
        if len((await _described(later, wanted.topic)).partitions) != before:
            raise OperationError(f"topic {wanted.topic} is not as it was in the preview: nothing was done")
        await later.topics.create_partitions(change, timeout_ms=TIMEOUT_MS)

    effect = Effect(f"partitions of {wanted.topic}", str(before), str(wanted.partitions))
    warning = "records with the same key go to other partitions than before"
    return Planned(wanted.topic, [effect], carry_out, [warning])


async def alter_topic(admin: AsyncAdmin, wanted: AlterTopic) -> Planned:
    """One key of a topic."""
    resource = ConfigResource.topic(wanted.topic)
    undo = Undo("alter-topic", {"topic": wanted.topic, "key": wanted.key})
    return await _alter(admin, resource, wanted.topic, wanted.key, wanted.value, undo)


async def alter_broker(admin: AsyncAdmin, wanted: AlterBroker) -> Planned:
    """One key of a broker."""
    resource = ConfigResource.broker(wanted.broker)
    undo = Undo("alter-broker", {"broker": wanted.broker, "key": wanted.key})
    return await _alter(admin, resource, f"broker {wanted.broker}", wanted.key, wanted.value, undo)


async def alter_brokers(admin: AsyncAdmin, wanted: AlterBrokers) -> Planned:
    """One key of all brokers; a broker's own value is stronger."""
    undo = Undo("alter-brokers", {"key": wanted.key})
    return await _alter(admin, ConfigResource.all_brokers(), "all brokers", wanted.key, wanted.value, undo)


async def _alter(
    admin: AsyncAdmin, resource: ConfigResource, subject: str, key: str, value: str, undo: Undo
) -> Planned:
    before = await _held(admin, resource, key)
    change = {resource: {key: value or None}}
    await admin.configs.alter(change, validate_only=True, timeout_ms=TIMEOUT_MS)

    async def carry_out(later: AsyncAdmin) -> None:
        if (await _held(later, resource, key)).shown != before.shown:
            raise OperationError(f"{key} of {subject} is not as it was in the preview: nothing was done")
        await later.configs.alter(change, timeout_ms=TIMEOUT_MS)

    shown = ("hidden" if before.is_sensitive else value) if value else "the default"
    # What the resource does not set itself cannot be taken away from it.
    changes = value != before.shown if value else before.is_own
    effects = [Effect(f"{subject} {key}", before.shown or "null", shown)] if changes else []
    # What is secret is not written down, and so cannot be given back.
    undo.parameters["value"] = (before.shown or "") if before.is_own else ""
    return Planned(subject, effects, carry_out, undo=None if before.is_sensitive else undo)


class _HeldValue(NamedTuple):
    """A value that holds."""

    shown: str | None
    is_sensitive: bool
    is_own: bool
    """Whether the resource sets it itself."""


async def _held(admin: AsyncAdmin, resource: ConfigResource, key: str) -> _HeldValue:
    entries = (await admin.configs.describe(resource, timeout_ms=TIMEOUT_MS))[resource]
    if key not in entries and resource == ConfigResource.all_brokers():
        # Of all brokers the cluster names only what is set.
        return _HeldValue(None, await _is_sensitive(admin, key), is_own=False)
    if key not in entries:
        raise OperationError(f"there is no key {key}")
    entry = entries[key]
    shown = "hidden" if entry.is_sensitive else entry.value
    return _HeldValue(shown, entry.is_sensitive, is_own(resource, entry))


async def _is_sensitive(admin: AsyncAdmin, key: str) -> bool:
    """Whether a key is secret, as one broker says; a key that it does not name is taken for a secret one."""
    broker = (await admin.cluster.describe(timeout_ms=TIMEOUT_MS)).brokers[0]
    resource = ConfigResource.broker(broker.node_id)
    entry = (await admin.configs.describe(resource, timeout_ms=TIMEOUT_MS))[resource].get(key)
    return entry is None or entry.is_sensitive


async def truncate_topic(admin: AsyncAdmin, wanted: OfTopic) -> Planned:
    """Deletes the records that are there now; what comes after the preview stays."""
    described = await _described(admin, wanted.topic)
    if described.is_internal:
        raise OperationError(f"{wanted.topic} is the cluster's own: the console does not empty it")
    partitions = _partitions(described)
    starts = await log_offsets(admin, partitions, EARLIEST_TIMESTAMP, TIMEOUT_MS)
    ends = await end_offsets(admin, partitions, TIMEOUT_MS)
    effects = [
        Effect(str(tp), f"{ends[tp] - starts[tp]} offsets from {starts[tp]}", f"begins at {ends[tp]}")
        for tp in partitions
        if ends[tp] > starts[tp]
    ]

    async def carry_out(later: AsyncAdmin) -> None:
        await _check_same(later, described)
        await later.partitions.delete_records(ends, timeout_ms=TIMEOUT_MS)

    return Planned(wanted.topic, effects, carry_out, ["records that are deleted do not come back"])


async def delete_topic(admin: AsyncAdmin, wanted: OfTopic) -> Planned:
    """Deletes a topic with all its records."""
    described = await _described(admin, wanted.topic)
    if described.is_internal:
        raise OperationError(f"{wanted.topic} is the cluster's own: the console does not delete it")
    partitions = _partitions(described)
    starts = await log_offsets(admin, partitions, EARLIEST_TIMESTAMP, TIMEOUT_MS)
    ends = await end_offsets(admin, partitions, TIMEOUT_MS)
    count = sum(ends[tp] - starts[tp] for tp in partitions)

    async def carry_out(later: AsyncAdmin) -> None:
        await _check_same(later, described)
        await later.topics.delete([wanted.topic], timeout_ms=TIMEOUT_MS)

    effect = Effect(f"topic {wanted.topic}", f"{len(partitions)} partitions, {count} offsets", "not there")
    return Planned(wanted.topic, [effect], carry_out, ["a topic that is deleted does not come back"])


async def _described(admin: AsyncAdmin, topic: str) -> TopicDescription:
    return (await admin.topics.describe([topic], timeout_ms=TIMEOUT_MS))[topic]


async def _check_same(admin: AsyncAdmin, before: TopicDescription) -> None:
    """Raises OperationError where the name is now that of another topic."""
    if (await _described(admin, before.name)).topic_id != before.topic_id:
        raise OperationError(f"topic {before.name} was made anew since the preview: nothing was done")


def _partitions(topic: TopicDescription) -> list[TopicPartition]:
    return [TopicPartition(topic.name, one.partition) for one in topic.partitions]
