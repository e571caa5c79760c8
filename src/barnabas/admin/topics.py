"""``admin.topics``: create, list, describe, create partitions, delete."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.admin.context import AdminContext, error_of
from barnabas.admin.types import CreatedTopic, NewPartitions, NewTopic, TopicDescription, TopicListing
from barnabas.client import named
from barnabas.client.habits import IN_CREATE, knows_arguments
from barnabas.client.keyed_call import raise_first
from barnabas.client.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from barnabas.client.retries import Deadline
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.network.errors import UnsupportedVersionError
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from barnabas.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

PAGE: Final = 2000
"""Partitions in an answer of DescribeTopicPartitions, unless asked otherwise."""


class Topics:
    """Topics of the cluster. Methods named ``try_...`` give an error per topic, the others raise the
    first.
    """

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    @knows_arguments(IN_CREATE)
    async def create(
        self,
        topics: Iterable[NewTopic] | NewTopic,
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[str, CreatedTopic]:
        """Creates topics; raises `KafkaError` (say TOPIC_ALREADY_EXISTS) for the first that could not be.

        Topics before and behind it may have been created all the same.
        """
        return raise_first(await self.try_create(topics, validate_only=validate_only, timeout_ms=timeout_ms))

    async def try_create(
        self,
        topics: Iterable[NewTopic] | NewTopic,
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[str, CreatedTopic | BarnabasError]:
        """As `create`, with an error per topic."""
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in _new_topics(topics)],
            timeout_ms=self._context.request_timeout_ms,
            validate_only=validate_only,
        )
        response = await self._context.send_to_controller(
            request,
            CreateTopicsResponse,
            self._context.deadline(timeout_ms),
            lambda answer: (one.error_code for one in answer.topics),
        )
        return {one.name: _created(one) for one in response.topics}

    async def list(self, *, internal: bool = False, timeout_ms: float | None = None) -> list[TopicListing]:
        """All topics by name; internal ones only when asked for."""
        await self._context.metadata(None, self._context.deadline(timeout_ms))
        return [
            TopicListing(topic.name, topic.topic_id, topic.is_internal)
            for _, topic in sorted(self._context.cluster.metadata.topics.items())
            if internal or not topic.is_internal
        ]

    async def describe(
        self, names: named.Names, *, page: int = PAGE, timeout_ms: float | None = None
    ) -> dict[str, TopicDescription]:
        """Partitions, leaders and replicas of topics; raises `KafkaError` for the first that is not there.

        Brokers that can tell them in pages are asked for `page` partitions at a time (KIP-966), others for
        all at once.
        """
        return raise_first(await self.try_describe(names, page=page, timeout_ms=timeout_ms))

    async def try_describe(
        self, names: named.Names, *, page: int = PAGE, timeout_ms: float | None = None
    ) -> dict[str, TopicDescription | BarnabasError]:
        """As `describe`, with an error per topic."""
        wanted = named.names(names, "topics")
        if not wanted:
            return {}
        deadline = self._context.deadline(timeout_ms)
        try:
            found = await self._in_pages(wanted, page, deadline)
        except UnsupportedVersionError:
            await self._context.metadata(wanted, deadline)
            return {name: self._described(name) for name in wanted}
        return {name: found.get(name) or _no_topic(name) for name in wanted}

    async def _in_pages(
        self, names: Iterable[str], page: int, deadline: Deadline
    ) -> dict[str, TopicDescription | BarnabasError]:
        """What DescribeTopicPartitions tells; a topic's partitions may come in several answers."""
        partitions: dict[str, list[PartitionMetadata]] = {}
        found: dict[str, TopicDescription | BarnabasError] = {}
        wanted = [TopicRequest(name=name) for name in names]
        cursor: Cursor | None = None
        while True:
            request = DescribeTopicPartitionsRequest(
                topics=wanted, response_partition_limit=page, cursor=cursor
            )
            answer = await self._context.cluster.send_to_any(
                request, DescribeTopicPartitionsResponse, deadline
            )
            for topic in answer.topics:
                name = topic.name or ""
                if topic.error_code:
                    found[name] = _no_topic(name, ErrorCode.of(topic.error_code))
                    continue
                partitions.setdefault(name, []).extend(map(_partition, topic.partitions))
                found[name] = TopicDescription(name, topic.topic_id, topic.is_internal, partitions[name])
            if answer.next_cursor is None:
                return found
            if answer.next_cursor == cursor:
                raise BarnabasError(f"a broker answers with the same page again, from {cursor} on")
            cursor = answer.next_cursor

    def _described(self, name: str) -> TopicDescription | BarnabasError:
        metadata = self._context.cluster.metadata
        topic = metadata.topics.get(name)
        if topic is None:
            return _no_topic(name, metadata.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return _description(topic)

    async def describe_all(
        self, *, internal: bool = False, timeout_ms: float | None = None
    ) -> dict[str, TopicDescription]:
        """All topics, in one request."""
        await self._context.metadata(None, self._context.deadline(timeout_ms))
        return {
            name: _description(topic)
            for name, topic in sorted(self._context.cluster.metadata.topics.items())
            if internal or not topic.is_internal
        }

    async def views(
        self, name: str, *, timeout_ms: float | None = None
    ) -> dict[int, TopicDescription | BarnabasError]:
        """A topic as the metadata of each broker has it, by broker: the controller tells them one by one."""
        deadline = self._context.deadline(timeout_ms)
        await self._context.metadata([], deadline)
        brokers = sorted(self._context.cluster.metadata.brokers)
        return dict(
            zip(
                brokers,
                await asyncio.gather(*(self._view(each, name, deadline) for each in brokers)),
                strict=True,
            )
        )

    async def _view(self, broker: int, name: str, deadline: Deadline) -> TopicDescription | BarnabasError:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        try:
            response = await self._context.cluster.send(
                broker, request, MetadataResponse, timeout_ms=deadline.left_s * 1000
            )
        except BarnabasError as error:
            return error
        seen = ClusterMetadata().updated(response, complete=True)
        if name in seen.topics:
            return _description(seen.topics[name])
        return KafkaError(seen.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    async def create_partitions(
        self,
        partitions: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> None:
        """Has topics grow to these numbers of partitions; raises `KafkaError` for the first that
        could not.
        """
        raise_first(
            await self.try_create_partitions(partitions, validate_only=validate_only, timeout_ms=timeout_ms)
        )

    async def try_create_partitions(
        self,
        partitions: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[str, BarnabasError | None]:
        """As `create_partitions`, with an error per topic."""
        by_topic = named.by_name(partitions, "numbers of partitions")
        request = CreatePartitionsRequest(
            topics=[_more_partitions(name, wanted) for name, wanted in by_topic.items()],
            timeout_ms=self._context.request_timeout_ms,
            validate_only=validate_only,
        )
        response = await self._context.send_to_controller(
            request,
            CreatePartitionsResponse,
            self._context.deadline(timeout_ms),
            lambda answer: (one.error_code for one in answer.results),
        )
        return {one.name: error_of(one.error_code, one.error_message) for one in response.results}

    async def delete(self, names: named.Names, *, timeout_ms: float | None = None) -> None:
        """Deletes topics with all their records; raises `KafkaError` for the first that could not be."""
        raise_first(await self.try_delete(names, timeout_ms=timeout_ms))

    async def try_delete(
        self, names: named.Names, *, timeout_ms: float | None = None
    ) -> dict[str, BarnabasError | None]:
        """As `delete`, with an error per topic."""
        wanted = named.names(names, "topics")
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in wanted],
            topic_names=wanted,
            timeout_ms=self._context.request_timeout_ms,
        )
        response = await self._context.send_to_controller(
            request,
            DeleteTopicsResponse,
            self._context.deadline(timeout_ms),
            lambda answer: (one.error_code for one in answer.responses),
        )
        return {one.name or "": error_of(one.error_code, one.error_message) for one in response.responses}


def _new_topics(given: Iterable[NewTopic] | NewTopic) -> Iterable[NewTopic]:
    return named.several(given, NewTopic, "topics to create are NewTopic(name, partitions=...)")


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignment else topic.partitions,
        replication_factor=-1 if topic.assignment else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(replicas))
            for partition, replicas in topic.assignment.items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=named.value(value)) for name, value in topic.configs.items()
        ],
    )


