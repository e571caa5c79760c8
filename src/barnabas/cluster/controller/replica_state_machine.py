"""The replica state machine (``ZkReplicaStateMachine``): one broker's copies come, go offline, are deleted.

A replica that goes OFFLINE is stopped and taken out of the ISR. The last member of an ISR stays in it (only
it has all acknowledged records), and the partition is left without a leader until it is back.
"""

from collections.abc import Sequence
from typing import Final

from barnabas.cluster.controller.channel_manager import RequestBatch
from barnabas.cluster.controller.context import ControllerContext, Replica
from barnabas.cluster.controller.fenced_store import FencedStore
from barnabas.cluster.controller.state_change import in_one_batch
from barnabas.cluster.controller.states import (
    REPLICA_TRANSITIONS,
    ReplicaPhase,
    log_failures,
    movable,
)
from barnabas.cluster.leadership import LeaderAndIsr, PartitionLeadership
from barnabas.cluster.store.contract import NoNodeError
from barnabas.core.clock import Clock
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import NO_LEADER, TopicPartition
from barnabas.core.pending import Steps, steps
from barnabas.core.slices import Slices

_events: Final = EventLog("cluster.controller.replicas")


class ReplicaStateMachine:
    """Moves replicas between phases."""

    def __init__(
        self, context: ControllerContext, store: FencedStore, batch: RequestBatch, clock: Clock
    ) -> None:
        self._context = context
        self._store = store
        self._batch = batch
        self._clock = clock

    @steps
    def startup(self, partitions: Sequence[TopicPartition]) -> Steps[None]:
        """Gives each replica of known partitions its phase; those that can serve hear of their partitions."""
        online, offline = [], []
        for replica in self._context.replicas_of(partitions):
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
        """``handleStateChanges``: moves replicas to a phase; brokers hear of it in one batch."""
        if not replicas:
            return
        yield in_one_batch(
            self._batch,
            lambda: self._move_all(replicas, target),
            _events,
            target=target.value,
            replicas=len(replicas),
        )

    @steps
    def _move_all(self, replicas: Sequence[Replica], target: ReplicaPhase) -> Steps[None]:
        """``doHandleStateChanges``, which Kafka calls for one broker at a time."""
        able = movable(replicas, self._context.replica_phases, target, REPLICA_TRANSITIONS, _events.error)
        # The ISRs of a broker's partitions are written together.
        if target is ReplicaPhase.OFFLINE:
            by_broker: dict[int, list[Replica]] = {}
            for replica in able:
                by_broker.setdefault(replica.broker_id, []).append(replica)
            for broker_id, own in by_broker.items():
                yield self._to_offline(broker_id, own)
            return
        slices = Slices(self._clock)
        for replica in able:
            if slices.over():
                yield slices.next_turn()
            self._move(replica, target)

    def _move(self, replica: Replica, target: ReplicaPhase) -> None:
        """One replica, to any phase but OFFLINE."""
        phases = self._context.replica_phases
        tp, broker_id = replica.tp, replica.broker_id
        assignment = self._context.assignment(tp)
        leadership = self._context.leadership.get(tp)
        if target is ReplicaPhase.NEW and leadership is not None:
            # A leader cannot be new: it has the records that the others copy.
            if leadership.leader == broker_id:
                _events.error("new_replica_is_leader", replica=replica)
                return
            self._batch.add_leader_and_isr([broker_id], tp, leadership, assignment, is_new=True)
        elif target is ReplicaPhase.ONLINE and phases[replica] is ReplicaPhase.NEW:
            # A new partition sent its replicas their roles when it got its leader.
            assert broker_id in assignment.replicas, f"{replica} comes online but is assigned to {assignment}"
        # Its broker started, or its log directory is back: it hears once more whom it follows, or that it
        # leads.
        elif target is ReplicaPhase.ONLINE and leadership is not None:
            self._batch.add_leader_and_isr([broker_id], tp, leadership, assignment, is_new=False)
        # The broker answers for each partition; the answer leads to DELETION_SUCCESSFUL or
        # DELETION_INELIGIBLE.
        elif target is ReplicaPhase.DELETION_STARTED:
            self._batch.add_stop_replica([broker_id], tp, delete=True)
        # Deleted, by its topic's deletion or by a reassignment: the assignment loses it too.
        elif target is ReplicaPhase.NON_EXISTENT:
            self._context.assign(tp, assignment.without(broker_id))
            del phases[replica]
            return
        phases[replica] = target

    @steps
    def _to_offline(self, broker_id: int, replicas: Sequence[Replica]) -> Steps[None]:
        """Stops one broker's replicas; the other replicas hear of the ISRs without it."""
        context = self._context
        slices = Slices(self._clock)
        for replica in replicas:
            if slices.over():
                yield slices.next_turn()
            self._batch.add_stop_replica([broker_id], replica.tp, delete=False)
            # Never led: there is no ISR to leave, but clients hear that the replica is offline.
            if replica.tp not in context.leadership:
                self._batch.add_update_metadata(context.live_brokers, [replica.tp])
                context.replica_phases[replica] = ReplicaPhase.OFFLINE
        with_leader = [replica.tp for replica in replicas if replica.tp in context.leadership]
        # The ISR is written before the others hear of it: LeaderAndIsr carries what the store has.
        shrunk = yield self._remove_from_isr(broker_id, with_leader)
        slices = Slices(self._clock)
        for tp, leadership in shrunk.items():
            if slices.over():
                yield slices.next_turn()
            assignment = context.assignment(tp)
            # Replicas of such a topic are about to be deleted: they need not hear of a smaller ISR.
            if not context.being_deleted(tp.topic):
                others = [each for each in assignment.replicas if each != broker_id]
                self._batch.add_leader_and_isr(others, tp, leadership, assignment, is_new=False)
            context.replica_phases[Replica(tp, broker_id)] = ReplicaPhase.OFFLINE

    @steps
    def _remove_from_isr(
        self, broker_id: int, partitions: Sequence[TopicPartition]
    ) -> Steps[dict[TopicPartition, PartitionLeadership]]:
        """``removeReplicasFromIsr``:
        the leadership of each partition without the broker, as the store now has it.
        """
        context = self._context
        removed: dict[TopicPartition, PartitionLeadership] = {}
        while partitions:
            # Read again for each round: the leader may have changed the ISR since.
            states = yield self._store.partition_states(partitions)
            finished: dict[TopicPartition, LeaderAndIsr | Exception] = {}
            to_write: dict[TopicPartition, LeaderAndIsr] = {}
            failed: dict[TopicPartition, object] = {}
            slices = Slices(self._clock)
            for tp, state in states.items():
                if slices.over():
                    yield slices.next_turn()
                if isinstance(state, PartitionLeadership) and state.controller_epoch <= context.epoch:
                    if broker_id in state.leader_and_isr.isr:
                        to_write[tp] = _without(state.leader_and_isr, broker_id)
                    else:
                        finished[tp] = state.leader_and_isr
                # The znodes of a topic that is deleted may be removed already.
                elif not (isinstance(state, NoNodeError) and context.being_deleted(tp.topic)):
                    failed[tp] = state
            update = yield self._store.update_states(to_write)
            for tp, outcome in (finished | update.finished).items():
                if isinstance(outcome, Exception):
                    failed[tp] = outcome
                else:
                    removed[tp] = context.leadership[tp] = PartitionLeadership(outcome, context.epoch)
            log_failures(_events.error, "isr_not_shrunk", failed, replica=broker_id)
            partitions = update.to_retry  # whose leader wrote meanwhile
        return removed


def _without(state: LeaderAndIsr, broker_id: int) -> LeaderAndIsr:
    # The last one in the ISR stays in it: the partition waits for the replica that has the records.
    leader = NO_LEADER if state.leader == broker_id else state.leader
    isr = state.isr if len(state.isr) == 1 else tuple(each for each in state.isr if each != broker_id)
    return state.with_leader(leader, isr)
