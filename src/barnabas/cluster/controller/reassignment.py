"""Partitions move to other brokers (KIP-455).

Theory of operation
-------------------
A reassignment has target replicas (TRS), the ones it adds (AR) and the ones it removes (RR). It goes through
phases:

U. The topic's znode, then the context, get the new assignment: TRS first, then what was there, with AR and
   RR. From then on a successor carries it on, at its fail-over or when a broker starts.
A. While TRS is not in the ISR: the leader's epoch is raised, and LeaderAndIsr sent to all replicas, to AR as
   new ones. They copy the leader, and the leader takes them into the ISR by AlterPartition, which leads here
   again.
B. When TRS is in the ISR: the leader moves into TRS where it must, RR leaves the ISR, is stopped and deleted,
   and the znode gets TRS alone. The znode is last: until then it alone says which replicas are to be removed.

Two ways lead in: AlterPartitionReassignments, and /admin/reassign_partitions, which tools of old write. The
later one wins.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from barnabas.cluster.controller.channel_manager import BatchNotSentError
from barnabas.cluster.controller.context import Replica
from barnabas.cluster.controller.election import Strategy
from barnabas.cluster.controller.fenced_store import ControllerMovedError
from barnabas.cluster.controller.partition_state_machine import StateChangeFailedError
from barnabas.cluster.controller.states import PartitionPhase, ReplicaPhase
from barnabas.cluster.controller.term import Term
from barnabas.cluster.leadership import PartitionLeadership, ReplicaAssignment, TopicAssignment
from barnabas.cluster.metadata.cordoned import cordoned_error
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import BadVersionError, Delete, NoNodeError, SetData, StoreError
from barnabas.cluster.store.unreadable import readable
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import NO_LEADER, TopicPartition
from barnabas.core.pending import Steps, steps

_events: Final = EventLog("cluster.controller.reassignment")

Target: TypeAlias = Sequence[int] | None
"""The brokers that a partition is to be on; None ends a reassignment and goes back to where it was."""


# --------------------------------------------------------------------------------- the ways in and out


@steps
def process_api_partition_reassignment(
    term: Term,
    reassignments: Mapping[TopicPartition, Target],
    *,
    allow_replication_factor_change: bool = True,
) -> Steps[dict[TopicPartition, KafkaError | None]]:
    """``processApiPartitionReassignment``:
    the error of each partition, None for one whose reassignment began.
    """
    results: dict[TopicPartition, KafkaError | None] = {}
    wanted: dict[TopicPartition, ReplicaAssignment] = {}
    for tp, target in reassignments.items():
        # Without a target the request cancels, which needs no valid replicas.
        error = None if target is None else _validate(term, tp, target)
        if target is not None and error is None and not allow_replication_factor_change:
            error = _factor_changed(term.context.assignment(tp), target)
        assignment = None if error else _build(term, tp, target)
        if assignment is not None:
            wanted[tp] = assignment
        else:
            results[tp] = error or KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    # The latest one wins, also over what a tool wrote into the znode.
    yield _remove_from_znode(term, lambda tp, _: tp in wanted)
    results.update((yield _trigger(term, wanted)))
    return results


@steps
def process_zk_partition_reassignment(term: Term) -> Steps[set[TopicPartition]]:
    """``processZkPartitionReassignment``: a tool wrote /admin/reassign_partitions;
    the partitions that were begun.
    """
    if (yield term.watches.exists(znodes.REASSIGN_PARTITIONS)) is None:
        return set()
    listed = yield _read_znode(term)
    # Unreadable or empty: it is removed, or no tool could write the next one.
    if not listed:
        yield _remove_from_znode(term, lambda _tp, _target: True)
        return set()
    wanted = {}
    for tp, target in listed.items():
        assignment = _build(term, tp, target)
        assert assignment is not None, "only an API request can ask to cancel"
        wanted[tp] = assignment
    results = yield _trigger(term, wanted)
    failed: dict[TopicPartition, KafkaError] = {tp: each for tp, each in results.items() if each is not None}
    # Only what is under way stays in the znode: tools read from it that a reassignment is running.
    if failed:
        _events.warning("znode_reassignment_failed", partitions=failed)
        yield _remove_from_znode(term, lambda tp, _: tp in failed)
    return set(wanted) - set(failed)


@steps
def initialize_partition_reassignments(term: Term) -> Steps[None]:
    """``initializePartitionReassignments``: a new controller carries on what an earlier one began."""
    resumed = yield process_zk_partition_reassignment(term)
    yield maybe_resume_reassignments(term, lambda tp, _: tp not in resumed)


@steps
def maybe_resume_reassignments(
    term: Term, should_resume: Callable[[TopicPartition, ReplicaAssignment], bool]
) -> Steps[None]:
    """``maybeResumeReassignments``:
    continues those for which `should_resume` says so, after a broker started or a controller was elected.
    """
    context = term.context
    for tp in list(context.being_reassigned):
        assignment = context.assignment(tp)
        if not context.being_deleted(tp.topic) and should_resume(tp, assignment):
            yield _carry_on(term, tp, assignment)


@steps
def maybe_complete_reassignments(term: Term, partitions: Iterable[TopicPartition]) -> Steps[None]:
    """``maybeCompleteReassignment``: ISRs changed;
    where all target replicas are in sync the reassignment ends.
    """
    for tp in partitions:
        assignment = term.context.assignment(tp)
        if tp in term.context.being_reassigned and (yield _is_complete(term, tp, assignment)):
            yield _carry_on(term, tp, assignment)


@steps
def _carry_on(term: Term, tp: TopicPartition, assignment: ReplicaAssignment) -> Steps[KafkaError | None]:
    """Does what is next for one partition. What is wrong with it stops neither the others nor an election."""
    try:
        yield on_partition_reassignment(term, tp, assignment)
    # These end the term, not only this reassignment.
    except (ControllerMovedError, BatchNotSentError):
        raise
    except Exception as error:
        known = isinstance(error, (StoreError, StateChangeFailedError))
        _events.error("reassignment_failed", partition=tp, error=error, exc_info=not known)
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return None


def list_partition_reassignments(
    term: Term, partitions: Iterable[TopicPartition] | None
) -> dict[TopicPartition, ReplicaAssignment]:
    """``processListPartitionReassignments``: of these partitions or of all, the ones on the move."""
    context = term.context
    wanted = context.being_reassigned if partitions is None else partitions
    found = {tp: context.assignment(tp) for tp in wanted}
    return {tp: assignment for tp, assignment in found.items() if assignment.being_reassigned}


# ------------------------------------------------------------------------------------------ the phases


@steps
def on_partition_reassignment(term: Term, tp: TopicPartition, assignment: ReplicaAssignment) -> Steps[None]:
    """``onPartitionReassignment``: does what is next for one partition; may be called again at any time."""
    context = term.context
    yield _update_current_reassignment(term, tp, assignment)
    if tp not in context.leadership:
        # No replica was alive when the partition was made: nothing is to be copied, and AR may be its first.
        yield _make_new(term, tp, assignment)
        yield term.partitions.handle([tp], PartitionPhase.ONLINE, Strategy.OFFLINE)
    if not (yield _is_complete(term, tp, assignment)):
        # A1. The leader hears of the wider assignment, and AR of its leader.
        yield _update_leader_epoch_and_send(term, tp, assignment)
        # A2. AR are new replicas.
        yield _make_new(term, tp, assignment)
        return
    # B1. AR are online.
    yield term.replicas.handle([Replica(tp, each) for each in assignment.adding], ReplicaPhase.ONLINE)
    # B2. Only TRS, in memory: no leader may take RR into the ISR again.
    completed = ReplicaAssignment(assignment.target)
    context.assign(tp, completed)
    # B3. The leader is in TRS, and hears of the narrower assignment.
    yield _move_leader_if_required(term, tp, completed)
    # B4, B5. RR leaves the ISR, is stopped and deleted.
    yield _stop_removed_replicas(term, tp, assignment.removing)
    # B6. The znode gets TRS alone.
    yield _write_assignment(term, tp, completed)
    # B7. It is over.
    yield _remove_from_znode(term, lambda each, target: each == tp and tuple(target) == completed.replicas)
    context.being_reassigned.pop(tp, None)
    _events.info("reassignment_completed", partition=tp, replicas=completed.replicas)
    # B8. Every broker hears of the new replicas.
    yield term.batch.send_update_metadata([tp])
    yield term.deletion.resume_for([tp.topic])


@steps
def _make_new(term: Term, tp: TopicPartition, assignment: ReplicaAssignment) -> Steps[None]:
    """AR are new replicas, unless an earlier controller or start has brought them further."""
    adding = [Replica(tp, broker_id) for broker_id in assignment.adding]
    unknown = (None, ReplicaPhase.NON_EXISTENT)
    yield term.replicas.handle(
        [each for each in adding if term.context.replica_phases.get(each) in unknown], ReplicaPhase.NEW
    )


@steps
def _update_current_reassignment(
    term: Term, tp: TopicPartition, assignment: ReplicaAssignment
) -> Steps[None]:
    context = term.context
    current = context.assignment(tp)
    # New, or replaced by another target. A resumed one is written already.
    if current != assignment:
        yield _write_assignment(term, tp, assignment)  # U1
        context.assign(tp, assignment)  # U2
        _events.info("reassignment_begun", partition=tp, assignment=assignment, before=current)
        # Replicas that an earlier reassignment was adding, and that this one does not want.
        unneeded = [each for each in current.replicas if each not in assignment.replicas]
        yield _stop_removed_replicas(term, tp, unneeded)
    context.being_reassigned[tp] = None


@steps
def _drops_the_isr(term: Term, tp: TopicPartition, assignment: ReplicaAssignment) -> Steps[bool]:
    """Whether all replicas in sync are ones that an earlier reassignment added and this one does not want.

    They would be deleted at once, and with them what only they have. Kafka 3.9 does so with ZooKeeper; with
    KRaft it refuses (``ReplicationControlManager.cancelPartitionReassignment``), and so does this.
    """
    kept = set(assignment.replicas)
    if kept.issuperset(term.context.assignment(tp).replicas):
        return False
    states = yield term.store.partition_states([tp])
    state = states[tp]
    return isinstance(state, PartitionLeadership) and kept.isdisjoint(state.leader_and_isr.isr)


@steps
def _is_complete(term: Term, tp: TopicPartition, assignment: ReplicaAssignment) -> Steps[bool]:
    """``isReassignmentComplete``, by the ISR as the store has it."""
    if not assignment.being_reassigned:
        return True
    states = yield term.store.partition_states([tp])
    state = states[tp]
    return isinstance(state, PartitionLeadership) and set(assignment.target) <= set(state.leader_and_isr.isr)


@steps
def _update_leader_epoch_and_send(
    term: Term, tp: TopicPartition, assignment: ReplicaAssignment
) -> Steps[None]:
    """``updateLeaderEpochAndSendRequest``:
    AR may be put into any log directory, so to them the partition is new.
    """
    leadership = yield _update_leader_epoch(term, tp)
    term.batch.begin()
    term.batch.add_leader_and_isr(assignment.origin, tp, leadership, assignment, is_new=False)
    term.batch.add_leader_and_isr(assignment.adding, tp, leadership, assignment, is_new=True)
    term.batch.send()


@steps
def _update_leader_epoch(term: Term, tp: TopicPartition) -> Steps[PartitionLeadership]:
    """``updateLeaderEpoch``: leader and ISR stay, so that the leader takes a LeaderAndIsr with another
    assignment.
    """
    context = term.context
    while True:
        states = yield term.store.partition_states([tp])
        state = states[tp]
        if not isinstance(state, PartitionLeadership):
            raise StateChangeFailedError(f"cannot update the leader epoch of {tp}: {state}")
        # A later controller has written: this one has been replaced and does not know it yet.
        if state.controller_epoch > context.epoch:
            raise StateChangeFailedError(
                f"the state of {tp} was written by the controller of epoch {state.controller_epoch}"
            )
        current = state.leader_and_isr
        update = yield term.store.update_states({tp: replace(current, leader_epoch=current.leader_epoch + 1)})
        if tp in update.to_retry:
            continue  # the leader wrote meanwhile
        outcome = update.finished[tp]
        if isinstance(outcome, Exception):
            raise outcome
        leadership = context.leadership[tp] = PartitionLeadership(outcome, context.epoch)
        return leadership


@steps
def _move_leader_if_required(term: Term, tp: TopicPartition, completed: ReplicaAssignment) -> Steps[None]:
    """``moveReassignedPartitionLeaderIfRequired``."""
    leadership = term.context.leadership.get(tp)
    # Without a state it never had a leader: its replicas were all dead when it was made.
    leader = NO_LEADER if leadership is None else leadership.leader
    # The leader stays; it must learn that RR are no replicas any longer, which needs a higher epoch.
    if leader in completed.replicas and term.context.is_online(leader, tp):
        yield _update_leader_epoch_and_send(term, tp, completed)
    else:
        yield term.partitions.handle([tp], PartitionPhase.ONLINE, Strategy.REASSIGN)


@steps
def _stop_removed_replicas(term: Term, tp: TopicPartition, broker_ids: Iterable[int]) -> Steps[None]:
    """``stopRemovedReplicasOfReassignedPartition``: nothing waits for the brokers' answers."""
    removed = [Replica(tp, broker_id) for broker_id in broker_ids]
    for phase in (
        ReplicaPhase.OFFLINE,
        ReplicaPhase.DELETION_STARTED,
        ReplicaPhase.DELETION_SUCCESSFUL,
        ReplicaPhase.NON_EXISTENT,
    ):
        yield term.replicas.handle(removed, phase)


