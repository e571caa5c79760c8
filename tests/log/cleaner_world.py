"""What the cleaner's tests share: compacted logs, cleaners that work at once, and what a reader finds."""

from log_world import NOW_MS, TP, World

from barnabas.core.offload import InPlace
from barnabas.log.cleaner.dirtiest import to_clean
from barnabas.log.cleaner.log_cleaner import LogCleaner
from barnabas.log.cleaner.settings import CleanerSettings
from barnabas.log.flush import InPlaceSyncer
from barnabas.log.producers import AppendOrigin
from barnabas.records.batch import batch_headers, build_batch, decode_batch
from barnabas.records.control import ControlType, EndTransactionMarker, build_marker
from barnabas.records.record import Record


class HereOffload(InPlace):
    """Work in this process; `before` and `after` are called with each function before and after it runs."""

    def __init__(self):
        self.before = self.after = lambda function: None

    def run(self, function, /, *args, **kwargs):
        self.before(function)
        outcome = super().run(function, *args, **kwargs)
        self.after(function)
        return outcome

    def close(self):
        """It holds nothing."""


class CompactedWorld(World):
    """A compacted log with its cleaner."""

    def __init__(self, filesystem=None, *, settings=None, **config):
        config = {"segment_bytes": 600, "cleanup_policy": ("compact",), "file_delete_delay_ms": 0, **config}
        super().__init__(filesystem, **config)
        self.settings = settings or CleanerSettings()
        self.offload = HereOffload()
        self.syncer = InPlaceSyncer()
        self.start()

    def start(self):
        self.manager_ = self.started()
        self.cleaner = LogCleaner(
            self.manager_,
            self.clock,
            disk=self.disk,
            syncer=self.syncer,
            new_offload=lambda: self.offload,
            settings=self.settings,
        )
        self.the_log = self.manager_.get_or_create(TP)

    def restart(self, *, clean=False):
        """Ends the broker, and starts another on the same disk."""
        self.manager_.shutdown(clean=clean)
        self.start()
        self.the_log.high_watermark = self.the_log.log_end_offset

    def put(self, *pairs, timestamp=NOW_MS, **options):
        """Appends one batch of these keys and values."""
        records = [Record(place, timestamp + place, key, value) for place, (key, value) in enumerate(pairs)]
        info = self.the_log.append(bytearray(build_batch(records, **options)), 0, NOW_MS)
        self.the_log.high_watermark = self.the_log.log_end_offset
        return info

    def end_transaction(self, producer_id, *, committed, epoch=0, timestamp=NOW_MS):
        kind = ControlType.COMMIT if committed else ControlType.ABORT
        marker = build_marker(
            EndTransactionMarker(kind, 0), timestamp=timestamp, producer_id=producer_id, producer_epoch=epoch
        )
        self.the_log.append(bytearray(marker), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
        self.the_log.high_watermark = self.the_log.log_end_offset

    def roll(self):
        if self.the_log.active.size:
            self.the_log.roll(self.clock.time_ms())

    def clean(self):
        """Cleans everything but the active segment, whatever the share of it; the error, if it fails."""
        target = to_clean(self.the_log, self.clock.time_ms())
        if target is None:
            return None
        return self.cleaner.clean(target, self.offload).error

    def headers(self):
        return [
            header
            for segment in self.the_log.segments
            for header in batch_headers(self.disk.read(segment.path)[: segment.size])
        ]

    def records(self, *, control=False):
        """Everything that lies in the segments: (offset, timestamp, key, value)."""
        found = []
        for segment in self.the_log.segments:
            data = self.disk.read(segment.path)[: segment.size]
            for header in batch_headers(data):
                if header.is_control == control:
                    found += [tuple(record[:4]) for record in decode_batch(data, header.position)]
        return found

    def values(self):
        """Each key's value as a reader from the start has it in the end."""
        found = {key: value for _, _, key, value in self.committed()}
        return {key: value for key, value in found.items() if value is not None}

    def committed(self):
        """What a read_committed consumer gets: (offset, timestamp, key, value)."""
        found, aborted = [], set()
        log = self.the_log
        txns = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
        for segment in log.segments:
            data = self.disk.read(segment.path)[: segment.size]
            for header in batch_headers(data):
                aborted |= {txn.producer_id for txn in txns if txn.first_offset == header.base_offset}
                if header.is_control:
                    aborted.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in aborted):
                    found += [tuple(record[:4]) for record in decode_batch(data, header.position)]
        return found

    @property
    def leftovers(self):
        """Files of the partition that belong to no segment."""
        ends = (".cleaned", ".swap", ".deleted")
        names = self.disk.listdir(f"{self.root}/{TP}")
        return [name for name in names if name[0].isdigit() and name.endswith(ends)]
