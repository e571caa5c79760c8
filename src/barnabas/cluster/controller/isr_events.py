"""ISRs that leaders change: AlterPartition as the controller decides on it (KIP-497, KIP-704, KIP-841), and
the notifications of brokers from before it.

The order of the checks is Kafka's (``tryProcessAlterPartition``), and matters: a repeated request for what is
already so must succeed, also with a partition epoch of the past.
"""

from collections.abc import Sequence
from typing import Final

from barnabas.cluster.controller.context import ControllerContext
from barnabas.cluster.controller.reassignment import maybe_complete_reassignments
from barnabas.cluster.controller.term import Term
from barnabas.cluster.leadership import (
    IsrProposal,
    IsrVerdict,
    LeaderAndIsr,
    LeaderRecoveryState,
    PartitionLeadership,
)
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import NoNodeError
from barnabas.cluster.store.unreadable import readable
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Steps, gather, steps
from barnabas.core.slices import Slices

_events: Final = EventLog("cluster.controller.isr")


@steps
def alter_partitions(
    term: Term, broker_id: int, broker_epoch: int, proposals: Sequence[IsrProposal]
) -> Steps[tuple[list[IsrVerdict], list[TopicPartition]]]:
    """``processAlterPartition``: the verdict on each proposal, and the partitions that are as a leader
    proposed.

    After a successful write all brokers learn the new ISR. Raises STALE_BROKER_EPOCH for the whole of it.

    In slices, as a leader may propose for thousands of partitions. Other events of the controller wait
    meanwhile.
    """
    context = term.context
    # A request of the broker's former life, or of one that this controller does not know (yet).
    if context.broker_epochs.get(broker_id) != broker_epoch:
        _events.info("alter_partition_stale", broker=broker_id, epoch=broker_epoch)
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    named: list[TopicPartition | None] = []
    wanted: dict[TopicPartition, LeaderAndIsr] = {}
    verdicts: dict[TopicPartition, IsrVerdict | None] = {}
    """None while the state must be written."""
    slices = Slices(term.clock)
    for proposal in proposals:
        if slices.over():
            yield slices.next_turn()
        topic = context.topic_names.get(proposal.topic_id) if proposal.topic is None else proposal.topic
        # Since version 2 topics are named by id; the topic was deleted, or is not known here yet.
        if topic is None:
            named.append(None)
            continue
        tp = TopicPartition(topic, proposal.partition)
        named.append(tp)
        if proposal.wanted is None:
            verdicts[tp] = ErrorCode.INVALID_REQUEST
            continue
        wanted[tp] = proposal.wanted
        verdicts[tp] = _judge(context, tp, proposal.wanted)
    to_write = {tp: wanted[tp] for tp, verdict in verdicts.items() if verdict is None}
    update = yield term.store.update_states(to_write)
    # The znode was written in between: the leader asks again with what it learns by then.
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
    yield term.batch.send_update_metadata(wanted)
    answers: list[IsrVerdict] = []
    for each in named:
        verdict = ErrorCode.UNKNOWN_TOPIC_ID if each is None else verdicts[each]
        assert verdict is not None, f"{each} was neither refused nor written"
        answers.append(verdict)
    return answers, [tp for tp, verdict in verdicts.items() if isinstance(verdict, LeaderAndIsr)]


@steps
def process_isr_change_notification(term: Term) -> Steps[None]:
    """``processIsrChangeNotification``:
    leaders of brokers with an IBP before 2.7 wrote ISRs into the store themselves.
    """
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
        # The brokers wrote the states themselves (IBP before 2.7): they are read, and sent to all.
        if changed:
            states = yield term.store.partition_states(list(changed))
            context.leadership |= {
                tp: state for tp, state in states.items() if isinstance(state, PartitionLeadership)
            }
            yield term.batch.send_update_metadata(changed)
            yield maybe_complete_reassignments(term, changed)
    finally:
        yield term.store.delete_quietly(paths)


def _judge(context: ControllerContext, tp: TopicPartition, wanted: LeaderAndIsr) -> IsrVerdict | None:
    """``tryProcessAlterPartition`` for one partition; None for what may be written."""
    known = context.leadership.get(tp)
    if known is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    current = known.leader_and_isr
    if wanted.partition_epoch > current.partition_epoch or wanted.leader_epoch > current.leader_epoch:
        return ErrorCode.NOT_CONTROLLER  # the leader knows a later controller than this one
    # Another leader was elected since.
    if wanted.leader_epoch < current.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    # The answer to the first request was lost.
    if wanted.same_but_older(current):
        return current
    # The leader built on a state that is out of date.
    if wanted.partition_epoch < current.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    # KIP-704: after an unclean election the leader is alone in the ISR until it has recovered; there is no
    # way back.
    if wanted.recovery_state is LeaderRecoveryState.RECOVERING and (
        len(wanted.isr) > 1 or current.recovery_state is LeaderRecoveryState.RECOVERED
    ):
        return ErrorCode.INVALID_REQUEST
    # KIP-841: a replica that is dead or shutting down may not join.
    if not context.live_ids().issuperset(wanted.isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return None
