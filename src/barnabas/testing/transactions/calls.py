"""`BrokerCalls`: requests from broker to broker: markers, and questions about transactions."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, Protocol, cast

from barnabas.coordinator.transaction.transaction_version import supports_epoch_bump
from barnabas.core.pending import Pending
from barnabas.network.errors import DisconnectedError
from barnabas.network.node_link import Node
from barnabas.protocol.message import Request, Response
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from barnabas.testing.clock import ProcessClock, VirtualClock
from barnabas.testing.replication.wire import Party, PartyNetwork, on_the_wire

_TWICE: Final = 0.05
"""How often a request arrives twice at once: its first connection was given up, and not its bytes."""
_DOUBLED: Final = 0.3
"""How often it arrives once more when it was answered long ago."""
_DOUBLED_MS: Final = 400.0
"""How much later that is, at most a few times this."""
_LATE: Final = 0.1
_LATE_MS: Final = 150.0


class Past(Protocol):
    """Knows who has begun since."""

    def is_past(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer with a higher epoch of the same producer id has begun."""


class Serving(Party, Protocol):
    """A broker that takes requests of the wire."""

    def serve(self, request: Request, version: int) -> Pending[Response]:
        """The answer of its handler."""


class CallingBroker(Party, Protocol):
    """What a call needs of the broker that makes it."""

    rng: Random
    wire: PartyNetwork
    clock: ProcessClock
    world: VirtualClock
    past: Past

    @property
    def brokers(self) -> Mapping[int, Party]: ...


class BrokerCalls:
    """Implements `node.channels.Remote` for one life of a broker."""

    def __init__(self, broker: CallingBroker) -> None:
        self._broker = broker

    def request(
        self, node: Node, request: Request, *, versions: tuple[int, int] | None = None
    ) -> Pending[Any]:
        """The other broker's answer; fails with DisconnectedError where none comes."""
        assert versions is not None, "who calls knows what it sends"
        me, version = self._broker, versions[1]
        target = cast("Serving", me.brokers[node.id])
        sent = on_the_wire(request, version)
        answer: Pending[Any] = Pending()

        def serve() -> Pending[Response]:
            if me.rng.random() < _TWICE:
                target.serve(sent, version)
            return target.serve(sent, version)

        def answered(outcome: Pending[Response]) -> None:
            if outcome.error is not None:
                answer.fail(DisconnectedError(str(outcome.error)))
            elif me.rng.random() < _LATE:
                # Long enough for a marker, or another producer, to come in between.
                me.clock.call_later(me.rng.expovariate(1 / _LATE_MS), lambda: answer.end_as(outcome))
            else:
                answer.end_as(outcome)

        me.wire.call(me, target, serve, answered)
        if me.rng.random() < _DOUBLED:
            me.world.call_later(
                me.rng.expovariate(1 / _DOUBLED_MS), lambda: self._come_late(target, serve, sent)
            )
        return answer

    def _come_late(self, target: Serving, serve: Callable[[], Pending[Response]], sent: Request) -> None:
        """The request comes once more, long after it was answered.

        A marker that comes in the next transaction of the same epoch would end that one: nobody can tell the
        two apart before transaction version 2, in which each transaction has its own epoch. So a marker of
        before comes late only when a later epoch has begun.
        """
        me = self._broker
        markers = sent.markers if isinstance(sent, WriteTxnMarkersRequest) else []
        if all(
            supports_epoch_bump(each.transaction_version)
            or me.past.is_past(each.producer_id, each.producer_epoch)
            for each in markers
        ):
            me.wire.call(me, target, serve, lambda _: None)

    def disconnect(self, node_id: int) -> None:
        """There are no connections in the model."""

    async def close(self) -> None:
        """There is nothing to close."""

    def __repr__(self) -> str:
        return f"<BrokerCalls of {self._broker.name}>"
