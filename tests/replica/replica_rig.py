"""A partition on a simulated disk; clock, controller and followers are the test.

A module beside `conftest`, so that tests can import from it by a name of its own.
"""

from barnabas.core.ids import ZERO_UUID, TopicPartition
from barnabas.core.offload import InPlace
from barnabas.log.config import LogConfig
from barnabas.log.manager import LogManager
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from barnabas.replica.cached_partition import CachedPartition
from barnabas.replica.isr import IsrChanges
from barnabas.replica.partition import Isolation, Partition, Ports
from barnabas.testing.disk import SimulatedFilesystem
from replica_doubles import IsrDecisions
from standing_clock import Clock

TP = TopicPartition("orders", 0)
LAG_MS = 30_000


class Rig:
    """One partition of broker 1."""

    def __init__(self, **config):
        self.clock = Clock()
        self.disk = SimulatedFilesystem(now_ms=self.clock.time_ms)
        self.disk.mkdir("/data")
        self.logs = LogManager(
            ["/data"],
            filesystem=self.disk,
            clock=self.clock,
            offload=InPlace(),
            log_config=lambda topic: LogConfig(segment_index_bytes=4096, **config),
        )
        self.logs.start(broker_id=1, cluster_id="c").result()
        self.isr = IsrDecisions()
        self.alive = {1, 2, 3}
        self.progress = []
        self.on_progress = lambda tp: None
        self.ports = Ports(
            broker_id=1,
            now_ms=self.clock.time_ms,
            open_log=self._open_log,
            is_alive=self.alive.__contains__,
            alter_partition=self.isr,
            on_progress=self._progressed,
            replica_lag_time_max_ms=LAG_MS,
            isr_changes=IsrChanges(),
        )
        self.partition = Partition(TP, self.ports)

    def _open_log(self, tp, topic_id, is_new):
        return self.logs.get_or_create(tp, None if topic_id == ZERO_UUID else topic_id, is_new=is_new)

    def _progressed(self, tp):
        self.progress.append(tp)
        self.on_progress(tp)

    def state(self, *, leader=1, epoch=0, isr=(1, 2, 3), replicas=(1, 2, 3), partition_epoch=0):
        return LeaderAndIsrPartitionState(
            leader=leader,
            leader_epoch=epoch,
            isr=list(isr),
            replicas=list(replicas),
            partition_epoch=partition_epoch,
        )

    def lead(self, **state):
        return self.partition.make_leader(self.state(**state), bytes(16))

    def follow(self, **state):
        return self.partition.make_follower(self.state(leader=2, **state), bytes(16))

    def append(self, count=1, acks=1):
        records = [Record(index, self.clock.now_ms, b"k", b"v") for index in range(count)]
        return self.partition.append(bytearray(build_batch(records)), acks)

    def fetch_as(self, replica_id, offset):
        """A follower's fetch; the records' bytes."""
        wanted = CachedPartition(TP.topic, ZERO_UUID, TP.partition, fetch_offset=offset, max_bytes=1 << 20)
        replica = self.partition.follower(replica_id, -1)
        found = self.partition.read(
            wanted, Isolation.LOG_END, max_bytes=1 << 20, min_one_message=True, leader_only=True
        )
        self.partition.record_follower_fetch(replica, wanted, found, -1)
        return found

    @property
    def high_watermark(self):
        return self.partition.log.high_watermark
