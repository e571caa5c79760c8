"""AlterPartition (56), v0-3.

Behaviour: a leader proposes a change of the ISR, the controller decides (KIP-497).
Versions:  v1 recovery state (KIP-704) · v2 topic ids · v3 broker epochs of the ISR (KIP-903).
Not implemented: nothing.
"""

from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.cluster.leadership import IsrProposal, IsrVerdict, LeaderAndIsr, LeaderRecoveryState
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

TOPIC_IDS_SINCE: Final = 2
BROKER_EPOCHS_SINCE: Final = 3
_RECOVERY_STATES: Final = frozenset(LeaderRecoveryState)


@handles(ApiKey.ALTER_PARTITION, versions=(0, 3), throttled=False)
@sliced
def alter_partition(
    context: RequestContext, request: AlterPartitionRequest
) -> Sliced[AlterPartitionResponse]:
    context.require_cluster(Operation.CLUSTER_ACTION)
    controller = context.broker.controller
    if not controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    proposals = yield from proposals_of(request, context.version)
    verdicts = yield controller.alter_partition(request.broker_id, request.broker_epoch, proposals)
    return (yield from response_of(proposals, verdicts, context.version))


def proposals_of(request: AlterPartitionRequest, version: int) -> Sliced[list[IsrProposal]]:
    """What a request of any version proposes."""
    proposals: list[IsrProposal] = []
    for topic in request.topics:
        name = topic.topic_name if version < TOPIC_IDS_SINCE else None
        for partition in topic.partitions:
            wanted = _wanted(request.broker_id, partition, version)
            proposals.append(IsrProposal(name, topic.topic_id, partition.partition_index, wanted))
            yield
    return proposals


def _wanted(
    broker_id: int, partition: AlterPartitionRequestPartitionData, version: int
) -> LeaderAndIsr | None:
    if partition.leader_recovery_state not in _RECOVERY_STATES:
        return None
    if version < BROKER_EPOCHS_SINCE:
        isr = tuple(partition.new_isr)
    else:
        isr = tuple(each.broker_id for each in partition.new_isr_with_epochs)
    return LeaderAndIsr(
        broker_id,
        isr,
        partition.leader_epoch,
        LeaderRecoveryState(partition.leader_recovery_state),
        partition.partition_epoch,
    )


def response_of(
    proposals: list[IsrProposal], verdicts: list[IsrVerdict], version: int
) -> Sliced[AlterPartitionResponse]:
    """The verdicts by topic, those of topics that the controller does not know first, as Kafka does."""
    unknown: dict[str | bytes, AlterPartitionResponseTopicData] = {}
    known: dict[str | bytes, AlterPartitionResponseTopicData] = {}
    answered: set[tuple[str | bytes, int]] = set()
    for proposal, verdict in zip(proposals, verdicts, strict=True):
        key = proposal.topic_id if proposal.topic is None else proposal.topic
        if (key, proposal.partition) in answered:
            continue  # a partition that is named twice has one answer
        answered.add((key, proposal.partition))
        topics = unknown if verdict is ErrorCode.UNKNOWN_TOPIC_ID else known
        if key not in topics:
            topics[key] = (
                AlterPartitionResponseTopicData(topic_id=proposal.topic_id)
                if proposal.topic is None
                else AlterPartitionResponseTopicData(topic_name=proposal.topic)
            )
        topics[key].partitions.append(_answer(proposal.partition, verdict, version))
        yield
    return AlterPartitionResponse(topics=[*unknown.values(), *known.values()])


def _answer(partition: int, verdict: IsrVerdict, version: int) -> AlterPartitionResponsePartitionData:
    if isinstance(verdict, LeaderAndIsr):
        return AlterPartitionResponsePartitionData(
            partition_index=partition,
            leader_id=verdict.leader,
            leader_epoch=verdict.leader_epoch,
            isr=list(verdict.isr),
            leader_recovery_state=verdict.recovery_state,
            partition_epoch=verdict.partition_epoch,
        )
    if verdict is ErrorCode.INELIGIBLE_REPLICA and version < TOPIC_IDS_SINCE:
        verdict = ErrorCode.OPERATION_NOT_ATTEMPTED  # leaders from before KIP-841 know no other code
    return AlterPartitionResponsePartitionData(partition_index=partition, error_code=verdict)
