"""`IsrChannel`: the active controller's `alter_partition` as an AlterPartition request (56)."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from barnabas.cluster.leadership import IsrProposal, IsrVerdict, LeaderAndIsr, LeaderRecoveryState
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import ZERO_UUID, Uuid
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Slices
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponsePartitionData,
    BrokerState,
)

WITH_TOPIC_IDS: Final = (3, 3)
"""The version that every controller of Kafka 3.5 or later knows."""
WITHOUT_TOPIC_IDS: Final = (0, 1)
"""Version 1 is the highest that names topics."""


class VersionedChannel(Protocol):
    """The part of a `NodeToControllerChannelManager` that is used here."""

    def send(self, request: AlterPartitionRequest, *, versions: tuple[int, int]) -> Pending[Any]:
        """The controller's answer, in one of the `versions`; fails where sending again is no help."""


class IsrChannel:
    """Implements `replica.alter_partition.AlterPartitionChannel`."""

    def __init__(self, channel: VersionedChannel, clock: Clock) -> None:
        self._channel = channel
        self._clock = clock

    @steps
    def alter_partition(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[IsrProposal]
    ) -> Steps[list[IsrVerdict]]:
        """The controller's verdict on each proposal. Raises KafkaError where it refuses the whole request."""
        # Only where each topic has an id: one without keeps the whole request at a version with names.
        with_ids = all(each.topic_id != ZERO_UUID for each in proposals)
        request = AlterPartitionRequest(
            broker_id=broker_id, broker_epoch=broker_epoch, topics=_topics(proposals, with_ids=with_ids)
        )
        versions = WITH_TOPIC_IDS if with_ids else WITHOUT_TOPIC_IDS
        response = yield self._channel.send(request, versions=versions)
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code))
        slices = Slices(self._clock)
        verdicts: dict[tuple[Uuid | str, int], IsrVerdict] = {}
        for topic in response.topics:
            named = topic.topic_id if with_ids else topic.topic_name
            for partition in topic.partitions:
                if slices.over():
                    yield slices.next_turn()
                verdicts[named, partition.partition_index] = _verdict(partition)
        return [
            # A partition that the answer leaves out is one that the controller does not know.
            verdicts.get(
                ((each.topic_id if with_ids else each.topic) or "", each.partition),
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for each in proposals
        ]

    def __repr__(self) -> str:
        return f"<IsrChannel over {self._channel!r}>"


def _topics(proposals: Sequence[IsrProposal], *, with_ids: bool) -> list[AlterPartitionRequestTopicData]:
    topics: dict[tuple[str, Uuid], AlterPartitionRequestTopicData] = {}
    for each in proposals:
        name, wanted = each.topic or "", each.wanted
        assert wanted is not None, f"{each} proposes nothing"
        topic = topics.setdefault(
            (name, each.topic_id), AlterPartitionRequestTopicData(topic_name=name, topic_id=each.topic_id)
        )
        partition = AlterPartitionRequestPartitionData(
            partition_index=each.partition,
            leader_epoch=wanted.leader_epoch,
            partition_epoch=wanted.partition_epoch,
        )
        if with_ids:
            partition.new_isr_with_epochs = [BrokerState(broker_id=broker) for broker in wanted.isr]
        else:
            partition.new_isr = list(wanted.isr)
        topic.partitions.append(partition)
    return list(topics.values())


def _verdict(partition: AlterPartitionResponsePartitionData) -> IsrVerdict:
    if partition.error_code:
        return ErrorCode.of(partition.error_code)
    return LeaderAndIsr(
        partition.leader_id,
        tuple(partition.isr),
        partition.leader_epoch,
        LeaderRecoveryState(partition.leader_recovery_state),
        partition.partition_epoch,
    )
