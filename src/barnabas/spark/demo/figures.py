"""The figures of the report out of the tables that the jobs made, and the same ones out of the flights by pandas."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pandas as pd

from barnabas.spark.demo.data import CALM, FOG, RAIN, WIND, FlightData, with_weather

BAD: Final = (RAIN, FOG, WIND)
ZONE: Final = "America/New_York"


class Route(NamedTuple):
    """What one route loses, and when."""

    name: str
    arrived: int
    lost: int
    by_sky: dict[str, int]
    calm_minutes: float
    """Minutes lost by an arriving flight in calm weather."""
    bad_minutes: float
    """The same in bad weather."""

    @property
    def bad_share(self) -> float:
        """The part of all lost minutes that was lost in bad weather."""
        return sum(self.by_sky.get(sky, 0) for sky in BAD) / self.lost if self.lost else 0.0


def worst_routes(routes: pd.DataFrame, count: int) -> list[Route]:
    """The routes that lose most minutes, the worst first."""
    totals = (
        routes.groupby(["origin", "dest"])["lost_minutes"].sum().sort_values(ascending=False, kind="stable")
    )
    return [_route(name, routes) for name in totals.head(count).index]


def _route(name: tuple[str, str], routes: pd.DataFrame) -> Route:
    rows = routes[(routes["origin"] == name[0]) & (routes["dest"] == name[1])]
    by_sky = {sky: int(lost) for sky, lost in zip(rows["sky"], rows["lost_minutes"], strict=True)}
    return Route(
        f"{name[0]} → {name[1]}",
        int(rows["arrived"].sum()),
        sum(by_sky.values()),
        by_sky,
        _minutes_a_flight(rows[rows["sky"] == CALM]),
        _minutes_a_flight(rows[rows["sky"].isin(BAD)]),
    )


def _minutes_a_flight(rows: pd.DataFrame) -> float:
    return float(rows["lost_minutes"].sum() / max(1, rows["arrived"].sum()))


class Weather(NamedTuple):
    """All flights in one kind of weather."""

    sky: str
    flights: int
    """As scheduled; those that were cancelled or diverted are among them."""
    arrived: int
    minutes: float
    """Minutes lost by an arriving flight."""
    lost: int


def by_weather(routes: pd.DataFrame) -> list[Weather]:
    """Minutes lost by weather, the worst weather first."""
    found = [
        Weather(
            sky,
            int(rows["flights"].sum()),
            int(rows["arrived"].sum()),
            _minutes_a_flight(rows),
            int(rows["lost_minutes"].sum()),
        )
        for sky, rows in routes.groupby("sky")
    ]
    return sorted(found, key=lambda weather: -weather.minutes)


def bad_weather(weather: Sequence[Weather]) -> tuple[float, float, float]:
    """(Share of flights, share of lost minutes, how many times the minutes of a calm flight) of bad weather.

    Minutes of a flight are those of flights that arrived, on both sides.
    """
    bad = [one for one in weather if one.sky in BAD]
    calm = next((one.minutes for one in weather if one.sky == CALM), 0.0)
    lost, arrived = sum(one.lost for one in bad), sum(one.arrived for one in bad)
    return (
        sum(one.flights for one in bad) / max(1, sum(one.flights for one in weather)),
        lost / max(1, sum(one.lost for one in weather)),
        lost / max(1, arrived) / calm if calm else 0.0,
    )


def local(delays: pd.DataFrame) -> pd.DataFrame:
    """The windows with their hour of the day and their day in New York."""
    hours = pd.to_datetime(delays["hour"], utc=True).dt.tz_convert(ZONE)
    return delays.assign(clock=hours.dt.hour, day=hours.dt.date)


def daily_means(delays: pd.DataFrame) -> pd.Series:
    """Minutes by which a flight left late, by day."""
    sums = local(delays).groupby("day")[["delay_minutes", "departed"]].sum()
    return (sums["delay_minutes"] / sums["departed"].clip(lower=1)).astype(float)


Figures = dict[str, tuple[int, int]]
"""What the report says in words: a figure of the jobs and the one of pandas, by name."""


def compare(routes: pd.DataFrame, delays: pd.DataFrame, data: FlightData) -> Figures:
    """The figures of the jobs' tables beside those that pandas finds in the flights themselves."""
    weather = by_weather(routes)
    share, lost_share, factor = bad_weather(weather)
    (worst,) = worst_routes(routes, 1)
    found = (
        worst.arrived,
        worst.lost,
        share * 1000,
        lost_share * 1000,
        factor * 100,
        daily_means(delays).max() * 10,
    )
    names = (
        "flights that arrived on the route that lost most",
        "minutes lost there",
        "flights in bad weather, per mille",
        "lost minutes in bad weather, per mille",
        "minutes of a flight in bad weather, percent of a calm one's",
        "tenths of minutes that a flight left late on the worst day",
    )
    expected = expected_figures(data)
    return {name: (round(one), round(other)) for name, one, other in zip(names, found, expected, strict=True)}


def expected_figures(data: FlightData) -> tuple[float, ...]:
    """The same, straight from the flights."""
    flights = with_weather(data)
    bad, calm = flights["sky"].isin(BAD), flights["sky"] == CALM
    lost = flights["arr_delay"].clip(lower=0)
    by_route = lost.groupby([flights["origin"], flights["dest"]]).agg(["sum", "count"])
    worst = by_route.sort_values("sum", ascending=False, kind="stable").iloc[0]
    days = flights["event_time"].dt.tz_convert(ZONE).dt.date
    calm_mean = float(lost[calm].mean()) if lost[calm].any() else 0.0
    return (
        float(worst["count"]),
        float(worst["sum"]),
        float(bad.mean()) * 1000,
        float(lost[bad].sum() / max(1, lost.sum())) * 1000,
        float(lost[bad].mean()) / calm_mean * 100 if calm_mean and lost[bad].count() else 0.0,
        float(flights["dep_delay"].groupby(days).mean().max()) * 10,
    )
