"""What the jobs found, and whether it is what pandas finds on the same file."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd

from barnabas.spark.demo import figures
from barnabas.spark.demo.data import FlightData, expected_alerts, expected_routes, expected_windows
from barnabas.spark.demo.errors import DemoError
from barnabas.spark.demo.replay import WATERMARK_MS, Replay
from barnabas.spark.demo.streams import MicroBatch


class Check(NamedTuple):
    """A number that was found and the one that it must be."""

    what: str
    found: int
    expected: int
    at_most: bool = False

    @property
    def passed(self) -> bool:
        """Whether the number is right."""
        return self.found <= self.expected if self.at_most else self.found == self.expected


@dataclass
class Findings:
    """Everything that the report shows."""

    data: FlightData
    delays: pd.DataFrame
    """Delays by airport and hour, from the Parquet table."""
    routes: pd.DataFrame
    """Minutes lost by route and weather, from the batch job."""
    alerts: tuple[int, int]
    """Alerts in the topic, and different ones among them."""
    batches: list[MicroBatch]
    records_read: dict[str, int]
    """Records by stream."""
    skew_ms: int = 0
    checks: list[Check] = field(default_factory=list)
    timings: list[tuple[str, float]] = field(default_factory=list)

    def verify(self, replay: Replay) -> None:
        """Fills `checks`. Raises DemoError when one fails."""
        flights, partitions = replay.count, len(replay.sent)
        windows, routes = expected_windows(self.data), expected_routes(self.data)
        self.skew_ms = max((replay.skew_ms(batch.ends) for batch in self.batches), default=0)
        hour_ms = 3_600_000
        self.checks = [
            Check("flights sent", flights, len(self.data.flights)),
            *(
                Check(f"records read by the stream '{name}' (with {partitions} closing ones)", rows, flights + partitions)
                for name, rows in self.records_read.items()
            ),
            Check("rows dropped by the watermark", sum(batch.dropped for batch in self.batches), 0),
            Check(
                "hours of event time between partitions (allowed: the watermark)",
                -(-self.skew_ms // hour_ms), WATERMARK_MS // hour_ms, at_most=True,
            ),
            Check("flights in the table", int(self.delays["flights"].sum()), int(windows["flights"].sum())),
            Check("minutes of departure delay in the table", int(self.delays["delay_minutes"].sum()), int(windows["delay_minutes"].sum())),
            Check("windows (airport and hour)", len(self.delays), len(windows)),
            Check("windows that differ", differing(self.delays, windows, ["origin", "hour"]), 0),
            Check("alerts in the topic", self.alerts[0], expected_alerts(self.data)),
            Check("minutes lost by routes, from the topic", int(self.routes["lost_minutes"].sum()), int(routes["lost_minutes"].sum())),
            Check("routes by weather that differ", differing(self.routes, routes, ["origin", "dest", "sky"]), 0),
            *(
                Check(name, found, expected)
                for name, (found, expected) in figures.compare(self.routes, self.delays, self.data).items()
            ),
        ]  # fmt: skip
        wrong = [check for check in self.checks if not check.passed]
        if wrong:
            raise DemoError(f"{wrong[0].what}: found {wrong[0].found:,}, expected {wrong[0].expected:,}")


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
    """The columns to compare, times as plain UTC and numbers as integers, whatever their makers preferred."""
    chosen = frame[[*keys, *numbers]].copy()
    if "hour" in keys:
        hours = pd.to_datetime(chosen["hour"], utc=True)
        chosen["hour"] = hours.dt.tz_localize(None).dt.as_unit("us")
    return chosen.astype(dict.fromkeys(numbers, "int64"))
