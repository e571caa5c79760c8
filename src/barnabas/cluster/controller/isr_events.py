"""ISRs that leaders change: AlterPartition (56) as the controller answers it (KIP-497, KIP-704, KIP-841), and the
notifications of brokers from before it.

The order of the checks is Kafka's (``tryProcessAlterPartition``), and matters: a repeated request for what
is already so must succeed, whatever partition epoch it carries.
"""

from typing import Final, TypeAlias

from barnabas.cluster.controller.context import ControllerContext
from barnabas.cluster.controller.reassignment import maybe_complete_reassignments
from barnabas.cluster.controller.term import Term
from barnabas.cluster.leadership import LeaderAndIsr, LeaderRecoveryState, PartitionLeadership
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import NoNodeError
from barnabas.cluster.store.unreadable import readable
from barnabas.core.errors import ErrorCode
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import ZERO_UUID, TopicPartition
from barnabas.core.pending import Steps, gather, steps
from barnabas.core.slices import Slices
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

_events: Final = EventLog("cluster.controller.isr")

_RECOVERY_STATES: Final = frozenset(LeaderRecoveryState)

Verdict: TypeAlias = ErrorCode | LeaderAndIsr | None
"""A refusal, the state that stands already, or None: the state must be written."""


@steps
def alter_partitions(
    term: Term, request: AlterPartitionRequest, version: int
) -> Steps[tuple[AlterPartitionResponse, list[TopicPartition]]]:
    """``processAlterPartition``: the answer to a leader, and the partitions that are as it proposed.

    After a successful write all brokers learn the new ISR.

    In slices, as a leader may propose for thousands of partitions. Other events of the controller wait meanwhile.
    """
    context = term.context
    if context.broker_epochs.get(request.broker_id) != request.broker_epoch:
        _events.info("alter_partition_stale", broker=request.broker_id, epoch=request.broker_epoch)
        return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH), []
    response = AlterPartitionResponse()
    proposals: dict[TopicPartition, LeaderAndIsr] = {}
    verdicts: dict[TopicPartition, Verdict] = {}
    slices = Slices(term.clock)
    for topic in request.topics:
        name = context.topic_names.get(topic.topic_id) if version > 1 else topic.topic_name
        unknown = AlterPartitionResponseTopicData(topic_id=topic.topic_id)
        if name is None:
            response.topics.append(unknown)
        for partition in topic.partitions:
            if slices.over():
                yield slices.next_turn()
            if name is None:
                unknown.partitions.append(_refused(partition.partition_index, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            tp = TopicPartition(name, partition.partition_index)
            if partition.leader_recovery_state not in _RECOVERY_STATES:
                verdicts[tp] = ErrorCode.INVALID_REQUEST
                continue
            proposals[tp] = _proposal(request, partition, version)
            verdicts[tp] = _judge(context, tp, proposals[tp], version)
    to_write = {tp: proposals[tp] for tp, verdict in verdicts.items() if verdict is None}
    update = yield term.store.update_states(to_write)
    verdicts |= dict.fromkeys(update.to_retry, ErrorCode.INVALID_UPDATE_VERSION)
    slices = Slices(term.clock)
    for tp, outcome in update.finished.items():
        if slices.over():
            yield slices.next_turn()
        if isinstance(outcome, LeaderAndIsr):
            context.leadership[tp] = PartitionLeadership(outcome, context.epoch)
            verdicts[tp] = outcome
        else:
            _events.error("isr_not_written", partition=tp, error=outcome)
            verdicts[tp] = ErrorCode.UNKNOWN_SERVER_ERROR
    # Also of what was refused: who proposes for a state of the past learns the present one.
    yield term.batch.send_update_metadata(proposals)
    topics: dict[str, AlterPartitionResponseTopicData] = {}
    slices = Slices(term.clock)
    for tp, verdict in verdicts.items():
        if slices.over():
            yield slices.next_turn()
        if tp.topic not in topics:
            topics[tp.topic] = (
                AlterPartitionResponseTopicData(topic_id=context.topic_ids.get(tp.topic, ZERO_UUID))
                if version > 1
                else AlterPartitionResponseTopicData(topic_name=tp.topic)
            )
        topics[tp.topic].partitions.append(_answer(tp, verdict))
    response.topics += topics.values()
    return response, [tp for tp, verdict in verdicts.items() if isinstance(verdict, LeaderAndIsr)]


@steps
def process_isr_change_notification(term: Term) -> Steps[None]:
    """``processIsrChangeNotification``: leaders of brokers with an IBP before 2.7 wrote ISRs into the store themselves."""
    context = term.context
    names = yield term.watches.children(znodes.ISR_CHANGES)
    paths = [f"{znodes.ISR_CHANGES}/{name}" for name in names]
    reads = [term.store.store.get(path) for path in paths]
    yield gather(reads)
    changed: dict[TopicPartition, None] = {}
    for path, read in zip(paths, reads, strict=True):
        if isinstance(read.error, NoNodeError):
            continue
        named = readable(term.store.store, path, znodes.decode_partitions, read.result()[0]) or []
        changed |= {tp: None for tp in named if context.assignment(tp).replicas}
    try:
        if changed:
            states = yield term.store.partition_states(list(changed))
            context.leadership |= {
                tp: state for tp, state in states.items() if isinstance(state, PartitionLeadership)
            }
            yield term.batch.send_update_metadata(changed)
            yield maybe_complete_reassignments(term, changed)
    finally:
        yield term.store.delete_quietly(paths)


def _proposal(
    request: AlterPartitionRequest, partition: AlterPartitionRequestPartitionData, version: int
) -> LeaderAndIsr:
    isr = (each.broker_id for each in partition.new_isr_with_epochs) if version >= 3 else partition.new_isr
    return LeaderAndIsr(
        request.broker_id,
        tuple(isr),
        partition.leader_epoch,
        LeaderRecoveryState(partition.leader_recovery_state),
        partition.partition_epoch,
    )


def _judge(context: ControllerContext, tp: TopicPartition, wanted: LeaderAndIsr, version: int) -> Verdict:
    """``tryProcessAlterPartition`` for one partition."""
    known = context.leadership.get(tp)
    if known is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    current = known.leader_and_isr
    if wanted.partition_epoch > current.partition_epoch or wanted.leader_epoch > current.leader_epoch:
        return ErrorCode.NOT_CONTROLLER  # the leader knows a later controller than this one
    if wanted.leader_epoch < current.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if wanted.same_but_older(current):
        return current
    if wanted.partition_epoch < current.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if wanted.recovery_state is LeaderRecoveryState.RECOVERING and (
        len(wanted.isr) > 1 or current.recovery_state is LeaderRecoveryState.RECOVERED
    ):
        return ErrorCode.INVALID_REQUEST
    # KIP-841: a replica that is dead or shutting down may not join.
    if not context.live_ids().issuperset(wanted.isr):
        return ErrorCode.INELIGIBLE_REPLICA if version > 1 else ErrorCode.OPERATION_NOT_ATTEMPTED
    return None


def _answer(tp: TopicPartition, verdict: Verdict) -> AlterPartitionResponsePartitionData:
    assert verdict is not None, f"{tp} was neither refused nor written"
    if isinstance(verdict, ErrorCode):
        return _refused(tp.partition, verdict)
    return AlterPartitionResponsePartitionData(
        partition_index=tp.partition,
        leader_id=verdict.leader,
        leader_epoch=verdict.leader_epoch,
        isr=list(verdict.isr),
        leader_recovery_state=verdict.recovery_state,
        partition_epoch=verdict.partition_epoch,
    )


def _refused(partition: int, code: ErrorCode) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(partition_index=partition, error_code=code)
