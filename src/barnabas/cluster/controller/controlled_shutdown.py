"""ControlledShutdown (7) as the controller carries it out: leadership moves away before the broker stops."""

from typing import Final

from barnabas.cluster.controller.context import Replica
from barnabas.cluster.controller.election import Strategy
from barnabas.cluster.controller.states import PartitionPhase, ReplicaPhase
from barnabas.cluster.controller.term import Term
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Steps, steps

_events: Final = EventLog("cluster.controller.shutdown")

UNKNOWN_BROKER_EPOCH = -1


@steps
def controlled_shutdown(term: Term, broker_id: int, broker_epoch: int) -> Steps[list[TopicPartition]]:
    """The replicated partitions that the broker still leads; none means that it may stop.

    Raises KafkaError: BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH.
    """
    context = term.context
    if broker_id not in context.live_brokers:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {broker_id} does not exist.")
    current = context.broker_epochs[broker_id]
    if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < current:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Received controlled shutdown request from an old broker epoch {broker_epoch} for broker "
            f"{broker_id}. Current broker epoch is {current}.",
        )
    _events.info("shutting_down", broker=broker_id)
    context.shutting_down.add(broker_id)
    replicated = [
        tp
        for tp in context.partitions_on(broker_id)
        if len(context.assignment(tp).replicas) > 1
        and tp in context.leadership
        and not context.being_deleted(tp.topic)
    ]
    led = [tp for tp in replicated if context.leadership[tp].leader == broker_id]
    followed = [tp for tp in replicated if context.leadership[tp].leader != broker_id]
    yield term.partitions.handle(led, PartitionPhase.ONLINE, Strategy.CONTROLLED_SHUTDOWN)
    # Followers stop fetching first, so that they leave the ISR by this decision and not by lagging.
    term.batch.begin()
    for tp in followed:
        term.batch.add_stop_replica([broker_id], tp, delete=False)
    term.batch.send()
    yield term.replicas.handle([Replica(tp, broker_id) for tp in followed], ReplicaPhase.OFFLINE)
    return context.partitions_led_by(broker_id)
