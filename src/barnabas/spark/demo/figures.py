"""The figures of the report out of the tables that the jobs made, and the same ones out of the flights by
pandas.
"""

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
    by_sky = {str(sky): int(lost) for sky, lost in rows.groupby("sky")["lost_minutes"].sum().items()}
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


class Airline(NamedTuple):
    """What the flights of one airline lose."""

    name: str
    arrived: int
    lost: int
    minutes: float
    """Minutes lost by an arriving flight."""


def by_airline(routes: pd.DataFrame) -> list[Airline]:
    """The airlines, the one that lost most minutes first."""
    found = [
        Airline(
            str(name), int(rows["arrived"].sum()), int(rows["lost_minutes"].sum()), _minutes_a_flight(rows)
        )
        for name, rows in routes.groupby("airline")
    ]
    return sorted(found, key=lambda airline: (-airline.lost, airline.name))


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


class Figures(NamedTuple):
    """The numbers that the report says in words, as exact as it says them."""

    days: int
    route_arrived: int
    route_lost: int
    bad_percent: int
    bad_lost_percent: int
    bad_times: float
    airlines: int
    airline_lost: int
    airline_minutes: float
    late_days: tuple[int, ...]

    def named(self) -> dict[str, float]:
        """Each number under what it counts."""
        days = {
            f"minutes that a flight left late, day {at} of the worst": day
            for at, day in enumerate(self.late_days, 1)
        }
        return {
            "days of flights": self.days,
            "flights that arrived on the route that lost most": self.route_arrived,
            "minutes lost there": self.route_lost,
            "flights in bad weather, percent": self.bad_percent,
            "lost minutes in bad weather, percent": self.bad_lost_percent,
            "what a flight lost in bad weather, times one in calm weather": self.bad_times,
            "airlines": self.airlines,
            "minutes lost by the airline that lost most": self.airline_lost,
            "minutes that each of its flights lost": self.airline_minutes,
            **days,
        }  # fmt: skip


DAYS_NAMED: Final = 3


def of_tables(routes: pd.DataFrame, delays: pd.DataFrame) -> Figures:
    """The figures out of the tables that the jobs made."""
    share, lost_share, factor = bad_weather(by_weather(routes))
    (route,), airlines = worst_routes(routes, 1), by_airline(routes)
    return Figures(
        len(daily_means(delays)),
        route.arrived,
        route.lost,
        round(share * 100),
        round(lost_share * 100),
        round(factor, 1),
        len(airlines),
        airlines[0].lost,
        round(airlines[0].minutes, 1),
        _largest(daily_means(delays)),
    )


def of_flights(data: FlightData) -> Figures:
    """The same by pandas, straight from the flights."""
    flights = with_weather(data)
    bad, calm = flights["sky"].isin(BAD), flights["sky"] == CALM
    lost = flights["arr_delay"].clip(lower=0)
    route = _most_lost(lost, [flights["origin"], flights["dest"]])
    airline = _most_lost(lost, [flights["carrier"]])
    days = flights["event_time"].dt.tz_convert(ZONE).dt.date
    calm_mean = float(lost[calm].mean()) if lost[calm].any() else 0.0
    return Figures(
        days.nunique(),
        int(route["count"]),
        int(route["sum"]),
        round(float(bad.mean()) * 100),
        round(float(lost[bad].sum() / max(1, lost.sum())) * 100),
        round(float(lost[bad].mean()) / calm_mean, 1) if calm_mean and lost[bad].count() else 0.0,
        flights["carrier"].nunique(),
        int(airline["sum"]),
        round(float(airline["sum"] / airline["count"]), 1),
        _largest(flights["dep_delay"].groupby(days).mean()),
    )


def _most_lost(lost: pd.Series, by: list[pd.Series]) -> pd.Series:
    return lost.groupby(by).agg(["sum", "count"]).sort_values("sum", ascending=False, kind="stable").iloc[0]


def _largest(days: pd.Series) -> tuple[int, ...]:
    return tuple(round(float(day)) for day in days.sort_values(ascending=False).head(DAYS_NAMED))
