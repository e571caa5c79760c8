"""What tests of the log share: a clock that stands, logs on a simulated disk, batches."""

from barnabas.core.ids import TopicPartition
from barnabas.core.offload import InPlace
from barnabas.log.config import LogConfig
from barnabas.log.descriptors import DescriptorCache
from barnabas.log.flush import GroupCommit, InPlaceSyncer
from barnabas.log.loader import create_log, load_log
from barnabas.log.manager import LogManager
from barnabas.log.resources import LogListener, LogResources
from barnabas.records.batch import batch_headers, build_batch, decode_batch
from barnabas.records.record import Record
from barnabas.testing.disk import SimulatedFilesystem
from standing_clock import Clock

TP = TopicPartition("orders", 0)
NOW_MS = 1_700_000_000_000


class World:
    """A disk, a clock, and logs on them."""

    def __init__(self, filesystem=None, root="/data", **config):
        self.clock = Clock()
        self.disk = filesystem or SimulatedFilesystem(now_ms=self.clock.time_ms)
        self.root = root
        self.failures = []
        self.config = LogConfig(**config)
        self.disk.mkdir(root)

    @property
    def resources(self):
        commits = GroupCommit(self.clock, InPlaceSyncer())
        listener = LogListener(failed=lambda path, error: self.failures.append(path))
        return LogResources(self.disk, DescriptorCache(self.disk), commits, listener)

    def log(self, tp=TP, **config):
        self.config = LogConfig(**config) if config else self.config
        path = f"{self.root}/{tp}"
        return create_log(tp, path, self.config, self.resources, self.clock.time_ms())

    def reload(self, tp=TP, **checkpoints):
        path = f"{self.root}/{tp}"
        return load_log(tp, path, self.config, self.resources, now_ms=self.clock.time_ms(), **checkpoints)

    def manager(self, directories=None, *, offload=None, **options):
        options.setdefault("log_config", lambda topic: self.config)
        return LogManager(
            directories or [self.root],
            filesystem=self.disk,
            clock=self.clock,
            offload=offload or InPlace(),
            **options,
        )

    def started(self, *args, **options):
        manager = self.manager(*args, **options)
        manager.start(broker_id=1, cluster_id="cluster").result()
        return manager


def batch(count=1, *, timestamp=NOW_MS, key=b"k", size=10, **options):
    """A writable batch of so many records with rising timestamps, as a client sends it."""
    records = [Record(index, timestamp + index, key, bytes([index % 256]) * size) for index in range(count)]
    return bytearray(build_batch(records, **options))


def fill(log, appends, count=1, *, epoch=0, **options):
    """Appends so many batches; returns the log."""
    for _ in range(appends):
        log.append(batch(count, **options), epoch, NOW_MS)
    return log


def values_of(log, start=None, upper=None):
    """All (offset, value) that a reader from the start sees."""
    offset = log.log_start_offset if start is None else start
    found = []
    while True:
        result = log.read(offset, 1 << 20, upper_bound_offset=upper, min_one_message=True)
        if not len(result):
            return found
        data = result.records.read()
        for header in batch_headers(data):
            records = decode_batch(data, header.position)
            found += [(record.offset, record.value) for record in records if record.offset >= offset]
            offset = header.next_offset
