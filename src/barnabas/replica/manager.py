"""All partitions of this broker: the face that request handlers talk to (``ReplicaManager``).

Theory of operation
-------------------
The controller's requests make partitions leaders and followers (`state_changes`), one request at a time;
clients' requests append to and read from those (`produce`, `fetch`, `offsets`). What cannot be answered at
once waits in a purgatory under the partition's name, and is asked again whenever that partition's log, its
start or its high watermark moves.

Two timers run while the broker does: one writes the high watermarks to ``replication-offset-checkpoint``
(from the first LeaderAndIsr on: before it there is nothing true to write), one asks leaders to propose the
removal of followers that fell behind.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from barnabas.cluster.leadership import ControllerEpoch
from barnabas.cluster.metadata.cache import MetadataCache, MetadataChange, MetadataDelta
from barnabas.core.clock import Clock, Timer, every
from barnabas.core.config import Config
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import STATE_CHANGES, EventLog
from barnabas.core.ids import ZERO_UUID, TopicPartition, Uuid
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced
from barnabas.log.directory import LogDirectory
from barnabas.log.future_logs import FutureLogs
from barnabas.log.leader_epochs import EpochEnd
from barnabas.log.log import Log
from barnabas.log.producers import ProducerStateEntry
from barnabas.log.results import TimestampAndOffset
from barnabas.log.strays import StrayLog
from barnabas.protocol.partition_states import LeaderAndIsrPartitionState
from barnabas.replica.alter_log_dirs import ReplicaAlterLogDirsManager
from barnabas.replica.control_queue import ControlQueue
from barnabas.replica.delete_records import Deletions, delete_records
from barnabas.replica.fetch import REST_MS, Fetches
from barnabas.replica.fetch_reader import FetchReader
from barnabas.replica.hosted import HostedPartitions
from barnabas.replica.isr import AlterPartition, IsrChanges
from barnabas.replica.listeners import Listeners
from barnabas.replica.log_dirs import LogDirUsage, describe_log_dirs
from barnabas.replica.log_read import Isolation
from barnabas.replica.offsets import offset_for
from barnabas.replica.partition import Partition, Ports
from barnabas.replica.produce import Appender, Wake
from barnabas.replica.purgatory import Purgatory
from barnabas.replica.quota import ReplicationQuotas
from barnabas.replica.selector import replica_selector
from barnabas.replica.state_changes import Fetchers, ReplicaToStop, StateChanges
from barnabas.replica.topic_stats import BrokerTopicStats
from barnabas.replica.verification import Verifier

_state_changes = EventLog(STATE_CHANGES)


class Logs(Protocol):
    """What the replica manager needs of `barnabas.log.manager.LogManager`."""

    futures: FutureLogs
    """Logs on their way to another directory."""

    def is_cleaning(self, log: Log) -> bool:
        """Whether a cleaner is at a log."""

    def prefer(self, tp: TopicPartition, directory: str) -> None:
        """Where a log is to be made that does not exist yet."""

    def create_future(self, tp: TopicPartition, directory: str) -> Log:
        """Begins a future log; raises KAFKA_STORAGE_ERROR."""

    def get_or_create(self, tp: TopicPartition, topic_id: Uuid | None, *, is_new: bool) -> Log:
        """The partition's log; raises KafkaError KAFKA_STORAGE_ERROR."""

    def get(self, tp: TopicPartition) -> Log | None:
        """The partition's log; None if there is none."""

    def keep_log_starts(self) -> object:
        """Writes down where logs start, so that a kill does not bring back what was deleted."""

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        """All logs, whether their partitions are served or not."""

    @property
    def directories(self) -> Sequence[LogDirectory]:
        """The log directories in the order of the configuration."""

    def delete(self, tp: TopicPartition) -> Pending[None]:
        """Takes the partition's directory out of use; nothing if there is none. Done when that is durable."""

    def mark_stray(self, tp: TopicPartition) -> Pending[None]:
        """Sets the partition's directory aside; nothing if there is none. Done when that is durable."""

    @property
    def strays(self) -> Iterable[StrayLog]:
        """Directories that were set aside."""

    def checkpoint_high_watermarks(self) -> None:
        """Writes ``replication-offset-checkpoint`` in every log directory."""