# ----------------------------------------------------------------------------------------- the znodes


@steps
def _write_assignment(term: Term, tp: TopicPartition, assignment: ReplicaAssignment) -> Steps[None]:
    """``updateReplicaAssignmentForPartition``; what others wrote about the topic's other partitions stays."""
    path = znodes.topic_path(tp.topic)
    while True:
        data, stat = yield term.store.store.get(path)
        topic = readable(term.store.store, path, znodes.decode_topic, data)
        if topic is None:
            raise StateChangeFailedError(f"cannot write the assignment of {tp}: {path} is unreadable")
        payload = znodes.encode_topic(
            TopicAssignment(topic.topic_id, {**topic.partitions, tp.partition: assignment})
        )
        try:
            yield term.store.write(SetData(path, payload, stat.version))
        except BadVersionError:
            continue
        return


@steps
def _read_znode(term: Term) -> Steps[dict[TopicPartition, tuple[int, ...]]]:
    try:
        data, _ = yield term.store.store.get(znodes.REASSIGN_PARTITIONS)
    except NoNodeError:
        return {}
    return readable(term.store.store, znodes.REASSIGN_PARTITIONS, znodes.decode_reassignment, data) or {}


@steps
def _remove_from_znode(
    term: Term, should_remove: Callable[[TopicPartition, Sequence[int]], bool]
) -> Steps[None]:
    """``maybeRemoveFromZkReassignment``: the znode goes with its last partition."""
    if (yield term.store.store.exists(znodes.REASSIGN_PARTITIONS)) is None:
        return
    listed = yield _read_znode(term)
    left = {tp: target for tp, target in listed.items() if not should_remove(tp, target)}
    # Nothing of it is to be removed.
    if left == listed and left:
        return
    try:
        if left:
            yield term.store.write(SetData(znodes.REASSIGN_PARTITIONS, znodes.encode_reassignment(left)))
        else:
            yield term.store.write(Delete(znodes.REASSIGN_PARTITIONS))
    except NoNodeError:
        _events.info("reassignment_znode_removed_by_another")
    if not left:
        # The watch fired for the znode that was just removed; leave it for the next one.
        yield term.watches.exists(znodes.REASSIGN_PARTITIONS)


