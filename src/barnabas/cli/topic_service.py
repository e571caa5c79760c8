"""What ``barnabas topics`` does once its flags are understood (``TopicCommand.TopicService``)."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from barnabas.admin import (
    AsyncAdmin,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    PartitionReassignment,
    TopicDescription,
    TopicListing,
)
from barnabas.cli.facts import plain, print_facts
from barnabas.cli.options import INT_MAX, TopicFilter, admin_options, connected_admin, key_values
from barnabas.client.metadata import PartitionMetadata
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import ZERO_UUID, TopicPartition, Uuid, uuid_from_text, uuid_text
from barnabas.operations import partition_states as states

_SHORT_MAX = 32_767
Given = Mapping[str, Any]


def run(given: Given) -> None:
    """Runs the one action that was asked for. Raises ClickException and KafkaError."""
    asyncio.run(_run(given))


async def _run(given: Given) -> None:
    options = admin_options(given["command-config"], given["bootstrap-server"], "barnabas-topics")
    new_topic = _new_topic(given) if given["create"] else None
    async with connected_admin(options) as admin:
        if new_topic is not None:
            await _create(admin, new_topic, if_not_exists=given["if-not-exists"])
        elif given["alter"]:
            await _add_partitions(admin, given)
        elif given["list"]:
            await _list(admin, given)
        elif given["describe"]:
            await _describe(admin, given)
        else:
            await _delete(admin, given)


def _new_topic(given: Given) -> NewTopic:
    factor, partitions = given["replication-factor"], given["partitions"]
    if factor is not None and not 1 <= factor <= _SHORT_MAX:
        raise click.ClickException(f"The replication factor must be between 1 and {_SHORT_MAX} inclusive")
    if partitions is not None and partitions < 1:
        raise click.ClickException("The partitions must be greater than 0")
    _check_count(partitions)
    if not all("=" in pair for pair in given["config"]):
        raise click.ClickException(
            'Invalid topic config: all configs to be added must be in the format "key=val".'
        )
    return NewTopic(
        given["topic"],
        partitions=-1 if partitions is None else partitions,
        replication_factor=-1 if factor is None else factor,
        assignment=parse_replica_assignment(given["replica-assignment"] or ""),
        configs={key.strip(): value.strip() for key, value in key_values(given["config"]).items()},
    )


def _check_count(partitions: int | None) -> None:
    if partitions is not None and partitions > INT_MAX:
        raise click.ClickException(f"The partitions must be between 1 and {INT_MAX} inclusive")


def parse_replica_assignment(text: str) -> dict[int, list[int]]:
    """``1:2,2:3`` as brokers by partition; raises ClickException for what cannot be one."""
    assignment: dict[int, list[int]] = {}
    for partition, brokers in enumerate(text.split(",") if text else ()):
        try:
            replicas = [_broker_id(broker) for broker in brokers.split(":")]
        except ValueError:
            raise click.ClickException(
                f"--replica-assignment expects broker ids like 1:2,2:3, but received: {text}"
            ) from None
        twice = sorted({broker for broker in replicas if replicas.count(broker) > 1})
        if twice:
            named = ",".join(map(str, twice))
            raise click.ClickException(f"Partition replica lists may not contain duplicate entries: {named}")
        assignment[partition] = replicas
        if len(replicas) != len(assignment[0]):
            raise click.ClickException(f"Partition {partition} has different replication factor: {replicas}")
    return assignment


def _broker_id(text: str) -> int:
    if abs(int(text)) > INT_MAX:
        raise ValueError(text)
    return int(text)


async def _create(admin: AsyncAdmin, topic: NewTopic, *, if_not_exists: bool) -> None:
    if states.may_collide(topic.name):
        click.echo(f"WARNING: {states.COLLISION}")
    try:
        await admin.topics.create(topic)
    except KafkaError as error:
        if error.code is ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists:
            return
        raise
    click.echo(f"Created topic {topic.name}.")


async def _add_partitions(admin: AsyncAdmin, given: Given) -> None:
    """``alterTopic``: an assignment names the replicas of all partitions;
    those that are there keep theirs.
    """
    assignment = list(parse_replica_assignment(given["replica-assignment"] or "").values())
    _check_count(given["partitions"])
    described = await admin.topics.describe(await _existing(admin, given))
    wanted = {
        name: NewPartitions(given["partitions"], assignment[len(topic.partitions) :] if assignment else None)
        for name, topic in described.items()
    }
    if wanted:
        await admin.topics.create_partitions(wanted)


async def _listed(admin: AsyncAdmin, given: Given) -> list[TopicListing]:
    wanted = TopicFilter(given["topic"]) if given["topic"] else None
    exclude = given["exclude-internal"]
    listed = await admin.topics.list(internal=not exclude)
    return [one for one in listed if wanted is None or wanted.allows(one.name, exclude_internal=exclude)]


async def _names(admin: AsyncAdmin, given: Given) -> list[str]:
    return [one.name for one in await _listed(admin, given)]


async def _list(admin: AsyncAdmin, given: Given) -> None:
    listed = await _listed(admin, given)
    if given["as-json"]:
        print_facts({"topics": [{**plain(one), "topic_id": _id(one.topic_id)} for one in listed]})
    else:
        click.echo("\n".join(one.name for one in listed))


async def _existing(admin: AsyncAdmin, given: Given) -> list[str]:
    names = await _names(admin, given)
    if given["topic"] and not names and not given["if-exists"]:
        raise click.ClickException(f"Topic '{given['topic']}' does not exist as expected")
    return names


async def _delete(admin: AsyncAdmin, given: Given) -> None:
    names = await _existing(admin, given)
    if names:
        await admin.topics.delete(names)


async def _describe(admin: AsyncAdmin, given: Given) -> None:
    names = await (_by_id(admin, given) if given["topic-id"] else _existing(admin, given))
    if not names:
        if given["as-json"]:
            print_facts({"topics": []})
        return
    described = await admin.topics.describe(names, page=given["partition-size-limit-per-response"])
    configs = await admin.configs.describe([ConfigResource.topic(name) for name in described])
    alive = {broker.node_id for broker in (await admin.cluster.describe()).brokers}
    partitions = [
        TopicPartition(topic.name, one.partition) for topic in described.values() for one in topic.partitions
    ]
    report = TopicReport(given, alive, await states.reassignments(admin, partitions))
    if given["as-json"]:
        found = (
            report.facts(topic, configs[ConfigResource.topic(name)]) for name, topic in described.items()
        )
        print_facts({"topics": [one for one in found if one is not None]})
        return
    for name, topic in described.items():
        for line in report.lines(topic, configs[ConfigResource.topic(name)]):
            click.echo(line)


async def _by_id(admin: AsyncAdmin, given: Given) -> list[str]:
    try:
        topic_id = uuid_from_text(given["topic-id"])
    except ValueError as error:
        raise click.ClickException(f"--topic-id expects an id as --describe prints it: {error}") from error
    listed = await admin.topics.list(internal=not given["exclude-internal"])
    names = [one.name for one in listed if one.topic_id == topic_id]
    if not names and not given["if-exists"]:
        raise click.ClickException(f"TopicId '{given['topic-id']}' does not exist as expected")
    return names


class TopicReport:
    """The lines of ``--describe``."""

    def __init__(
        self, given: Given, alive: Iterable[int], moving: Mapping[TopicPartition, PartitionReassignment]
    ) -> None:
        self._alive = frozenset(alive)
        self._moving = moving
        self._overridden_only = given["topics-with-overrides"]
        checks: dict[str, Callable[[str, PartitionMetadata, int], bool]] = {
            "under-replicated-partitions": (
                lambda topic, one, _: states.is_under_replicated(one, self._move(topic, one))
            ),
            "unavailable-partitions": lambda _, one, __: states.is_unavailable(one, self._alive),
            "under-min-isr-partitions": lambda _, one, minimum: states.is_under_min_isr(one, minimum),
            "at-min-isr-partitions": lambda _, one, minimum: states.is_at_min_isr(one, minimum),
        }
        self._checks = [check for option, check in checks.items() if given[option]]

    def lines(self, topic: TopicDescription, config: Mapping[str, ConfigEntry]) -> list[str]:
        """The topic's own line and those of its partitions, as far as they are asked for."""
        lines = []
        if self._shows_topic(config):
            factor = self._factor(topic.name, topic.partitions[0]) if topic.partitions else 0
            lines.append(topic_line(topic, factor, config))
        if not self._overridden_only:
            lines += [
                partition_line(topic.name, one, self._move(topic.name, one))
                for one in self._wanted(topic, config)
            ]
        return lines

    def facts(self, topic: TopicDescription, config: Mapping[str, ConfigEntry]) -> dict[str, Any] | None:
        """The same for ``--json``; None for a topic of which no line would be shown."""
        partitions = [] if self._overridden_only else self._wanted(topic, config)
        if not partitions and not self._shows_topic(config):
            return None
        return {
            "name": topic.name,
            "topic_id": _id(topic.topic_id),
            "replication_factor": self._factor(topic.name, topic.partitions[0]) if topic.partitions else 0,
            "configs": {name: entry.value for name, entry in config.items() if not entry.is_default},
            "partitions": [_partition_facts(one, self._move(topic.name, one)) for one in partitions],
        }

    def _shows_topic(self, config: Mapping[str, ConfigEntry]) -> bool:
        overridden = any(not entry.is_default for entry in config.values())
        return not self._checks and (overridden or not self._overridden_only)

    def _wanted(self, topic: TopicDescription, config: Mapping[str, ConfigEntry]) -> list[PartitionMetadata]:
        minimum = int(config["min.insync.replicas"].value or 1)
        return [
            one
            for one in topic.partitions
            if not self._checks or any(check(topic.name, one, minimum) for check in self._checks)
        ]

    def _move(self, topic: str, one: PartitionMetadata) -> PartitionReassignment | None:
        return self._moving.get(TopicPartition(topic, one.partition))

    def _factor(self, topic: str, one: PartitionMetadata) -> int:
        return states.replication_factor(one, self._move(topic, one))