class ReplicaManager:
    """The broker's partitions and everything that waits for them."""

    __slots__ = (
        "_changes",
        "_clock",
        "_config",
        "_fetchers",
        "_logs",
        "_metadata",
        "_ports",
        "_timers",
        "_wake",
        "appender",
        "control_queue",
        "delete_records_purgatory",
        "fetch_purgatory",
        "fetches",
        "isr_changes",
        "listeners",
        "log_dir_moves",
        "partitions",
        "produce_purgatory",
        "quotas",
        "reader",
        "topic_stats",
    )

    def __init__(
        self,
        broker_id: int,
        *,
        config: Config,
        clock: Clock,
        logs: Logs,
        metadata: MetadataCache,
        alter_partition: AlterPartition,
        fetchers: Fetchers,
        quotas: ReplicationQuotas | None = None,
        verifier: Verifier | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._logs = logs
        self._metadata = metadata
        self._fetchers = fetchers
        self.quotas = quotas or ReplicationQuotas(broker_id, config, clock)
        self._timers: dict[str, Timer] = {}
        self.produce_purgatory = Purgatory("Produce", clock)
        self.fetch_purgatory = Purgatory("Fetch", clock)
        self.delete_records_purgatory = Purgatory("DeleteRecords", clock)
        self._wake = Wake(self.produce_purgatory, self.fetch_purgatory, self.delete_records_purgatory)
        self.isr_changes = IsrChanges()
        self._ports = Ports(
            broker_id=broker_id,
            now_ms=clock.time_ms,
            open_log=self._open_log,
            is_alive=lambda broker: metadata.alive_broker(broker) is not None,
            alter_partition=alter_partition,
            on_progress=self._wake.progressed,
            replica_lag_time_max_ms=config["replica.lag.time.max.ms"],
            isr_changes=self.isr_changes,
        )
        self.partitions = HostedPartitions(metadata)
        self.listeners = Listeners()
        self.log_dir_moves = ReplicaAlterLogDirsManager(
            logs,
            self.partitions,
            self.quotas.alter_log_dirs,
            clock,
            config["num.replica.alter.log.dirs.threads"],
        )
        """Partitions that move between log directories."""
        self._changes = StateChanges(
            self.partitions, self._ports, logs, fetchers, self._wake, clock, self.listeners
        )
        self.control_queue = ControlQueue(clock)
        """Works off one request of the controller after the other."""
        self.topic_stats = BrokerTopicStats()
        """What came and went, by topic."""
        self.appender = Appender(
            self.partitions,
            self.produce_purgatory,
            self._wake,
            self.topic_stats,
            now_ms=clock.time_ms,
            verifier=verifier,
        )
        """Appends for produce requests, and waits until they may be answered."""
        self.reader = FetchReader(
            self.partitions,
            replica_selector(config["replica.selector.class"], metadata),
            quota=self.quotas.leader,
            stats=self.topic_stats,
        )
        rest_ms = min(REST_MS, config["replica.lag.time.max.ms"] / 4)
        self.fetches = Fetches(self.reader, self.fetch_purgatory, clock, rest_ms)

    def _open_log(self, tp: TopicPartition, topic_id: Uuid, is_new: bool) -> Log:
        return self._logs.get_or_create(tp, None if topic_id == ZERO_UUID else topic_id, is_new=is_new)

    # --- what the controller says -----------------------------------------------------------------------

    @property
    def controller_epoch(self) -> int:
        """The epoch of the last controller that was obeyed."""
        return self._changes.controller_epoch

    def become_leader_or_follower(
        self,
        controller: ControllerEpoch,
        topic_ids: Mapping[str, Uuid],
        states: Iterable[tuple[TopicPartition, LeaderAndIsrPartitionState]],
    ) -> Sliced[dict[TopicPartition, ErrorCode]]:
        """``becomeLeaderOrFollower``: takes roles (in `control_queue`), `topic_ids` where known;
        raises STALE_CONTROLLER_EPOCH.
        """
        errors = yield from self._changes.leader_and_isr(controller, topic_ids, states)
        # A move that an earlier life of the broker began continues when its partition has a role.
        self.log_dir_moves.resume()
        # The first LeaderAndIsr: now there are high watermarks to write
        # (``startHighWatermarkCheckPointThread``).
        if "checkpoint" not in self._timers:
            interval_ms = self._config["replica.high.watermark.checkpoint.interval.ms"]
            work = self._logs.checkpoint_high_watermarks
            self._timers["checkpoint"] = every(self._clock, "highwatermark-checkpoint", interval_ms, work)
        return errors

    def stop_replicas(
        self, controller: ControllerEpoch, replicas: Iterable[ReplicaToStop]
    ) -> Sliced[list[tuple[TopicPartition, ErrorCode]]]:
        """``stopReplicas``: stops, and deletes where asked (in `control_queue`);
        raises STALE_CONTROLLER_EPOCH.
        """
        return self._changes.stop_replicas(controller, replicas)

    def update_metadata(self, controller: ControllerEpoch, delta: MetadataDelta) -> Sliced[MetadataChange]:
        """Replaces the metadata for clients (in `control_queue`). Raises STALE_CONTROLLER_EPOCH."""
        self._changes.check_controller(controller, "UpdateMetadata")
        alive = self._metadata.snapshot.brokers.keys()
        change = yield from self._metadata.apply_in_slices(delta)
        if alive - self._metadata.snapshot.brokers.keys():
            # A high watermark waits for replicas that are about to join the ISR; one that has died never
            # does. Kafka looks again at the next append, which clients with one request in flight do not send
            # before the answer. Nor does a low watermark wait for the dead.
            for partition in self.partitions:
                partition.advance_high_watermark()
                self.delete_records_purgatory.check_and_complete(partition.tp)
                yield
        # A topic that is made again under the name is another one: neither quotas nor figures pass on to it.
        for tp in change.deleted:
            self.quotas.topic_deleted(tp.topic)
            self.topic_stats.deleted((tp.topic,))
            yield
        _state_changes.info(
            "update_metadata.handled",
            broker=self._config["broker.id"],
            controller=controller.controller_id,
            controller_epoch=controller.epoch,
            topics=len(change.topics),
            deleted_partitions=len(change.deleted),
        )
        self.listeners.metadata_changed(change.topics, change.deleted)
        return change

    # --- what clients ask -------------------------------------------------------------------------------

    def list_offset(
        self,
        tp: TopicPartition,
        timestamp: int,
        isolation: Isolation,
        current_leader_epoch: int = -1,
        *,
        leader_only: bool = True,
    ) -> Sliced[TimestampAndOffset]:
        """``fetchOffsetForTimestamp``: the place that a timestamp names, as `offsets.offset_for` finds it."""
        partition = self.partitions.serve(tp)
        return offset_for(partition, timestamp, isolation, current_leader_epoch, leader_only=leader_only)

    def epoch_end(self, tp: TopicPartition, epoch: int, current_leader_epoch: int = -1) -> EpochEnd:
        """``lastOffsetForLeaderEpoch``:
        where a leader epoch ends in the log of a partition that this broker leads.
        """
        return self.partitions.serve(tp).epoch_end(epoch, current_leader_epoch, leader_only=True)

    def active_producers(self, tp: TopicPartition) -> list[ProducerStateEntry]:
        """``activeProducerState``: what the log of a partition, led here or followed, remembers of its
        producers.
        """
        log = self.partitions.serve(tp).log
        if log is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return list(log.producers.producers.values())

    def delete_records(self, offsets: Mapping[TopicPartition, int], timeout_ms: int) -> Sliced[Deletions]:
        """``deleteRecords``: moves log starts up, as `delete_records.delete_records` does."""
        return delete_records(
            self.partitions, self.delete_records_purgatory, offsets, timeout_ms, self._logs.keep_log_starts
        )

    def describe_log_dirs(self, wanted: Collection[TopicPartition] | None) -> Sliced[list[LogDirUsage]]:
        """``describeLogDirs``: the log directories with these partitions in them, or with all."""
        return describe_log_dirs(
            self._logs.directories,
            self._logs.logs,
            self._logs.futures.logs,
            self._logs.strays,
            self.partitions,
            wanted,
        )

    def mark_stray(self, tp: TopicPartition) -> Pending[None]:
        """``updateStrayLogs`` for a replica that is no longer this broker's; call it in `control_queue`."""
        return self._changes.mark_stray(tp)

    def partition(self, tp: TopicPartition) -> Partition | None:
        return self.partitions.online.get(tp)

    # --- maintenance ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts to look for followers that fall behind."""
        lag_max_ms = self._config["replica.lag.time.max.ms"]
        self._timers["isr"] = every(self._clock, "isr-expiration", lag_max_ms / 2, self.shrink_isrs)

    def shrink_isrs(self) -> None:
        """``maybeShrinkIsr``: every leader proposes the removal of followers that are behind, and waits no
        longer for one that had caught up outside the ISR and is silent since.
        """
        for partition in self.partitions:
            partition.maybe_shrink_isr()
            partition.advance_high_watermark()

    def log_start_moved(self, tp: TopicPartition) -> None:
        """Retention has moved a log start: followers and what waits for the low watermark hear of it."""
        self._wake.progressed(tp)

    def log_directory_failed(self, partitions: Iterable[TopicPartition]) -> None:
        """``handleLogDirFailure``: takes the partitions of a failed directory offline;
        clients that wait are answered at once.
        """
        for tp in partitions:
            self._fetchers.stop([tp])
            self.partitions.take_offline(tp)
            self._wake.progressed(tp)

    def shutdown(self) -> None:
        """Answers everything that waits, and writes the high watermarks a last time."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.log_dir_moves.close()
        self.produce_purgatory.complete_all()
        self.fetch_purgatory.complete_all()
        self.delete_records_purgatory.complete_all()
        self._logs.checkpoint_high_watermarks()

    def __repr__(self) -> str:
        return f"<ReplicaManager {self.partitions} {self.produce_purgatory} {self.fetch_purgatory}>"
