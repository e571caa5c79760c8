"""`OffsetManager`: commits, reads, deletes and ages the offsets of a shard's groups (``GroupMetadataManager``).

Theory of operation
-------------------
The manager holds no offsets: a `Shard` does, one `GroupOffsets` a group, and each method is handed the shard.
A commit is checked by its group, appended to the shard's journal as one batch and staged; the replicas'
acknowledgement makes it visible and answers the client. Whatever takes offsets away (OffsetDelete, age, a
deleted topic) appends tombstones that nobody waits for (`removal`): lost ones are written again by the next
leader. A group that is Empty and keeps no offset goes with its last one.

Errors: a refusal of the whole request raises KafkaError; what the journal says is told partition by partition,
in a commit's own words (`commits.commit_error`).
"""

from collections.abc import Callable, Collection
from typing import Final, TypeVar

from barnabas.coordinator.group import Group
from barnabas.coordinator.offsets.commits import (
    commit_error,
    commit_response,
    plain_commits,
    transactional_commits,
    transactional_response,
)
from barnabas.coordinator.offsets.deletes import delete_response, requested_partitions
from barnabas.coordinator.offsets.expiry import expired
from barnabas.coordinator.offsets.fetches import fetch_response
from barnabas.coordinator.offsets.group_offsets import CommittedOffset, GroupOffsets
from barnabas.coordinator.offsets.records import tombstone
from barnabas.coordinator.offsets.removal import forget_group, sweep, take_away
from barnabas.coordinator.offsets.writes import Answer, Codes, write_commits
from barnabas.coordinator.runtime.journal import NO_PRODUCER, CoordinatorRecord
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.shard import Shard
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Slices
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

R = TypeVar("R")

GROUP_NOT_FOUND_SINCE_VERSION: Final = 9
"""Of OffsetCommit; earlier clients know only ILLEGAL_GENERATION."""