# ------------------------------------------------------------------------------------------- judgement


@steps
def _trigger(
    term: Term, wanted: Mapping[TopicPartition, ReplicaAssignment]
) -> Steps[dict[TopicPartition, KafkaError | None]]:
    """``maybeTriggerPartitionReassignment``."""
    results: dict[TopicPartition, KafkaError | None] = {}
    for tp, assignment in wanted.items():
        # A deletion wins over a reassignment: the replicas are about to be removed anyway.
        if term.context.being_deleted(tp.topic) or not term.context.assignment(tp).replicas:
            results[tp] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
            continue
        if (yield _drops_the_isr(term, tp, assignment)):
            results[tp] = _invalid(
                f"Unable to change the assignment of partition {tp} because it would require an unclean "
                "leader election."
            )
            continue
        results[tp] = yield _carry_on(term, tp, assignment)
    return results


def _build(term: Term, tp: TopicPartition, target: Target) -> ReplicaAssignment | None:
    """``maybeBuildReassignment``: None where a reassignment is to end that is not there."""
    assignment = term.context.assignment(tp)
    if target is None:
        return assignment.reassign_to(assignment.origin) if assignment.being_reassigned else None
    return assignment.reassign_to(target)


def _validate(term: Term, tp: TopicPartition, target: Sequence[int]) -> KafkaError | None:
    """``validateReplicas``."""
    if not target:
        return _invalid("Empty replica list specified in partition reassignment.")
    if len(set(target)) < len(target):
        return _invalid(f"Duplicate replica ids in partition reassignment replica list: {_buffer(target)}")
    if any(each < 0 for each in target):
        return _invalid(f"Invalid broker id in replica list: {_buffer(target)}")
    if error := cordoned_error(target, term.context.cordoned_brokers()):
        return error
    # Only replicas that come new must be alive: the others may be on brokers that are down.
    adding = term.context.assignment(tp).reassign_to(target).adding
    live = sorted(term.context.live_ids())
    if not set(adding) <= set(live):
        return _invalid(
            f"Replica assignment has brokers that are not alive. Replica list: {_buffer(adding)}, "
            f"live broker list: Set({', '.join(map(str, live))})"
        )
    return None


def _factor_changed(assignment: ReplicaAssignment, target: Sequence[int]) -> KafkaError | None:
    """``validatePartitionReplicationFactorUnchanged`` (KIP-860). What a partition on the move is to become
    counts, not all that it has meanwhile.
    """
    now = len(assignment.target)
    # A partition that does not exist is refused for that.
    if not now or now == len(target):
        return None
    message = f"The replication factor is changed from {now} to {len(target)}"
    return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _buffer(brokers: Iterable[int]) -> str:
    """Brokers as Kafka's message prints them."""
    return f"ArrayBuffer({', '.join(map(str, brokers))})"
