"""The report: one HTML file with everything in it, and the same in short for the terminal."""

import importlib.metadata
from collections.abc import Sequence
from datetime import UTC, date, datetime
from html import escape
from importlib import resources
from string import Template
from typing import Any, Final

import pandas as pd

from barnabas.spark import charts
from barnabas.spark.charts import Bar, Series, Tick
from barnabas.spark.demo.data import (
    AIRPORTS,
    CALM,
    FOG,
    FOG_MILES,
    RAIN,
    UNKNOWN,
    WIND,
    WIND_MPH,
    FlightData,
)
from barnabas.spark.demo.figures import (
    BAD,
    ZONE,
    Route,
    Weather,
    bad_weather,
    by_weather,
    daily_means,
    local,
    worst_routes,
)
from barnabas.spark.demo.findings import Findings
from barnabas.spark.demo.replay import DAY_MS, WATERMARK_MS

ROUTES_SHOWN: Final = 15
_YEAR_DAYS: Final = 365
_COLOURS: Final = {RAIN: "c1", FOG: "c5", WIND: "c3", CALM: "c4", UNKNOWN: "c4"}
_QUARTERS: Final = [
    Tick(0, "1 Jan"),
    Tick(90, "1 Apr"),
    Tick(181, "1 Jul"),
    Tick(273, "1 Oct"),
    Tick(365, "1 Jan"),
]
_AIRPORT_COLOURS: Final = {"EWR": "c1", "JFK": "c2", "LGA": "c3"}


def html(findings: Findings) -> str:
    """The whole page."""
    routes, weather = worst_routes(findings.routes, ROUTES_SHOWN), by_weather(findings.routes)
    share, lost_share, factor = bad_weather(weather)
    words = {
        "title": _title(findings.data),
        "period": period(findings.data),
        "lead": (
            f"{_season(findings.data)} the route <b>{routes[0].name}</b> lost most: <b>{routes[0].lost:,} minutes</b> in "
            f"{routes[0].arrived:,} flights that arrived. Bad weather touched {share:.0%} of all flights and took {lost_share:.0%} "
            f"of all lost minutes: a flight that left in it lost <b>{factor:.1f} times</b> as much as one in calm air."
        ),
        "figures": _figures(findings),
        "fog": str(FOG_MILES),
        "wind": str(WIND_MPH),
        "routes": _routes_chart(routes),
        "weather_words": (
            "Minutes lost by an arriving flight, by the weather in the hour and at the airport of its departure."
        ),
        "weather": _weather_chart(weather),
        "hours": _hours_chart(findings.delays),
        **_days(findings.delays),
        "stream_words": _stream_words(findings),
        "stream": _stream_chart(findings),
        "checks": "".join(
            f'<tr><td>{escape(check.what)}</td><td class="n">{check.found:,}</td>'
            f'<td class="n">{"≤ " if check.at_most else ""}{check.expected:,}</td><td class="ok">✓</td></tr>'
            for check in findings.checks
        ),
        "timings": "".join(
            f'<tr><td>{escape(step)}</td><td class="n">{seconds:.1f} s</td></tr>'
            for step, seconds in findings.timings
        ),
        "versions": _versions(),
    }
    template = resources.files("barnabas.spark.demo").joinpath("template.html").read_text(encoding="utf-8")
    return Template(template).substitute(words)


def period(data: FlightData) -> str:
    """What the flights cover: a year, or the days of a shorter run."""
    days = data.flights["event_time"].dt.tz_convert(ZONE).dt.date.nunique()
    return "year" if days >= _YEAR_DAYS else "day" if days == 1 else f"{days} days"


def _title(data: FlightData) -> str:
    covered = period(data)
    return covered if covered[0].isdigit() else f"A {covered}"


def _season(data: FlightData) -> str:
    return "In 2013" if period(data) == "year" else f"In the first {period(data)} of 2013"


def _figures(findings: Findings) -> str:
    figures = [
        (f"{len(findings.data.flights):,}", "flights through the topic"),
        (f"{len(findings.delays):,}", "windows of airport and hour"),
        (f"{findings.alerts[0]:,}", "alerts: three hours late or more"),
        ("0", "rows dropped by the watermark"),
        (f"{sum(seconds for _, seconds in findings.timings):.0f} s", "from start to report"),
    ]
    return "".join(f"<div><b>{value}</b><span>{escape(words)}</span></div>" for value, words in figures)


def _routes_chart(routes: Sequence[Route]) -> str:
    rows = [
        Bar(
            route.name,
            [
                (
                    route.by_sky.get(sky, 0),
                    _COLOURS[sky],
                    f"{route.name}, {sky}: {route.by_sky.get(sky, 0):,} minutes",
                )
                for sky in (*BAD, CALM, UNKNOWN)
                if route.by_sky.get(sky)
            ],
            f"{route.lost:,} min · {route.calm_minutes:.0f} → {route.bad_minutes:.0f} a flight",
        )
        for route in routes
    ]
    note = "<p>Behind each bar: minutes lost by a flight in calm weather → in bad weather.</p>"
    return (
        charts.bars(rows, label_width=110)
        + charts.legend([(sky, _COLOURS[sky]) for sky in (*BAD, CALM)])
        + note
    )


def _weather_chart(weather: Sequence[Weather]) -> str:
    rows = [
        Bar(
            one.sky,
            [(one.minutes, _COLOURS[one.sky], f"{one.lost:,} minutes lost in all")],
            f"{one.minutes:.1f} min a flight · {one.arrived:,} arrived",
        )
        for one in weather
    ]
    return charts.bars(rows)


