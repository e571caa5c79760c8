"""The next leader: the election strategies, as pure functions of what the controller knows.

Each strategy looks through the assignment in order and gives the new state, or None where no replica is fit,
and the brokers that hear of it (``Election`` and ``PartitionLeaderElectionAlgorithms``).
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from barnabas.cluster.controller.context import ControllerContext
from barnabas.cluster.leadership import LeaderAndIsr
from barnabas.core.ids import TopicPartition


class Strategy(Enum):
    """On what occasion a leader is elected, which decides which replicas are fit.
    Clients see Kafka's names of them.
    """

    OFFLINE = "OfflinePartitionLeaderElectionStrategy(false)"
    OFFLINE_UNCLEAN = "OfflinePartitionLeaderElectionStrategy(true)"
    REASSIGN = "ReassignPartitionLeaderElectionStrategy"
    PREFERRED = "PreferredReplicaPartitionLeaderElectionStrategy"
    CONTROLLED_SHUTDOWN = "ControlledShutdownPartitionLeaderElectionStrategy"


class Election(NamedTuple):
    """The outcome for one partition."""

    state: LeaderAndIsr | None
    recipients: tuple[int, ...]


def elect(
    strategy: Strategy, context: ControllerContext, tp: TopicPartition, state: LeaderAndIsr, *, unclean: bool
) -> Election:
    """The outcome by a strategy; `unclean` is the topic's permission, which OFFLINE asks for."""
    if strategy in (Strategy.OFFLINE, Strategy.OFFLINE_UNCLEAN):
        return _offline(context, tp, state, unclean or strategy is Strategy.OFFLINE_UNCLEAN)
    if strategy is Strategy.REASSIGN:
        return _reassign(context, tp, state)
    if strategy is Strategy.PREFERRED:
        return _preferred(context, tp, state)
    return _controlled_shutdown(context, tp, state)


def preferred_can_lead(context: ControllerContext, tp: TopicPartition, state: LeaderAndIsr) -> bool:
    """Whether the first replica of the assignment is live and in sync."""
    return _preferred(context, tp, state).state is not None


def _offline(context: ControllerContext, tp: TopicPartition, state: LeaderAndIsr, unclean: bool) -> Election:
    live = _online(context, tp, context.assignment(tp).replicas)
    # The first replica of the assignment that is in sync; the ISR loses those that are not alive.
    leader = _first(live, lambda replica: replica in state.isr)
    if leader is not None:
        return Election(state.with_leader(leader, _online(context, tp, state.isr)), live)
    if unclean and live:
        # KIP-704: records may be lost; the new leader says when it has come to terms with that.
        return Election(state.recovering(live[0], (live[0],)), live)
    return Election(None, live)


def _reassign(context: ControllerContext, tp: TopicPartition, state: LeaderAndIsr) -> Election:
    target = context.assignment(tp).target
    # Only a replica that the reassignment leads to; the ISR stays as it is (AlterPartition has brought TRS
    # into it).
    leader = _first(_online(context, tp, target), lambda replica: replica in state.isr)
    return Election(None if leader is None else state.with_leader(leader), target)


def _preferred(context: ControllerContext, tp: TopicPartition, state: LeaderAndIsr) -> Election:
    replicas = context.assignment(tp).replicas
    # The first replica of the assignment, and no other.
    fit = bool(replicas) and context.is_online(replicas[0], tp) and replicas[0] in state.isr
    return Election(state.with_leader(replicas[0]) if fit else None, replicas)


def _controlled_shutdown(context: ControllerContext, tp: TopicPartition, state: LeaderAndIsr) -> Election:
    live = tuple(
        replica
        for replica in context.assignment(tp).replicas
        if context.is_online(replica, tp, with_shutting_down=True)
    )
    # The broker that stops is alive until it has handed over, but leaves the ISR with this election.
    staying = tuple(replica for replica in state.isr if replica not in context.shutting_down)
    # Only another replica in sync takes over: without one the broker keeps leading until it ends.
    leader = _first(live, lambda replica: replica in staying)
    return Election(None if leader is None else state.with_leader(leader, staying), live)


def _online(context: ControllerContext, tp: TopicPartition, replicas: Iterable[int]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if context.is_online(replica, tp))


def _first(replicas: Iterable[int], fits: Callable[[int], bool]) -> int | None:
    return next(filter(fits, replicas), None)
