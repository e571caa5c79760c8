"""``admin.groups``, the half about committed offsets: fetch, alter, delete."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from barnabas.admin.context import AdminContext, error_of
from barnabas.admin.coordinators import COORDINATOR_LOADING, Answers, ask_coordinators
from barnabas.admin.group_answers import Offsets, fetched_offsets
from barnabas.client import named
from barnabas.client.committed import commit_topics, with_metadata
from barnabas.client.coordinators import COORDINATOR_MOVED
from barnabas.client.keyed_call import raise_first
from barnabas.client.types import OffsetAndMetadata
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition, by_topic
from barnabas.network.errors import UnsupportedVersionError
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

K = TypeVar("K")
V = TypeVar("V")

# From v10 on OffsetFetch and OffsetCommit name topics by their ids, which a group may have outlived.
_FETCH_BATCHED: Final = (8, 9)
_FETCH_STABLE: Final = (7, 7)
_FETCH_SINGLE: Final = (1, 7)
_COMMIT: Final = (2, 9)

_REBALANCING: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS})
_COMMIT_RETRIED: Final = COORDINATOR_MOVED | COORDINATOR_LOADING | _REBALANCING


class GroupOffsets:
    """Positions that groups have committed."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    async def offsets(
        self,
        groups: named.Names,
        partitions: named.Partitions | None = None,
        *,
        require_stable: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[str, Offsets]:
        """Committed positions by group: of these partitions, or of all that a group has positions for.

        With `require_stable` a broker answers no position that an open transaction may still change
        (KIP-447). Raises the first error of a group.
        """
        results = await self.try_offsets(
            groups, partitions, require_stable=require_stable, timeout_ms=timeout_ms
        )
        return raise_first(results)

    async def try_offsets(
        self,
        groups: named.Names,
        partitions: named.Partitions | None = None,
        *,
        require_stable: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[str, Offsets | BarnabasError]:
        """As `offsets`, with an error per group."""
        topics = _asked_topics(partitions)

        async def ask(node: int, members: Sequence[str]) -> Answers[Offsets]:
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=group, topics=topics) for group in members],
                require_stable=require_stable,
            )
            try:
                response = await self._context.cluster.send(
                    node, request, OffsetFetchResponse, versions=_FETCH_BATCHED
                )
            except UnsupportedVersionError:
                return await self._offsets_singly(node, request)
            return {one.group_id: error_of(one.error_code) or fetched_offsets(one) for one in response.groups}

        return await ask_coordinators(self._context, ask, groups, timeout_ms)

    async def _offsets_singly(self, node: int, batch: OffsetFetchRequest) -> Answers[Offsets]:
        answers: dict[str, Offsets | BarnabasError] = {}
        for group in batch.groups:
            topics = None if group.topics is None else [_old_topic(one) for one in group.topics]
            response = await self._context.cluster.send(
                node,
                OffsetFetchRequest(
                    group_id=group.group_id, topics=topics, require_stable=batch.require_stable
                ),
                OffsetFetchResponse,
                versions=_FETCH_STABLE if batch.require_stable else _FETCH_SINGLE,
            )
            answers[group.group_id] = error_of(response.error_code) or fetched_offsets(response)
        return answers

    async def alter_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Commits positions for a group without members; raises the first error of a partition."""
        raise_first(await self.try_alter_offsets(group, offsets, timeout_ms=timeout_ms))

    async def try_alter_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, BarnabasError | None]:
        """As `alter_offsets`, with an error per partition;
        raises what keeps the coordinator from answering.
        """
        topics = commit_topics(with_metadata(offsets))
        request = OffsetCommitRequest(group_id=group, member_id="", topics=topics)

        async def ask(node: int, _groups: Sequence[str]) -> Answers[dict[TopicPartition, ErrorCode]]:
            response = await self._context.cluster.send(node, request, OffsetCommitResponse, versions=_COMMIT)
            codes = _codes(response)
            # What concerns the group as a whole comes on each of its partitions.
            retried = next((code for code in codes.values() if code in _COMMIT_RETRIED), None)
            return {group: codes if retried is None else KafkaError(retried)}

        return errors_by_part(await self._ask_one(ask, group, timeout_ms, again=_REBALANCING))

    async def delete_offsets(
        self, group: str, partitions: named.Partitions, *, timeout_ms: float | None = None
    ) -> None:
        """Forgets positions of partitions that no member reads; raises the first error."""
        raise_first(await self.try_delete_offsets(group, partitions, timeout_ms=timeout_ms))

    async def try_delete_offsets(
        self, group: str, partitions: named.Partitions, *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, BarnabasError | None]:
        """As `delete_offsets`, with an error per partition;
        raises the group's own (say GROUP_ID_NOT_FOUND).
        """
        request = OffsetDeleteRequest(group_id=group, topics=_deleted_topics(partitions))

        async def ask(node: int, _groups: Sequence[str]) -> Answers[dict[TopicPartition, ErrorCode]]:
            response = await self._context.cluster.send(node, request, OffsetDeleteResponse)
            return {group: error_of(response.error_code) or _codes(response)}

        return errors_by_part(await self._ask_one(ask, group, timeout_ms))

    async def _ask_one(
        self,
        ask: Callable[[int, Sequence[str]], Awaitable[Answers[V]]],
        group: str,
        timeout_ms: float | None,
        again: Iterable[ErrorCode] = (),
    ) -> V:
        return raise_first(await ask_coordinators(self._context, ask, [group], timeout_ms, again))[group]


def errors_by_part(codes: Mapping[K, ErrorCode]) -> dict[K, BarnabasError | None]:
    """What went wrong with each part, None where nothing did."""
    return {part: error_of(code) for part, code in codes.items()}


def _codes(response: OffsetCommitResponse | OffsetDeleteResponse) -> dict[TopicPartition, ErrorCode]:
    return {
        TopicPartition(topic.name, one.partition_index): ErrorCode.of(one.error_code)
        for topic in response.topics
        for one in topic.partitions
    }


def _asked_topics(partitions: named.Partitions | None) -> list[OffsetFetchRequestTopics] | None:
    if partitions is None:
        return None
    return [
        OffsetFetchRequestTopics(name=topic, partition_indexes=[tp.partition for tp in members])
        for topic, members in by_topic(named.partitions(partitions)).items()
    ]


def _old_topic(topic: OffsetFetchRequestTopics) -> OffsetFetchRequestTopic:
    return OffsetFetchRequestTopic(name=topic.name, partition_indexes=topic.partition_indexes)


def _deleted_topics(partitions: named.Partitions) -> list[OffsetDeleteRequestTopic]:
    return [
        OffsetDeleteRequestTopic(
            name=topic,
            partitions=[OffsetDeleteRequestPartition(partition_index=tp.partition) for tp in members],
        )
        for topic, members in by_topic(named.partitions(partitions)).items()
    ]