def _more_partitions(name: str, wanted: int | NewPartitions) -> CreatePartitionsTopic:
    # A count alone is checked where it becomes one.
    new = wanted if isinstance(wanted, NewPartitions) else NewPartitions(wanted)
    topic = CreatePartitionsTopic(name=name, count=new.count, assignments=None)
    if new.assignments is not None:
        topic.assignments = [CreatePartitionsAssignment(broker_ids=list(each)) for each in new.assignments]
    return topic


def _created(answer: CreatableTopicResult) -> CreatedTopic | BarnabasError:
    error = error_of(answer.error_code, answer.error_message)
    if error is not None:
        return error
    return CreatedTopic(answer.name, answer.topic_id, answer.num_partitions, answer.replication_factor)


def _no_topic(name: str, code: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> KafkaError:
    return KafkaError(code, f"{code.message} (topic {name})")


def _partition(told: DescribeTopicPartitionsResponsePartition) -> PartitionMetadata:
    return PartitionMetadata(
        told.partition_index,
        told.leader_id,
        told.leader_epoch,
        told.replica_nodes,
        told.isr_nodes,
        told.offline_replicas,
        ErrorCode.of(told.error_code),
        told.eligible_leader_replicas or (),
        told.last_known_elr or (),
    )


def _description(topic: TopicMetadata) -> TopicDescription:
    return TopicDescription(topic.name, topic.topic_id, topic.is_internal, list(topic.partitions.values()))
