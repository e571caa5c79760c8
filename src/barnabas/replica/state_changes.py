"""The roles that the controller gives this broker: LeaderAndIsr and StopReplica (``ReplicaManager``).

Theory of operation
-------------------
Two epochs guard against a controller that was replaced and does not know it: its own (`controller_epoch`)
guards the whole request, the leader epoch each partition. An accepted LeaderAndIsr makes this broker leader
or follower of each partition it names; a follower fetches from its leader from then on. Answers go per
partition, so that one bad disk does not stop the rest.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from barnabas.cluster.leadership import ControllerEpoch
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import STATE_CHANGES, EventLog
from barnabas.core.ids import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    ZERO_UUID,
    TopicPartition,
    Uuid,
    is_topic_name,
)
from barnabas.core.pending import Pending, gather
from barnabas.core.slices import Sliced
from barnabas.protocol.partition_states import LeaderAndIsrPartitionState
from barnabas.replica.hosted import HostedPartitions
from barnabas.replica.listeners import Listeners
from barnabas.replica.partition import Partition, Ports
from barnabas.replica.produce import Wake

_log = EventLog("replica.state_changes")
_state_changes = EventLog(STATE_CHANGES)

UNMADE_RETRY_MS: Final = 1000
"""How often to try to make a log for which no file descriptor was free."""
FETCH_PORTION: Final = 100
"""How many partitions are handed to the fetchers in one piece."""


class ReplicaToStop(NamedTuple):
    """What a StopReplica says of one partition."""

    tp: TopicPartition
    leader_epoch: int
    """`NO_EPOCH` where the controller is too old to say."""
    delete: bool


class InitialFetchState(NamedTuple):
    """A partition to fetch, and from which leader (``InitialFetchState``)."""

    partition: Partition
    leader: int
    leader_epoch: int


class RoleChanges(NamedTuple):
    """What a LeaderAndIsr made of this broker."""

    leaders: list[Partition]
    """Led now, and not before."""
    followers: list[Partition]
    """Following a leader of a new epoch."""
    leaderless: list[Partition]
    """To follow a leader that is not alive, or none: they wait for the next LeaderAndIsr."""


class Fetchers(Protocol):
    """The threads that copy partitions from their leaders (``ReplicaFetcherManager``)."""

    def fetch(self, targets: Iterable[InitialFetchState]) -> None:
        """``addFetcherForPartitions``: begins to fetch these, or begins again."""

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """``removeFetcherForPartitions``: does nothing for a partition that is not fetched."""


class Logs(Protocol):
    """The part of the log manager that changes of roles need."""

    def get(self, tp: TopicPartition) -> object | None:
        """The partition's log; None if there is none."""

    def delete(self, tp: TopicPartition) -> Pending[None]:
        """Takes the partition's directory out of use and deletes it later; nothing if there is none.

        Done when that is durable.
        """

    def mark_stray(self, tp: TopicPartition) -> Pending[None]:
        """Sets the partition's directory aside; nothing if there is none. Done when that is durable."""


