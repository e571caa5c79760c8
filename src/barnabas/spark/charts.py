"""Small SVG charts for reports: strings made of strings, no library, colours by CSS class.

Every mark carries a ``<title>``, which browsers show when the mouse rests on it. Colours are CSS variables
of the page (``c1``, ``c2``, ...), so a chart follows light and dark themes.
"""

from collections.abc import Callable, Sequence
from html import escape
from typing import Final, NamedTuple

WIDTH: Final = 920
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 14, 30


class Series(NamedTuple):
    """One line of a chart."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]


class Tick(NamedTuple):
    """A place on an axis and what it says there."""

    at: float
    label: str


class Plot:
    """A plotting area that maps values to pixels and collects marks."""

    def __init__(
        self, height: int, x_range: tuple[float, float], y_range: tuple[float, float], *, left: int = _LEFT
    ) -> None:
        self._height = height
        self._left = left
        self._x, self._y = x_range, y_range
        self._marks: list[str] = []

    def x(self, value: float) -> float:
        """Pixels from the left."""
        low, high = self._x
        return round(self._left + (value - low) / ((high - low) or 1) * (WIDTH - self._left - _RIGHT), 1)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        low, high = self._y
        return round(
            self._height - _BOTTOM - (value - low) / ((high - low) or 1) * (self._height - _TOP - _BOTTOM), 1
        )

    def add(self, mark: str) -> None:
        """Draws over what is there."""
        self._marks.append(mark)

    def horizontal_grid(self, ticks: Sequence[Tick]) -> None:
        """Lines across, labelled at the left."""
        for tick in ticks:
            y = self.y(tick.at)
            self.add(f'<line class="grid" x1="{self._left}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
            self.text(self._left - 8, y + 4, tick.label, "end")

    def x_labels(self, ticks: Sequence[Tick]) -> None:
        """Labels below."""
        for tick in ticks:
            self.text(self.x(tick.at), self._height - 8, tick.label, "middle")

    def text(self, x: float, y: float, words: str, anchor: str, css: str = "axis") -> None:
        """Words at a place."""
        self.add(f'<text class="{css}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>')

    def box(self, x: float, y: float, width: float, height: float, colour: str, title: str) -> None:
        """A filled rectangle with a hint."""
        self.add(
            f'<rect class="{colour}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{max(height, 0):.1f}" '
            f'rx="1.5"><title>{escape(title)}</title></rect>'
        )

    def svg(self, label: str) -> str:
        """The finished picture."""
        return (
            f'<svg viewBox="0 0 {WIDTH} {self._height}" role="img" aria-label="{escape(label)}">'
            + "".join(self._marks)
            + "</svg>"
        )


def nice_ticks(high: float, *, low: float = 0, count: int = 4, unit: str = "") -> list[Tick]:
    """About `count` round values from `low` to above `high`."""
    raw = max(high - low, 1e-9) / count
    power = 10.0 ** len(str(int(raw))) / 10 if raw >= 1 else 0.1
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw)
    first = -int(-low // step) if low < 0 else 0
    ticks = [first * step]
    while ticks[-1] < high:
        ticks.append(ticks[-1] + step)
    return [Tick(value, f"{value:,.10g}{unit}") for value in ticks]


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """(Name, colour) of what a chart shows, as HTML."""
    items = "".join(f'<span><i class="{colour}"></i>{escape(name)}</span>' for name, colour in entries)
    return f'<div class="legend">{items}</div>'


def lines(
    series: Sequence[Series],
    *,
    height: int,
    x_ticks: Sequence[Tick],
    y_ticks: Sequence[Tick],
    hint: Callable[[str, float, float], str],
) -> str:
    """Lines over one another, a dot and a hint at each point."""
    xs = [*(x for one in series for x, _ in one.points), *(tick.at for tick in x_ticks)]
    ticks = y_ticks
    plot = Plot(height, (min(xs), max(xs)), (ticks[0].at, ticks[-1].at))
    plot.horizontal_grid(ticks)
    plot.x_labels(x_ticks)
    for one in series:
        path = " ".join(f"{plot.x(x)},{plot.y(y)}" for x, y in one.points)
        plot.add(f'<polyline class="line {one.colour}" points="{path}"/>')
        for x, y in one.points:
            words = escape(hint(one.name, x, y))
            plot.add(
                f'<circle class="{one.colour}" cx="{plot.x(x)}" cy="{plot.y(y)}" r="2.6"><title>{words}</title></circle>'
            )
    return plot.svg(", ".join(one.name for one in series)) + legend(
        [(one.name, one.colour) for one in series]
    )


def columns(
    values: Sequence[float],
    hints: Sequence[str],
    notes: Sequence[tuple[int, str]],
    *,
    x_ticks: Sequence[Tick],
    unit: str,
) -> str:
    """A thin column for each value; the ones with a note stand out and say it."""
    ticks = nice_ticks(max(values) * 1.12, unit=unit)
    plot = Plot(280, (0, len(values)), (ticks[0].at, ticks[-1].at))
    plot.horizontal_grid(ticks)
    plot.x_labels(x_ticks)
    noted = dict(notes)
    width = plot.x(1) - plot.x(0) - 0.4
    for index, (value, hint) in enumerate(zip(values, hints, strict=True)):
        top, bottom = plot.y(max(value, 0)), plot.y(0)
        plot.box(plot.x(index), top, width, bottom - top, "c2" if index in noted else "c1", hint)
    for index, note in notes:
        near_end = index > len(values) * 0.85
        plot.text(
            plot.x(index + 0.5) + (-4 if near_end else 4),
            plot.y(values[index]) - 5,
            note,
            "end" if near_end else "start",
            "note",
        )
    return plot.svg("one column a day")


class Bar(NamedTuple):
    """One horizontal bar of several parts: (length, colour, hint)."""

    label: str
    parts: Sequence[tuple[float, str, str]]
    note: str


def bars(rows: Sequence[Bar], *, label_width: int = 150) -> str:
    """Horizontal bars, the longest as wide as the picture allows, each with a note behind it."""
    row_height = 26
    longest = max(sum(length for length, _, _ in row.parts) for row in rows) or 1
    plot = Plot(row_height * len(rows) + 8, (0, longest * 1.36), (0, 1), left=label_width)
    for index, row in enumerate(rows):
        y = 4 + index * row_height
        plot.text(label_width - 10, y + 16, row.label, "end", "label")
        at = 0.0
        for length, colour, hint in row.parts:
            plot.box(plot.x(at), y + 3, plot.x(at + length) - plot.x(at), row_height - 8, colour, hint)
            at += length
        plot.text(plot.x(at) + 8, y + 16, row.note, "start")
    return plot.svg("horizontal bars")
