"""The partition state machine (``ZkPartitionStateMachine``): partitions come to life, get leaders, go.

Theory of operation
-------------------
`handle` moves partitions to a phase. What may follow what is the table in `states`; a partition that may not
move is logged and left alone, the others move. Becoming ONLINE is the one move that does work: a NEW
partition gets its first state znode, an OFFLINE or ONLINE one an election, whose result is written on
condition that the leader did not write in between; where it did, the election is held again on what it
wrote. Brokers hear of all that happened in one batch, after the last write.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from barnabas.cluster.controller.channel_manager import RequestBatch
from barnabas.cluster.controller.context import ControllerContext
from barnabas.cluster.controller.election import Strategy, elect
from barnabas.cluster.controller.fenced_store import FencedStore, Outcome
from barnabas.cluster.controller.state_change import in_one_batch
from barnabas.cluster.controller.states import (
    PARTITION_TRANSITIONS,
    PartitionPhase,
    log_failures,
    movable,
)
from barnabas.cluster.leadership import LeaderAndIsr, PartitionLeadership
from barnabas.cluster.store.contract import NodeExistsError
from barnabas.core.clock import Clock
from barnabas.core.errors import BarnabasError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Steps, steps
from barnabas.core.slices import Slices

_events: Final = EventLog("cluster.controller.partitions")


class StateChangeFailedError(BarnabasError):
    """No leader could be elected, or the state of the partition forbids it."""


class PartitionStateMachine:
    """Moves partitions between phases."""

    def __init__(
        self,
        context: ControllerContext,
        store: FencedStore,
        batch: RequestBatch,
        clock: Clock,
        *,
        unclean_election_default: bool,
    ) -> None:
        self._context = context
        self._store = store
        self._batch = batch
        self._clock = clock
        self.unclean_election_default = unclean_election_default

    @steps
    def startup(self, partitions: Sequence[TopicPartition]) -> Steps[None]:
        """Gives each known partition its phase, and elects leaders for those that have none."""
        for tp in partitions:
            known = self._context.leadership.get(tp)
            # No state znode: created before this controller was elected, and not led yet.
            if known is None:
                phase = PartitionPhase.NEW
            elif self._context.is_online(known.leader, tp):
                phase = PartitionPhase.ONLINE
            else:
                phase = PartitionPhase.OFFLINE
            self._context.partition_phases[tp] = phase
        yield self.trigger_online()

    @steps
    def trigger_online(self, topic: str | None = None) -> Steps[dict[TopicPartition, Outcome]]:
        """``triggerOnlinePartitionStateChange``: tries NEW and OFFLINE partitions, of one topic or of all."""
        # All partitions without a leader, also those that no event has named: a replica of theirs may be
        # back.
        waiting = [
            tp
            for tp in self._context.partitions_in(PartitionPhase.OFFLINE, PartitionPhase.NEW)
            if topic in (None, tp.topic) and not self._context.being_deleted(tp.topic)
        ]
        results: dict[TopicPartition, Outcome] = yield self.handle(
            waiting, PartitionPhase.ONLINE, Strategy.OFFLINE
        )
        return results

    @steps
    def handle(
        self,
        partitions: Sequence[TopicPartition],
        target: PartitionPhase,
        strategy: Strategy | None = None,
    ) -> Steps[dict[TopicPartition, Outcome]]:
        """``handleStateChanges``: moves partitions to a phase; the outcome of each election that was held."""
        if not partitions:
            return {}
        outcome = yield in_one_batch(
            self._batch,
            lambda: self._move(partitions, target, strategy),
            _events,
            target=target.value,
            partitions=len(partitions),
        )
        return dict.fromkeys(partitions, outcome) if isinstance(outcome, Exception) else outcome

    @steps
    def _move(
        self, partitions: Sequence[TopicPartition], target: PartitionPhase, strategy: Strategy | None
    ) -> Steps[dict[TopicPartition, Outcome]]:
        """``doHandleStateChanges``."""
        phases = self._context.partition_phases
        # An illegal move is logged and left out; one wrong partition does not stop the others.
        able = movable(partitions, phases, target, PARTITION_TRANSITIONS, _events.error)
        # These moves are bookkeeping: what brokers have to do about them is the replicas' machine's business.
        if target is not PartitionPhase.ONLINE:
            for tp in able:
                phases[tp] = target
                if target is PartitionPhase.NON_EXISTENT:
                    del phases[tp]
            return {}
        # A partition that never had a leader gets its first one; the others get one by an election.
        new = [tp for tp in able if phases[tp] is PartitionPhase.NEW]
        to_elect: list[TopicPartition] = [tp for tp in able if phases[tp] is not PartitionPhase.NEW]
        initialized = yield self._initialize(new)
        phases |= dict.fromkeys(initialized, target)
        results: dict[TopicPartition, Outcome] = {}
        while to_elect:
            assert strategy is not None, "an election needs a strategy"
            # Again for those whose leader wrote meanwhile, on what it wrote.
            finished, to_elect = yield self._elect(to_elect, strategy)
            results |= finished
        failed = {tp: outcome for tp, outcome in results.items() if isinstance(outcome, Exception)}
        log_failures(_events.warning, "no_leader_elected", failed)
        phases |= {tp: target for tp in results if tp not in failed}
        return results

    @steps
    def _initialize(self, partitions: Sequence[TopicPartition]) -> Steps[list[TopicPartition]]:
        """``initializeLeaderAndIsrForPartitions``: the live replicas in the order of the assignment."""
        first: dict[TopicPartition, PartitionLeadership] = {}
        failed: dict[TopicPartition, object] = {}
        for tp in partitions:
            replicas = self._context.assignment(tp).replicas
            # All live replicas are in sync by definition: the log is empty everywhere.
            live = tuple(each for each in replicas if self._context.is_online(each, tp))
            if live:
                first[tp] = PartitionLeadership(LeaderAndIsr(live[0], live), self._context.epoch)
            else:
                failed[tp] = f"no live replica of {replicas}"
        failures = yield self._store.create_states(first)
        created = []
        slices = Slices(self._clock)
        for tp, leadership in first.items():
            if slices.over():
                yield slices.next_turn()
            failure = failures[tp]
            if failure is not None:
                failed[tp] = failure
                if isinstance(failure, NodeExistsError):
                    # Its state is there, but was not read: the next election begins with it.
                    self._context.partition_phases[tp] = PartitionPhase.OFFLINE
                continue
            self._announce(tp, leadership, leadership.leader_and_isr.isr, is_new=True)
            created.append(tp)
        log_failures(_events.error, "partitions_without_leader", failed)
        return created

    @steps
    def _elect(
        self, partitions: Sequence[TopicPartition], strategy: Strategy
    ) -> Steps[tuple[dict[TopicPartition, Outcome], list[TopicPartition]]]:
        """``doElectLeaderForPartitions``:
        the outcomes of one round, and the partitions whose leader wrote meanwhile.
        """
        results, current = yield self._read_states(partitions)
        unclean = yield self._may_be_unclean(current, strategy)
        recipients: dict[TopicPartition, tuple[int, ...]] = {}
        elected: dict[TopicPartition, LeaderAndIsr] = {}
        slices = Slices(self._clock)
        for tp, state in current.items():
            if slices.over():
                yield slices.next_turn()
            election = elect(strategy, self._context, tp, state, unclean=unclean.get(tp.topic, False))
            # No replica is fit: the partition stays in its phase, and is tried again when a broker starts.
            if election.state is None:
                results[tp] = StateChangeFailedError(
                    f"Failed to elect leader for partition {tp} under strategy {strategy.value}"
                )
            else:
                elected[tp], recipients[tp] = election.state, election.recipients
        # Each on condition that the leader has not written since the read (the partition epoch).
        update = yield self._store.update_states(elected)
        slices = Slices(self._clock)
        for tp, outcome in update.finished.items():
            if slices.over():
                yield slices.next_turn()
            results[tp] = outcome
            if isinstance(outcome, LeaderAndIsr):
                leadership = PartitionLeadership(outcome, self._context.epoch)
                self._announce(tp, leadership, recipients[tp], is_new=False)
        return results, update.to_retry

    @steps
    def _read_states(
        self, partitions: Sequence[TopicPartition]
    ) -> Steps[tuple[dict[TopicPartition, Outcome], dict[TopicPartition, LeaderAndIsr]]]:
        """Partitions without a usable state, and the states of the others."""
        failed: dict[TopicPartition, Outcome] = {}
        current: dict[TopicPartition, LeaderAndIsr] = {}
        states = yield self._store.partition_states(partitions)
        for tp, state in states.items():
            if isinstance(state, Exception):
                failed[tp] = StateChangeFailedError(
                    f"LeaderAndIsr information doesn't exist for partition {tp}: {state}"
                )
            # Written by a later controller: this one must not overrule it.
            elif state.controller_epoch > self._context.epoch:
                failed[tp] = StateChangeFailedError(
                    f"Aborted leader election for partition {tp}: it was written by the controller of epoch "
                    f"{state.controller_epoch}, this one has {self._context.epoch}"
                )
            else:
                current[tp] = state.leader_and_isr
        return failed, current

    @steps
    def _may_be_unclean(
        self, states: dict[TopicPartition, LeaderAndIsr], strategy: Strategy
    ) -> Steps[dict[str, bool]]:
        """``collectUncleanLeaderElectionState``, by topic: read only where no in-sync replica lives."""
        # The other strategies do not look at ``unclean.leader.election.enable``: OFFLINE_UNCLEAN is an
        # administrator's request, the rest elect in the ISR only.
        if strategy is not Strategy.OFFLINE:
            return {}
        hopeless = [
            tp.topic
            for tp, state in states.items()
            if not any(self._context.is_online(replica, tp) for replica in state.isr)
        ]
        enabled: dict[str, bool] = yield self._store.unclean_election_enabled(
            hopeless, self.unclean_election_default
        )
        return enabled

    def _announce(
        self,
        tp: TopicPartition,
        leadership: PartitionLeadership,
        recipients: Iterable[int],
        *,
        is_new: bool,
    ) -> None:
        self._context.leadership[tp] = leadership
        self._batch.add_leader_and_isr(
            recipients, tp, leadership, self._context.assignment(tp), is_new=is_new
        )