def topic_line(topic: TopicDescription, factor: int, config: Mapping[str, ConfigEntry]) -> str:
    """The line of a topic. Values count as set when they are not the built-in default, as in TopicCommand."""
    shown = ",".join(f"{name}={entry.value}" for name, entry in config.items() if not entry.is_default)
    parts = [f"Topic: {topic.name}"]
    if topic.topic_id != ZERO_UUID:
        parts.append(f"TopicId: {uuid_text(topic.topic_id)}")
    parts += [
        f"PartitionCount: {len(topic.partitions)}",
        f"ReplicationFactor: {factor}",
        f"Configs: {shown}",
    ]
    return "\t".join(parts)


def _partition_facts(one: PartitionMetadata, moving: PartitionReassignment | None) -> dict[str, Any]:
    return {
        "partition": one.partition,
        "leader": one.leader if one.leader >= 0 else None,
        "leader_epoch": one.leader_epoch,
        "replicas": one.replicas,
        "isr": one.isr,
        "offline_replicas": one.offline_replicas,
        "adding_replicas": moving.adding if moving else [],
        "removing_replicas": moving.removing if moving else [],
        "eligible_leader_replicas": one.eligible_leader_replicas,
        "last_known_elr": one.last_known_elr,
    }


def _id(topic_id: Uuid) -> str | None:
    return None if topic_id == ZERO_UUID else uuid_text(topic_id)


def partition_line(name: str, one: PartitionMetadata, moving: PartitionReassignment | None) -> str:
    """The line of a partition, with its eligible leader replicas (KIP-966) where brokers tell them."""
    parts = [
        f"Topic: {name}",
        f"Partition: {one.partition}",
        f"Leader: {one.leader if one.leader >= 0 else 'none'}",
        f"Replicas: {_numbers(one.replicas)}",
        f"Isr: {_numbers(one.isr)}",
        *([f"Adding Replicas: {_numbers(moving.adding)}"] if moving else []),
        *([f"Removing Replicas: {_numbers(moving.removing)}"] if moving else []),
        f"Elr: {_numbers(one.eligible_leader_replicas)}",
        f"LastKnownElr: {_numbers(one.last_known_elr)}",
    ]
    return "\t" + "\t".join(parts)


def _numbers(brokers: Iterable[int] | None) -> str:
    return "N/A" if brokers is None else ",".join(map(str, brokers))
