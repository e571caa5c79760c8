"""Events of a term about elections that are asked for:
by ElectLeaders, a tool's znode, the controller's rebalance.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

from barnabas.cluster.controller.election import Strategy, preferred_can_lead
from barnabas.cluster.controller.fenced_store import ControllerMovedError, Outcome
from barnabas.cluster.controller.partition_state_machine import StateChangeFailedError
from barnabas.cluster.controller.states import PartitionPhase
from barnabas.cluster.controller.term import Term
from barnabas.cluster.leadership import LeaderAndIsr
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import NoNodeError
from barnabas.cluster.store.unreadable import readable
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import NO_LEADER, TopicPartition
from barnabas.core.pending import Steps, steps
from barnabas.protocol.election_type import ElectionType

_events: Final = EventLog("cluster.controller.elections")

ElectionResult: TypeAlias = int | KafkaError
"""The new leader, or why there is none."""

_NOT_AVAILABLE = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


@steps
def process_replica_leader_election(
    term: Term, partitions: Iterable[TopicPartition], kind: ElectionType
) -> Steps[dict[TopicPartition, ElectionResult]]:
    """``processReplicaLeaderElection``: what becomes of each partition."""
    results: dict[TopicPartition, ElectionResult] = {}
    to_elect = []
    for tp in partitions:
        refusal = _refusal(term, tp, kind)
        if refusal is None:
            to_elect.append(tp)
        else:
            results[tp] = refusal
    # An unclean election may lose records. It is held because an administrator asks for it.
    strategy = Strategy.OFFLINE_UNCLEAN if kind is ElectionType.UNCLEAN else Strategy.PREFERRED
    outcomes = yield term.partitions.handle(to_elect, PartitionPhase.ONLINE, strategy)
    return results | {tp: _result(outcome, kind) for tp, outcome in outcomes.items()}


def _refusal(term: Term, tp: TopicPartition, kind: ElectionType) -> KafkaError | None:
    context = term.context
    replicas = context.assignment(tp).replicas
    if not replicas:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    if context.being_deleted(tp.topic):
        return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
    leadership = context.leadership.get(tp)
    leader = leadership.leader if leadership else NO_LEADER
    # Needed unless the preferred replica leads; an unclean one only where nobody does (KIP-460).
    if kind is ElectionType.PREFERRED:
        needed = leader != replicas[0]
    else:
        needed = leader == NO_LEADER or not context.is_live(leader)
    return None if needed else KafkaError(ErrorCode.ELECTION_NOT_NEEDED)


def _result(outcome: Outcome, kind: ElectionType) -> ElectionResult:
    if isinstance(outcome, LeaderAndIsr):
        return outcome.leader
    if isinstance(outcome, StateChangeFailedError):
        return KafkaError(_NOT_AVAILABLE[kind], str(outcome))
    return outcome if isinstance(outcome, KafkaError) else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


@steps
def process_zk_preferred_replica_election(term: Term) -> Steps[None]:
    """A tool wrote /admin/preferred_replica_election: it is removed when its partitions were tried."""
    path = znodes.PREFERRED_REPLICA_ELECTION
    if (yield term.watches.exists(path)) is None:
        return
    try:
        data, _ = yield term.store.store.get(path)
    except NoNodeError:
        return
    partitions = readable(term.store.store, path, znodes.decode_partitions, data) or []
    results = yield process_replica_leader_election(term, partitions, ElectionType.PREFERRED)
    _events.info("preferred_election", results=results)
    yield term.store.delete_quietly([path])
    # The watch fired, if it did, for the znode that was just removed; leave it for the next one.
    yield term.watches.exists(path)


@steps
def rebalance_leaders(term: Term) -> Steps[None]:
    """``checkAndTriggerAutoLeaderRebalance``: gives leadership back to preferred replicas.

    Broker by broker, where more of the partitions that prefer a broker are led elsewhere than the settings
    allow.
    """
    context = term.context
    if context.being_reassigned:
        return  # as Kafka: no leader moves while a partition does
    threshold = term.config.leader_imbalance_per_broker_percentage / 100
    by_preferred: dict[int, list[TopicPartition]] = {}
    for tp in context.partitions_with_leaders():
        by_preferred.setdefault(context.assignment(tp).replicas[0], []).append(tp)
    for broker_id, partitions in by_preferred.items():
        elsewhere = [tp for tp in partitions if context.leadership[tp].leader != broker_id]
        # Below ``leader.imbalance.per.broker.percentage``: leaders do not move for a few partitions.
        if len(elsewhere) / len(partitions) <= threshold:
            continue
        electable = [
            tp for tp in elsewhere if preferred_can_lead(context, tp, context.leadership[tp].leader_and_isr)
        ]
        outcomes = yield term.partitions.handle(electable, PartitionPhase.ONLINE, Strategy.PREFERRED)
        for outcome in outcomes.values():
            # The others' failures are in the log; this one ends the term.
            if isinstance(outcome, ControllerMovedError):
                raise outcome
        _events.info("leaders_rebalanced", broker=broker_id, partitions=[str(tp) for tp in electable])
