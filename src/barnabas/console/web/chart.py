"""Charts that the server draws: SVG of a plot, with axes and a text for those who do not see it.

The lines stretch with the page; what is written beside them is text of the page, as large as the rest of it
on any screen.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from markupsafe import Markup

from barnabas.console import units
from barnabas.console.views.history import Plot, Step

_WIDTH, _HEIGHT = 600, 96
_EDGE = 8
"""Above and below: half a line of text, so that a line of the axis is at the middle of its number."""
_DAY_MS: Final = 86_400_000
_DOT: Final = Markup('<line class="dot" x1="{x:.1f}" x2="{x:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
"""A line without a length, with round ends: round however the chart is stretched."""


def chart(plot: Plot, start_ms: int, end_ms: int) -> Markup:
    """The plot: the mean as a line, from the least to the greatest as a band; a gap is a gap."""
    write = partial(units.in_unit, unit=plot.unit)
    low, high = plot.low or 0.0, plot.high or 0.0
    # From zero, unless nothing is near it: a line at the very bottom says nothing is there.
    base = low if 0 < high - low < low / 2 else min(low, 0.0)
    top = high if high > base else base + 1
    tall = _HEIGHT - 2 * _EDGE

    def across(place: float) -> float:
        return _EDGE + place * (_WIDTH - 2 * _EDGE) / max(len(plot.steps) - 1, 1)

    def up(value: float) -> float:
        return _EDGE + tall - (value - base) / (top - base) * tall

    text = f"{plot.title}: least {write(plot.low)}, now {write(plot.last)}, most {write(plot.high)}"
    parts = [
        Markup(
            '<div class="chart"><div class="up"><span>{}</span><span>{}</span></div>'
            '<svg viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}"><title>{}</title>'
            '<g class="axis"><line x2="{right}" y1="{bottom}" y2="{bottom}"/>'
            '<line x2="{right}" y1="{top}" y2="{top}"/></g>'
        ).format(
            *(write(top), write(base), _WIDTH, _HEIGHT, text, text),
            right=_WIDTH,
            bottom=_HEIGHT - _EDGE,
            top=_EDGE,
        )
    ]
    for run in _runs(plot.steps):
        line = " ".join(f"{across(place):.1f},{up(one.mean):.1f}" for place, one in run)
        if any(one.low != one.high for _, one in run):
            edge = [f"{across(place):.1f},{up(one.high):.1f}" for place, one in run]
            edge += [f"{across(place):.1f},{up(one.low):.1f}" for place, one in reversed(run)]
            parts.append(Markup('<polygon class="band" points="{}"/>').format(" ".join(edge)))
        parts.append(Markup('<polyline points="{}"/>').format(line))
        # The end of a run is marked: one that has just begun would not be seen.
        place, last = run[-1]
        parts.append(_DOT.format(x=across(place), y=up(last.mean)))
    times = [_time(start_ms + (end_ms - start_ms) * place // 2, end_ms - start_ms) for place in range(3)]
    parts.append(Markup("</svg>"))
    parts.append(
        Markup('<div class="across"><span>{}</span><span>{}</span><span>{}</span></div></div>').format(*times)
    )
    return Markup("").join(parts)


def _runs(steps: Sequence[Step | None]) -> Iterator[list[tuple[int, Step]]]:
    """The steps between gaps. Up to two empty steps between full ones are no gap: samples come once a minute,
    and steps of an hour's plot every 30 s.
    """
    run: list[tuple[int, Step]] = []
    for place, one in enumerate(steps):
        if one is None:
            continue
        if run and place - run[-1][0] > 3:
            yield run
            run = []
        run.append((place, one))
    if run:
        yield run


def _time(at_ms: int, span_ms: int) -> str:
    shape = "%H:%M" if span_ms <= _DAY_MS else "%m-%d %H:%M" if span_ms <= 7 * _DAY_MS else "%Y-%m-%d"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(shape)
