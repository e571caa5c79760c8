"""The replica state machine (``ZkReplicaStateMachine``): one broker's copies come, go offline, are deleted.

A replica that goes OFFLINE is stopped and taken out of the ISR. The last member of an ISR stays in it (only
it has all acknowledged records), and the partition is left without a leader until it is back.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from barnabas.cluster.controller.context import ControllerContext, Replica
from barnabas.cluster.controller.controller_store import ControllerMovedError, ControllerStore
from barnabas.cluster.controller.failures import report
from barnabas.cluster.controller.request_batch import RequestBatch
from barnabas.cluster.controller.states import (
    REPLICA_TRANSITIONS,
    IllegalTransitionError,
    ReplicaPhase,
    check_transition,
)
from barnabas.cluster.leadership import LeaderAndIsr, PartitionLeadership
from barnabas.cluster.store.contract import NoNodeError, StoreError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import NO_LEADER, TopicPartition
from barnabas.core.pending import Steps, steps

_events: Final = EventLog("cluster.controller.replicas")


class ReplicaStates:
    """Moves replicas between phases."""

    def __init__(self, context: ControllerContext, store: ControllerStore, batch: RequestBatch) -> None:
        self._context = context
        self._store = store
        self._batch = batch
        self._moves: Mapping[ReplicaPhase, Callable[[Replica], object]] = {
            ReplicaPhase.NEW: self._to_new,
            ReplicaPhase.ONLINE: self._to_online,
            ReplicaPhase.DELETION_STARTED: self._to_deletion_started,
            ReplicaPhase.DELETION_INELIGIBLE: lambda _: True,
            ReplicaPhase.DELETION_SUCCESSFUL: lambda _: True,
            ReplicaPhase.NON_EXISTENT: self._to_non_existent,
        }

    @steps
    def startup(self) -> Steps[None]:
        """Gives each known replica its phase; those that can serve hear of their partitions."""
        online, offline = [], []
        for replica in self._context.replicas_of(self._context.all_partitions()):
            if self._context.is_online(replica.broker_id, replica.tp):
                self._context.replica_phases[replica] = ReplicaPhase.ONLINE
                online.append(replica)
            else:
                # Until it is back, a topic that is to be deleted cannot be.
                self._context.replica_phases[replica] = ReplicaPhase.DELETION_INELIGIBLE
                offline.append(replica)
        yield self.handle(online, ReplicaPhase.ONLINE)
        yield self.handle(offline, ReplicaPhase.OFFLINE)

    @steps
    def handle(self, replicas: Sequence[Replica], target: ReplicaPhase) -> Steps[None]:
        """Moves replicas to a phase and tells the brokers."""
        if not replicas:
            return
        try:
            self._batch.begin()
            if target is ReplicaPhase.OFFLINE:
                yield self._all_to_offline(self._movable(replicas, target))
            else:
                for replica in self._movable(replicas, target):
                    if self._moves[target](replica) is not False:
                        self._settle(replica, target)
            self._batch.send()
        except ControllerMovedError:
            self._batch.clear()
            raise
        except Exception as error:
            self._batch.clear()
            _events.error(
                "state_change_failed",
                target=target.value,
                replicas=len(replicas),
                error=error,
                exc_info=not isinstance(error, StoreError),  # a session that ends is no bug
            )

    def _movable(self, replicas: Iterable[Replica], target: ReplicaPhase) -> list[Replica]:
        movable = []
        refused = {}
        for replica in replicas:
            current = self._context.replica_phases.setdefault(replica, ReplicaPhase.NON_EXISTENT)
            try:
                check_transition(replica, current, target, REPLICA_TRANSITIONS)
            except IllegalTransitionError as error:
                refused[replica] = error
            else:
                movable.append(replica)
        report(_events.error, "illegal_transition", refused)
        return movable

    def _settle(self, replica: Replica, target: ReplicaPhase) -> None:
        if target is ReplicaPhase.NON_EXISTENT:
            self._context.replica_phases.pop(replica)
        else:
            self._context.replica_phases[replica] = target

    def _to_new(self, replica: Replica) -> bool:
        leadership = self._context.leadership.get(replica.tp)
        if leadership is None:
            return True
        if leadership.leader == replica.broker_id:
            _events.error("new_replica_is_leader", replica=replica)
            return False
        self._tell([replica.broker_id], replica.tp, leadership, is_new=True)
        return True

    def _to_online(self, replica: Replica) -> None:
        if self._context.replica_phases[replica] is ReplicaPhase.NEW:
            assigned = self._context.assignment(replica.tp).replicas
            assert replica.broker_id in assigned, f"{replica} comes online but is assigned to {assigned}"
            return
        leadership = self._context.leadership.get(replica.tp)
        if leadership is not None:
            self._tell([replica.broker_id], replica.tp, leadership)

    def _to_deletion_started(self, replica: Replica) -> None:
        self._batch.add_stop_replica([replica.broker_id], replica.tp, delete=True)

    def _to_non_existent(self, replica: Replica) -> None:
        self._context.assign(replica.tp, self._context.assignment(replica.tp).without(replica.broker_id))

    @steps
    def _all_to_offline(self, replicas: Sequence[Replica]) -> Steps[None]:
        by_broker: dict[int, list[Replica]] = {}
        for replica in replicas:
            by_broker.setdefault(replica.broker_id, []).append(replica)
        for broker_id, own in by_broker.items():
            yield self._to_offline(broker_id, own)

    @steps
    def _to_offline(self, broker_id: int, replicas: Sequence[Replica]) -> Steps[None]:
        for replica in replicas:
            self._batch.add_stop_replica([broker_id], replica.tp, delete=False)
        led = [replica.tp for replica in replicas if replica.tp in self._context.leadership]
        shrunk = yield self._remove_from_isr(broker_id, led)
        for tp, leadership in shrunk.items():
            if not self._context.being_deleted(tp.topic):
                others = [each for each in self._context.assignment(tp).replicas if each != broker_id]
                self._tell(others, tp, leadership)
            self._settle(Replica(tp, broker_id), ReplicaPhase.OFFLINE)
        for replica in replicas:
            if replica.tp not in led:
                self._batch.add_update_metadata(self._context.live_brokers, [replica.tp])
                self._settle(replica, ReplicaPhase.OFFLINE)

    @steps
    def _remove_from_isr(
        self, broker_id: int, partitions: Sequence[TopicPartition]
    ) -> Steps[dict[TopicPartition, PartitionLeadership]]:
        """The leadership of each partition without the broker, as the store now has it."""
        removed: dict[TopicPartition, PartitionLeadership] = {}
        while partitions:
            done, partitions = yield self._remove_once(broker_id, partitions)
            removed |= done
        return removed

    @steps
    def _remove_once(
        self, broker_id: int, partitions: Sequence[TopicPartition]
    ) -> Steps[tuple[dict[TopicPartition, PartitionLeadership], list[TopicPartition]]]:
        states = yield self._store.partition_states(partitions)
        done: dict[TopicPartition, LeaderAndIsr | Exception] = {}
        to_write: dict[TopicPartition, LeaderAndIsr] = {}
        failed: dict[TopicPartition, object] = {}
        for tp, state in states.items():
            if isinstance(state, PartitionLeadership) and state.controller_epoch <= self._context.epoch:
                current = state.leader_and_isr
                if broker_id in current.isr:
                    to_write[tp] = _without(current, broker_id)
                else:
                    done[tp] = current
            elif not (isinstance(state, NoNodeError) and self._context.being_deleted(tp.topic)):
                failed[tp] = state
        update = yield self._store.update_states(to_write)
        settled: dict[TopicPartition, PartitionLeadership] = {}
        for tp, outcome in (done | update.finished).items():
            if isinstance(outcome, Exception):
                failed[tp] = outcome
                continue
            settled[tp] = PartitionLeadership(outcome, self._context.epoch)
            self._context.leadership[tp] = settled[tp]
        report(_events.error, "isr_not_shrunk", failed, replica=broker_id)
        return settled, update.to_retry

    def _tell(
        self,
        brokers: Iterable[int],
        tp: TopicPartition,
        leadership: PartitionLeadership,
        *,
        is_new: bool = False,
    ) -> None:
        self._batch.add_leader_and_isr(brokers, tp, leadership, self._context.assignment(tp), is_new=is_new)


def _without(state: LeaderAndIsr, broker_id: int) -> LeaderAndIsr:
    leader = NO_LEADER if state.leader == broker_id else state.leader
    isr = state.isr if len(state.isr) == 1 else tuple(each for each in state.isr if each != broker_id)
    return state.with_leader(leader, isr)
