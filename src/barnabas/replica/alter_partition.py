"""Asking the controller to change ISRs, one request at a time (``AlterPartitionManager``, KIP-497).

Theory of operation
-------------------
Leaders submit proposals; those that wait when no request is in flight go out together. The channel finds the
controller, and sends again where it was lost or has moved. An answer completes each proposal with what the controller
decided. If the controller refused the whole request (it knows the broker under another epoch), everything in it stays
and is asked in a new request after 50 ms: a proposal is never dropped, its partition is locked until it ends. A newer
proposal of a partition cannot come before the older one ended.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from barnabas.cluster.leadership import LeaderAndIsr, LeaderRecoveryState
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import ZERO_UUID, TopicPartition, Uuid
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Slices
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
)

_log = EventLog("replica.alter_partition")

RETRY_MS: Final = 50

WITH_TOPIC_IDS: Final = (3, 3)
"""The version that every controller of Kafka 3.5 or later knows."""
WITHOUT_TOPIC_IDS: Final = (0, 1)
"""Version 1 is the highest that names topics."""


class NodeToControllerChannel(Protocol):
    """The way from this broker to the active controller (``NodeToControllerChannelManager``)."""

    def send(
        self, request: AlterPartitionRequest, *, versions: tuple[int, int]
    ) -> Pending[AlterPartitionResponse]:
        """The controller's answer, in one of the `versions`; fails where sending again is no help."""


class _Proposal:
    __slots__ = ("decision", "proposal", "topic_id", "tp")

    def __init__(self, tp: TopicPartition, topic_id: Uuid, proposal: LeaderAndIsr) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.proposal = proposal
        self.decision: Pending[LeaderAndIsr] = Pending()


class AlterPartitionManager:
    """Collects proposals and sends them, at most one request in flight."""

    __slots__ = ("_broker_epoch", "_broker_id", "_channel", "_clock", "_in_flight", "_waiting")

    def __init__(
        self, broker_id: int, broker_epoch: Callable[[], int], channel: NodeToControllerChannel, clock: Clock
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._clock = clock
        self._in_flight = False
        self._waiting: dict[TopicPartition, _Proposal] = {}

    def submit(self, tp: TopicPartition, topic_id: Uuid, proposal: LeaderAndIsr) -> Pending[LeaderAndIsr]:
        if tp in self._waiting:
            return Pending.failed(
                KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, f"Failed to enqueue ISR change for {tp}")
            )
        item = self._waiting[tp] = _Proposal(tp, topic_id, proposal)
        self._send()
        return item.decision

    def _send(self) -> None:
        if self._in_flight or not self._waiting:
            return
        self._in_flight = True
        sent = list(self._waiting.values())
        # Only where each topic has an id: one without keeps the whole request at a version with names.
        with_ids = all(item.topic_id != ZERO_UUID for item in sent)
        versions = WITH_TOPIC_IDS if with_ids else WITHOUT_TOPIC_IDS
        answer = self._channel.send(self._request(sent, with_ids=with_ids), versions=versions)
        answer.when_done(lambda answer: self._answered(sent, answer))

    def _request(self, proposals: Iterable[_Proposal], *, with_ids: bool) -> AlterPartitionRequest:
        topics: dict[tuple[str, Uuid], AlterPartitionRequestTopicData] = {}
        for item in proposals:
            key = (item.tp.topic, item.topic_id)
            topic = topics.setdefault(
                key, AlterPartitionRequestTopicData(topic_name=item.tp.topic, topic_id=item.topic_id)
            )
            partition = AlterPartitionRequestPartitionData(
                partition_index=item.tp.partition,
                leader_epoch=item.proposal.leader_epoch,
                partition_epoch=item.proposal.partition_epoch,
            )
            if with_ids:
                partition.new_isr_with_epochs = [
                    BrokerState(broker_id=broker) for broker in item.proposal.isr
                ]
            else:
                partition.new_isr = list(item.proposal.isr)
            topic.partitions.append(partition)
        return AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    def _answered(self, sent: list[_Proposal], answer: Pending[AlterPartitionResponse]) -> None:
        refusal = answer.error or ErrorCode.of(answer.result().error_code)
        if refusal:
            self._in_flight = False
            name = refusal.name if isinstance(refusal, ErrorCode) else refusal
            _log.warning("alter_partition.retry", error=name, partitions=len(sent))
            self._clock.call_later(RETRY_MS, self._send)
        else:
            self._decide(sent, answer.result()).when_done(self._decided)

    @steps
    def _decide(self, sent: list[_Proposal], response: AlterPartitionResponse) -> Steps[None]:
        """Ends the proposals, in slices. What is proposed meanwhile goes into the next request together."""
        slices = Slices(self._clock)
        decisions: dict[TopicPartition, LeaderAndIsr | KafkaError] = {}
        for tp, decision in _decisions(response, sent):
            if slices.over():
                yield slices.next_turn()
            decisions[tp] = decision
        for item in sent:
            if slices.over():
                yield slices.next_turn()
            # Off the queue first: its partition may propose again as soon as it hears the decision.
            del self._waiting[item.tp]
            decided = decisions.get(item.tp)
            if isinstance(decided, LeaderAndIsr):
                item.decision.complete(decided)
            else:
                # A partition that the answer leaves out is one that the controller does not know.
                item.decision.fail(decided or KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    def _decided(self, done: Pending[None]) -> None:
        self._in_flight = False
        if done.error is None:
            self._send()
        else:
            # What is left is asked again: a partition stays locked until its proposal ends.
            _log.error("alter_partition.failed", exc_info=done.error)
            self._clock.call_later(RETRY_MS, self._send)

    def __repr__(self) -> str:
        return f"<AlterPartitionManager waiting={len(self._waiting)} in_flight={self._in_flight}>"


def _decisions(
    response: AlterPartitionResponse, sent: Iterable[_Proposal]
) -> Iterable[tuple[TopicPartition, LeaderAndIsr | KafkaError]]:
    names = {item.topic_id: item.tp.topic for item in sent if item.topic_id != ZERO_UUID}
    for topic in response.topics:
        name = names.get(topic.topic_id, topic.topic_name)
        for partition in topic.partitions:
            code = ErrorCode.of(partition.error_code)
            decided = LeaderAndIsr(
                partition.leader_id,
                tuple(partition.isr),
                partition.leader_epoch,
                LeaderRecoveryState(partition.leader_recovery_state),
                partition.partition_epoch,
            )
            yield TopicPartition(name, partition.partition_index), KafkaError(code) if code else decided
