"""AlterPartition (56) as the controller answers it: a leader changes its ISR (KIP-497, KIP-704, KIP-841).

The order of the checks is Kafka's (``tryProcessAlterPartition``), and matters: a repeated request for what
is already so must succeed, whatever partition epoch it carries.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from barnabas.cluster.controller.context import ControllerContext
from barnabas.cluster.controller.term import Term
from barnabas.cluster.leadership import LeaderAndIsr, LeaderRecoveryState, PartitionLeadership
from barnabas.core.errors import ErrorCode
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import ZERO_UUID, TopicPartition
from barnabas.core.pending import Steps, steps
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

_events: Final = EventLog("cluster.controller.isr")

Verdict: TypeAlias = ErrorCode | LeaderAndIsr | None
"""A refusal, the state that stands already, or None: the state must be written."""


@steps
def alter_partitions(
    term: Term, request: AlterPartitionRequest, version: int
) -> Steps[AlterPartitionResponse]:
    """The answer to a leader; after a successful write all brokers learn the new ISR."""
    if term.context.broker_epochs.get(request.broker_id) != request.broker_epoch:
        _events.info("alter_partition_stale", broker=request.broker_id, epoch=request.broker_epoch)
        return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    response = AlterPartitionResponse()
    wanted = dict(_wanted(term.context, request, version, response))
    verdicts: dict[TopicPartition, Verdict] = {
        tp: _judge(term.context, tp, state, version) for tp, state in wanted.items()
    }
    to_write = {tp: wanted[tp] for tp, verdict in verdicts.items() if verdict is None}
    update = yield term.store.update_states(to_write)
    verdicts |= dict.fromkeys(update.to_retry, ErrorCode.INVALID_UPDATE_VERSION)
    for tp, outcome in update.finished.items():
        if isinstance(outcome, LeaderAndIsr):
            term.context.leadership[tp] = PartitionLeadership(outcome, term.context.epoch)
            verdicts[tp] = outcome
        else:
            _events.error("isr_not_written", partition=tp, error=outcome)
            verdicts[tp] = ErrorCode.UNKNOWN_SERVER_ERROR
    term.batch.send_update_metadata(wanted)
    _fill(term.context, response, verdicts, version)
    return response


def _wanted(
    context: ControllerContext, request: AlterPartitionRequest, version: int, response: AlterPartitionResponse
) -> Iterator[tuple[TopicPartition, LeaderAndIsr]]:
    """The states asked for; topics whose id is not known are answered at once."""
    for topic in request.topics:
        name = context.topic_names.get(topic.topic_id) if version > 1 else topic.topic_name
        if name is None:
            response.topics.append(_unknown_topic(topic))
            continue
        for partition in topic.partitions:
            yield TopicPartition(name, partition.partition_index), _state(request, partition, version)


def _unknown_topic(topic: AlterPartitionRequestTopicData) -> AlterPartitionResponseTopicData:
    partitions = [
        AlterPartitionResponsePartitionData(
            partition_index=each.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_ID
        )
        for each in topic.partitions
    ]
    return AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=partitions)


def _state(
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


def _fill(
    context: ControllerContext,
    response: AlterPartitionResponse,
    verdicts: dict[TopicPartition, Verdict],
    version: int,
) -> None:
    topics: dict[str, AlterPartitionResponseTopicData] = {}
    for tp, verdict in verdicts.items():
        topic = topics.get(tp.topic)
        if topic is None:
            topic = topics[tp.topic] = (
                AlterPartitionResponseTopicData(topic_id=context.topic_ids.get(tp.topic, ZERO_UUID))
                if version > 1
                else AlterPartitionResponseTopicData(topic_name=tp.topic)
            )
        topic.partitions.append(_partition(tp, verdict))
    response.topics += topics.values()


def _partition(tp: TopicPartition, verdict: Verdict) -> AlterPartitionResponsePartitionData:
    assert verdict is not None, f"{tp} was neither refused nor written"
    if isinstance(verdict, ErrorCode):
        return AlterPartitionResponsePartitionData(partition_index=tp.partition, error_code=verdict)
    return AlterPartitionResponsePartitionData(
        partition_index=tp.partition,
        leader_id=verdict.leader,
        leader_epoch=verdict.leader_epoch,
        isr=list(verdict.isr),
        leader_recovery_state=verdict.recovery_state,
        partition_epoch=verdict.partition_epoch,
    )
