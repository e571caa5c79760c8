"""``admin.partitions``: elect leaders, reassign to other brokers, list what is on the move, delete
records.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from barnabas.admin.context import AdminContext, error_of
from barnabas.admin.types import PartitionReassignment
from barnabas.client import named
from barnabas.client.errors import ClientTimeoutError
from barnabas.client.keyed_call import KeyedCall, raise_first
from barnabas.client.partition_leaders import LEADER_MOVED, PartitionLeaders
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition, by_topic
from barnabas.protocol.election_type import ElectionType
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

NOT_NEEDED: Final = ErrorCode.ELECTION_NOT_NEEDED

_FACTOR_KEPT: Final = (1, AlterPartitionReassignmentsRequest.max_version)


class Partitions:
    """Partitions of the cluster: who leads and who holds them, and where they begin."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    async def elect_leaders(
        self,
        partitions: named.Partitions | None = None,
        kind: ElectionType = ElectionType.PREFERRED,
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Elects leaders for these partitions, or for all that need one.

        Raises `KafkaError` for the first that gets none; a partition that needs no election is no error.
        """
        results = await self.try_elect_leaders(partitions, kind, timeout_ms=timeout_ms)
        raise_first({tp: None if _code(error) is NOT_NEEDED else error for tp, error in results.items()})

    async def try_elect_leaders(
        self,
        partitions: named.Partitions | None = None,
        kind: ElectionType = ElectionType.PREFERRED,
        *,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, BarnabasError | None]:
        """As `elect_leaders`, with an error per partition (ELECTION_NOT_NEEDED among them)."""
        if not isinstance(kind, ElectionType):
            raise TypeError(f"the kind is an ElectionType, behind the partitions, and it is {kind!r:.80}")
        topics: dict[str, TopicPartitions] = {}
        for tp in named.partitions(partitions or ()):
            topics.setdefault(tp.topic, TopicPartitions(topic=tp.topic)).partitions.append(tp.partition)
        request = ElectLeadersRequest(
            election_type=kind,
            topic_partitions=None if partitions is None else list(topics.values()),
            timeout_ms=self._context.request_timeout_ms,
        )
        response = await self._context.send_to_controller(
            request, ElectLeadersResponse, self._context.deadline(timeout_ms), _codes
        )
        _raise_for(response.error_code)
        return {
            TopicPartition(topic.topic, each.partition_id): error_of(each.error_code, each.error_message)
            for topic in response.replica_election_results
            for each in topic.partition_result
        }

    async def reassign(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: float | None = None,
    ) -> None:
        """Begins to move partitions to these brokers, the preferred leader first; None ends a move.

        Where the replication factor must not change, brokers before Kafka 4.1 are refused with
        UnsupportedVersionError (KIP-860). Raises `KafkaError` for the first partition that is refused.
        `reassignments` says what is not done yet.
        """
        raise_first(
            await self.try_reassign(
                targets,
                allow_replication_factor_change=allow_replication_factor_change,
                timeout_ms=timeout_ms,
            )
        )

    async def try_reassign(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, BarnabasError | None]:
        """As `reassign`, with an error per partition."""
        topics: dict[str, ReassignableTopic] = {}
        for tp, target in named.by_partition(targets, "targets").items():
            partition = ReassignablePartition(partition_index=tp.partition)
            partition.replicas = None if target is None else list(target)
            topics.setdefault(tp.topic, ReassignableTopic(name=tp.topic)).partitions.append(partition)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._context.request_timeout_ms,
            allow_replication_factor_change=allow_replication_factor_change,
            topics=list(topics.values()),
        )
        response = await self._context.send_to_controller(
            request,
            AlterPartitionReassignmentsResponse,
            self._context.deadline(timeout_ms),
            lambda answer: [answer.error_code],
            versions=None if allow_replication_factor_change else _FACTOR_KEPT,
        )
        _raise_for(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, each.partition_index): error_of(each.error_code, each.error_message)
            for topic in response.responses
            for each in topic.partitions
        }

    async def reassignments(
        self, partitions: named.Partitions | None = None, *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Of these partitions, or of all, the ones on the move."""
        topics: dict[str, ListPartitionReassignmentsTopics] = {}
        for tp in named.partitions(partitions or ()):
            topic = topics.setdefault(tp.topic, ListPartitionReassignmentsTopics(name=tp.topic))
            topic.partition_indexes.append(tp.partition)
        request = ListPartitionReassignmentsRequest(
            timeout_ms=self._context.request_timeout_ms,
            topics=None if partitions is None else list(topics.values()),
        )
        response = await self._context.send_to_controller(
            request,
            ListPartitionReassignmentsResponse,
            self._context.deadline(timeout_ms),
            lambda answer: [answer.error_code],
        )
        _raise_for(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, each.partition_index): PartitionReassignment(
                each.replicas, each.adding_replicas, each.removing_replicas
            )
            for topic in response.topics
            for each in topic.partitions
        }

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Deletes the records before these offsets, -1 for all that consumers may see; where each partition
        begins now.

        Raises `KafkaError` for the first that is refused: POLICY_VIOLATION for a topic that is only
        compacted, OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        return raise_first(await self.try_delete_records(offsets, timeout_ms=timeout_ms))

    async def try_delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int | BarnabasError]:
        """As `delete_records`, with an error per partition."""
        wanted = named.by_partition(offsets, "offsets")
        cluster, deadline = self._context.cluster, self._context.deadline(timeout_ms)
        cluster.need({tp.topic for tp in wanted})

        async def ask(node: int, keys: Sequence[TopicPartition]) -> dict[TopicPartition, int | BarnabasError]:
            topics = [
                DeleteRecordsTopic(
                    name=name,
                    partitions=[
                        DeleteRecordsPartition(partition_index=tp.partition, offset=wanted[tp])
                        for tp in members
                    ],
                )
                for name, members in by_topic(keys).items()
            ]
            request = DeleteRecordsRequest(topics=topics, timeout_ms=self._context.request_timeout_ms)
            response = await cluster.send(node, request, DeleteRecordsResponse)
            return {
                TopicPartition(topic.name, each.partition_index): error_of(each.error_code)
                or each.low_watermark
                for topic in response.topics
                for each in topic.partitions
            }

        def expired(tp: TopicPartition, last: Exception | None) -> BarnabasError:
            if isinstance(last, KafkaError):
                return last
            return ClientTimeoutError(f"Records of {tp} were not deleted in {deadline.total_ms:.0f} ms")

        leaders = PartitionLeaders(cluster)
        call: KeyedCall[TopicPartition, int] = KeyedCall(
            cluster, leaders.look_up, ask, deadline, moved=LEADER_MOVED, expired=expired
        )
        return await call.run(wanted)


def _raise_for(code: int, message: str | None = None) -> None:
    error = error_of(code, message)
    if error is not None:
        raise error


def _codes(response: ElectLeadersResponse) -> Iterable[int]:
    yield response.error_code
    for topic in response.replica_election_results:
        for each in topic.partition_result:
            yield each.error_code


def _code(error: BarnabasError | None) -> ErrorCode | None:
    return getattr(error, "code", None)
