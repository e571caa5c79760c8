"""`GroupCoordinator`: the face of groups and offsets to request handlers (``GroupCoordinatorAdapter``).

Theory of operation
-------------------
A request names a group. The hash of the name is a partition of ``__consumer_offsets``, which this broker
leads, is loading, or does not lead. If it leads it, the partition's `Shard` has the group, and the kind of
the group decides which package answers: `classic` or `consumer`. If not, the client gets the code that makes
it look for the coordinator again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, cast

from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.groups import classic_group_heartbeat, classic_group_leave
from barnabas.coordinator.classic.join_group import classic_group_join
from barnabas.coordinator.classic.members import (
    JoinRequest,
    JoinResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
)
from barnabas.coordinator.classic.sync_group import classic_group_sync
from barnabas.coordinator.consumer.member import JOIN_EPOCH, HeartbeatResult, MemberHeartbeat
from barnabas.coordinator.group import Group, GroupType
from barnabas.coordinator.group_configs import GroupConfigManager
from barnabas.coordinator.offsets import removal
from barnabas.coordinator.offsets.commits import (
    Codes,
    commit_records,
    complete_transaction,
    write_commits,
)
from barnabas.coordinator.offsets.group_offsets import Commits, CommittedOffset
from barnabas.coordinator.runtime.journal import NO_PRODUCER, Journal
from barnabas.coordinator.runtime.keys import is_storable, partition_of
from barnabas.coordinator.runtime.loading import Loader
from barnabas.coordinator.runtime.runtime import CoordinatorRuntime
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.shard import Shard
from barnabas.coordinator.state_machine import GroupStateMachine
from barnabas.core.clock import Clock, Timer, every
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Sliced, Slices
from barnabas.log.log import Log

if TYPE_CHECKING:
    from barnabas.coordinator.classic.groups import ClassicGroups
    from barnabas.coordinator.consumer.description import ConsumerGroupDescription
    from barnabas.coordinator.consumer.group import ConsumerGroup
    from barnabas.coordinator.consumer.groups import ConsumerGroups

T = TypeVar("T")

Answer: TypeAlias = T | Pending[T]
"""An answer that is there or comes later."""

_events: Final = EventLog("coordinator")

EXPIRY_TASK: Final = "delete-expired-group-metadata"
GROUP_NOT_FOUND_SINCE_VERSION: Final = 9
"""Of OffsetCommit; earlier clients know only ILLEGAL_GENERATION."""


class GroupCoordinator:
    """All groups of this broker. Every call that names a group raises KafkaError where it is not served."""

    def __init__(
        self,
        settings: GroupSettings,
        clock: Clock,
        group_configs: GroupConfigManager,
        *,
        classic: "ClassicGroups",
        consumer: "ConsumerGroups | None",
        loader: Loader,
        journal: Callable[[int], Journal],
        log: Callable[[int], Log | None],
    ) -> None:
        """`journal` and `log` find what belongs to a partition of ``__consumer_offsets``.

        `consumer` is None unless ``group.coordinator.rebalance.protocols`` says so.
        """
        self.settings = settings
        self.partition_count = settings.offsets_topic_partitions
        self._clock = clock
        self._group_configs = group_configs
        self._classic = classic
        self._consumer = consumer
        self._active = False
        machine = GroupStateMachine(classic, consumer, clock)
        self._runtime = CoordinatorRuntime(machine, loader, journal=journal, log=log)
        self._led = self._runtime.led  # looked up for each request
        self._expiry_timer: Timer | None = None
        self._expiring: Pending[None] | None = None

    # --- life -------------------------------------------------------------------------------------------

    def startup(self, partition_count: int) -> None:
        """Begins to serve; the topic of groups has, or will have, `partition_count` partitions."""
        self.partition_count = partition_count
        self._active = True
        interval_ms = self.settings.offsets_retention_check_interval_ms
        self._expiry_timer = every(self._clock, EXPIRY_TASK, interval_ms, self._expire_again, delay_ms=0)
        _events.info("startup.complete", partitions=partition_count)

    def shutdown(self) -> None:
        """Answers all requests that wait, and refuses those that come later."""
        self._active = False
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        self._runtime.close()
        self._classic.close()
        _events.info("shutdown.complete")

    def elected(self, partition: int, leader_epoch: int) -> None:
        """``onElection``: this broker leads the partition now, and loads it."""
        self._runtime.elected(partition, leader_epoch)

    def resigned(self, partition: int, leader_epoch: int | None) -> None:
        """``onResignation``: this broker no longer leads the partition, and forgets its groups."""
        self._runtime.resigned(partition, leader_epoch)

    @steps
    def partitions_deleted(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """``onPartitionsDeleted``: forgets the offsets of these partitions."""
        slices = Slices(self._clock)
        deleted: dict[TopicPartition, None] = {}  # an ordered set: a seed replays the order of the tombstones
        for tp in partitions:
            deleted[tp] = None
            if slices.over():
                yield slices.next_turn()
        for shard in self._runtime.shards():
            keeps = self._group_configs.keeps_empty_groups
            yield removal.delete_partitions(shard, self._clock, deleted.keys(), keeps_group=keeps)
            if slices.over():
                yield slices.next_turn()

    def metadata_changed(self, topics: set[str]) -> None:
        """``onNewMetadataImage``: the controller sent the state of these topics;
        assignments may depend on it.
        """
        if self._consumer is not None:
            for shard in self._runtime.shards():
                self._consumer.metadata_changed(shard, topics)

    # --- expiry -----------------------------------------------------------------------------------------

    def _expire_again(self) -> None:
        if self._expiring is None or self._expiring.done:
            self._expiring = self._expire()

    @steps
    def _expire(self) -> Steps[None]:
        for shard in self._runtime.shards():
            try:
                yield removal.expire_offsets(shard, self._clock, self.settings.offsets_retention_ms)
            except Exception:
                _events.error("expiry.failed", task=EXPIRY_TASK, partition=shard.partition, exc_info=True)

    # --- whose group ------------------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """The partition of ``__consumer_offsets`` that a group belongs to."""
        return partition_of(group_id, self.partition_count)

    def _shard(self, group_id: str) -> Shard:
        """The shard of a group that must have a name."""
        shard = self._led.get(partition_of(group_id, self.partition_count))
        if shard is None or not group_id:
            raise self._refusal(group_id)
        return shard

    def _shard_of_any(self, group_id: str) -> Shard:
        """The shard of a group that may be the one without a name, which only stores offsets."""
        shard = self._led.get(partition_of(group_id, self.partition_count))
        if shard is None:
            raise self._refusal(group_id, unnamed=True)
        return shard

    def _refusal(self, group_id: str, *, unnamed: bool = False) -> KafkaError:
        """Why a group is not served, in Kafka's order (``validateGroupStatus``)."""
        if not (group_id or unnamed) or not is_storable(group_id):
            return KafkaError(ErrorCode.INVALID_GROUP_ID)
        if not self._active:
            return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self.partition_for(group_id) in self._runtime.loading:
            return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return KafkaError(ErrorCode.NOT_COORDINATOR)

    def _group(self, shard: Shard, group_id: str) -> Group | None:
        """The group for a request that comes from no member of it:
        ends sessions that are over, before their timers.
        """
        group = shard.groups.get(group_id)
        if group is None:
            return None
        group.end_overdue_sessions(self._clock.monotonic_ms())
        return shard.groups.get(group_id)

    def _consumer_groups(self, shard: Shard, group_id: str) -> "ConsumerGroups | None":
        """What handles the classic protocol for a group of the consumer protocol; None for other groups."""
        group = shard.groups.get(group_id)
        return None if group is None or isinstance(group, ClassicGroup) else self._consumer

    @property
    def loading(self) -> list[int]:
        """The partitions that are being loaded, or wait for it."""
        return sorted(self._runtime.loading)

    # --- the classic protocol ---------------------------------------------------------------------------

    def join_group(self, request: JoinRequest) -> Answer[JoinResult]:
        """``handleJoinGroup``: answered when all members have joined."""
        shard = self._shard(request.group_id)
        if not request.member_id:
            self._group(shard, request.group_id)
        consumer = self._consumer_groups(shard, request.group_id)
        if consumer is not None:
            return consumer.join(shard, request)
        return classic_group_join(self._classic, shard, request)

    def sync_group(self, request: SyncRequest) -> Answer[SyncResult]:
        """``handleSyncGroup``: answered when the leader has brought the assignment."""
        try:
            shard = self._shard(request.group_id)
        except KafkaError as refusal:
            if refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # What the member joined is lost; joining again is the only way on.
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS) from refusal
            raise
        consumer = self._consumer_groups(shard, request.group_id)
        return classic_group_sync(shard, request) if consumer is None else consumer.sync(shard, request)

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """``handleHeartbeat``: REBALANCE_IN_PROGRESS where the member has to join again."""
        shard = self._led.get(partition_of(group_id, self.partition_count))
        if shard is None or not group_id:
            refusal = self._refusal(group_id)
            if refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return ErrorCode.NONE  # sessions are counted from the end of the load, so the member is alive
            raise refusal
        group = shard.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return classic_group_heartbeat(group, member_id, group_instance_id, generation_id)
        if group is None or self._consumer is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return self._consumer.heartbeat(shard, group_id, member_id, group_instance_id, generation_id)

    def leave_group(self, group_id: str, leaving: Sequence[LeavingMember]) -> Answer[list[ErrorCode]]:
        """``handleLeaveGroup``: a result for each member."""
        shard = self._shard(group_id)
        consumer = self._consumer_groups(shard, group_id)
        if consumer is not None:
            return consumer.leave(shard, group_id, leaving)
        return classic_group_leave(shard, group_id, leaving)

    # --- offsets ----------------------------------------------------------------------------------------

    def begin_transactional_commit(self, group_id: str) -> None:
        """A transaction is going to commit offsets; it is not verified yet. Raises KafkaError where this
        broker does not coordinate the group (``handleTxnCommitOffsets``).
        """
        shard = self._shard(group_id)
        if group_id not in shard.groups and self._group_configs.refused_commits_begin_groups:
            self._classic.create_simple(shard, group_id)

    def commit_offsets(
        self,
        group_id: str,
        commits: Commits,
        *,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        version: int,
        producer: tuple[int, int] = NO_PRODUCER,
        check: Callable[[], None] = lambda: None,
    ) -> Sliced[Answer[Codes]]:
        """Commits a group's offsets, those of a `producer` when its transaction does (``commitOffsets``).
        `check` is called in the turn of the append, and raises KafkaError where the transaction has ended
        meanwhile.

        The code of each partition, when the replicas have the commits. Raises KafkaError where the group or
        its member may not commit at all; the groups of both protocols have rules that depend on the request's
        version.
        """
        if not is_storable(group_id):
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        records, refused = yield from commit_records(
            group_id, commits, self.settings.offset_metadata_max_bytes
        )
        # From here on in one piece: what the group allows now is written now.
        transactional = producer != NO_PRODUCER
        shard = self._shard(group_id) if transactional else self._shard_of_any(group_id)
        group = self._group(shard, group_id) if generation < 0 else shard.groups.get(group_id)
        if group is None:
            if generation >= 0 and not transactional:
                # The coordinator of KIP-848 lets new clients know that there is no such group.
                known = version >= GROUP_NOT_FOUND_SINCE_VERSION and self._consumer is not None
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION)
            # A group without members: an admin commits, or a consumer that assigns partitions to itself.
            group = self._classic.create_simple(shard, group_id)
        group.validate_offset_commit(
            member_id=member_id,
            group_instance_id=group_instance_id,
            generation=generation,
            transactional=transactional,
            version=version,
            partitions=commits,
        )
        check()
        return write_commits(shard, group_id, commits, records, refused, producer)

    def fetch_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        member_id: str | None,
        member_epoch: int,
        require_stable: bool,
    ) -> dict[TopicPartition, CommittedOffset | ErrorCode | None]:
        """What a group committed, or None, also where there is no such group (``fetchOffsets``).

        UNSTABLE_OFFSET_COMMIT for a partition with a commit on its way, where that is asked for (KIP-447).
        Raises KafkaError for a member that may not read (KIP-848).
        """
        shard = self._shard_of_any(group_id)
        group = shard.groups.get(group_id)
        if group is not None:
            group.validate_offset_fetch(member_id=member_id, member_epoch=member_epoch)
        offsets = shard.offsets.get(group_id)
        if group is None or offsets is None:
            return dict.fromkeys(partitions)
        if require_stable:
            return {
                tp: ErrorCode.UNSTABLE_OFFSET_COMMIT if offsets.is_unstable(tp) else offsets.committed.get(tp)
                for tp in partitions
            }
        return {tp: offsets.committed.get(tp) for tp in partitions}

    def committed_partitions(self, group_id: str) -> list[TopicPartition]:
        """The partitions that a group committed offsets of."""
        shard = self._shard_of_any(group_id)
        offsets = shard.offsets.get(group_id) if group_id in shard.groups else None
        return [] if offsets is None else list(offsets.committed)

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> Codes:
        """Forgets offsets of a group; the code of each partition (``deleteOffsets``)."""
        shard = self._shard(group_id)
        self._group(shard, group_id)
        keeps = self._group_configs.keeps_empty_groups
        return removal.delete_offsets(shard, group_id, partitions, keeps_group=keeps)

    def complete_transaction(self, producer_id: int, markers: Mapping[int, int], *, committed: bool) -> None:
        """The replicas have the markers of a transaction: their offsets, by partition of
        ``__consumer_offsets``.

        A partition that is still being read needs nothing: the load comes to the marker.
        """
        for partition, marker_offset in markers.items():
            shard = self._runtime.read_to_end(partition)
            if shard is not None:
                complete_transaction(shard, producer_id, marker_offset, committed=committed)

    # --- administration ---------------------------------------------------------------------------------

    def classic_group(self, group_id: str) -> ClassicGroup:
        """A group of the classic protocol, to be described. Raises GROUP_ID_NOT_FOUND."""
        group = self._group(self._shard_of_any(group_id), group_id)
        if isinstance(group, ClassicGroup):
            return group
        reason = "not found" if group is None else "is not a classic group"
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")

    def groups(self) -> Iterator[Group]:
        """The groups of this broker, in slices: it serves others in between. Raises
        COORDINATOR_NOT_AVAILABLE.
        """
        if not self._active:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        for shard in self._runtime.shards():
            for group_id in list(shard.groups):
                group = self._group(shard, group_id)
                if group is not None:
                    yield group

    def group_states(self) -> Iterator[str]:
        """The state of each group of this broker as it was left: no session is ended by asking.
        For metrics.
        """
        for shard in self._runtime.shards():
            for group in list(shard.groups.values()):
                yield group.state_name

    def committed_offsets(self) -> Iterator[tuple[str, TopicPartition, int] | None]:
        """Group, partition and offset of all that is committed here; None between groups, where others may
        be served. For metrics.
        """
        for shard in self._runtime.shards():
            for group_id, offsets in list(shard.offsets.items()):
                for tp, one in list(offsets.committed.items()):
                    yield group_id, tp, one.offset
                yield None

    def delete_group(self, group_id: str) -> None:
        """Deletes a group that has no members, with its offsets. Raises KafkaError."""
        shard = self._shard_of_any(group_id)
        group = self._group(shard, group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        group.validate_delete()
        removal.delete_group(shard, group)

    # --- the consumer protocol --------------------------------------------------------------------------

    def consumer_group_heartbeat(self, heartbeat: MemberHeartbeat) -> Answer[HeartbeatResult]:
        """A member joins, lives or leaves (KIP-848)."""
        if self._consumer is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        shard = self._shard(heartbeat.group_id)
        if heartbeat.member_epoch == JOIN_EPOCH:
            self._group(shard, heartbeat.group_id)
        return self._consumer.consumer_heartbeat(shard, heartbeat)

    def consumer_group_describe(self, group_id: str) -> "ConsumerGroupDescription":
        """A group of the consumer protocol. Raises KafkaError."""
        if self._consumer is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        group = self._group(self._shard(group_id), group_id)
        if group is None or group.type is not GroupType.CONSUMER:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        return self._consumer.describe(cast("ConsumerGroup", group))

    def __repr__(self) -> str:
        return f"<GroupCoordinator{'' if self._active else ' inactive'} {self._runtime}>"
