"""Ids for idempotent producers, from blocks that the controller gives out (``RPCProducerIdManager``,
KIP-730).

A block is asked for when the first id is wanted, and the next one before the block is used up, so that
producers seldom wait. A request that finds no id waits for the block; such requests are answered in order.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending
from barnabas.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

_log = EventLog("broker.producer_ids")

PREFETCH_BELOW: Final = 100
"""The next block is asked for when so few ids are left (a block has 1000)."""


class NodeToControllerChannel(Protocol):
    """The way to the active controller."""

    def send(self, request: AllocateProducerIdsRequest) -> Pending[AllocateProducerIdsResponse]:
        """The controller's answer; fails when it cannot be had in time."""


class ProducerIdManager:
    """Hands out ids that no other broker hands out."""

    __slots__ = ("_asking", "_blocks", "_broker_epoch", "_broker_id", "_channel", "_waiting")

    def __init__(
        self, broker_id: int, broker_epoch: Callable[[], int], channel: NodeToControllerChannel
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._asking = False
        self._blocks: deque[range] = deque()
        self._waiting: deque[Pending[int]] = deque()

    def generate(self) -> Pending[int]:
        """The next id; fails with COORDINATOR_LOAD_IN_PROGRESS where the controller cannot be asked."""
        producer_id: Pending[int] = Pending()
        self._waiting.append(producer_id)
        self._serve()
        return producer_id

    @property
    def left(self) -> int:
        """How many ids can be given out without asking."""
        return sum(map(len, self._blocks))

    def _serve(self) -> None:
        while self._waiting and self._blocks:
            block = self._blocks.popleft()
            if len(block) > 1:
                self._blocks.appendleft(block[1:])
            self._waiting.popleft().complete(block[0])
        if not self._asking and (self._waiting or self.left < PREFETCH_BELOW):
            self._ask()

    def _ask(self) -> None:
        self._asking = True
        request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
        self._channel.send(request).when_done(self._answered)

    def _answered(self, answer: Pending[AllocateProducerIdsResponse]) -> None:
        self._asking = False
        code = ErrorCode.NETWORK_EXCEPTION if answer.error else ErrorCode.of(answer.result().error_code)
        if code:
            _log.warning("producer_ids.no_block", error=code.name, waiting=len(self._waiting))
            self._refuse()
            return
        block = answer.result()
        self._blocks.append(range(block.producer_id_start, block.producer_id_start + block.producer_id_len))
        self._serve()

    def _refuse(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for producer_id in waiting:
            producer_id.fail(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))

    def __repr__(self) -> str:
        return f"<ProducerIdManager left={self.left} waiting={len(self._waiting)}>"
