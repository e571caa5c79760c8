"""`CoordinatorRuntime`: the partitions of one internal topic that this broker coordinates, or is about to.

Theory of operation
-------------------
A broker becomes coordinator of a partition by LeaderAndIsr and ceases to be by LeaderAndIsr or StopReplica.
Such requests can arrive late, so the leader epoch of the last one that was obeyed is kept for each partition,
and an older one changes nothing (``maybeUpdateCoordinatorEpoch``). Between the election and the end of the
load a shard is known to its load alone; from then on until the resignation it is served::

    elected -> loading -> led -> resigned
"""

from collections.abc import Callable, Iterator
from typing import Final, Generic

from barnabas.coordinator.runtime.journal import Journal
from barnabas.coordinator.runtime.loading import Load, Loader
from barnabas.coordinator.runtime.replay import Replay
from barnabas.coordinator.runtime.state_machine import S, StateMachine
from barnabas.core.errors import KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Steps, steps
from barnabas.log.log import Log

_events: Final = EventLog("coordinator")


class CoordinatorRuntime(Generic[S]):
    """What is led here, and what is being loaded."""

    def __init__(
        self,
        machine: StateMachine[S],
        loader: Loader,
        *,
        journal: Callable[[int], Journal],
        log: Callable[[int], Log | None],
    ) -> None:
        """`journal` and `log` find what belongs to a partition of the topic."""
        self.led: dict[int, S] = {}
        """By partition; the same object for as long as the runtime lives."""
        self.loading: dict[int, Load[S]] = {}
        self._machine = machine
        self._loader = loader
        self._journal = journal
        self._log = log
        self._epochs: dict[int, int] = {}
        """The leader epoch of the last election or resignation of each partition that was obeyed."""

    def shards(self) -> Iterator[S]:
        """All shards that are led, each only if it still is when its turn comes:
        the caller may wait in between.
        """
        for shard in list(self.led.values()):
            if self.led.get(shard.partition) is shard:
                yield shard

    def read_to_end(self, partition: int) -> S | None:
        """The shard of a partition that was read to its end: it is led, or will be in a moment.

        What others append to the partition from now on must be applied to the shard: no load reads it any
        more.
        """
        load = self.loading.get(partition)
        if load is not None:
            return load.replay.shard if load.done.done else None
        return self.led.get(partition)

    def elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition now: loads it (``scheduleLoadOperation``)."""
        _events.info("coordinator.elected", partition=partition, epoch=leader_epoch)
        # A late request, or the same leadership under a later epoch: the shard that is served stays.
        if not self._take_epoch(partition, leader_epoch) or partition in self.led:
            return
        self._unload(partition)
        # Known to the load alone until everything is read: no request sees half of a partition.
        shard = self._machine.new_shard(partition, leader_epoch, self._journal(partition))
        load = self._loader.load(Replay(self._machine, shard), self._log(partition))
        self.loading[partition] = load
        self._serve_when_loaded(load)

    @steps
    def _serve_when_loaded(self, load: Load[S]) -> Steps[None]:
        shard = load.replay.shard
        readable = True
        try:
            yield load.done
            # Sessions and markers are begun before the first request is served.
            yield self._machine.loaded(shard)
        except Exception as error:
            # Kafka 3.9 serves what it could read, and members begin where they never were; since 4.0 it
            # refuses.
            readable = False
            _events.error(
                "load.failed",
                task=self._machine.load_task,
                partition=shard.partition,
                reason=error,
                mend="it is not coordinated until the partition gets a new leader: see to its log directory",
                exc_info=not isinstance(error, KafkaError),
            )
        # A resignation during the load has taken it out of `loading` already, and may have begun another
        # load.
        if not load.cancelled:
            del self.loading[shard.partition]
            if readable:
                self.led[shard.partition] = shard
                return
        self._machine.unloaded(shard)

    def resigned(self, partition: int, leader_epoch: int | None) -> None:
        """This broker no longer leads the partition: forgets its shard (``scheduleUnloadOperation``).

        Without an epoch the partition is deleted.
        """
        _events.info("coordinator.resigned", partition=partition, epoch=leader_epoch)
        if self._take_epoch(partition, leader_epoch):
            self._unload(partition)

    def _take_epoch(self, partition: int, leader_epoch: int | None) -> bool:
        """Whether news of this epoch are no older than the last; news without one count always."""
        if leader_epoch is None:
            # The topic is deleted: one of the same name begins with epoch 0 again.
            self._epochs.pop(partition, None)
            return True
        known = self._epochs.setdefault(partition, leader_epoch)
        # Requests of two controllers, or of two channels, may overtake each other.
        if leader_epoch < known:
            _events.info("coordinator.stale_epoch", partition=partition, epoch=leader_epoch, known=known)
            return False
        self._epochs[partition] = leader_epoch
        return True

    def _unload(self, partition: int) -> None:
        load = self.loading.pop(partition, None)
        if load is not None:
            # The load ends at its next turn, and `_serve_when_loaded` gives its shard up.
            load.cancelled = True
        shard = self.led.pop(partition, None)
        if shard is not None:
            self._machine.unloaded(shard)

    def close(self) -> None:
        """Gives up all shards."""
        for partition in [*self.loading, *self.led]:
            self._unload(partition)

    def __repr__(self) -> str:
        return f"<CoordinatorRuntime led={len(self.led)} loading={sorted(self.loading)}>"