class OffsetManager:
    """The offsets of all groups, whichever protocol their members speak."""

    def __init__(
        self, settings: GroupSettings, clock: Clock, create_group: Callable[[Shard, str], Group]
    ) -> None:
        """`create_group` adds a group to the shard that has no members and only keeps offsets."""
        self._settings = settings
        self._clock = clock
        self._create_group = create_group

    # Commits

    def commit(
        self, shard: Shard, request: OffsetCommitRequest, version: int
    ) -> Answer[OffsetCommitResponse]:
        """Keeps the offsets of a request; answers when the replicas have them.

        Raises KafkaError where the group or its member may not commit at all.
        """
        self._committing_group(shard, request, version).validate_offset_commit(
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation=request.generation_id_or_member_epoch,
            transactional=False,
            version=version,
        )
        commits = plain_commits(request, self._clock.time_ms())
        return self._write(shard, request.group_id, commits, NO_PRODUCER, commit_response)

    def _committing_group(self, shard: Shard, request: OffsetCommitRequest, version: int) -> Group:
        group = shard.groups.get(request.group_id)
        if group is not None:
            return group
        if request.generation_id_or_member_epoch < 0:
            # Nobody manages this group: an admin, or a consumer that assigns partitions to itself.
            return self._create_group(shard, request.group_id)
        # The coordinator of KIP-848 tells new clients that the group is gone.
        known = version >= GROUP_NOT_FOUND_SINCE_VERSION and "consumer" in self._settings.rebalance_protocols
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION)

    def txn_commit(
        self, shard: Shard, request: TxnOffsetCommitRequest, version: int
    ) -> Answer[TxnOffsetCommitResponse]:
        """Keeps the offsets of a request until its transaction ends; answers when the replicas have them.

        Raises KafkaError where the group or its member may not commit at all.
        """
        group = shard.groups.get(request.group_id) or self._create_group(shard, request.group_id)
        group.validate_offset_commit(
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation=request.generation_id,
            transactional=True,
            version=version,
        )
        producer = request.producer_id, request.producer_epoch
        commits = transactional_commits(request, self._clock.time_ms())
        return self._write(shard, request.group_id, commits, producer, transactional_response)

    def _write(
        self,
        shard: Shard,
        group_id: str,
        commits: dict[TopicPartition, CommittedOffset],
        producer: tuple[int, int],
        respond: Callable[[Codes], R],
    ) -> Answer[R]:
        limit = self._settings.offset_metadata_max_bytes
        return write_commits(
            shard, group_id, commits, producer=producer, metadata_bytes_max=limit, respond=respond
        )

    def complete_transaction(self, shard: Shard, producer_id: int, *, committed: bool) -> None:
        """The marker of the producer's transaction is written to the shard's partition."""
        for group_id in shard.open_transactions.pop(producer_id, ()):
            offsets = shard.offsets.get(group_id)
            if offsets is not None:
                offsets.end_transaction(producer_id, committed=committed)

    # Reads

    def fetch(
        self, shard: Shard, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        """What a group committed; -1 for what it did not, also where there is no such group.

        Raises KafkaError for a member that may not read (KIP-848).
        """
        group = shard.groups.get(request.group_id)
        if group is not None:
            group.validate_offset_fetch(member_id=request.member_id, member_epoch=request.member_epoch)
        offsets = shard.offsets.get(request.group_id) if group is not None else None
        return fetch_response(request, offsets, require_stable=require_stable)

    def committed_topics(self, shard: Shard, group_id: str) -> list[OffsetFetchRequestTopics]:
        """All partitions that a group committed, as it would ask for them one by one."""
        offsets = shard.offsets.get(group_id) if group_id in shard.groups else None
        topics: dict[str, list[int]] = {}
        for tp in () if offsets is None else offsets.committed:
            topics.setdefault(tp.topic, []).append(tp.partition)
        return [
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in topics.items()
        ]

    # What takes offsets away

    def delete(self, shard: Shard, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Deletes the offsets of partitions that no member reads.

        Raises KafkaError when there is no such group, when it may not lose offsets, or when the tombstones
        cannot be written (Kafka forgets the offsets then until the next load, and says nothing).
        """
        group = shard.groups.get(request.group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        group.validate_offset_delete()
        codes = {
            tp: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(tp.topic) else ErrorCode.NONE
            for tp in requested_partitions(request)
        }
        unread = [tp for tp, code in codes.items() if code == ErrorCode.NONE]
        try:
            if unread:
                take_away(shard, group, unread)
        except KafkaError as error:
            raise KafkaError(commit_error(error)) from error
        return delete_response(codes)

    def expire(self, shard: Shard) -> Pending[int]:
        """Takes away offsets that are too old, and groups that keep nothing; how many offsets, when done."""
        now_ms = self._clock.time_ms()

        def too_old(group: Group, offsets: GroupOffsets) -> list[TopicPartition]:
            expiry = group.offset_expiry()
            if expiry is None:
                return []
            return expired(offsets, expiry, now_ms, self._settings.offsets_retention_ms)

        return sweep(shard, self._clock, too_old)

    def partitions_deleted(self, shard: Shard, partitions: Collection[TopicPartition]) -> Pending[int]:
        """Takes away the offsets of deleted partitions; how many, when done.

        Each group is asked what it has of them, so the partitions are best a set, or the keys of a dict.
        """
        return sweep(shard, self._clock, lambda _group, offsets: offsets.among(partitions))

    def delete_group_offsets(self, shard: Shard, group_id: str) -> list[CoordinatorRecord]:
        """The records that make the partition forget a group's offsets; `forget_group` follows them."""
        offsets = shard.offsets.get(group_id)
        if offsets is None:
            return []
        return [tombstone(group_id, tp) for tp in {**offsets.committed, **offsets.pending}]

    def forget_group(self, shard: Shard, group: Group) -> None:
        """The group is no more: takes it out of the shard with all that it committed."""
        forget_group(shard, group)

    # Loading

    @steps
    def loaded(self, shard: Shard) -> Steps[None]:
        """All records were applied: gives each group that only kept offsets its place among the groups."""
        slices = Slices(self._clock)
        for group_id in list(shard.offsets):
            if not shard.offsets[group_id]:
                del shard.offsets[group_id]
            elif group_id not in shard.groups:
                self._create_group(shard, group_id)
            if slices.over():
                yield slices.next_turn()

    def __repr__(self) -> str:
        return f"<OffsetManager retention={self._settings.offsets_retention_ms}ms>"
