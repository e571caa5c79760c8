"""Charts for the pages of the demo and of the analyses, drawn by Bokeh: HTML for a page of `pages.fill`.

All that is asked of Bokeh is here. Every mark has a hint that shows when the mouse rests on it. No colour is
in a chart: the tags of a part say which CSS variable of the page each of its colours is, and ``page.js``
paints it, so that charts follow light and dark themes.
"""

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Final, NamedTuple

from bokeh.embed import components
from bokeh.models import (
    ColumnDataSource,
    FixedTicker,
    HoverTool,
    NumeralTickFormatter,
    PrintfTickFormatter,
    Range1d,
)
from bokeh.models.annotations import BoxAnnotation, Label
from bokeh.plotting import figure

_ROW_PX: Final = 27
_NOTES: Final = 1.42
"""The room for bars and the notes behind them, in lengths of the longest bar."""
_FONT: Final = "12px"
_HINT: Final = '<span style="font:13px system-ui,sans-serif;padding:0 4px">@hint</span>'


class Series(NamedTuple):
    """One line of a chart."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]


class Tick(NamedTuple):
    """A place on an axis and what it says there."""

    at: float
    label: str


class Band(NamedTuple):
    """A stretch of the x axis that something happened in."""

    start: float
    end: float
    label: str


class Bar(NamedTuple):
    """One horizontal bar of several parts: (length, colour, hint)."""

    label: str
    parts: Sequence[tuple[float, str, str]]
    note: str


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """(Name, colour) of what a chart shows, as HTML."""
    items = "".join(f'<span><i class="{colour}"></i>{escape(name)}</span>' for name, colour in entries)
    return f'<div class="legend">{items}</div>'


def lines(
    series: Sequence[Series],
    *,
    height: int,
    hint: Callable[[str, float, float], str],
    x_ticks: Sequence[Tick] | None = None,
    seconds: float = 1,
    y_ticks: Sequence[Tick] | None = None,
    unit: str = "",
    bands: Sequence[Band] = (),
) -> str:
    """Lines over one another, a dot and a hint at each point.

    Without `x_ticks` the x axis is `seconds` from 0; without `y_ticks` the y axis has round numbers of
    `unit`.
    """
    highest = max((y for one in series for _, y in one.points), default=1)
    top = y_ticks[-1].at if y_ticks else (highest * 1.08 or 1)
    plot = _plot(height, y_range=(0, top), x_range=None if x_ticks else (0, seconds))
    _ticks(plot.xaxis, x_ticks, " s")
    _ticks(plot.yaxis, y_ticks, unit)
    for band in bands:
        area = BoxAnnotation(
            left=band.start, right=band.end, fill_alpha=0.16, line_alpha=0, tags=_tags("c2", "fill_color")
        )
        plot.add_layout(area)
        # Beside the band, on the side that has more room.
        left = seconds - band.end < band.start
        words = Label(
            x=band.start if left else band.end,
            y=height - 58,
            y_units="screen",
            text=band.label,
            x_offset=-6 if left else 6,
            text_align="right" if left else "left",
            text_font_size=_FONT,
            tags=_tags("c2", "text_color"),
        )
        plot.add_layout(words)
    for one in series:
        xs, ys = [x for x, _ in one.points], [y for _, y in one.points]
        source = ColumnDataSource({"x": xs, "y": ys, "hint": [hint(one.name, x, y) for x, y in one.points]})
        path = plot.line("x", "y", source=source, line_width=2)
        path.glyph.tags = _tags(one.colour, "line_color")
        dots = plot.scatter("x", "y", source=source, size=5, line_alpha=0)
        _paint(dots, one.colour)
        _hints(plot, [dots])
    return _html(plot) + legend([(one.name, one.colour) for one in series])


def columns(
    values: Sequence[float],
    hints: Sequence[str],
    notes: Sequence[tuple[int, str]],
    *,
    x_ticks: Sequence[Tick],
    unit: str,
) -> str:
    """A thin column for each value; the ones with a note stand out and say it."""
    plot = _plot(280, y_range=(0, max(values, default=0) * 1.14 or 1), x_range=(-0.6, len(values) - 0.4))
    _ticks(plot.xaxis, x_ticks, "")
    _ticks(plot.yaxis, None, unit)
    noted = {index for index, _ in notes}
    for colour, shown in (("c1", set(range(len(values))) - noted), ("c2", noted)):
        places = sorted(shown)
        source = ColumnDataSource(
            {"x": places, "y": [max(values[at], 0) for at in places], "hint": [hints[at] for at in places]}
        )
        marks = plot.vbar("x", top="y", width=0.78, source=source, line_alpha=0)
        _paint(marks, colour)
        _hints(plot, [marks])
    for index, note in notes:
        near_end = index > len(values) * 0.85
        words = Label(
            x=index, y=values[index], text=note, y_offset=3, x_offset=-5 if near_end else 5,
            text_align="right" if near_end else "left", text_font_size=_FONT, tags=_tags("c2", "text_color"),
        )  # fmt: skip
        plot.add_layout(words)
    return _html(plot)


def bars(rows: Sequence[Bar], *, label_width: int = 150) -> str:
    """Horizontal bars, the longest as wide as the picture allows, each with a note behind it."""
    lengths = [sum(length for length, _, _ in row.parts) for row in rows]
    plot = _plot(
        _ROW_PX * len(rows) + 10, x_range=(0, (max(lengths) or 1) * _NOTES), y_range=(len(rows) - 0.5, -0.5)
    )
    plot.min_border_left = label_width
    plot.xaxis.visible = False
    plot.ygrid.visible = plot.xgrid.visible = False
    _ticks(plot.yaxis, [Tick(place, row.label) for place, row in enumerate(rows)], "")
    plot.yaxis.tags = _tags("ink", "major_label_text_color")
    for colour, marks in _by_colour(rows).items():
        drawn = plot.hbar(
            "y", left="left", right="right", height=0.68, source=ColumnDataSource(marks), line_alpha=0
        )
        _paint(drawn, colour)
        _hints(plot, [drawn])
    notes = plot.text(
        lengths, list(range(len(rows))), text=[row.note for row in rows],
        x_offset=8, text_baseline="middle", text_font_size=_FONT,
    )  # fmt: skip
    notes.glyph.tags = _tags("soft", "text_color")
    return _html(plot)


def _by_colour(rows: Sequence[Bar]) -> dict[str, dict[str, list[Any]]]:
    """The parts of all bars as the columns of a table, a table for each colour."""
    found: dict[str, dict[str, list[Any]]] = {}
    for place, row in enumerate(rows):
        left = 0.0
        for length, colour, hint in row.parts:
            table = found.setdefault(colour, {"y": [], "left": [], "right": [], "hint": []})
            for name, value in (("y", place), ("left", left), ("right", left + length), ("hint", hint)):
                table[name].append(value)
            left += length
    return found


def _plot(height: int, *, y_range: tuple[float, float], x_range: tuple[float, float] | None = None) -> figure:
    plot = figure(
        height=height, sizing_mode="stretch_width", tools="", toolbar_location=None,
        background_fill_alpha=0, border_fill_alpha=0, outline_line_alpha=0, output_backend="svg",
    )  # fmt: skip
    plot.y_range = Range1d(start=y_range[0], end=y_range[1])
    if x_range:
        plot.x_range = Range1d(start=x_range[0], end=x_range[1])
    plot.xgrid.visible = False
    plot.ygrid.tags = _tags("rule", "grid_line_color")
    for axis in plot.axis:
        axis.axis_line_alpha = axis.major_tick_line_alpha = axis.minor_tick_line_alpha = 0
        axis.major_label_text_font_size = _FONT
        axis.tags = _tags("soft", "major_label_text_color")
    return plot


def _ticks(axis: Any, ticks: Sequence[Tick] | None, unit: str) -> None:
    """Labels an axis, at these places or wherever Bokeh finds round numbers."""
    if ticks is None:
        words = unit.replace("%", "%%")
        axis.formatter = (
            PrintfTickFormatter(format=f"%g{words}") if unit else NumeralTickFormatter(format="0,0.[00]")
        )
        return
    axis.ticker = FixedTicker(ticks=[tick.at for tick in ticks])
    axis.major_label_overrides = {tick.at: tick.label for tick in ticks}


def _paint(marks: Any, colour: str) -> None:
    marks.glyph.tags = _tags(colour, "fill_color")


def _tags(colour: str, *properties: str) -> list[str]:
    """What ``page.js`` reads: which property has which colour of the page."""
    return [f"{name}=--{colour}" for name in properties]


def _hints(plot: figure, renderers: list[Any]) -> None:
    plot.add_tools(HoverTool(renderers=renderers, tooltips=_HINT))


def _html(plot: figure) -> str:
    script, place = components(plot)
    return f'<div class="chart">{place}</div>{script}'
