"""What the perf tools count and print (``ProducerPerformance.Stats``, the lines of ``ConsumerPerformance``).

Both take the times as arguments, in ms since 1970, and return lines.
"""

from array import array
from typing import Final

from barnabas.cli.java_date_format import SimpleDateFormat
from barnabas.cli.java_numbers import divide, fixed

_MIB: Final = 1024 * 1024
_NEVER_MS: Final = 1 << 62
_SAMPLES_MAX: Final = 500_000
_PERCENTILES: Final = (0.5, 0.95, 0.99, 0.999)


class _Window:
    """Counts of one reporting interval, or of the whole run."""

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.count = 0
        self.bytes = 0
        self.latency_ms = 0
        self.latency_ms_max = 0

    def record(self, latency_ms: int, size: int) -> None:
        self.count += 1
        self.bytes += size
        self.latency_ms += latency_ms
        self.latency_ms_max = max(self.latency_ms_max, latency_ms)

    def line(self, now_ms: int, *, rate_digits: int, latency_digits: int, what: str = "records") -> str:
        elapsed_ms = now_ms - self.start_ms
        records = fixed(divide(1000.0 * self.count, elapsed_ms), rate_digits)
        mib = fixed(divide(1000.0 * self.bytes, elapsed_ms) / _MIB, 2)
        average = fixed(divide(self.latency_ms, self.count), latency_digits)
        longest = fixed(self.latency_ms_max, latency_digits)
        return (
            f"{self.count} {what} sent, {records} records/sec ({mib} MB/sec),"
            f" {average} ms avg latency, {longest} ms max latency"
        )


class ProducerStatistics:
    """Latencies of acknowledged records; every n-th is kept for the percentiles, 500,000 at most.

    `what` is the noun of the last line, where these are not all records of the run.
    """

    def __init__(
        self, records: int, reporting_interval_ms: int, now_ms: int, *, what: str = "records"
    ) -> None:
        self._what = what
        self._interval_ms = reporting_interval_ms
        self._sampling = records // min(records, _SAMPLES_MAX)
        self._samples = array("q")
        self._all = _Window(now_ms)
        self._window = _Window(now_ms)

    def record(self, latency_ms: int, size: int, now_ms: int) -> str | None:
        """Counts a record; the line of an interval that it ends, else None."""
        if self._all.count % self._sampling == 0:
            self._samples.append(latency_ms)
        self._all.record(latency_ms, size)
        self._window.record(latency_ms, size)
        if now_ms - self._window.start_ms < self._interval_ms:
            return None
        ended, self._window = self._window, _Window(now_ms)
        return f"{ended.line(now_ms, rate_digits=1, latency_digits=1)}."

    def end_intervals(self) -> None:
        """No interval ends any later: others print theirs."""
        self._interval_ms = _NEVER_MS

    def total(self, now_ms: int) -> str:
        """The last line."""
        ordered = sorted(self._samples) or [0]
        p50, p95, p99, p999 = (ordered[int(part * len(self._samples))] for part in _PERCENTILES)
        line = self._all.line(now_ms, rate_digits=6, latency_digits=2, what=self._what)
        return f"{line}, {p50} ms 50th, {p95} ms 95th, {p99} ms 99th, {p999} ms 99.9th."


class ConsumerStatistics:
    """Records and bytes that were read, and how much of the time the group took to give partitions."""

    def __init__(self, dates: SimpleDateFormat, now_ms: int) -> None:
        self.messages = 0
        self.bytes = 0
        self._dates = dates
        self._start_ms = now_ms
        self._join_start_ms = now_ms
        self._join_ms = 0
        self._reported = (now_ms, 0, 0)

    def revoked(self, now_ms: int) -> None:
        """A rebalance began."""
        self._join_start_ms = now_ms

    def assigned(self, now_ms: int) -> None:
        """A rebalance ended."""
        self._join_ms += now_ms - self._join_start_ms

    def is_due(self, now_ms: int, interval_ms: int) -> bool:
        """Whether an interval is over."""
        return now_ms - self._reported[0] >= interval_ms

    def interval(self, now_ms: int) -> str:
        """The line of the interval that ends now; the next begins (``printConsumerProgress``)."""
        start_ms, messages_before, bytes_before = self._reported
        elapsed_ms = now_ms - start_ms
        messages, mib = self.messages - messages_before, (self.bytes - bytes_before) / _MIB
        # Kafka's tool counts rebalances in the first interval only, so later ones show 0 here as well.
        join_ms = self._join_ms if start_ms == self._start_ms else 0
        fetch_ms = elapsed_ms - join_ms
        self._reported = (now_ms, self.messages, self.bytes)
        return ", ".join(
            (
                self._dates.format(now_ms),
                "0",
                fixed(self.bytes / _MIB, 4),
                fixed(divide(1000.0 * mib, elapsed_ms), 4),
                str(self.messages),
                fixed(divide(messages, elapsed_ms) * 1000.0, 4),
                str(join_ms),
                str(fetch_ms),
                fixed(1000.0 * mib / fetch_ms if fetch_ms > 0 else 0.0, 4),
                fixed(1000.0 * messages / fetch_ms if fetch_ms > 0 else 0.0, 4),
            )
        )

    def total(self, now_ms: int) -> str:
        """The last line."""
        elapsed_ms = now_ms - self._start_ms
        fetch_ms = elapsed_ms - self._join_ms
        mib = self.bytes / _MIB
        return ", ".join(
            (
                self._dates.format(self._start_ms),
                self._dates.format(now_ms),
                fixed(mib, 4),
                fixed(divide(mib, elapsed_ms / 1000.0), 4),
                str(self.messages),
                fixed(divide(self.messages, elapsed_ms / 1000.0), 4),
                str(self._join_ms),
                str(fetch_ms),
                fixed(divide(mib, fetch_ms / 1000.0), 4),
                fixed(divide(self.messages, fetch_ms / 1000.0), 4),
            )
        )
