"""Asking the controller to change ISRs, one request at a time (``AlterPartitionManager``, KIP-497).

Theory of operation
-------------------
Leaders submit proposals; those that wait when no request is in flight go out together. The channel finds the
controller, and sends again where it was lost or has moved. An answer completes each proposal with what the
controller decided. If the controller refused the whole request (it knows the broker under another epoch),
everything in it stays and is asked in a new request after 50 ms: a proposal is never dropped, its partition
is locked until it ends. A newer proposal of a partition cannot come before the older one ended.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from barnabas.cluster.leadership import IsrProposal, IsrVerdict, LeaderAndIsr
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition, Uuid
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Slices

_log = EventLog("replica.alter_partition")

RETRY_MS: Final = 50


class AlterPartitionChannel(Protocol):
    """The way to the active controller, wherever it is (``NodeToControllerChannelManager``)."""

    def alter_partition(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[IsrProposal]
    ) -> Pending[list[IsrVerdict]]:
        """The verdict on each proposal;
        fails where the controller refuses all, or sending again is no help.
        """


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
        self, broker_id: int, broker_epoch: Callable[[], int], channel: AlterPartitionChannel, clock: Clock
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._clock = clock
        self._in_flight = False
        self._waiting: dict[TopicPartition, _Proposal] = {}

    def submit(self, tp: TopicPartition, topic_id: Uuid, proposal: LeaderAndIsr) -> Pending[LeaderAndIsr]:
        # KIP-497: one proposal a partition; `Partition.isr_state` holds the next one back.
        if tp in self._waiting:
            return Pending.failed(
                KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, f"Failed to enqueue ISR change for {tp}")
            )
        item = self._waiting[tp] = _Proposal(tp, topic_id, proposal)
        self._send()
        return item.decision

    def _send(self) -> None:
        # What is proposed while a request is in flight goes into the next one, all together.
        if self._in_flight or not self._waiting:
            return
        self._in_flight = True
        sent = list(self._waiting.values())
        proposals = [
            IsrProposal(each.tp.topic, each.topic_id, each.tp.partition, each.proposal) for each in sent
        ]
        verdicts = self._channel.alter_partition(self._broker_id, self._broker_epoch(), proposals)
        verdicts.when_done(lambda done: self._answered(sent, done))

    def _answered(self, sent: list[_Proposal], answer: Pending[list[IsrVerdict]]) -> None:
        error = answer.error
        # Refused as a whole, or never answered: the proposals stay and are sent again.
        if error is not None:
            self._in_flight = False
            reason = error.code.name if isinstance(error, KafkaError) else error
            _log.warning("alter_partition.retry", error=reason, partitions=len(sent))
            self._clock.call_later(RETRY_MS, self._send)
        else:
            self._decide(sent, answer.result()).when_done(self._decided)

    @steps
    def _decide(self, sent: list[_Proposal], verdicts: list[IsrVerdict]) -> Steps[None]:
        """Ends the proposals, in slices. What is proposed meanwhile goes into the next request together."""
        slices = Slices(self._clock)
        for item, verdict in zip(sent, verdicts, strict=True):
            if slices.over():
                yield slices.next_turn()
            # Off the queue first: its partition may propose again as soon as it hears the decision.
            del self._waiting[item.tp]
            if isinstance(verdict, LeaderAndIsr):
                item.decision.complete(verdict)
            else:
                item.decision.fail(KafkaError(verdict))

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