class StateChanges:
    """Turns the controller's orders into roles."""

    __slots__ = (
        "_clock",
        "_fetchers",
        "_hosted",
        "_listeners",
        "_logs",
        "_ports",
        "_unmade",
        "_wake",
        "controller_epoch",
    )

    def __init__(
        self,
        hosted: HostedPartitions,
        ports: Ports,
        logs: Logs,
        fetchers: Fetchers,
        wake: Wake,
        clock: Clock,
        listeners: Listeners,
    ) -> None:
        self._hosted = hosted
        self._listeners = listeners
        self._ports = ports
        self._logs = logs
        self._fetchers = fetchers
        self._wake = wake
        self._clock = clock
        self._unmade: dict[TopicPartition, LeaderAndIsrPartitionState] = {}
        """Partitions whose logs wait for a file descriptor or for room, and the role to take then."""
        self.controller_epoch = 0

    def check_controller(self, controller: ControllerEpoch, what: str) -> None:
        """Takes note of the controller's epoch; raises STALE_CONTROLLER_EPOCH for one of the past."""
        controller_id, epoch = controller
        # A controller that was replaced while it slept: what it says is out of date.
        if epoch < self.controller_epoch:
            _log.warning(
                "controller.stale",
                request=what,
                controller=controller_id,
                epoch=epoch,
                known=self.controller_epoch,
            )
            raise KafkaError(ErrorCode.STALE_CONTROLLER_EPOCH)
        self.controller_epoch = epoch

    # --- LeaderAndIsr -----------------------------------------------------------------------------------

    def leader_and_isr(
        self,
        controller: ControllerEpoch,
        topic_ids: Mapping[str, Uuid],
        states: Iterable[tuple[TopicPartition, LeaderAndIsrPartitionState]],
    ) -> Sliced[dict[TopicPartition, ErrorCode]]:
        """``becomeLeaderOrFollower``: what became of each; raises STALE_CONTROLLER_EPOCH for the whole of it.

        Making the logs of thousands of partitions takes seconds. Between two slices each partition is as it
        was before, or as the request wants it.
        """
        self.check_controller(controller, "LeaderAndIsr")
        errors: dict[TopicPartition, ErrorCode] = {}
        roles = RoleChanges([], [], [])
        each_is_logged = _state_changes.has_debug
        for tp, state in states:
            topic_id = topic_ids.get(tp.topic, ZERO_UUID)
            errors[tp] = self._change(tp, state, topic_id, roles)
            if errors[tp] is ErrorCode.REPLICA_NOT_AVAILABLE:
                self._change_later(tp, state, topic_id)
            if each_is_logged:
                self._handled("leader_and_isr", controller, tp, state, errors[tp])
            yield
        if roles.leaderless:
            # One line for all of them: after the loss of a broker the controller's next request names new
            # leaders, and its own log names the partitions that have none.
            _log.info("partitions.leaderless", count=len(roles.leaderless), first=roles.leaderless[0].tp)
        _state_changes.info(
            "leader_and_isr.handled",
            broker=self._ports.broker_id,
            controller=controller.controller_id,
            controller_epoch=controller.epoch,
            partitions=len(errors),
            new_leaders=len(roles.leaders),
            new_followers=len(roles.followers),
        )
        yield from self._fetch(roles.followers)
        self._listeners.roles_changed(roles.leaders, roles.followers)
        return errors

    def _handled(
        self,
        request_name: str,
        controller: ControllerEpoch,
        tp: TopicPartition,
        state: object,
        error: ErrorCode,
    ) -> None:
        """A line of the state-change log for one partition."""
        _state_changes.debug(
            f"{request_name}.handled.partition",
            broker=self._ports.broker_id,
            controller=controller.controller_id,
            controller_epoch=controller.epoch,
            partition=tp,
            state=state,
            error=error.name,
        )

    def _fetch(self, followers: list[Partition]) -> Sliced[None]:
        for start in range(0, len(followers), FETCH_PORTION):
            portion = followers[start : start + FETCH_PORTION]
            # The disk of a partition that became a follower some slices ago may have failed since.
            here = [each for each in portion if self._hosted.online.get(each.tp) is each]
            self._fetchers.fetch([_target(partition) for partition in here])
            yield

    def _change_later(self, tp: TopicPartition, state: LeaderAndIsrPartitionState, topic_id: Uuid) -> None:
        """Tries to take a role once a second until the log can be made: the controller does not ask again."""
        self._unmade[tp] = state

        def try_again() -> None:
            if self._unmade.get(tp) is not state:
                return  # the controller has sent another role since, or deleted the partition
            del self._unmade[tp]
            roles = RoleChanges([], [], [])
            if self._change(tp, state, topic_id, roles) is ErrorCode.REPLICA_NOT_AVAILABLE:
                self._change_later(tp, state, topic_id)
                return
            self._fetchers.fetch(_target(partition) for partition in roles.followers)
            self._listeners.roles_changed(roles.leaders, roles.followers)

        self._clock.call_later(UNMADE_RETRY_MS, try_again)

    def _change(
        self,
        tp: TopicPartition,
        state: LeaderAndIsrPartitionState,
        topic_id: Uuid,
        roles: RoleChanges,
    ) -> ErrorCode:
        if not _names_a_directory(tp):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if self._hosted.is_offline(tp):
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._hosted.online.get(tp) or Partition(tp, self._ports)
        # KIP-516: the topic was deleted and made again, and this broker still has the log of the first one.
        if ZERO_UUID not in (topic_id, partition.topic_id) and topic_id != partition.topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        # Only a higher epoch changes a role: an equal one was obeyed already.
        if state.leader_epoch <= partition.leader_epoch:
            return self._same_or_older(partition, state, topic_id)
        # The controller took the partition away from this broker; a StopReplica says so.
        if self._ports.broker_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._unmade.pop(tp, None)
        self._hosted.online[tp] = partition
        try:
            self._take_role(partition, state, topic_id, roles)
        except KafkaError as error:
            code = error.code
            if (
                code is ErrorCode.KAFKA_STORAGE_ERROR
                and partition.log is not None
                and not partition.log.offline
            ):
                code = ErrorCode.REPLICA_NOT_AVAILABLE  # its disk has no room for the new epoch
            # The directory failed: the controller elects others when it reads the code. No descriptor, or no
            # room, may pass: `_change_later` tries to take the role again.
            if code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._hosted.take_offline(tp)
            elif code is ErrorCode.REPLICA_NOT_AVAILABLE:
                del self._hosted.online[tp]
            _log.error("partition.role_refused", partition=tp, error=code.name, reason=error)
            return code
        return ErrorCode.NONE

    def _same_or_older(
        self, partition: Partition, state: LeaderAndIsrPartitionState, topic_id: Uuid
    ) -> ErrorCode:
        # A controller that was upgraded sends the topic id once, without a new epoch (KIP-516).
        brings_id = topic_id != ZERO_UUID and partition.topic_id == ZERO_UUID
        if state.leader_epoch < partition.leader_epoch or not brings_id or partition.log is None:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        partition.log.assign_topic_id(topic_id)
        return ErrorCode.NONE

    def _take_role(
        self,
        partition: Partition,
        state: LeaderAndIsrPartitionState,
        topic_id: Uuid,
        roles: RoleChanges,
    ) -> None:
        # It stops fetching before it leads, or an answer of the former leader could still be appended.
        if state.leader == self._ports.broker_id:
            self._fetchers.stop([partition.tp])
            # A new topic's first epoch is 0; a later one that is not new had a log, and the ISR counted on
            # it.
            is_missing = state.leader_epoch > 0 and not state.is_new and self._logs.get(partition.tp) is None
            if partition.make_leader(state, topic_id):
                roles.leaders.append(partition)
            if is_missing:
                _log.warning(
                    "partition.log_missing",
                    partition=partition.tp,
                    epoch=state.leader_epoch,
                    meaning="this broker leads, and has no log: followers cut theirs, what they held is lost",
                )
        elif not self._ports.is_alive(state.leader):
            # The log is made all the same, so that its high watermark is checkpointed (KAFKA-1647).
            # Kafka says this at ERROR, into a file of its own. Here it would be a line for each partition at
            # each loss of a broker, of which nobody can do anything: `partitions.leaderless` counts them.
            if _state_changes.has_debug:
                _state_changes.debug("leader_unavailable", partition=partition.tp, leader=state.leader)
            partition.prepare_log(state, topic_id)
            roles.leaderless.append(partition)
        # The epoch is new: it fetches from the new leader, and acks=all produces that wait here are refused.
        elif partition.make_follower(state, topic_id):
            self._fetchers.stop([partition.tp])
            self._wake.progressed(partition.tp)
            roles.followers.append(partition)

    # --- StopReplica ------------------------------------------------------------------------------------

    def stop_replicas(
        self, controller: ControllerEpoch, replicas: Iterable[ReplicaToStop]
    ) -> Sliced[list[tuple[TopicPartition, ErrorCode]]]:
        """Stops, and where asked deletes; what became of each.
        Raises STALE_CONTROLLER_EPOCH for the whole of it.
        """
        self.check_controller(controller, "StopReplica")
        stopped: list[tuple[TopicPartition, ErrorCode]] = []
        retired: dict[Pending[None], list[int]] = {}
        for tp, epoch, delete in replicas:
            code, durable = self._stop(tp, epoch, delete)
            # What is only stopped may still be heard of, by LeaderAndIsr; what is deleted will not.
            if delete and code is ErrorCode.NONE:
                self._listeners.deleted(tp, epoch)
            if _state_changes.has_debug:
                self._handled("stop_replica", controller, tp, f"leader_epoch={epoch} delete={delete}", code)
            if durable is not None:
                retired.setdefault(durable, []).append(len(stopped))
            stopped.append((tp, code))
            yield
        if retired:
            # After this answer the controller forgets the topic: a loss of power must not bring it back.
            yield gather(retired)
        for durable, places in retired.items():
            # The deletion may not survive a loss of power: the controller asks again.
            if durable.error is not None:
                for place in places:
                    stopped[place] = stopped[place][0], ErrorCode.KAFKA_STORAGE_ERROR
        _state_changes.info(
            "stop_replica.handled",
            broker=self._ports.broker_id,
            controller=controller.controller_id,
            controller_epoch=controller.epoch,
            partitions=len(stopped),
        )
        return stopped

    def _stop(
        self, tp: TopicPartition, leader_epoch: int, delete: bool
    ) -> tuple[ErrorCode, Pending[None] | None]:
        """Stops one partition; the code, and what is done when its deletion is durable."""
        if self._hosted.is_offline(tp):
            return ErrorCode.KAFKA_STORAGE_ERROR, None
        partition = self._hosted.online.get(tp)
        # A StopReplica of an earlier controller or epoch.
        if partition is not None and not _may_stop(partition, leader_epoch):
            return ErrorCode.FENCED_LEADER_EPOCH, None
        self._unmade.pop(tp, None)
        self._fetchers.stop([tp])
        durable = None
        try:
            if delete:
                durable = self._delete(tp, partition)
        except KafkaError as error:
            _log.error("partition.delete_failed", partition=tp, error=error.code.name, reason=error)
            return error.code, None
        self._wake.progressed(tp)
        return ErrorCode.NONE, durable

    def _delete(self, tp: TopicPartition, partition: Partition | None) -> Pending[None]:
        if partition is not None:
            del self._hosted.online[tp]
            partition.close()
        # Also without a partition: a topic may have been deleted while this broker was down.
        return self._logs.delete(tp)

    # --- strays -----------------------------------------------------------------------------------------

    def mark_stray(self, tp: TopicPartition) -> Pending[None]:
        """``updateStrayLogs``: stops a replica that is no longer this broker's, and marks its log."""
        self._unmade.pop(tp, None)
        self._fetchers.stop([tp])
        partition = self._hosted.online.pop(tp, None)
        if partition is not None:
            partition.close()
        durable = self._logs.mark_stray(tp)
        self._listeners.deleted(tp, NO_EPOCH)
        self._wake.progressed(tp)
        return durable


def _target(partition: Partition) -> InitialFetchState:
    assert partition.leader_id is not None, f"{partition!r} has no leader"
    return InitialFetchState(partition, partition.leader_id, partition.leader_epoch)


def _names_a_directory(tp: TopicPartition) -> bool:
    """Whether the partition may be a directory and a line of a checkpoint.

    Kafka trusts the controller here. A name with a space breaks its checkpoints and with them the broker, one
    with a slash leaves the log directory, and `topic--1` is read back as partition 1.
    """
    return tp.partition >= 0 and is_topic_name(tp.topic)


def _may_stop(partition: Partition, leader_epoch: int) -> bool:
    # A deletion bumps no epoch, and old controllers send none.
    return leader_epoch in (EPOCH_DURING_DELETE, NO_EPOCH) or leader_epoch >= partition.leader_epoch
