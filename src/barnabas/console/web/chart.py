"""Charts that the server draws: SVG of a plot, with axes and a text for those who do not see it."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

from barnabas.console.views.history import Plot, Step
from barnabas.console.web import shapes

_WIDTH, _HEIGHT = 560, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 8, 8, 20
_WRITTEN: Final = {"size": shapes.size, "seconds": shapes.seconds, "number": shapes.number}
_DAY_MS: Final = 86_400_000


def chart(plot: Plot, start_ms: int, end_ms: int) -> Markup:
    """The plot: the mean as a line, from the least to the greatest as a band; a gap is a gap."""
    write = _WRITTEN[plot.unit]
    low, high = plot.low or 0.0, plot.high or 0.0
    # From zero, unless nothing is near it: a line at the very bottom says nothing is there.
    base = low if low > 0 and high - low < low / 2 else min(low, 0.0)
    top = high if high > base else base + 1
    inner, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def across(place: float) -> float:
        return _LEFT + place * inner / max(len(plot.steps) - 1, 1)

    def up(value: float) -> float:
        return _TOP + tall - (value - base) / (top - base) * tall

    text = f"{plot.title}: least {write(plot.low)}, now {write(plot.last)}, most {write(plot.high)}"
    parts = [
        Markup(
            '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>'
            '<g class="axis"><line x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>'
            '<line x1="{left}" x2="{right}" y1="{top}" y2="{top}"/></g>'
        ).format(_WIDTH, _HEIGHT, text, text, left=_LEFT, right=_WIDTH - _RIGHT, top=_TOP, bottom=_TOP + tall)
    ]
    for run in _runs(plot.steps):
        if len(run) == 1:
            place, one = run[0]
            parts.append(
                Markup('<circle cx="{:.1f}" cy="{:.1f}" r="1.5"/>').format(across(place), up(one.mean))
            )
            continue
        line = " ".join(f"{across(place):.1f},{up(one.mean):.1f}" for place, one in run)
        if any(one.low != one.high for _, one in run):
            edge = [f"{across(place):.1f},{up(one.high):.1f}" for place, one in run]
            edge += [f"{across(place):.1f},{up(one.low):.1f}" for place, one in reversed(run)]
            parts.append(Markup('<polygon class="band" points="{}"/>').format(" ".join(edge)))
        parts.append(Markup('<polyline points="{}"/>').format(line))
    for value, y in ((top, _TOP + 4), (base, _TOP + tall)):
        parts.append(
            Markup('<text x="{}" y="{}" text-anchor="end">{}</text>').format(_LEFT - 5, y, write(value))
        )
    anchors = ("start", "middle", "end")
    for place, anchor in enumerate(anchors):
        at_ms = start_ms + (end_ms - start_ms) * place // 2
        x = _LEFT + inner * place / 2
        parts.append(
            Markup('<text x="{:.0f}" y="{}" text-anchor="{}">{}</text>').format(
                x, _HEIGHT - 5, anchor, _time(at_ms, end_ms - start_ms)
            )
        )
    return Markup("").join([*parts, Markup("</svg>")])


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
