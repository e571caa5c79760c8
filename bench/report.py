"""The table, in a terminal and in docs/benchmarks.md."""

import os
import platform
import re
import sys
import time
from pathlib import Path

import barnabas
from bench.rounds import Effort
from bench.rows import Figure

DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- brokers: written by python -m bench -->", "<!-- end of brokers -->"


def table(figures: list[Figure]) -> str:
    """A markdown table of both sides, with the budgets."""
    lines = [
        "| # | measure | unit | Apache Kafka 3.9.2 | Barnabas | ratio | budget | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for figure in figures:
        sign = ">=" if figure.higher_is_better else "<="
        verdict = "met" if figure.met else "**missed**"
        lines.append(f"{_figures(figure)} | {sign} {figure.budget} | {verdict} |")
    return "\n".join(lines)


def control_table(figures: list[Figure]) -> str:
    """A markdown table of Apache Kafka beside itself, which has no budget to meet."""
    lines = ["| # | measure | unit | Apache Kafka 3.9.2 | and again | ratio |", "|---|---|---|---|---|---|"]
    return "\n".join([*lines, *(f"{_figures(figure)} |" for figure in figures)])


def _figures(figure: Figure) -> str:
    both = f"{_number(figure.kafka)} | {_number(figure.ours)}"
    return f"| {figure.row} | {figure.measure} | {figure.unit} | {both} | {figure.ratio:.2f}"


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}"


def method(effort: Effort, command: str) -> str:
    """How the figures came about, for those who want to repeat them."""
    return (
        f"Command: `{command}`, {time.strftime('%Y-%m-%d')}, Barnabas {barnabas.__version__}.\n"
        f"Machine: {_processor()}, {os.cpu_count()} cores, Linux {platform.release()},"
        f" Python {platform.python_version()}.\n"
        f"Both brokers run beside each other, one is driven at a time: {effort.rounds} alternated rounds, medians."
        f" Small requests: warmed with at least {effort.warm_requests} of the same kind until three windows of"
        f" {effort.window_seconds:g} s agree within 5 %, then rounds of {effort.seconds:g} s over one connection.\n"
        f"Bytes: one discarded round, then rounds of {effort.round_bytes / 1e9:g} GB, five requests in flight."
        f" Kafka's heap and options are those of its start script (`-Xmx1G -Xms1G`);"
        " no pinning; clients share the machine.\n"
    )


def _processor() -> str:
    names = re.findall(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    return names[0] if names else platform.machine()


def write(figures: list[Figure], effort: Effort) -> Path:
    """Replaces the last table in docs/benchmarks.md; the file."""
    command = " ".join(["python -m bench", *sys.argv[1:]])
    block = f"{BEGIN}\n{method(effort, command)}\n{table(figures)}\n{END}"
    text = DOCUMENT.read_text()
    DOCUMENT.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: block, text, flags=re.DOTALL))
    return DOCUMENT
