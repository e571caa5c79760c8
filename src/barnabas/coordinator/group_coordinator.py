"""`GroupCoordinator`: the face of groups and offsets to request handlers (``GroupCoordinatorAdapter``).

Theory of operation
-------------------
A request names a group; the hash of its name is a partition of ``__consumer_offsets``; the partition is led
here, or being loaded, or somebody else's. Led here, its `Shard` knows the group, and the group's kind decides
who answers: `classic` or `consumer`. Not led here, the client gets the code that makes it look again.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, cast

from barnabas.coordinator.consumer.member import JOIN_EPOCH
from barnabas.coordinator.group import Client, Group, GroupType
from barnabas.coordinator.offsets.removal import write_tombstones
from barnabas.coordinator.runtime.journal import CoordinatorRecord, Journal
from barnabas.coordinator.runtime.loading import Loader
from barnabas.coordinator.runtime.runtime import CoordinatorRuntime
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.shard import Shard
from barnabas.coordinator.state_machine import GroupStateMachine
from barnabas.core.clock import Clock, Timer
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition, java_abs, java_hash
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Sliced, Slices
from barnabas.log.log import Log
from barnabas.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.delete_groups import DeletableGroupResult
from barnabas.protocol.messages.describe_groups import DescribedGroup
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

if TYPE_CHECKING:
    from barnabas.coordinator.classic.group import ClassicGroup
    from barnabas.coordinator.classic.groups import ClassicGroups
    from barnabas.coordinator.consumer.group import ConsumerGroup
    from barnabas.coordinator.consumer.groups import ConsumerGroups
    from barnabas.coordinator.offsets.manager import OffsetManager

T = TypeVar("T")

Answer: TypeAlias = T | Pending[T]
"""An answer, or the promise of one."""

_events: Final = EventLog("coordinator")

DEAD: Final = "Dead"
EXPIRY_TASK: Final = "delete-expired-group-metadata"
_KNOWN_NAMES_MAX: Final = 65536
_KNOWN_LENGTH_MAX: Final = 255


def partition_of(key: str, partition_count: int) -> int:
    """The partition of an internal topic that a group or transactional id belongs to."""
    # What is remembered is as long as clients like, and there are many clients: only sane names are.
    return (_known_partition if len(key) <= _KNOWN_LENGTH_MAX else _partition)(key, partition_count)


def _partition(key: str, partition_count: int) -> int:
    return java_abs(java_hash(key)) % partition_count


_known_partition: Final = lru_cache(_KNOWN_NAMES_MAX)(_partition)


class GroupCoordinator:
    """All groups of this broker. Every call that names a group raises KafkaError where it is not served."""

    def __init__(
        self,
        settings: GroupSettings,
        clock: Clock,
        *,
        classic: "ClassicGroups",
        consumer: "ConsumerGroups | None",
        offsets: "OffsetManager",
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
        self._classic = classic
        self._consumer = consumer
        self._offsets = offsets
        self._active = False
        machine = GroupStateMachine(classic, consumer, offsets)
        self._runtime = CoordinatorRuntime(machine, loader, journal=journal, log=log)
        self._led = self._runtime.led  # asked for every request there is
        self._expiry_timer: Timer | None = None
        self._expiring: Pending[None] | None = None

    # --- life -------------------------------------------------------------------------------------------

    def startup(self, partition_count: int) -> None:
        """Begins to serve; so many partitions the topic of groups has, or will have."""
        self.partition_count = partition_count
        self._active = True
        self._expiry_timer = self._clock.call_later(0, self._expire_again)
        _events.info("startup.complete", partitions=partition_count)

    def shutdown(self) -> None:
        """Answers all who wait, and serves nobody any more."""
        self._active = False
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        self._runtime.close()
        _events.info("shutdown.complete")

    def elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition now, so it has to know what is in it."""
        self._runtime.elected(partition, leader_epoch)

    def resigned(self, partition: int, leader_epoch: int | None) -> None:
        """Somebody else leads the partition now, or nobody: what was known of it is forgotten."""
        self._runtime.resigned(partition, leader_epoch)

    @steps
    def partitions_deleted(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """These partitions are gone; nobody wants to know how far they were read."""
        slices = Slices(self._clock)
        deleted: dict[TopicPartition, None] = {}  # an ordered set: a seed replays the order of the tombstones
        for tp in partitions:
            deleted[tp] = None
            if slices.over():
                yield slices.next_turn()
        for shard in self._runtime.shards():
            yield self._offsets.partitions_deleted(shard, deleted.keys())
            if slices.over():
                yield slices.next_turn()

    def metadata_changed(self, topics: set[str]) -> None:
        """The controller has told something of these topics; assignments may depend on it."""
        if self._consumer is not None:
            for shard in self._runtime.shards():
                self._consumer.metadata_changed(shard, topics)

    # --- expiry -----------------------------------------------------------------------------------------

    def _expire_again(self) -> None:
        interval_ms = self.settings.offsets_retention_check_interval_ms
        self._expiry_timer = self._clock.call_later(interval_ms, self._expire_again)
        if self._expiring is None or self._expiring.done:
            self._expiring = self._expire()

    @steps
    def _expire(self) -> Steps[None]:
        for shard in self._runtime.shards():
            try:
                yield self._offsets.expire(shard)
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
        if not (group_id or unnamed):
            return KafkaError(ErrorCode.INVALID_GROUP_ID)
        if not self._active:
            return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self.partition_for(group_id) in self._runtime.loading:
            return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return KafkaError(ErrorCode.NOT_COORDINATOR)

    def _group(self, shard: Shard, group_id: str) -> Group | None:
        """The group as a request that is no member's must see it: sessions that are over have ended."""
        group = shard.groups.get(group_id)
        if group is None:
            return None
        group.end_overdue_sessions(self._clock.monotonic_ms())
        return shard.groups.get(group_id)

    def _members(self, shard: Shard, group_id: str) -> "ClassicGroups | ConsumerGroups":
        """Who speaks the classic protocol for a group."""
        group = shard.groups.get(group_id)
        if group is not None and group.type is GroupType.CONSUMER and self._consumer is not None:
            return self._consumer
        return self._classic

    @property
    def loading(self) -> list[int]:
        """The partitions that are being loaded, or wait for it."""
        return sorted(self._runtime.loading)

    # --- the classic protocol ---------------------------------------------------------------------------

    def join_group(
        self, client: Client, request: JoinGroupRequest, version: int
    ) -> Answer[JoinGroupResponse]:
        """Joins a group; answered when all have joined."""
        shard = self._shard(request.group_id)
        if not request.member_id:
            self._group(shard, request.group_id)
        return self._members(shard, request.group_id).join(shard, client, request, version)

    def sync_group(
        self, client: Client, request: SyncGroupRequest, version: int
    ) -> Answer[SyncGroupResponse]:
        """Gets a member its assignment; answered when the leader has brought it."""
        try:
            shard = self._shard(request.group_id)
        except KafkaError as refusal:
            if refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # What the member joined is lost; joining again is the only way on.
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS) from refusal
            raise
        return self._members(shard, request.group_id).sync(shard, client, request, version)

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """A member lives."""
        group_id = request.group_id
        shard = self._led.get(partition_of(group_id, self.partition_count))
        if shard is None or not group_id:
            return self._heartbeat_refused(group_id)
        group = shard.groups.get(group_id)
        if group is not None and group.type is GroupType.CONSUMER and self._consumer is not None:
            return self._consumer.heartbeat(shard, request)
        return self._classic.heartbeat(shard, request)

    def _heartbeat_refused(self, group_id: str) -> HeartbeatResponse:
        refusal = self._refusal(group_id)
        if refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatResponse()  # sessions begin anew after the load, so the member is alive
        raise refusal

    def leave_group(self, request: LeaveGroupRequest, version: int) -> Answer[LeaveGroupResponse]:
        """Members go."""
        shard = self._shard(request.group_id)
        return self._members(shard, request.group_id).leave(shard, request, version)

    # --- offsets ----------------------------------------------------------------------------------------

    def offset_commit(
        self, client: Client, request: OffsetCommitRequest, version: int
    ) -> Answer[OffsetCommitResponse]:
        """Writes down how far a group has come."""
        del client
        shard = self._shard_of_any(request.group_id)
        if request.generation_id_or_member_epoch < 0:
            self._group(shard, request.group_id)
        return self._offsets.commit(shard, request, version)

    def offset_fetch(
        self, group: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        """How far a group has come; all it ever committed when it asks for no topics in particular."""
        return self._offsets.fetch(self._shard_of_any(group.group_id), group, require_stable=require_stable)

    def committed_topics(self, group_id: str) -> list[OffsetFetchRequestTopics]:
        """All that a group ever committed, as it is asked for in `offset_fetch`."""
        return self._offsets.committed_topics(self._shard_of_any(group_id), group_id)

    def offset_delete(self, request: OffsetDeleteRequest) -> Answer[OffsetDeleteResponse]:
        """Forgets how far a group has come."""
        shard = self._shard(request.group_id)
        self._group(shard, request.group_id)
        return self._offsets.delete(shard, request)

    def txn_offset_commit(
        self, client: Client, request: TxnOffsetCommitRequest, version: int
    ) -> Answer[TxnOffsetCommitResponse]:
        """Writes down how far a group has come if a transaction commits."""
        del client
        shard = self._shard(request.group_id)
        if request.generation_id < 0:
            self._group(shard, request.group_id)
        return self._offsets.txn_commit(shard, request, version)

    def complete_transaction(self, producer_id: int, partitions: set[int], *, committed: bool) -> None:
        """The marker of a transaction is in these partitions of ``__consumer_offsets``."""
        for partition in partitions:
            shard = self._led.get(partition)
            if shard is not None:
                self._offsets.complete_transaction(shard, producer_id, committed=committed)

    # --- administration ---------------------------------------------------------------------------------

    def describe_groups(self, group_ids: Iterable[str]) -> list[DescribedGroup]:
        """Groups of the classic protocol, each with an error of its own."""
        return [self._describe(group_id) for group_id in group_ids]

    def _describe(self, group_id: str) -> DescribedGroup:
        try:
            group = self._group(self._shard_of_any(group_id), group_id)
        except KafkaError as refusal:
            return DescribedGroup(group_id=group_id, error_code=refusal.code)
        if group is None or group.type is not GroupType.CLASSIC:
            return DescribedGroup(group_id=group_id, group_state=DEAD)
        return self._classic.describe(cast("ClassicGroup", group))

    def list_groups(self, states: Iterable[str], types: Iterable[str]) -> Sliced[ListGroupsResponse]:
        """The groups in these states and of these types, whatever their case; all where a filter is empty.

        Each group is listed as it is when its turn comes.
        """
        if not self._active:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        wanted_states = yield from _lowered(states)
        wanted_types = yield from _lowered(types)
        response = ListGroupsResponse()
        if self._runtime.loading:
            response.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        for shard in self._runtime.shards():
            for group_id in list(shard.groups):
                group = self._group(shard, group_id)
                if (
                    group is not None
                    and (not wanted_states or group.state_name.lower() in wanted_states)
                    and (not wanted_types or group.type.value in wanted_types)
                ):
                    response.groups.append(_listed(group))
                yield
        return response

    def delete_groups(self, group_ids: Iterable[str]) -> list[DeletableGroupResult]:
        """Deletes groups that have no members, with their offsets."""
        return [
            DeletableGroupResult(group_id=group_id, error_code=self._delete(group_id))
            for group_id in dict.fromkeys(group_ids)
        ]

    def _delete(self, group_id: str) -> ErrorCode:
        try:
            shard = self._shard_of_any(group_id)
            group = self._group(shard, group_id)
            if group is None:
                return ErrorCode.GROUP_ID_NOT_FOUND
            group.validate_delete()
        except KafkaError as refusal:
            return refusal.code
        records = [*self._offsets.delete_group_offsets(shard, group_id), *group.tombstones()]
        self._offsets.forget_group(shard, group)
        self._write_tombstones(shard, group_id, records)
        _events.info("group.deleted", group=group_id, tombstones=len(records))
        return ErrorCode.NONE

    def _write_tombstones(self, shard: Shard, group_id: str, records: list[CoordinatorRecord]) -> None:
        # Nobody waits for the replicas: what is lost is found expired again by whoever leads next.
        try:
            write_tombstones(shard, group_id, records)
        except KafkaError as error:
            _events.error("tombstones.not_written", partition=shard.partition, reason=error)

    # --- the consumer protocol --------------------------------------------------------------------------

    def consumer_group_heartbeat(
        self, client: Client, request: ConsumerGroupHeartbeatRequest, version: int
    ) -> Answer[ConsumerGroupHeartbeatResponse]:
        """A member joins, lives or leaves (KIP-848)."""
        if self._consumer is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        shard = self._shard(request.group_id)
        if request.member_epoch == JOIN_EPOCH:
            self._group(shard, request.group_id)
        return self._consumer.consumer_heartbeat(shard, client, request, version)

    def consumer_group_describe(self, group_ids: Iterable[str]) -> list[DescribedConsumerGroup]:
        """Groups of the consumer protocol, each with an error of its own."""
        if self._consumer is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        return [self._describe_consumer(self._consumer, group_id) for group_id in group_ids]

    def _describe_consumer(self, consumer: "ConsumerGroups", group_id: str) -> DescribedConsumerGroup:
        try:
            group = self._group(self._shard(group_id), group_id)
        except KafkaError as refusal:
            return DescribedConsumerGroup(group_id=group_id, error_code=refusal.code)
        if group is None or group.type is not GroupType.CONSUMER:
            return DescribedConsumerGroup(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        return consumer.describe(cast("ConsumerGroup", group))

    def __repr__(self) -> str:
        return f"<GroupCoordinator{'' if self._active else ' inactive'} {self._runtime}>"


def _lowered(words: Iterable[str]) -> Sliced[set[str]]:
    lowered = set()
    for word in words:
        lowered.add(word.lower())
        yield
    return lowered


def _listed(group: Group) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        group_state=group.state_name,
        group_type=group.type.value,
    )
