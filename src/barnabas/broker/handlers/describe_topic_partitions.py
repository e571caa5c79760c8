"""DescribeTopicPartitions (75), v0.

Behaviour: the partitions of topics, in the order of the topics' names, a page at a time (KIP-966). A page
begins at the request's cursor and ends with the cursor of the next one; the request and
`max.request.partition.size.limit` say how many partitions it has at most. A page is of one moment, two pages
are not.
Versions:  v0 flexible.
Not implemented: eligible leaders outside the ISR, which a cluster with ZooKeeper does not have: the lists are
empty.
"""

from itertools import islice
from typing import Final

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.cluster.metadata.cache import PartitionAnswer, Snapshot
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import INTERNAL_TOPICS, ZERO_UUID, missing_topic
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

PORTION: Final = 100
"""Partitions that are described in one piece."""


def _failed(
    request: DescribeTopicPartitionsRequest, error: KafkaError, _version: int
) -> Sliced[DescribeTopicPartitionsResponse]:
    response = DescribeTopicPartitionsResponse()
    for topic in request.topics:
        response.topics.append(DescribeTopicPartitionsResponseTopic(name=topic.name, error_code=error.code))
        yield
    return response


@handles(ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=(0, 0), failed=_failed)
@sliced
def describe_topic_partitions(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Sliced[DescribeTopicPartitionsResponse]:
    snapshot = context.broker.metadata_cache.snapshot
    names = _names(snapshot, request)
    first = request.cursor or Cursor()
    may_describe = context.may(Operation.DESCRIBE)
    limit = context.broker.config["max.request.partition.size.limit"]
    page = _Page(snapshot, context.listener, max(1, min(limit, request.response_partition_limit)))
    hidden = []
    for name in names:
        if not may_describe[name]:
            if request.topics:  # a topic that was not asked for is not even named
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                hidden.append(DescribeTopicPartitionsResponseTopic(error_code=code, name=name))
        elif name not in snapshot.partitions:
            page.add_missing(name)
        else:
            yield from page.add(name, first.partition_index if name == first.topic_name else 0)
        if page.next_cursor is not None:
            break
        yield
    for topic in page.topics:
        topic.topic_authorized_operations = context.authorized_operations(Resource.TOPIC, topic.name or "")
        yield
    return DescribeTopicPartitionsResponse(topics=page.topics + hidden, next_cursor=page.next_cursor)


def _names(snapshot: Snapshot, request: DescribeTopicPartitionsRequest) -> list[str]:
    """The topics from the cursor on, sorted; raises INVALID_REQUEST for a cursor that cannot be."""
    cursor = request.cursor
    first = "" if cursor is None else cursor.topic_name
    if not request.topics:
        names = {name for name in snapshot.partitions if name >= first}
    else:
        names = {topic.name for topic in request.topics if topic.name >= first}
        if cursor is not None and first not in names:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {first}",
            )
    if cursor is not None and cursor.partition_index < 0:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor.partition_index}",
        )
    return sorted(names)


class _Page:
    """The topics of one answer, up to its limit of partitions."""

    def __init__(self, snapshot: Snapshot, listener: str, limit: int) -> None:
        self.topics: list[DescribeTopicPartitionsResponseTopic] = []
        self.next_cursor: Cursor | None = None
        self._snapshot = snapshot
        self._listener = listener
        self._room = limit

    def add_missing(self, name: str) -> None:
        """A topic that does not exist; a full page ends before it too."""
        if self._room == 0:
            self.next_cursor = Cursor(topic_name=name, partition_index=0)
            return
        self.topics.append(
            DescribeTopicPartitionsResponseTopic(
                error_code=missing_topic(name), name=name, is_internal=name in INTERNAL_TOPICS
            )
        )

    def add(self, name: str, first: int) -> Sliced[None]:
        """A topic with its partitions from `first` on; where the page is full, the next one begins there."""
        if self._room == 0:
            self.next_cursor = Cursor(topic_name=name, partition_index=0)
            return
        topic = DescribeTopicPartitionsResponseTopic(
            name=name,
            topic_id=self._snapshot.topic_ids.get(name, ZERO_UUID),
            is_internal=name in INTERNAL_TOPICS,
        )
        self.topics.append(topic)
        numbers = sorted(number for number in self._snapshot.partitions[name] if number >= first)
        described = self._snapshot.describe(name, self._listener, partitions=numbers)
        while portion := [_partition(answer) for answer in islice(described, min(PORTION, self._room))]:
            topic.partitions += portion
            self._room -= len(portion)
            yield
        if len(topic.partitions) < len(numbers):
            self.next_cursor = Cursor(topic_name=name, partition_index=numbers[len(topic.partitions)])


def _partition(answer: PartitionAnswer) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=answer.error,
        partition_index=answer.partition,
        leader_id=answer.leader,
        leader_epoch=answer.leader_epoch,
        replica_nodes=list(answer.replicas),
        isr_nodes=list(answer.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=list(answer.offline_replicas),
    )