def _hours_chart(delays: pd.DataFrame) -> str:
    frame = local(delays)
    sums = frame.groupby(["origin", "clock"])[["delay_minutes", "departed"]].sum().reset_index()
    # An hour with a handful of flights a year says nothing.
    sums = sums[(sums["departed"] >= 100) | (sums["departed"] >= sums["departed"].max() * 0.02)]
    series = []
    for origin, rows in sums.groupby("origin"):
        means = rows["delay_minutes"] / rows["departed"]
        points = list(zip(rows["clock"].astype(float), means.clip(lower=0).astype(float), strict=True))
        series.append(Series(f"{AIRPORTS[origin]} ({origin})", _AIRPORT_COLOURS[origin], points))
    clocks = sorted(set(sums["clock"]))
    return charts.lines(
        series,
        height=300,
        x_ticks=[Tick(clock, f"{clock}:00") for clock in clocks[:: 2 if len(clocks) > 8 else 1]],
        y_ticks=charts.nice_ticks(max(y for one in series for _, y in one.points), unit=" min"),
        hint=lambda name, x, y: f"{name}, {x:.0f}:00: {y:.1f} minutes",
    )


def _days(delays: pd.DataFrame) -> dict[str, str]:
    """The chart of all days and the words above it."""
    means = daily_means(delays)
    days = list(means.index)
    worst = means.sort_values(ascending=False).head(3)
    hints = [f"{_named(day)}: {mean:.0f} minutes" for day, mean in means.items()]
    notes = [(days.index(day), f"{day.day} {day:%b}") for day in worst.index]
    months = [Tick(index, f"{day:%b}") for index, day in enumerate(days) if day.day == 15] or [
        Tick(index, f"{day.day} {day:%b}") for index, day in enumerate(days) if index % 5 == 0
    ]
    named = ", ".join(f"{_named(day)} ({mean:.0f} minutes)" for day, mean in worst.items())
    return {
        "days": charts.columns(list(means), hints, notes, x_ticks=months, unit=" min"),
        "days_words": f"The worst were {named}.",
    }


def _named(day: date) -> str:
    return f"{day.day} {day:%B}"


def _stream_words(findings: Findings) -> str:
    filled = [batch for batch in findings.batches if batch.rows]
    return (
        f"The {period(findings.data)} passed in {len(filled)} micro-batches. {_apart(findings.skew_ms)}a watermark of "
        f"{WATERMARK_MS / DAY_MS:.0f} days dropped nothing; a closing record in each partition let the last windows out."
    )


def _apart(skew_ms: int) -> str:
    """How far the partitions were apart, where the reader was ever between two of them."""
    if not skew_ms:
        return "Each batch ended at the same event time in all partitions, and "
    days = skew_ms / DAY_MS
    span = f"{days:.1f} days" if days >= 1 else f"{max(skew_ms / 60_000, 1):.0f} minutes"
    return f"Partitions were at most {span} of event time apart, so "


def _stream_chart(findings: Findings) -> str:
    """Event time against the clock: the newest flight read, and the watermark behind it."""
    shown = [
        batch
        for batch in findings.batches
        if batch.newest is not None or (batch.watermark and batch.watermark.year > 2000)
    ]
    if not shown:
        return ""
    start = min(batch.started for batch in findings.batches if batch.rows)
    last_flight = findings.data.flights["event_time"].max()
    newest, marks = [], []
    for batch in shown:
        at = (batch.started - start).total_seconds() + batch.duration_ms / 1000
        if batch.newest is not None and pd.Timestamp(batch.newest) <= last_flight:
            newest.append((at, _day(batch.newest)))
        if batch.watermark is not None and batch.watermark.year > 2000:
            marks.append((at, min(_day(batch.watermark), _day(last_flight))))
    series = [
        Series(name, colour, points)
        for name, colour, points in (("newest flight read", "c1", newest), ("watermark", "c2", marks))
        if points
    ]
    last_s = max(x for one in series for x, _ in one.points)
    return charts.lines(
        series,
        height=240,
        x_ticks=[
            Tick(tick.at, tick.label) for tick in charts.nice_ticks(last_s, unit=" s") if tick.at <= last_s
        ],
        y_ticks=_QUARTERS,
        hint=lambda name, x, y: f"{name} after {x:.1f} s: day {y:.1f} of the year",
    )


def _day(moment: datetime) -> float:
    """The day of 2013, counted from 0; before it is 0."""
    since = moment - datetime(2013, 1, 1, tzinfo=UTC)
    return max(0.0, since.total_seconds() / 86_400)


def _versions() -> str:
    names = [("barnabas", "Barnabas"), ("pyspark", "PySpark"), ("pyarrow", "Arrow")]
    return " · ".join(f"{shown} {importlib.metadata.version(name)}" for name, shown in names)


def terminal_table(findings: Findings, count: int = 8) -> Any:
    """The worst routes for the terminal, as a rich table."""
    from rich.table import Table

    table = Table(title="Routes that lose most minutes", title_justify="left", header_style="bold")
    table.add_column("route")
    for name in ("arrived", "minutes lost", "a flight, calm", "a flight, bad weather", "lost in bad weather"):
        table.add_column(name, justify="right")
    for route in worst_routes(findings.routes, count):
        table.add_row(
            route.name,
            f"{route.arrived:,}",
            f"{route.lost:,}",
            f"{route.calm_minutes:.1f} min",
            f"{route.bad_minutes:.1f} min",
            f"{route.bad_share:.0%}",
        )
    return table
