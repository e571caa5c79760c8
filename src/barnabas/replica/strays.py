"""Finds replicas that were taken away while this broker did not hear of it (``findStrayReplicas``).

Theory of operation
-------------------
A reassignment sends StopReplica to the broker whose replica it takes away. A broker that is down or cut off
does not get it, and it is not sent again: the replica would stay on the disk, and fetch from the leader that
it last followed.

Kafka 3.9 looks for strays in a LeaderAndIsr that says that it names all partitions of the broker. Only a
KRaft controller says so. One with ZooKeeper sends a broker all its partitions when it registers and when a
controller is elected, without saying that these are all. So nothing follows from a partition that a request
does not name. A replica is stray when all of this holds, at two looks under the same controller and the same
registration:

- the metadata that the controller has sent names the partition, and other brokers as its replicas;
- so does the store, for the topic with the id that the replica has;
- the store's leader epoch is above each that the replica has seen, and its controller epoch not above the one
  that this broker obeys: the decision is younger than the replica. A store that was put back from an older
  copy fails here.

A partition that the store does not know at all is kept, and the broker's log names it at the start: the store
may have been put back from an older copy.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.cluster.metadata.decisions import Decision
from barnabas.core.clock import Clock
from barnabas.core.errors import KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Sliced, Slices
from barnabas.log.log import Log
from barnabas.replica.manager import ReplicaManager

_log: Final = EventLog("replica.strays")

ReadDecisions: TypeAlias = Callable[[Sequence[TopicPartition]], Pending[dict[TopicPartition, Decision]]]


class StrayReplicas:
    """Looks at each log whether it is a stray's."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        replicas: ReplicaManager,
        logs: Mapping[TopicPartition, Log],
        metadata: MetadataCache,
        read_decisions: ReadDecisions,
        clock: Clock,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._replicas = replicas
        self._logs = logs
        self._metadata = metadata
        self._read_decisions = read_decisions
        self._clock = clock
        self._is_looking = False
        self._seen: dict[TopicPartition, int] = {}
        """What looked stray at the last look, with the last leader epoch of the replica."""
        self._seen_under = (-1, -1)
        """The epochs of the controller and of this broker at that look."""

    def look(self) -> None:
        """To be called from time to time."""
        if not self._is_looking:
            self._is_looking = True
            self._look().when_done(self._looked)

    def _epochs(self) -> tuple[int, int]:
        return self._replicas.controller_epoch, self._broker_epoch()

    def _looked(self, done: Pending[None]) -> None:
        self._is_looking = False
        if done.error is not None:
            # The store does not answer, or a disk: the next look tries again.
            _log.warning("strays.not_found_out", error=done.error)

    @steps
    def _look(self) -> Steps[None]:
        epochs = self._epochs()
        suspects: dict[TopicPartition, int] = {}
        slices = Slices(self._clock)
        for tp in list(self._logs):
            if slices.over():
                yield slices.next_turn()
            epoch = self._suspect(tp)
            if epoch is not None:
                suspects[tp] = epoch
        decisions: dict[TopicPartition, Decision] = yield self._read_decisions(list(suspects))
        strays = {
            tp: suspects[tp]
            for tp, decision in decisions.items()
            if self._is_stray(tp, decision, suspects[tp])
        }
        if epochs != self._epochs():
            # another controller, or another registration: what was read may be older than what they said
            return
        # Requests that were under way at the last look have arrived by now.
        again = {
            tp: epoch
            for tp, epoch in strays.items()
            if self._seen_under == epochs and self._seen.get(tp) == epoch
        }
        self._seen, self._seen_under = strays, epochs
        if again:
            outcome = self._replicas.control_queue.run(self._mark(again))
            if isinstance(outcome, Pending):
                yield outcome

    def _suspect(self, tp: TopicPartition) -> int | None:
        """The replica's last leader epoch, where the controller's metadata name only other brokers."""
        log, state = self._logs.get(tp), self._metadata.partition(tp)
        if log is None or state is None or self._broker_id in state.replicas:
            return None
        partition = self._replicas.partition(tp)
        known = -1 if partition is None else partition.leader_epoch
        latest = log.leader_epochs.latest_epoch
        return known if latest is None else max(known, latest)

    def _is_stray(self, tp: TopicPartition, decision: Decision, epoch: int) -> bool:
        log = self._logs.get(tp)
        return (
            log is not None
            and log.topic_id is not None
            and log.topic_id == decision.topic_id
            and self._broker_id not in decision.replicas
            and decision.leader_epoch > epoch
            and decision.controller_epoch <= self._replicas.controller_epoch
        )

    def _mark(self, strays: Mapping[TopicPartition, int]) -> Sliced[None]:
        """Runs between two of the controller's requests, so that none of them is giving a role."""
        for tp, epoch in strays.items():
            if self._suspect(tp) != epoch:
                continue  # a request that waited has made it this broker's again
            _log.warning("replica.stray", partition=tp, leader_epoch=epoch)
            try:
                yield self._replicas.mark_stray(tp)
            except KafkaError as error:
                _log.error("stray.not_marked", partition=tp, error=error.code.name, reason=error)

    def __repr__(self) -> str:
        return f"<StrayReplicas {sorted(self._seen)}>"
