"""`Shards`: the partitions of ``__consumer_offsets`` that this broker coordinates, or is about to.

Theory of operation
-------------------
A broker becomes coordinator of a partition by LeaderAndIsr and ceases to be by LeaderAndIsr or StopReplica.
Such requests can arrive late, so the leader epoch of the last one that was obeyed is kept for each partition,
and an older one changes nothing (``maybeUpdateCoordinatorEpoch``). Between the election and the end of the load a
shard is known to its load alone; from then on until the resignation it is served::

    elected -> loading -> led -> resigned
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.coordinator.journal import Journal
from barnabas.coordinator.loading import TASK_NAME as LOAD_TASK
from barnabas.coordinator.loading import Job, Loader
from barnabas.coordinator.replay import Replay
from barnabas.coordinator.shard import Shard
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Steps, steps
from barnabas.log.log import Log

if TYPE_CHECKING:
    from barnabas.coordinator.classic.groups import ClassicGroups
    from barnabas.coordinator.consumer.groups import ConsumerGroups
    from barnabas.coordinator.offsets.manager import OffsetManager

_events: Final = EventLog("coordinator")


class Shards:
    """What is led here, and what is being loaded."""

    __slots__ = (
        "_classic",
        "_consumer",
        "_epochs",
        "_journal",
        "_loader",
        "_log",
        "_offsets",
        "led",
        "loading",
    )

    def __init__(
        self,
        classic: "ClassicGroups",
        consumer: "ConsumerGroups | None",
        offsets: "OffsetManager",
        loader: Loader,
        journal: Callable[[int], Journal],
        log: Callable[[int], Log | None],
    ) -> None:
        self.led: dict[int, Shard] = {}
        """By partition; whoever holds it sees every change."""
        self.loading: dict[int, Job] = {}
        self._classic = classic
        self._consumer = consumer
        self._offsets = offsets
        self._loader = loader
        self._journal = journal
        self._log = log
        self._epochs: dict[int, int] = {}
        """The leader epoch of the last election or resignation of each partition that was obeyed."""

    def elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition now, so it has to know what is in it."""
        _events.info("coordinator.elected", partition=partition, epoch=leader_epoch)
        if not self._take_epoch(partition, leader_epoch) or partition in self.led:
            return
        self._unload(partition)
        shard = Shard(partition, leader_epoch, self._journal(partition))
        replay = Replay(shard, self._classic, self._consumer, self._offsets)
        job = self.loading[partition] = self._loader.load(replay, self._log(partition))
        self._serve_when_loaded(job)

    @steps
    def _serve_when_loaded(self, job: Job) -> Steps[None]:
        shard = job.replay.shard
        try:
            yield job.done
            yield self._offsets.loaded(shard)
            yield self._classic.loaded(shard)
            if self._consumer is not None:
                yield self._consumer.loaded(shard)
        except Exception:
            # Kafka 3.9 serves what it could read, and members begin where they never were; since 4.0 it refuses.
            _events.error(
                "load.failed",
                task=LOAD_TASK,
                partition=shard.partition,
                mend="its groups are refused until the partition gets a leader anew: see to its log directory",
                exc_info=True,
            )
            if not job.cancelled:
                job.cancelled = True
                del self.loading[shard.partition]
        if job.cancelled:
            _close(shard)
        else:
            del self.loading[shard.partition]
            self.led[shard.partition] = shard

    def resigned(self, partition: int, leader_epoch: int | None) -> None:
        """Somebody else leads the partition now, or nobody: what was known of it is forgotten."""
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
        if leader_epoch < known:
            _events.info("coordinator.stale_epoch", partition=partition, epoch=leader_epoch, known=known)
            return False
        self._epochs[partition] = leader_epoch
        return True

    def _unload(self, partition: int) -> None:
        job = self.loading.pop(partition, None)
        if job is not None:
            job.cancelled = True
        shard = self.led.pop(partition, None)
        if shard is None:
            return
        groups = len(shard.groups)
        _close(shard)
        _events.info("unload.finished", partition=partition, groups=groups)

    def close(self) -> None:
        """Gives up all of them."""
        for partition in [*self.loading, *self.led]:
            self._unload(partition)

    def __repr__(self) -> str:
        return f"<Shards led={len(self.led)} loading={sorted(self.loading)}>"


def _close(shard: Shard) -> None:
    """Forgets all that the shard holds, and answers all who wait in it."""
    groups = list(shard.groups.values())
    shard.groups.clear()
    shard.offsets.clear()
    shard.open_transactions.clear()
    for group in groups:
        group.close()
