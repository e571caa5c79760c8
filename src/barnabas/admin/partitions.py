"""``admin.partitions``: elect leaders."""

from collections.abc import Iterable
from typing import Final

from barnabas.admin.context import AdminContext, error_of
from barnabas.admin.types import ElectionType
from barnabas.client.keyed_call import raise_first
from barnabas.core.errors import BarnabasError, ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)

NOT_NEEDED: Final = ErrorCode.ELECTION_NOT_NEEDED


class Partitions:
    """Partitions of the cluster: who leads them."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
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
        partitions: Iterable[TopicPartition] | None = None,
        kind: ElectionType = ElectionType.PREFERRED,
        *,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, BarnabasError | None]:
        """As `elect_leaders`, with an error per partition (ELECTION_NOT_NEEDED among them)."""
        topics: dict[str, TopicPartitions] = {}
        for tp in partitions or ():
            topics.setdefault(tp.topic, TopicPartitions(topic=tp.topic)).partitions.append(tp.partition)
        request = ElectLeadersRequest(
            election_type=kind,
            topic_partitions=None if partitions is None else list(topics.values()),
            timeout_ms=self._context.request_timeout_ms,
        )
        response = await self._context.send_to_controller(
            request, ElectLeadersResponse, self._context.deadline(timeout_ms), _codes
        )
        if response.error_code:
            error = error_of(response.error_code)
            assert error is not None
            raise error
        return {
            TopicPartition(topic.topic, each.partition_id): error_of(each.error_code, each.error_message)
            for topic in response.replica_election_results
            for each in topic.partition_result
        }


def _codes(response: ElectLeadersResponse) -> Iterable[int]:
    yield response.error_code
    for topic in response.replica_election_results:
        for each in topic.partition_result:
            yield each.error_code


def _code(error: BarnabasError | None) -> ErrorCode | None:
    return getattr(error, "code", None)
