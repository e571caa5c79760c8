"""The table, in a terminal and in docs/benchmarks.md."""

import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import barnabas
from bench.figures import Figure
from bench.mood import Meter, Mood
from bench.rounds import Effort, Row, Series, take
from bench.sides import CHECKOUT, TITLES, Side

DOCUMENT: Final = CHECKOUT / "docs" / "benchmarks.md"
FLOOR: Final = "floor"
BEGIN, END = "<!-- brokers: written by python -m bench -->", "<!-- end of brokers -->"


@dataclass(frozen=True)
class Results:
    """Everything that was found."""

    sides: Sequence[str]
    """Their names; the others are compared to the first."""
    rows: Mapping[str, tuple[Row, Series]]
    before: Mood
    after: Mood

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """One for each measure of each row, with the row's name."""
        for name, (row, series) in self.rows.items():
            for place, measure in enumerate(row.measures):
                yield name, Figure(measure, series, place)

    @property
    def all_met(self) -> bool:
        """Whether every budget is met; not when none could be judged."""
        return {figure.verdict() for _, figure in self.figures()} - {""} == {"met"}


def compare(rows: Mapping[str, Row], sides: Sequence[Side], effort: Effort, meter: Meter) -> Results:
    """The results of these rows; of several, prints on stderr what each came to."""
    names = [side.name for side in sides]
    before, found = meter.look(), {}
    for name, row in rows.items():
        started = time.monotonic()
        found[name] = (row, take(row, sides, effort, meter))
        if len(rows) > 1:
            one = Results(names, {name: found[name]}, before, meter.look())
            print(f"{name}, {time.monotonic() - started:.0f} s:\n{table(one)}\n", file=sys.stderr, flush=True)
    return Results(names, found, before, meter.look())


def table(found: Results) -> str:
    """A markdown table of all sides, the mood below it."""
    titles = [TITLES[side] for side in found.sides]
    over_floor = ["ours / floor"] if FLOOR in found.sides else []
    head = ["row", "measure", "unit", *titles, *over_floor, "in fast rounds", "budget", ""]
    lines = [_line(head), "|---" * len(head) + "|"]
    lines += [_line(_cells(found.sides, name, figure)) for name, figure in found.figures()]
    moods = [f"- `{name}`, {row.title}: {series.mood}." for name, (row, series) in found.rows.items()]
    overall = f"The machine before: {found.before}; after: {found.after}. While the rows ran:"
    return "\n".join([*lines, "", overall, "", *moods])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(sides: Sequence[str], row: str, figure: Figure) -> list[str]:
    measure, base = figure.measure, sides[0]
    values = []
    for side in sides:
        cell = _number(statistics.median(figure.values(side))) if side in figure.sides else ""
        if cell and side != base and base in figure.sides and all(figure.values(base)):
            cell += f", {_spread(figure.ratios(side, base))}"
        values.append(cell)
    if FLOOR in sides:
        ours = next((side for side in ("compiled", "pure") if side in figure.sides), "")
        there = ours and FLOOR in figure.sides and all(figure.values(FLOOR))
        values.append(_spread(figure.ratios(ours, FLOOR)) if there else "")
    verdict = figure.verdict()
    shown = verdict if verdict in {"", "met"} else f"**{verdict}**"
    when_fast = _when_fast(figure, base)
    return [f"`{row}`", measure.name, measure.unit, *values, when_fast, measure.budget_text, shown]


def _when_fast(figure: Figure, base: str) -> str:
    """The ratio, and of how many rounds; the value where the budget is none."""
    judged = figure.judged
    if judged is None or figure.measure.any_mood:
        return ""
    if figure.measure.is_ratio and base in figure.sides:
        found, unit = figure.ratios(judged, base, fast=True), "x"
    elif figure.measure.is_difference:
        found, unit = figure.judgeable(fast=True), f" {figure.measure.unit} more"
    else:
        found, unit = figure.values(judged, fast=True), f" {figure.measure.unit}"
    return f"{_number(statistics.median(found))}{unit} ({len(found)})" if found else "none"


def _spread(ratios: Sequence[float]) -> str:
    """The median and, of several, the quartiles."""
    middle = f"{statistics.median(ratios):.2f}x"
    if len(ratios) < 4:
        return middle
    low, _, high = statistics.quantiles(ratios, n=4)
    return f"{middle} ({low:.2f}-{high:.2f})"


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}"


def method(effort: Effort, command: str, sides: Sequence[str]) -> str:
    """How the figures came about, for those who want to repeat them."""
    rounds = effort.rounds
    absent = [TITLES[side] for side in ("pure", "compiled", "kfake", FLOOR) if side not in sides]
    return (
        f"Command: `{command}`, {time.strftime('%Y-%m-%d')}, Barnabas {barnabas.__version__}.\n"
        f"Machine: {_processor()}, {os.cpu_count()} cores, Linux {platform.release()},"
        f" Python {platform.python_version()}.\n"
        f"All brokers run beside each other, one is driven at a time, in {rounds['short']} rounds of turned "
        f"order ({rounds['long']} of `perf` and `start`, one of `memory`). A cell has the median and its "
        "ratio to the first side: the median of the rounds' ratios, and their quartiles.\n"
        f"Small requests: turns of {effort.seconds:g} s; Kafka warmed with at least {effort.warm_requests} "
        f"of the same kind until three windows of {effort.window_seconds:g} s agree within 5 %, in at most "
        f"{effort.windows_max} windows. Bytes: turns of {effort.round_bytes / 1e9:g} GB each way. Kafka's "
        "heap and options are those of its start script (`-Xmx1G -Xms1G`); no pinning; clients share the "
        "machine.\n" + (f"Not in this run: {', '.join(absent)}.\n" if absent else "")
    )


def _processor() -> str:
    names = re.findall(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    return names[0] if names else platform.machine()


def write(found: Results, effort: Effort) -> Path:
    """Replaces the last table in docs/benchmarks.md; the file."""
    command = " ".join(["python -m bench", *sys.argv[1:]])
    block = f"{BEGIN}\n{method(effort, command, found.sides)}\n{table(found)}\n{END}"
    text = DOCUMENT.read_text()
    DOCUMENT.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: block, text, flags=re.DOTALL))
    return DOCUMENT
