"""What the jobs found, and whether pandas finds the same in the same file."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import pandas as pd

from barnabas.spark.demo import figures
from barnabas.spark.demo.crash import Crash
from barnabas.spark.demo.data import FlightData, expected_alerts, expected_routes, expected_windows
from barnabas.spark.demo.errors import DemoError
from barnabas.spark.demo.figures import Figures
from barnabas.spark.demo.replay import DAY_MS, WATERMARK_MS, FlightReplay
from barnabas.spark.demo.streams import MicroBatch


class Finding(NamedTuple):
    """A number that was found, and the expected one."""

    what: str
    found: float
    expected: float
    at_most: bool = False

    @property
    def passed(self) -> bool:
        """Whether the number is right."""
        return self.found <= self.expected if self.at_most else self.found == self.expected


class Measure(NamedTuple):
    """A number that is another one in each run."""

    what: str
    value: str


@dataclass
class Findings:
    """Everything that the report shows."""

    data: FlightData
    delays: pd.DataFrame
    """Delays by airport and hour, from the Parquet table."""
    routes: pd.DataFrame
    """Minutes lost by route, airline and weather, from the batch job."""
    alerts: tuple[int, int]
    """Alerts in the topic, and different ones among them."""
    batches: dict[str, list[MicroBatch]]
    """Micro-batches by stream, those of all its runs."""
    crash: Crash
    """How the stream of delays was ended and started again."""
    records_read: dict[str, int]
    """Records by stream."""
    history: list[tuple[datetime, int]] = field(default_factory=list)
    """How many flights were sent at which time."""
    lag: dict[str, list[tuple[datetime, int]]] = field(default_factory=dict)
    """By stream: how many records it was behind when it committed a batch."""
    skew_ms: int = 0
    figures: Figures = field(init=False)
    checks: list[Finding] = field(default_factory=list)
    timings: list[tuple[str, float]] = field(default_factory=list)
    """Seconds by step."""
    measures: list[Measure] = field(default_factory=list)
    """Numbers without an expected value: the speed on this machine."""

    def verify(self, replay: FlightReplay) -> None:
        """Fills `checks`. Raises DemoError when one fails."""
        flights, partitions = replay.count, len(replay.sent)
        windows, routes = expected_windows(self.data), expected_routes(self.data)
        delays = self.batches["delays"]
        self.skew_ms = max((replay.skew_ms(batch.ends) for batch in delays), default=0)
        self.figures = figures.of_tables(self.routes, self.delays)
        numbers, expected = self.figures.named(), figures.of_flights(self.data).named()
        hour_ms = 3_600_000
        self.checks = [
            Finding("flights sent", flights, len(self.data.flights)),
            *(
                Finding(f"records read by the stream '{name}' (with {partitions} closing ones)", rows,
                    flights + partitions)
                for name, rows in self.records_read.items()
            ),
            Finding("rows dropped by the watermark", sum(batch.dropped for batch in delays), 0),
            Finding(
                "hours of event time between partitions (allowed: the watermark)",
                -(-self.skew_ms // hour_ms), WATERMARK_MS // hour_ms, at_most=True,
            ),
            Finding("flights in the table", int(self.delays["flights"].sum()), int(windows["flights"].sum())),
            Finding("minutes of departure delay in the table", int(self.delays["delay_minutes"].sum()),
                int(windows["delay_minutes"].sum())),
            Finding("windows (airport and hour)", len(self.delays), len(windows)),
            Finding("windows written twice, by the batch that was ended and again",
                int(self.delays.duplicated(["origin", "hour"]).sum()), 0),
            Finding("windows that differ", differing(self.delays, windows, ["origin", "hour"]), 0),
            Finding("alerts in the topic", self.alerts[0], expected_alerts(self.data)),
            Finding("minutes lost by routes, from the topic", int(self.routes["lost_minutes"].sum()),
                int(routes["lost_minutes"].sum())),
            Finding("routes by airline and weather that differ",
                differing(self.routes, routes, ["origin", "dest", "airline", "sky"]), 0),
            *(Finding(name, found, expected[name]) for name, found in numbers.items()),
        ]  # fmt: skip
        self.history = replay.history
        self.lag = {
            name: [
                (batch.ended, max(0, replay.sent_by(batch.ended) - batch.read))
                for batch in batches
                if batch.ends
            ]
            for name, batches in self.batches.items()
        }
        self.measures = _measures(self)
        wrong = [check for check in self.checks if not check.passed]
        if wrong:
            raise DemoError(f"{wrong[0].what}: found {wrong[0].found:,}, expected {wrong[0].expected:,}")


def _measures(findings: Findings) -> list[Measure]:
    crash = findings.crash
    delays = [batch for batch in findings.batches["delays"] if batch.rows]
    seconds = (delays[-1].ended - findings.history[0][0]).total_seconds()
    behind = max((lag for points in findings.lag.values() for _, lag in points), default=0)
    return [
        Measure("micro-batches with records, stream delays", f"{len(delays):,}"),
        Measure(
            "flights a second, from the first one sent to the last one read",
            f"{len(findings.data.flights) / max(seconds, 0.001):,.0f}",
        ),
        Measure("records that a stream was behind, at most", f"{behind:,}"),
        Measure(
            "batch in which the stream delays was ended",
            "none" if crash.unfinished is None else str(crash.unfinished),
        ),
        Measure("seconds from the end to the next committed batch", f"{crash.seconds:.1f}"),
        *(
            [Measure("event time between partitions, at most", span(findings.skew_ms))]
            if findings.skew_ms
            else []
        ),
    ]


def span(milliseconds: int) -> str:
    """A stretch of event time in words."""
    days = milliseconds / DAY_MS
    return f"{days:.1f} days" if days >= 1 else f"{max(milliseconds / 60_000, 1):.0f} minutes"


def differing(found: pd.DataFrame, expected: pd.DataFrame, keys: list[str]) -> int:
    """Rows that only one side has, or whose numbers are not the same."""
    numbers = [name for name in expected.columns if name not in keys]
    joined = _comparable(found, keys, numbers).merge(
        _comparable(expected, keys, numbers), on=keys, how="outer", suffixes=("", "_expected"), indicator=True
    )
    same: Any = joined["_merge"] == "both"
    for name in numbers:
        same &= joined[name] == joined[f"{name}_expected"]
    return int((~same).sum())


def _comparable(frame: pd.DataFrame, keys: list[str], numbers: list[str]) -> pd.DataFrame:
    """The columns to compare, times as plain UTC and numbers as integers, in both frames."""
    chosen = frame[[*keys, *numbers]].copy()
    if "hour" in keys:
        hours = pd.to_datetime(chosen["hour"], utc=True)
        chosen["hour"] = hours.dt.tz_localize(None).dt.as_unit("us")
    return chosen.astype(dict.fromkeys(numbers, "int64"))
